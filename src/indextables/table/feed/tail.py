"""`FeedTail` is the feed as a stream reads it: from a place in the history on, in pieces that lose no image.

A place counts what may be read apart: the units of a version, or the version as a whole where rows may pair, so that
the two images of an update are never in two pieces. Which changes lie between two places depends on the log alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from indextables.env import Env
from indextables.errors import InvalidArgument
from indextables.log.read import Log, Snapshot, commit_time, table_of
from indextables.log.wire import VersionContent, check_readable
from indextables.query.expr import Node
from indextables.table.feed.units import Bundle
from indextables.table.feed.verb import Feed
from indextables.table.read import Place, Sizes, Tail, pieces_between

__all__ = ["FeedTail"]

_AT_ONCE = 16


class FeedTail(Tail):
    """The changes of a table from a place on. A reader without a start first gets the rows of a snapshot, as inserts.

    Versions above the one that the reader was planned with may not bring columns that it does not know.
    """

    def __init__(self, log: Log, env: Env, planned: Snapshot, where: Node | None = None) -> None:
        super().__init__(log, planned.metadata)
        self._planned = planned.version
        self.feed = Feed(log, env, planned.metadata, planned.schema.names, where)

    def bundles_between(self, start: Place, end: Place) -> Iterator[Bundle]:
        """What lies between two places, in order. Raises SchemaMismatch, TableReplaced, VersionExpired, LogError."""
        for piece in pieces_between(start, end):
            if piece.is_snapshot:
                bundle = self._of_snapshot(piece.version)
            else:
                bundle = self._of_version(self._content(piece.version, end))
            if bundle is None:
                continue
            parts = _parts(bundle)
            if piece.last is not None and piece.last > len(parts):
                message = f"version {piece.version} at {self.log.url} has {len(parts)} changes, the stream saw more"
                raise InvalidArgument(message, version=piece.version)
            yield from parts[piece.first : piece.last]

    def _sizes(self, start: Place, head: int) -> Iterator[tuple[int, Sizes]]:
        first = start.version
        if start.is_starting_version:
            yield first, _sizes_of(self._of_snapshot(first))
            first += 1
        for begin in range(first, head + 1, _AT_ONCE):
            for content in self.log.read_versions(range(begin, min(begin + _AT_ONCE, head + 1))):
                yield content.version, _sizes_of(self._of_version(content))

    def _of_snapshot(self, version: int) -> Bundle | None:
        units = self.feed.inserted(self._snapshot_files(version))
        return Bundle(version, commit_time(self.log, version), units) if units else None

    def _of_version(self, content: VersionContent) -> Bundle | None:
        if content.protocol is not None:
            check_readable(content.protocol, self.log.url)
        if table_of(content) not in {None, self.baseline.id}:
            raise self._replaced(content.version, table_of(content))
        if content.metadata is not None and content.version > self._planned:
            self._check(content.metadata, content.version)
        return self.feed.bundle(content)


def _parts(bundle: Bundle) -> list[Bundle]:
    """The bundle in parts that can be read apart."""
    if bundle.pairs:
        return [bundle]
    return [msgspec.structs.replace(bundle, units=[unit]) for unit in bundle.units]


def _sizes_of(bundle: Bundle | None) -> Sizes:
    parts = [] if bundle is None else _parts(bundle)
    return np.array([sum(unit.size for unit in part.units) for part in parts], np.int64)
