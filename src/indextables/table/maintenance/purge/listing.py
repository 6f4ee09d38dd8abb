"""What lies below a table? Its own data files by their names, the tables inside it, and how much else.

Units of work are ranges of keys, so that a cluster can share them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.read import Snapshot
from indextables.log.wire import LOG_DIR
from indextables.storage.store import ObjectMeta
from indextables.table.maintenance.purge.keys import Named
from indextables.table.maintenance.purge.plan import (
    LISTED,
    LOG_END,
    KeyRange,
    Names,
    listed_table,
    nested_roots,
    ranges_over,
)
from indextables.table.rows import partitionings
from indextables.table.running import Progress, Runner, Step, batches

__all__ = ["Listed", "list_data", "list_range"]

_KEYS_PER_RANGE = 250_000
_CHUNK = 10_000
_LOG_KEYS_LISTED = 1000
"""Keys of the log that a listing of the data goes through, a page of them; a longer log is jumped over."""


class Listed(msgspec.Struct, frozen=True):
    """What lies below a table.

    `files` are its own data files that the version does not name, `named` tells how many it names. `nested` are the
    folders of tables inside it, `foreign` tells how many objects are no data files of it.
    """

    files: pa.Table
    named: int
    nested: list[str]
    foreign: int


def list_data(known: Snapshot, named: Named, runner: Runner, progress: Progress | None) -> Listed:
    """Everything below the table but its log. Raises StoreError: half of a listing is none.

    `named` is what the version names: of the many files of a large table only the others are kept in memory.
    """
    names = Names.of(partitionings(known.metadata))
    ranges = ranges_over(named.some, _KEYS_PER_RANGE // named.share)
    units = [msgspec.msgpack.encode((keys, names)) for keys in ranges]
    tables: list[pa.Table] = []
    nested: list[str] = []
    foreign = live = done = 0
    for part in batches(units, max(1, runner.width)):
        for answer in runner.run(list_range, part):
            if isinstance(answer, IndexTablesError):
                raise answer
            ipc, roots, others = _READ_LISTED.decode(answer)
            found = _from_ipc(ipc)
            tables.append(found.filter(pc.invert(named.keys.hold(found["path"]))))
            live += found.num_rows - tables[-1].num_rows
            nested += [root for root in roots if root not in nested]
            foreign += others
            done += 1
            if progress is not None:
                progress(Step("list", done, len(units), files=live + sum(table.num_rows for table in tables)))
    return Listed(pa.concat_tables(tables), live, nested, foreign)


def list_range(env: Env, unit: bytes) -> bytes:
    """Job: the table's own data files in a range of keys. Raises StoreError."""
    keys, names = _RANGE.decode(unit)
    tables: list[pa.Table] = []
    nested: list[str] = []
    seen = 0
    listing = _listing(env, keys)
    while chunk := list(islice(listing, _CHUNK)):
        seen += len(chunk)
        paths = [meta.key for meta in chunk]
        sizes, times = [meta.size for meta in chunk], [meta.modified_ms for meta in chunk]
        tables.append(listed_table(paths, sizes, times, names))
        nested += [root for root in nested_roots(paths) if root not in nested]
    found = pa.concat_tables(tables) if tables else LISTED.empty_table()
    return msgspec.msgpack.encode((_to_ipc(found), nested, seen - found.num_rows))


def _to_ipc(table: pa.Table) -> bytes:
    """A table as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _from_ipc(data: bytes) -> pa.Table:
    """The table of `_to_ipc`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _listing(env: Env, keys: KeyRange) -> Iterator[ObjectMeta]:
    """All objects of a range but the log's. A log of a page or less costs no request of its own. Raises StoreError."""
    after, in_log = keys.after, 0
    while True:
        for meta in env.store.list_from("", after or None):
            if keys.until and meta.key > keys.until:
                return
            if not meta.key.startswith(LOG_DIR):
                yield meta
                continue
            in_log += 1
            if in_log == _LOG_KEYS_LISTED:
                after = LOG_END
                break
        else:
            return


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_RANGE = msgspec.msgpack.Decoder(tuple[KeyRange, Names])
_READ_LISTED = msgspec.msgpack.Decoder(tuple[bytes, list[str], int])
