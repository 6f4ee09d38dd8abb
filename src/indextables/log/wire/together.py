"""Decodes many small version files at once: each is checked by itself, and all become columns together.

Of what a small version takes to decode, nine tenths go into making columns of it, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import LimitExceeded, LogCorrupt, PathEscape
from indextables.log.wire.arrays import int64_array
from indextables.log.wire.blocks import ADD, REMOVE, Block, Rows
from indextables.log.wire.codec import (
    NO_ADDS,
    NO_REMOVES,
    REMOVES_SCHEMA,
    SMALL_BYTES,
    OnDisk,
    VersionContent,
    VersionReader,
    decode_version,
    decoded_lately,
    keep_lately,
    rows_of_adds,
    rows_of_removes,
)
from indextables.log.wire.compression import line_blocks
from indextables.log.wire.files import FILES_SCHEMA
from indextables.log.wire.lines import corrupt
from indextables.log.wire.paths import PathRule, canonical_paths

__all__ = ["decode_versions", "is_small"]

_AT_ONCE = 64
"""So many versions share their columns: while one of them is needed, all are in memory."""


def is_small(data: bytes) -> bool:
    """True for a version file that is better decoded together with others."""
    return len(data) <= SMALL_BYTES


def decode_versions(files: Sequence[tuple[int, bytes]], *, root_url: str = "") -> list[VersionContent]:
    """The content of each file, of which the version is given: what `decode_version` makes of it.

    Raises as `decode_version` does for the first that it refuses.
    """
    found: list[VersionContent] = []
    for start in range(0, len(files), _AT_ONCE):
        part = files[start : start + _AT_ONCE]
        lately = {version: known for version, data in part if (known := decoded_lately(data, version, root_url))}
        small = [(version, data) for version, data in part if is_small(data) and version not in lately]
        joint = lately | (_decoded(small, root_url) if len(small) > 1 else {})
        # What is damaged is decoded alone as well: so it is told which file it is, and why.
        found += [joint.get(version) or decode_version(data, version, root_url=root_url) for version, data in part]
    return found


def _decoded(files: Sequence[tuple[int, bytes]], root_url: str) -> dict[int, VersionContent]:
    """The versions whose lines are few and name nothing but files, by number; none if anything is wrong with one."""
    joint = _Joint(root_url)
    try:
        for version, data in files:
            reader = VersionReader(version, root_url, files=False)
            blocks = [reader.feed(block) for block in line_blocks(data, _refuse)]
            head = reader.head(data)
            if len(blocks) == 1 and blocks[0].is_checked and not head.skips:
                joint.take(head, blocks[0])
        found = joint.contents()
    except (LogCorrupt, LimitExceeded, PathEscape):
        return {}
    for version, data in files:
        if version in found:
            keep_lately(found[version], data, root_url)
    return found


def _refuse(reason: str) -> LogCorrupt:
    return corrupt(0, None, reason)


class _Lines:
    """The lines of one kind, of all versions, in order."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.numbers: list[int] = []
        self.counts: list[int] = []

    def take(self, block: Block, kind: int) -> None:
        chosen = np.flatnonzero(block.kinds == kind).tolist()
        self.texts += [block.text(i) for i in chosen]
        self.numbers += [block.number(i) for i in chosen]
        self.counts.append(len(chosen))

    def of_each(self, values: Sequence[int | None]) -> pa.Array:
        """What each version says, for each of its lines."""
        numbers = np.array([value or 0 for value in values], dtype=np.int64)
        known = np.array([value is not None for value in values])
        return int64_array(np.repeat(numbers, self.counts), None if known.all() else np.repeat(known, self.counts))


class _Joint:
    """Small versions of one table, whose lines were checked one by one."""

    def __init__(self, root_url: str) -> None:
        self._root_url = root_url
        self._heads: list[VersionContent] = []
        self._adds, self._removes = _Lines(), _Lines()

    def take(self, head: VersionContent, block: Block) -> None:
        """A version without its files, and the lines of these."""
        self._heads.append(head)
        self._adds.take(block, ADD)
        self._removes.take(block, REMOVE)

    def contents(self) -> dict[int, VersionContent]:
        """The versions, by number. Raises as `decode_version`."""
        rows = self._rows()
        adds, removes = self._added(rows.get(ADD)), self._removed(rows.get(REMOVE))
        on_disk = self._on_disk(rows.get(ADD)), self._on_disk(rows.get(REMOVE))
        same = on_disk[0].equals(adds.column("path")) and on_disk[1].equals(removes.column("path"))
        found: dict[int, VersionContent] = {}
        added, removed = 0, 0
        for head, more, gone in zip(self._heads, self._adds.counts, self._removes.counts, strict=True):
            mine = msgspec.structs.replace(
                head,
                adds=adds.slice(added, more) if more else NO_ADDS,
                removes=removes.slice(removed, gone) if gone else NO_REMOVES,
            )
            if not same:
                mine = _with_paths(mine, on_disk[0].slice(added, more), on_disk[1].slice(removed, gone))
            found[head.version] = mine
            added, removed = added + more, removed + gone
        return found

    def _on_disk(self, rows: Rows | None) -> pa.ChunkedArray:
        chunks = [] if rows is None else [canonical_paths(rows[0].field("path"), self._root_url, PathRule.ON_DISK)]
        return pa.chunked_array(chunks, pa.string())

    def _rows(self) -> dict[int, Rows]:
        texts = self._adds.texts + self._removes.texts
        if not texts:
            return {}
        kinds = np.repeat([ADD, REMOVE], [len(self._adds.texts), len(self._removes.texts)])
        data = b"\n".join(texts) + b"\n"
        return Block(data, self._heads[0].version, 1, kinds, np.arange(len(texts)), is_checked=True).read_rows()

    def _added(self, rows: Rows | None) -> pa.Table:
        if rows is None:
            return NO_ADDS
        struct, lines = rows[0], self._adds
        batch = rows_of_adds(
            struct,
            canonical_paths(struct.field("path"), self._root_url),
            lines.of_each([head.version for head in self._heads]),
            int64_array(np.array(lines.numbers, dtype=np.int64)),
            lines.of_each([head.timestamp_ms for head in self._heads]),
        )
        return pa.Table.from_batches([batch], schema=FILES_SCHEMA)

    def _removed(self, rows: Rows | None) -> pa.Table:
        if rows is None:
            return NO_REMOVES
        struct = rows[0]
        paths = canonical_paths(struct.field("path"), self._root_url)
        batch = rows_of_removes(struct, paths, int64_array(np.array(self._removes.numbers, dtype=np.int64)))
        return pa.Table.from_batches([batch], schema=REMOVES_SCHEMA)


def _with_paths(content: VersionContent, adds: pa.ChunkedArray, removes: pa.ChunkedArray) -> VersionContent:
    """The version with its paths as they are on the disk, where they differ."""
    if adds.equals(content.adds.column("path")) and removes.equals(content.removes.column("path")):
        return content
    return msgspec.structs.replace(content, on_disk=OnDisk(adds, removes, ()))
