"""`Handle` is pinned to a version, and its writes move the pin; all verbs of a table stand on it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from indextables import options as opt
from indextables.env import Env
from indextables.errors import TableNotFound, TableReplaced, VersionExpired, VersionNotFound
from indextables.lazy import LazyModule
from indextables.log.read import ANOTHER_HISTORY, Log, Snapshot
from indextables.log.wire import version_key
from indextables.process import Lock
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.table.arguments import check_mapping
from indextables.table.environment import table_env
from indextables.table.read import Searchers, lease_if_asked

if TYPE_CHECKING:
    from indextables.log.commit import head
    from indextables.sql.local import Source
    from indextables.table import convert
else:
    # What writes is not loaded by whoever only reads.
    head = LazyModule("indextables.log.commit.head")
    convert = LazyModule("indextables.table.convert")

__all__ = ["Handle"]

_LOGGER = logging.getLogger("indextables")

# Want of threads, memory or disk too: who was told that a commit failed would do it again.
_NOT_THE_COMMITS = Exception

T = TypeVar("T")

# How often a handle that was just opened follows a cleanup that is faster.
_ATTEMPTS = 20


class Handle:
    """One version of a table, until a write of this handle or a refresh moves it on. Safe from several threads."""

    def __init__(self, log: Log, snapshot: Snapshot, *, is_seen: bool = True) -> None:
        """`is_seen` is False where the newest version was asked for, and nobody was told yet which one that is."""
        # The only log that verbs are given: whatever they make of it refuses another table in this place.
        self._log = log.of_table(snapshot.table_id)
        self._pinned = snapshot
        self._written = snapshot.version
        self._is_seen = is_seen
        # The version that this handle wrote last, until somebody has read it.
        self._unread = -1
        self._lock = Lock()
        self._searchers = Searchers(log.env, lambda *asked: convert.copy_of_peer(*asked))  # noqa: PLW0108 - loaded later
        self._reading = lease_if_asked(log, snapshot)

    @property
    def url(self) -> str:
        """The URL of the table, without credentials."""
        return self._log.env.store.url

    @property
    def version(self) -> int:
        """The version that this handle reads."""
        self._is_seen = True
        return max(self._pinned.version, self._written)

    def _predicate(self, where: str | None) -> Node | None:
        if where is None:
            return None
        snapshot = self._snapshot
        options = table_env(self._log.env, snapshot.metadata).options
        return parse(where, snapshot.schema, time_zone=options[opt.TIME_ZONE])

    def _source(self) -> Source:
        """What this handle reads, for a SELECT."""
        from indextables.sql.local import SnapshotSource

        return SnapshotSource(self._log, self._snapshot, self._searchers)

    def _sources(self, tables: object) -> dict[str, Source]:
        """What other handles read, by the names that a SELECT has for them. Raises InvalidArgument."""

        def source(table: Handle) -> Source:
            return table._source()

        return {name: source(table) for name, table in check_mapping("tables", tables).items()}

    def _answer(self, read: Callable[[Snapshot], T]) -> T:
        """What `read` makes of the version of this handle.

        Of a handle that was just opened nobody has seen yet which version it has, and nobody has read what one that
        just wrote has: where cleanup took that version since, it is the newest one that is read. Raises VersionExpired
        otherwise.
        """
        for _ in range(_ATTEMPTS):
            try:
                answer = read(self._snapshot)
            except VersionExpired as error:
                if not self._is_seen:
                    with contextlib.suppress(TableReplaced, TableNotFound):
                        self._move(self._log.snapshot())
                        continue
                    # A handle means the table that it opened, also before anybody has looked.
                    raise
                if self._unread == self._written and error.details.get("reason") != ANOTHER_HISTORY:
                    self._follow()
                else:
                    raise
            else:
                self._is_seen, self._unread = True, -1
                return answer
        self._is_seen, self._unread = True, -1
        return read(self._snapshot)

    @property
    def _seen(self) -> Snapshot:
        """What this handle reads, for who is told something about it: from now on it is that version, or none."""
        self._is_seen = True
        return self._snapshot

    @property
    def _snapshot(self) -> Snapshot:
        """What this handle reads: never less than what it wrote. Raises as `open_table` where that is yet to load.

        Where cleanup took what it wrote before it was looked at, the newest version, which holds it too.
        """
        pinned = self._pinned
        if pinned.version >= self._written:
            return pinned
        try:
            return self._move(self._log.snapshot(self._written))
        except VersionExpired:
            return self._follow()

    @property
    def _base(self) -> Snapshot:
        """What a write of another schema starts from, loaded: the version of this handle, or the newest if it is gone.

        So that nothing is written which cannot be committed. Raises TableReplaced, TableNotFound, LogError.
        """
        snapshot = self._snapshot
        try:
            _ = snapshot.state
        except VersionExpired as error:
            if error.details.get("reason") == ANOTHER_HISTORY:
                raise
            return self._log.snapshot()
        return snapshot

    def _check_there(self, snapshot: Snapshot) -> None:
        """Before rows are written: raises TableNotFound or TableReplaced if a local table is gone, as one look tells.

        Elsewhere, and where it was deleted later, the commit finds out, and what was written is deleted.
        """
        env = self._log.env
        if env.store.is_local and not env.store.exists(version_key(snapshot.version)):
            self._log.check_table()

    def _newest_env(self) -> Env:
        """With the properties that the table has now: they hold for what is done to its newest version."""
        return table_env(self._log.env, self._log.metadata_at().metadata)

    def _pin(self, version: int) -> int:
        """Go on to a version that this handle committed; a commit in the log never fails because of that."""
        with self._lock:
            self._written = max(self._written, version)
            self._unread = self._written
            # Whoever wrote a version is told its number: from now on it is that one, or none.
            self._is_seen = True
            is_new = version > self._pinned.version
        try:
            ours = head.recall(self._log)
            if not is_new:
                # Nothing was written, or another thread went further; or the log has been replaced by a shorter one.
                self._move(self._log.snapshot(version))
            elif ours is not None and ours.version == version:
                self._move(self._log.snapshot_of_ours(version, ours.protocol, ours.metadata, ours.token))
            _ = self._snapshot
        except _NOT_THE_COMMITS as error:
            reason = str(error) or type(error).__name__
            _LOGGER.warning("version %d of %s is committed, but cannot be read now: %s", version, self.url, reason)
        return version

    def _follow(self) -> Snapshot:
        """Read the newest version of this table, which holds what this handle wrote. Raises TableReplaced, LogError."""
        newest = self._move(self._log.snapshot())
        with self._lock:
            self._unread = self._written
        return newest

    def _move_on(self) -> None:
        """Read the newest version of the table that lives here now, be it another one."""
        try:
            newest = self._log.snapshot()
        except TableReplaced:
            newest = self._log.of_table(None).snapshot()
        self._move(newest, lost=self._lost(newest))

    def _lost(self, newest: Snapshot) -> Snapshot | None:
        """What this handle wrote last or was pickled with, if the log ends below it or has another of its number."""
        pinned = self._pinned
        is_behind = newest.table_id == pinned.table_id and newest.version <= self._written
        if not is_behind or not (pinned.is_checked or self._unread == self._written):
            return None
        try:
            _ = pinned.state
        except VersionExpired:
            return pinned
        return None

    def _move(self, snapshot: Snapshot, *, lost: Snapshot | None = None) -> Snapshot:
        """Read this version from now on, unless another thread was faster with a newer one of the same history.

        `lost` is what it takes the place of although that looks the same.
        """
        with self._lock:
            before, written = self._pinned, self._written
        snapshot = self._unless_behind(snapshot, before, written)
        with self._lock:
            # What another thread has written or read meanwhile is not taken back.
            was_overtaken = (self._pinned, self._written) != (before, written) and snapshot.version < self._written
            newer = (snapshot.history, snapshot.version) > (self._pinned.history, self._pinned.version)
            newer = newer or (lost is not None and self._pinned is lost)
            moved = snapshot.table_id != self._pinned.table_id or (newer and not was_overtaken)
            if moved:
                self._pinned = snapshot
                self._log = self._log.of_table(snapshot.table_id)
                self._written = snapshot.version
            pinned = self._pinned
        if moved and (lost is not None or snapshot.history != before.history):
            head.forget(self._log)
        if moved:
            self._protect(pinned)
        return pinned

    def _unless_behind(self, snapshot: Snapshot, before: Snapshot, written: int) -> Snapshot:
        """The snapshot; or the version that this handle has reached, where the log still holds that."""
        if snapshot.table_id != before.table_id:
            return snapshot
        if snapshot.history < before.history:
            return self._log.snapshot()
        if snapshot.history == before.history or snapshot.version >= written:
            return snapshot
        try:
            return self._log.snapshot(written)
        except VersionNotFound:
            return snapshot

    def _protect(self, snapshot: Snapshot) -> None:
        """Keep this version from purge instead of the one before, where that was asked for."""
        made = lease_if_asked(self._log, snapshot)
        with self._lock:
            # Another thread may have moved on while the lease was written: then its lease is the one that counts.
            superseded = made
            if self._pinned is snapshot:
                superseded, self._reading = self._reading, made
        if superseded is not None:
            superseded.release()
