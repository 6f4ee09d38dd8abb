"""Leaves out of a run of versions what the run itself overtakes: a task of a distributed replay sends the rest. Pure.

Only rows of `adds` and `removes` go; every version stays, with all its smaller actions. Replay over the reduced run
gives what replay over the whole run gives, whatever comes before and after it:

- an `add` is dropped if the run adds its path again later;
- a `remove` is dropped if the run adds its path later, or removes the same path and vector later. The newest `remove`
  of a path that its version does not add again stays in any case, because it also ends the skips of that path.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import LogCorrupt
from indextables.log.wire import (
    FILES_SCHEMA,
    REMOVES_SCHEMA,
    Bools,
    CommitInfo,
    DomainMetadata,
    Ints,
    MergeSkip,
    Metadata,
    Protocol,
    Txn,
    VersionContent,
    bool_array,
    int64_values,
    vector_ids,
)

__all__ = ["ReducedContent", "dump_run", "load_run", "reduce_versions"]

_LINE_BITS = 40


class ReducedContent(VersionContent, frozen=True):
    """A version whose overtaken rows are gone. It serves the replay of its run and nothing else."""


class _Small(msgspec.Struct, frozen=True):
    """A version without its rows, and how many it has left of them."""

    version: int
    commit_info: CommitInfo | None
    protocol: Protocol | None
    metadata: Metadata | None
    txns: tuple[Txn, ...]
    domains: tuple[DomainMetadata, ...]
    skips: tuple[MergeSkip, ...]
    stored_bytes: int
    crc32c: int | None
    adds: int
    removes: int


def reduce_versions(contents: Sequence[VersionContent]) -> list[ReducedContent]:
    """The same versions, in ascending order and without a gap, less what later ones of them overtake."""
    adds = pa.concat_tables([content.adds for content in contents]) if contents else FILES_SCHEMA.empty_table()
    removes = pa.concat_tables([content.removes for content in contents]) if contents else REMOVES_SCHEMA.empty_table()
    added_in, removed_in = _places(contents, "adds"), _places(contents, "removes")
    paths = _codes(adds.column("path"), removes.column("path"))
    added, removed = paths[: adds.num_rows], paths[adds.num_rows :]
    added_at = (added_in << _LINE_BITS) | int64_values(adds.column("addedAtLine"))
    removed_at = (removed_in << _LINE_BITS) | int64_values(removes.column("line"))
    count = int(paths.max()) + 1 if len(paths) else 0
    newest = np.full(count, -1, dtype=np.int64)
    newest[added] = np.arange(len(added))  # numpy keeps the last of repeated indices
    kept_adds = newest[added] == np.arange(len(added))
    added_last = np.full(count, -1, dtype=np.int64)
    added_last[added] = added_at
    leaves = ~np.isin(removed * len(contents) + removed_in, added * len(contents) + added_in)
    vectors = _codes(vector_ids(removes.column("deletionVector")))
    counts = (removed_at > added_last[removed]) & _newest_of(removed * (len(vectors) + 1) + vectors)
    ends = np.zeros(len(removed), dtype=np.bool_)
    ends[np.flatnonzero(leaves)[_newest_of(removed[leaves])]] = True
    return _split(contents, adds, kept_adds, added_in, removes, counts | ends, removed_in)


def dump_run(run: Sequence[ReducedContent]) -> bytes:
    """A run as bytes."""
    small = [
        _Small(
            content.version,
            content.commit_info,
            content.protocol,
            content.metadata,
            content.txns,
            content.domains,
            content.skips,
            content.stored_bytes,
            content.crc32c,
            content.adds.num_rows,
            content.removes.num_rows,
        )
        for content in run
    ]
    adds = pa.concat_tables([content.adds for content in run])
    removes = pa.concat_tables([content.removes for content in run])
    return msgspec.msgpack.encode((small, _ipc(adds), _ipc(removes)))


def load_run(data: bytes) -> list[ReducedContent]:
    """The run of `dump_run`. Raises LogCorrupt for bytes that are none."""
    try:
        small, adds_data, removes_data = _READ_RUN.decode(data)
        adds, removes = _from_ipc(adds_data, FILES_SCHEMA), _from_ipc(removes_data, REMOVES_SCHEMA)
    except (msgspec.DecodeError, pa.ArrowInvalid, OSError) as cause:
        message = f"a task sent back what is not a run of versions: {cause}; read the log without tasks"
        raise LogCorrupt(message, reason=str(cause)) from cause
    run: list[ReducedContent] = []
    added = removed = 0
    for part in small:
        run.append(
            ReducedContent(
                version=part.version,
                commit_info=part.commit_info,
                protocol=part.protocol,
                metadata=part.metadata,
                adds=adds.slice(added, part.adds),
                removes=removes.slice(removed, part.removes),
                txns=part.txns,
                domains=part.domains,
                skips=part.skips,
                stored_bytes=part.stored_bytes,
                crc32c=part.crc32c,
            )
        )
        added += part.adds
        removed += part.removes
    return run


def _split(
    contents: Sequence[VersionContent],
    adds: pa.Table,
    kept_adds: Bools,
    added_in: Ints,
    removes: pa.Table,
    kept_removes: Bools,
    removed_in: Ints,
) -> list[ReducedContent]:
    adds, removes = adds.filter(bool_array(kept_adds)), removes.filter(bool_array(kept_removes))
    added = np.bincount(added_in[kept_adds], minlength=len(contents)).tolist()
    removed = np.bincount(removed_in[kept_removes], minlength=len(contents)).tolist()
    reduced = []
    first_add = first_remove = 0
    for place, content in enumerate(contents):
        reduced.append(
            ReducedContent(
                version=content.version,
                commit_info=content.commit_info,
                protocol=content.protocol,
                metadata=content.metadata,
                adds=adds.slice(first_add, added[place]),
                removes=removes.slice(first_remove, removed[place]),
                txns=content.txns,
                domains=content.domains,
                skips=content.skips,
                stored_bytes=content.stored_bytes,
                crc32c=content.crc32c,
            )
        )
        first_add += added[place]
        first_remove += removed[place]
    return reduced


def _places(contents: Sequence[VersionContent], which: str) -> Ints:
    """For each row, the place of its version in the run."""
    counts = [getattr(content, which).num_rows for content in contents]
    return np.repeat(np.arange(len(contents), dtype=np.int64), counts)


def _codes(*columns: pa.Array | pa.ChunkedArray) -> Ints:
    """A number per row, equal for equal texts; null is a text of its own."""
    chunks = [
        chunk for column in columns for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    ]
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    return int64_values(encoded.indices.cast(pa.int64()), null=len(encoded.dictionary))


def _newest_of(groups: Ints) -> Bools:
    """For each row, in ascending order, whether it is the last of its group."""
    newest = np.zeros(len(groups), dtype=np.bool_)
    if len(groups):
        _, last = np.unique(groups[::-1], return_index=True)
        newest[len(groups) - 1 - last] = True
    return newest


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _from_ipc(data: bytes, schema: pa.Schema) -> pa.Table:
    table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    if table.schema != schema:
        raise pa.ArrowInvalid("the columns are not those of a log")
    return table


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_RUN = msgspec.msgpack.Decoder(tuple[list[_Small], bytes, bytes])
