"""One task of a conversion reads some files of the source, writes their rows as splits, and compares what it wrote.

Units and answers are bytes (msgpack), so that they can travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import IndexTablesError, InvariantViolated, VersionExpired
from indextables.log.wire import Add, Metadata, key_of
from indextables.split.file import Columns, SplitReader, SplitRef, scan
from indextables.split.write import RowDigest
from indextables.storage import open_store
from indextables.table.convert.source import Opened, open_source
from indextables.table.environment import open_env
from indextables.table.rows import Rows, fit, split_rows
from indextables.table.writing import WriteTarget, discard, target_of, write_adds

__all__ = ["ConvertAnswer", "ConvertUnit", "WantedFile", "convert_unit", "places_of"]


class WantedFile(msgspec.Struct, frozen=True):
    """A file of the source as it was when the work was planned."""

    path: str
    size: int
    modified_ms: int | None = None


class ConvertUnit(msgspec.Struct, frozen=True):
    """Files of one version of the source, and the table that their rows are written for. Holds credentials.

    `options` are those of the source; None where they are the target's, which a task knows.
    """

    source: str
    options: dict[str, Any] | None
    version: int
    files: list[WantedFile]
    metadata: Metadata

    def __repr__(self) -> str:
        return f"ConvertUnit({self.source!r}, {len(self.files)} files)"


class ConvertAnswer(msgspec.Struct, frozen=True):
    """The files that hold the rows; they are durable."""

    adds: list[Add]
    rows: int


def convert_unit(env: Env, unit: bytes) -> bytes:
    """Job: write the rows of a unit. `env` is the target's. On any failure nothing of it stays.

    Raises what reading the source raises, SchemaMismatch, SplitError, StoreError, and InvariantViolated if what was
    written is not what was read.
    """
    work = _UNIT.decode(unit)
    source = open_source(_source_env(env, work), work.version)
    target = target_of(work.metadata, env.over(work.metadata.configuration))
    read = _Digests(target)
    rows = Rows(pa.schema([_bare(field) for field in source.schema]), source.rows(places_of(source, work.files)))
    fitted = fit(rows, target.schema, url=env.store.url, has_numbers=True).checked_by(read.update)
    adds = write_adds(env, target, fitted, numbers=False)
    try:
        _compare(env, target, adds, read)
    except IndexTablesError:
        discard(env, adds)
        raise
    return msgspec.msgpack.encode(ConvertAnswer(adds, read.rows))


def _source_env(env: Env, work: ConvertUnit) -> Env:
    if work.options is not None:
        return open_env(work.source, work.options)
    store = open_store(work.source, env.options, ambient=env.ambient)
    return msgspec.structs.replace(env, store=store, table_id=None)


def places_of(source: Opened, files: Sequence[WantedFile]) -> list[int]:
    """Where files stand in the source. Raises VersionExpired if one is not there as it was."""
    names = [name for name in ("path", "size", "modificationTime") if name in source.files.column_names]
    columns = [source.files[name].to_pylist() for name in names]
    found = {facts[0]: (place, *facts[1:]) for place, facts in enumerate(zip(*columns, strict=True))}
    places = []
    for wanted in files:
        place, size, *modified = found.get(wanted.path, (-1, -1, None))
        is_other = wanted.modified_ms is not None and modified != [wanted.modified_ms]
        if place < 0 or size != wanted.size or is_other:
            message = f"{wanted.path} of {source.url} changed while it was read: nothing was committed, try again"
            raise VersionExpired(message, path=wanted.path, url=source.url)
        places.append(place)
    return places


class _Digests:
    """Digests of rows by partition: within one, rows keep their order."""

    def __init__(self, target: WriteTarget) -> None:
        self._columns = target.partition_columns
        self.parts: dict[tuple[str | None, ...], RowDigest] = {}

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts.values())

    def update(self, batch: pa.RecordBatch) -> None:
        for part in split_rows(batch, self._columns):
            self.parts.setdefault(part.values, RowDigest()).update(part.rows)


def _compare(env: Env, target: WriteTarget, adds: list[Add], read: _Digests) -> None:
    written: dict[tuple[str | None, ...], RowDigest] = {}
    for add in adds:
        values = tuple(add.partitionValues.get(name) for name in target.partition_columns)
        digest = written.setdefault(values, RowDigest())
        for batch in _rows_of(env, add, target):
            digest.update(batch)
    before, after = ({values: part.value() for values, part in told.items()} for told in (read.parts, written))
    if before != after:
        rows = sum(part.rows for part in written.values())
        message = f"a conversion read {read.rows} rows and wrote {rows}, or others: it is undone; please report this"
        raise InvariantViolated(message, rows_in=read.rows, rows_out=rows)


def _rows_of(env: Env, add: Add, target: WriteTarget) -> Iterator[pa.RecordBatch]:
    ref = SplitRef(
        key_of(add.path, env.store.url),
        add.size,
        add.numRecords,
        add.footerStartOffset,
        add.footerEndOffset,
        add.hotcacheStartOffset,
        add.hotcacheLength,
        add.splitId,
        columns=Columns.of(target.schema),
    )
    return scan(SplitReader(env.store, ref), target.schema.names)


def _bare(field: pa.Field) -> pa.Field:
    return field.remove_metadata()


_UNIT = msgspec.msgpack.Decoder(ConvertUnit)
