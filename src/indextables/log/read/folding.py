"""Folds version files into the live file set: columns in, columns out.

A live entry is keyed by its path. An `add` sets or replaces the entry of its path. A `remove` takes the entry away if
it names the vector that the entry carries and comes later, by (version, line). So an entry is the newest `add` of its
path, unless a later `remove` names that path and that vector; nothing older matters. Both ways to write a deletion
vector, `add` alone and `remove` with `add` in either order, come out the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from indextables.errors import LogGap, MetadataMissing
from indextables.lazy import pc
from indextables.log.wire import (
    FILES_SCHEMA,
    V1,
    Bools,
    DomainMetadata,
    Ints,
    MergeSkip,
    PrunedState,
    StateHeader,
    TableState,
    TokenWindow,
    Txn,
    VersionContent,
    bool_array,
    combined,
    header_fields,
    int64_values,
    under_rule,
    vector_ids,
)

if TYPE_CHECKING:
    from indextables.log.read.confirming import Confirmed

__all__ = [
    "fold_skips",
    "header_after",
    "live_files",
    "replay",
    "replay_plainly",
    "replay_pruned",
]

# (version, line) as one number: the version's place in the tail above, the line below.
_LINE_BITS = 40
_FEW = 256
# More chunks than this, with fewer files each on the average, are joined.
_MANY_CHUNKS, _CHUNK_FILES = 8, 1_000
_NO_VECTOR = -1


def replay(base: TableState | None, versions: Sequence[VersionContent], *, token_window: int = 8192) -> TableState:
    """The table after `versions`, which follow `base` (or start at 0) without a gap, in ascending order.

    Rows keep their order: those of `base`, then by (version, line) of their `add`.

    Raises LogGap where a version is missing, MetadataMissing if there is no metaData.
    """
    versions = under_rule(None if base is None else base.protocol, versions)
    header = header_after(base, versions, token_window=token_window)
    return _whole(header, live_files(_files_of(base), versions))


def replay_pruned(base: PrunedState, confirmed: Confirmed[VersionContent], *, plainly: bool = False) -> PrunedState:
    """The fold over some files of the table: those of `base` that are live after the versions, and all that they add.

    Raises LogGap.
    """
    versions = under_rule(base.protocol, confirmed)
    _check_contiguous(base.version, versions)
    files = _live_files_plainly(base.files, versions) if plainly else live_files(base.files, versions)
    return PrunedState(**header_fields(header_after(base, versions)), files=files, num_entries=base.num_entries)


def replay_plainly(
    base: TableState | None, versions: Sequence[VersionContent], *, token_window: int = 8192
) -> TableState:
    """The same fold, one action after the other. Slow; what `transaction.useOptimized=false` selects."""
    versions = under_rule(None if base is None else base.protocol, versions)
    header = header_after(base, versions, token_window=token_window)
    return _whole(header, _live_files_plainly(_files_of(base), versions))


def _live_files_plainly(base_files: pa.Table, versions: Sequence[VersionContent]) -> pa.Table:
    rows = pa.concat_tables([base_files, *(content.adds for content in versions)])
    paths, vectors = rows.column("path").to_pylist(), vector_ids(rows.column("deletionVector")).to_pylist()
    live: dict[str, int] = {path: row for row, path in enumerate(paths[: base_files.num_rows])}
    row = base_files.num_rows
    for content in versions:
        events: list[tuple[int, int, str, str | None]] = []
        for line in content.adds.column("addedAtLine").to_pylist():
            events.append((line, row, paths[row], None))
            row += 1
        gone = vector_ids(content.removes.column("deletionVector")).to_pylist()
        for line, path, vector in zip(
            content.removes.column("line").to_pylist(), content.removes.column("path").to_pylist(), gone, strict=True
        ):
            events.append((line, _NO_VECTOR, path, vector))
        for _, added, path, vector in sorted(events, key=lambda event: event[0]):
            if added >= 0:
                live[path] = added
            elif path in live and vectors[live[path]] == vector:
                del live[path]
    kept = np.zeros(rows.num_rows, dtype=np.bool_)
    kept[list(live.values())] = True
    return rows.filter(bool_array(kept))


def _files_of(base: TableState | None) -> pa.Table:
    return pa.Table.from_batches([], schema=FILES_SCHEMA) if base is None else base.files


def _whole(header: StateHeader, files: pa.Table) -> TableState:
    return TableState(**header_fields(header), files=files)


def _check_contiguous(below: int, versions: Sequence[VersionContent]) -> None:
    expected = below + 1
    for content in versions:
        if content.version != expected:
            message = f"version {expected} is missing before version {content.version}: restore it from a copy"
            raise LogGap(message, version=expected, found=content.version)
        expected += 1


def live_files(base_files: pa.Table, versions: Sequence[VersionContent]) -> pa.Table:
    """What is live after `versions` of the files of `base_files` and of those that `versions` add."""
    adds = [content.adds for content in versions if content.adds.num_rows]
    removes = [content for content in versions if content.removes.num_rows]
    if not adds and not removes:
        return base_files
    added = pa.concat_tables(adds) if adds else pa.Table.from_batches([], schema=FILES_SCHEMA)
    removed = pa.concat_tables([content.removes for content in removes]) if removes else None
    base_touched = _touched(base_files, added, removed)
    from_base = base_files.filter(bool_array(base_touched)) if base_files.num_rows else base_files
    candidates = pa.concat_tables([from_base, added])
    live = _newest_alive(candidates, _added_at(versions, candidates.num_rows), removed, _removed_at(removes, versions))
    touched = candidates.num_rows - added.num_rows
    kept = _filtered(base_files, _spread(base_touched, live[:touched]))
    return _in_few_chunks(pa.concat_tables([kept, *_filtered_each(adds, live[touched:])]))


def _in_few_chunks(files: pa.Table) -> pa.Table:
    """The same: small versions leave a chunk each, and every look at a column would go through all of them."""
    chunks = files.column("path").num_chunks
    return files.combine_chunks() if chunks > _MANY_CHUNKS and files.num_rows < chunks * _CHUNK_FILES else files


def _touched(base_files: pa.Table, added: pa.Table, removed: pa.Table | None) -> Bools:
    """Which rows of the base a later action names: the others stay, unseen."""
    if base_files.num_rows == 0:
        return np.zeros(0, dtype=np.bool_)
    chunks = [*added.column("path").chunks, *(removed.column("path").chunks if removed is not None else [])]
    named = pc.is_in(combined(base_files.column("path")), value_set=pa.concat_arrays(chunks))
    return _bools(named)


def _newest_alive(candidates: pa.Table, added_at: Ints, removed: pa.Table | None, removed_at: Ints) -> Bools:
    """For each candidate, in ascending order of its add, whether it is the live entry of its path."""
    count = candidates.num_rows
    paths = [*candidates.column("path").chunks, *(removed.column("path").chunks if removed is not None else [])]
    codes, distinct = _codes(paths)
    newest = np.full(distinct, -1, dtype=np.int64)
    newest[codes[:count]] = np.arange(count)  # numpy keeps the last of repeated indices
    live = np.zeros(count, dtype=np.bool_)
    live[newest[newest >= 0]] = True
    if removed is None:
        return live
    vectors = _vector_codes(candidates.column("deletionVector"), removed.column("deletionVector"))
    entry = newest[codes[count:]]
    known = entry >= 0
    entry = entry[known]
    hit = (added_at[entry] < removed_at[known]) & (vectors[:count][entry] == vectors[count:][known])
    live[entry[hit]] = False
    return live


def _codes(chunks: list[pa.Array]) -> tuple[Ints, int]:
    if sum(map(len, chunks)) <= _FEW:
        # Arrow's compute functions take longer to load than a small table takes to open.
        known: dict[str, int] = {}
        found = [known.setdefault(path, len(known)) for chunk in chunks for path in chunk.to_pylist()]
        return np.array(found, dtype=np.int64), len(known)
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    encoded = combined(encoded)
    codes = np.frombuffer(encoded.indices.buffers()[1], dtype=np.int32)[: len(encoded)]
    return codes.astype(np.int64), len(encoded.dictionary)


def _vector_codes(*columns: pa.ChunkedArray) -> Ints:
    if all(column.null_count == len(column) for column in columns):
        return np.full(sum(len(column) for column in columns), _NO_VECTOR, dtype=np.int64)
    ids = pa.concat_arrays([vector_ids(column) for column in columns])
    return int64_values(ids.dictionary_encode().indices.cast(pa.int64()), null=_NO_VECTOR)


def _added_at(versions: Sequence[VersionContent], rows: int) -> Ints:
    """The order of each candidate's add. Rows of the base come before everything in `versions`."""
    parts = [
        (place << _LINE_BITS) | int64_values(content.adds.column("addedAtLine"))
        for place, content in enumerate(versions)
        if content.adds.num_rows
    ]
    known = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    return np.concatenate([np.full(rows - len(known), -1, dtype=np.int64), known])


def _removed_at(removes: list[VersionContent], versions: Sequence[VersionContent]) -> Ints:
    if not removes:
        return np.zeros(0, dtype=np.int64)
    first = versions[0].version
    return np.concatenate(
        [
            ((content.version - first) << _LINE_BITS) | int64_values(content.removes.column("line"))
            for content in removes
        ]
    )


def _spread(touched: Bools, live: Bools) -> Bools:
    """Which rows of the base stay: those not touched, and the touched ones that are still live."""
    kept = ~touched
    kept[touched] = live
    return kept


def _filtered(table: pa.Table, kept: Bools) -> pa.Table:
    return table if kept.all() else table.filter(bool_array(kept))


def _filtered_each(tables: list[pa.Table], kept: Bools) -> list[pa.Table]:
    """Tables that lose no row are passed on without a copy."""
    start = 0
    result: list[pa.Table] = []
    for table in tables:
        part = kept[start : start + table.num_rows]
        start += table.num_rows
        if part.any():
            result.append(_filtered(table, part))
    return result


def _bools(array: pa.Array) -> Bools:
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], dtype=np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def header_after(
    base: StateHeader | None, versions: Sequence[VersionContent], *, token_window: int = 8192
) -> StateHeader:
    """The fold of everything but the files. As `replay`."""
    _check_contiguous(-1 if base is None else base.version, versions)
    protocol = next((c.protocol for c in reversed(versions) if c.protocol is not None), base.protocol if base else V1)
    metadata = next((c.metadata for c in reversed(versions) if c.metadata is not None), base.metadata if base else None)
    last = versions[-1].version if versions else (base.version if base else -1)
    if metadata is None:
        message = f"No metadata found in the log up to version {last}: the table cannot be read without its metaData"
        raise MetadataMissing(message, version=last)
    txns: dict[str, Txn] = dict(base.txns) if base else {}
    domains: dict[str, DomainMetadata] = dict(base.domains) if base else {}
    skips: dict[str, MergeSkip] = dict(base.skips) if base else {}
    timestamp = base.in_commit_timestamp if base else None
    for content in versions:
        txns.update((txn.appId, txn) for txn in content.txns)
        domains.update((domain.domain, domain) for domain in content.domains)
        fold_skips(skips, content)
        if content.timestamp_ms is not None:
            timestamp = content.timestamp_ms
    return StateHeader(
        version=last,
        protocol=protocol,
        metadata=metadata,
        txns=txns,
        domains={name: domain for name, domain in domains.items() if not domain.removed},
        skips=skips,
        tokens=_extended(base, versions, token_window),
        in_commit_timestamp=timestamp,
    )


def fold_skips(skips: dict[str, MergeSkip], content: VersionContent) -> None:
    """Bring the live skips, by path, forward by one version: those of files that left end, new ones are added."""
    for path in _left(content) if skips else ():
        skips.pop(path, None)
    for skip in content.skips:
        if skip.skipCount:
            skips[skip.path] = skip
        else:
            # Zero says that the file may be tried again: nothing is known against it any more.
            skips.pop(skip.path, None)


def _left(content: VersionContent) -> set[str]:
    """Paths that a version removes without adding them again: their skips end.

    Told from this version alone, so that a skip is the same whether or not a checkpoint came between.
    """
    if content.removes.num_rows == 0:
        return set()
    added = combined(content.adds.column("path"))
    removed = combined(content.removes.column("path"))
    return set(removed.filter(pc.invert(pc.is_in(removed, value_set=added))).to_pylist())


def _extended(base: StateHeader | None, versions: Sequence[VersionContent], window: int) -> TokenWindow | None:
    """The tokens of the last `window` versions, without holes."""
    new = tuple(content.token for content in versions)
    if base is not None and base.tokens is not None:
        first, tokens = base.tokens.first, base.tokens.tokens + new
    elif versions:
        first, tokens = versions[0].version, new
    else:
        return None
    surplus = max(0, len(tokens) - window)
    return TokenWindow(first + surplus, tokens[surplus:])
