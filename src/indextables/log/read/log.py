"""`Log` finds the newest version, and makes snapshots: what the table is at a version."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from indextables import measures
from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    LogCorrupt,
    LogError,
    LogGap,
    ObjectNotFound,
    VersionExpired,
    VersionNotFound,
)
from indextables.log.checkpoint import keep_own
from indextables.log.read import meant
from indextables.log.read.cache import LogCache, Region
from indextables.log.read.checked import check_newest
from indextables.log.read.confirming import Confirmed, Mixed, Superseded, check_above
from indextables.log.read.headers import header_above, searched_back
from indextables.log.read.hint import FEW, Look, by_hint
from indextables.log.read.load import (
    UNREADABLE,
    OpenedState,
    Parts,
    Way,
    Where,
    fold,
    load_pruned,
    load_state,
    segments,
)
from indextables.log.read.memory import LogMemory
from indextables.log.read.nearby import around, window
from indextables.log.read.newest import Known, advance, discover, known_at, unbroken
from indextables.log.read.segment import LogSegment
from indextables.log.read.snapshot import Snapshot
from indextables.log.read.versions import ReadTail, Versions
from indextables.log.wire import (
    MAX_VERSION,
    FileIdentity,
    Header,
    Metadata,
    Protocol,
    PrunedState,
    StateRef,
    TableState,
    VersionContent,
    check_readable,
    check_whole,
    parse_key,
    version_key,
)
from indextables.storage.store import ObjectMeta

__all__ = ["AfterCommit", "Log", "ReadTail", "Snapshot"]

T = TypeVar("T")

# A listed file can be gone when it is read, because cleanup works beside readers: look again this often.
_ATTEMPTS = 3
_MOST_ATTEMPTS = 20

AfterCommit = Callable[["Log", Any], object]
"""What follows a commit: it is given the log and the commit that landed (`indextables.log.commit.rule.Landed`)."""


class Log:
    """The log of one table. Safe to use from several threads. `open_log` gives one that can commit.

    Where its environment names the table that is meant (`of_table`), whatever would tell of another one raises
    TableReplaced instead, and so does all that is made from that environment.
    """

    def __init__(
        self,
        env: Env,
        cache: LogCache | None = None,
        tail: ReadTail | None = None,
        after_commit: AfterCommit | None = None,
        before_create: Callable[[Env], None] = lambda _: None,
    ) -> None:
        """`tail` reads many version files at once, in other places than this process; None where it declines.

        `after_commit` is called with this log and what landed; without it a commit is refused. `before_create` comes
        right before each put of a version 0, and may refuse it.
        """
        self.env = env
        self._after_commit = after_commit
        self.before_create = before_create
        self._memory = LogMemory(env, cache)
        self._versions = Versions(env, self._memory, tail)
        self._looked_at: float | None = None
        self._seen: int | None = None
        self._listed = -1

    @property
    def url(self) -> str:
        """Where the table is."""
        return self.env.store.url

    @property
    def after_commit(self) -> AfterCommit:
        """What follows a commit. Raises RuntimeError where this log was opened only to read."""
        if self._after_commit is None:
            raise RuntimeError(f"the log at {self.url} was opened only to read: `open_log` opens one that can commit")
        return self._after_commit

    def of_table(self, table_id: str | None) -> Log:
        """This log for that table alone, with the same memory; None: for whichever table lives here."""
        if self.env.table_id == table_id:
            return self
        meant = copy.copy(self)
        meant.env = msgspec.structs.replace(self.env, table_id=table_id)
        return meant

    def check_table(self) -> None:
        """Raises TableReplaced if another table than the one that is meant lives here, as far as the log can be read.

        Raises TableNotFound, StoreError.
        """
        if self.env.table_id is not None:
            with suppress(LogError):  # Whoever reads on is told what is wrong with it.
                self.metadata_at()

    def latest_version(self, known: int | None = None) -> int:
        """The newest version, probed for from `known`, which existed. Raises TableNotFound, LogGap, InvalidArgument."""
        if known is not None:
            check_whole("a version", known)
        if known is not None and 0 <= known <= MAX_VERSION and self._memory.known() is None:
            start = known_at(self.env, known)
            if start is not None and (newer := advance(self.env, start)) is not None:
                return newer.head
        return self._look().known.head

    def snapshot(self, version: int | None = None, timestamp_ms: int | None = None) -> Snapshot:
        """The table at a version, at a time (milliseconds since the epoch), or newest.

        Raises TableNotFound, VersionNotFound, VersionExpired, LogGap, LogCorrupt, ProtocolUnsupported,
        MetadataMissing, PathEscape, LimitExceeded, StoreError, and InvalidArgument for what is not a whole number.
        """
        if version is not None:
            check_whole("a version", version)
        if timestamp_ms is not None:
            from indextables.log.read.histories import version_at

            version = version_at(self, timestamp_ms)
        return self._retried(lambda look: self._snapshot_at(look, look.known.head if version is None else version))

    def learn_commit(self, version: int, meta: ObjectMeta, below: str | None) -> None:
        """Remember that this process committed a version, as the file `meta`, above the file with the etag `below`."""
        self._memory.learn_commit(version, meta, below)

    def learn_state(self, ref: StateRef) -> None:
        """Remember that this process wrote a checkpoint of this table."""
        self._memory.learn_state(ref)

    def snapshot_of_ours(self, version: int, protocol: Protocol, metadata: Metadata, token: str | None) -> Snapshot:
        """The table at a version that this process has committed, with this protocol, metadata and token.

        Nothing is read until somebody asks for the files, also where others have committed below it, as long as no
        newer version is known. Where another version stands in its place by then, VersionExpired says so. Raises as
        `snapshot`.
        """
        known = self._memory.known()
        if known is None or known.head > version:
            return self.snapshot(version).checked(lambda state: meant.check_ours(self.env, state, token))
        self._memory.heed(metadata)

        def read(use: Callable[[Way], T]) -> T:
            return self._retried(lambda look: use(self._way_of(look, version, metadata.id, token)))

        def load_some(where: Where, parts: Parts | None = None) -> TableState | PrunedState:
            return read(lambda way: way.load_some(where, parts))

        found = Snapshot(version, protocol, metadata, partial(read, lambda way: way.load()), load_some, known.history)
        return found.checked(lambda state: meant.check_ours(self.env, state, token))

    def read_version(self, version: int) -> VersionContent:
        """One version's actions.

        Raises VersionNotFound above the newest, VersionExpired where cleanup took the file, LogCorrupt,
        LimitExceeded, PathEscape.
        """
        check_whole("a version", version)
        return self.read_versions([version])[0]

    def read_versions(
        self, versions: Sequence[int], *, above: VersionContent | None = None, files: bool = True
    ) -> Confirmed[VersionContent]:
        """The actions of versions, in ascending order; `above` follows the last one. As `Versions.read`."""
        contents = self._told(versions, lambda: self._versions.read(versions, above=above, files=files))
        for content in contents:
            if self.env.table_id is not None and content.table_id not in {None, self.env.table_id}:
                self.check_table()
                raise meant.stranger(self.env, content.version)
        return contents

    def stored(self, version: int) -> bytes:
        """The bytes of a version file. Raises as `read_version`."""
        check_whole("a version", version)
        self.check_table()
        return self._told([version], lambda: self._versions.stored(version))

    def _told(self, versions: Sequence[int], read: Callable[[], T]) -> T:
        """What `read` makes of versions; where one is not there, the listing tells whether it ever was."""
        missing = next((version for version in versions if not 0 <= version <= MAX_VERSION), None)
        if missing is None:
            try:
                return read()
            except ObjectNotFound as error:
                number = error.details.get("version") or getattr(parse_key(str(error.details.get("key"))), "version", 0)
                missing = int(str(number))
        known = self._list_again(self._memory.known())
        if not 0 <= missing <= known.head:
            message = f"version {missing} does not exist at {self.url}: the newest is {known.head}"
            raise VersionNotFound(message, version=missing, latest=known.head, url=self.url)
        raise meant.file_gone(self.env, missing, known.first + 1 if known.first == missing else known.first)

    def metadata_at(self, version: int | None = None) -> Header:
        """Version, protocol and metadata, searched backwards from the version; no file entries are loaded.

        Raises as `snapshot`, but never ProtocolUnsupported: whoever asks may want to see what the table needs.
        """
        if version is not None:
            check_whole("a version", version)
        return self._retried(lambda look: self._metadata_at(look, look.known.head if version is None else version))

    def check_unbroken(self, version: int, table: str) -> None:
        """Raises LogGap if a version file below `version` is missing and no checkpoint of `table` explains that.

        Below what this log has listed, and below the newest checkpoint that it knows, nothing is asked.
        """
        known = self._memory.known()
        nearest = -1 if known is None else known.state_below(version)
        unbroken(self.env, max(nearest, self._listed), version, table)

    def remembered(self) -> Known | None:
        """What the last look at the log told, by whichever handle of this process. No request is made."""
        return self._memory.last_listed()

    def look(self) -> Known:
        """What is newest now, without a listing of the whole log if that can be. As `versions`."""
        self.check_table()
        self.look_again()
        return self._look().known

    def versions(self) -> range:
        """The versions whose files are there. Raises TableNotFound, LogGap, TableReplaced."""
        self.check_table()
        known = discover(self.env)
        return range(known.first, known.head + 1)

    def states(self) -> tuple[StateRef, ...]:
        """The checkpoints of this table, newest first. Raises TableNotFound, LogGap, TableReplaced."""
        self.check_table()
        known = discover(self.env)
        there = range(known.first, known.head + 1) if known.head_identity is not None else ()
        return keep_own(self.env, there, known.states)

    def seen(self) -> int | None:
        """The newest version that a read through this log, or through its cache, has found. No request is made."""
        known = self._memory.known()
        return self._seen if known is None else known.head

    def invalidate(self, regions: tuple[Region, ...] | None = None) -> int:
        """Drop what is cached of this table; the number of entries."""
        self._looked_at = self._seen = None
        return self._memory.invalidate(regions)

    def _current(self) -> Known:
        """What is newest, probed from what is known. Raises TableNotFound, LogGap, StoreError."""
        known = self._memory.known()
        if known is not None and self._is_recent():
            return known
        now = self.env.ambient.monotonic()
        fresh = None if known is None else advance(self.env, known)
        if fresh is None:
            return self._list_again(known)
        return self._learn(fresh, now)

    def _look(self) -> Look:
        """As `_current`; where nothing is known, the hint is followed rather than the whole log listed."""
        if self._memory.known() is not None:
            return Look(self._current())
        now = self.env.ambient.monotonic()
        found = by_hint(self.env, self._versions, self._memory.last_listed())
        if found is None:
            return Look(self._current())
        self._learn(found.known, now)
        self._listed = found.known.head
        self._memory.keep_versions(found.known.history, found.contents[:-1])  # The newest: once it has been checked.
        return Look(found.known, found)

    def _learn(self, known: Known, looked_at: float) -> Known:
        self._seen = known.head
        self._memory.learn(known)
        self._looked_at = looked_at
        return known

    def _list_again(self, known: Known | None) -> Known:
        """What is newest by a full listing. Raises as `_current`."""
        now = self.env.ambient.monotonic()
        # Without a cache nothing is remembered, but whoever holds a snapshot still wants to know whether it is current.
        fresh = discover(self.env, known if self._memory.is_kept else self._memory.last_listed())
        self._listed = fresh.head
        return self._learn(fresh, now)

    def look_again(self) -> None:
        """Let the next read ask the store what is newest, however stale reads may be."""
        self._looked_at = None

    def _is_recent(self) -> bool:
        """True if this handle has looked so lately that the user does not mind."""
        allowed_s = self.env.options[opt.MAX_STALENESS_MS] / 1000
        return self._looked_at is not None and self.env.ambient.monotonic() - self._looked_at < allowed_s

    def _retried(self, load: Callable[[Look], T], *, hint: bool = True) -> T:
        """Load from what is newest, and again from a new listing where something known is gone."""
        seen: Known | None = None
        attempt = 0
        for number in range(_MOST_ATTEMPTS):
            # A hint is followed once: if that leads astray, the whole log is listed.
            look = self._look() if hint and number == 0 else Look(self._current())
            known = look.known
            # Where the log has changed meanwhile, cleanup was faster than we were; where it has not, a file is lost.
            attempt, seen = attempt + 1 if known.is_like(seen) else 0, known
            try:
                return load(look)
            except ObjectNotFound as error:
                self.invalidate()
                if attempt == _ATTEMPTS - 1 and isinstance(error, Superseded):
                    version = int(str(error.details["version"]))
                    raise meant.file_gone(self.env, version, version + 1) from error
                if attempt == _ATTEMPTS - 1:
                    file = parse_key(str(error.details.get("key", "")))
                    message = f"a listed file of the log at {self.url} cannot be found: {error}; restore it from a copy"
                    raise LogGap(message, version=file.version if file else None, url=self.url) from error
            except (LogGap, VersionExpired, Mixed):
                self.invalidate()
                if attempt:
                    raise
            except UNREADABLE:
                self.invalidate()
                if not known.floor:
                    raise  # Every checkpoint was known. From a hint on, an older one may be readable.
        return load(Look(self._current()))

    def _reaching(self, known: Known, version: int) -> Known:
        """What is known, looked up again where it does not tell of the version. Raises VersionNotFound.

        A version below the newest may have been cleaned up since it was read: what is in memory of it has expired too.
        """
        if version > known.head:
            self.look_again()
            known = self._current()
        elif min(known.first, known.floor) <= version < known.head or 0 <= version < known.floor:
            if not self.env.store.exists(version_key(version)):
                known = self._list_again(known)
            elif version < known.floor:
                known = window(self.env, known, version) or self._list_again(known)
        if not 0 <= version <= known.head:
            message = f"version {version} does not exist at {self.url}: the newest is {known.head}"
            raise VersionNotFound(message, version=version, latest=known.head, url=self.url)
        return known

    def _snapshot_at(self, look: Look, version: int) -> Snapshot:
        way = self._way_to(look, version)
        meant.check_id(self.env, way.metadata.id)

        def load_some(where: Where, parts: Parts | None = None) -> TableState | PrunedState:
            return self._patiently(way, version, lambda way: way.load_some(where, parts))

        load = partial(self._patiently, way, version, lambda way: way.load())
        return Snapshot(version, way.protocol, way.metadata, load, load_some, way.history)

    def _patiently(self, way: Way, version: int, use: Callable[[Way], T]) -> T:
        """What `use` makes of a way to a version; of another way where files were taken or changed. Raises LogError."""
        try:
            return use(way)
        except (*UNREADABLE, LogCorrupt):
            # Part of it was read before: with another table or history here by now, the rest does not fit.
            self.invalidate()
        return self._retried(lambda look: use(self._way_of(look, version, way.metadata.id, way.token)), hint=False)

    def _way_of(self, look: Look, version: int, table: str, token: str | None) -> Way:
        """As `_way_to`, for a version that was there. Raises VersionExpired where its table or history is gone."""
        try:
            found: Way | None = self._way_to(look, version)
        except VersionNotFound:
            found = None
        if (self.metadata_at().metadata if found is None else found.metadata).id != table:
            raise meant.table_gone(self.env, version)
        if found is None:
            raise meant.cut_off(self.env, version)
        meant.check_token(self.env, version, found.token, token)
        return found

    def _way_to(self, look: Look, version: int) -> Way:
        """How to read a version, by what is known now; protocol and metadata are read and checked."""
        known = self._reaching(look.known, version)
        cached = self._memory.state(known.history, version)
        if cached is not None:
            check_readable(cached.state.protocol, self.url)
            whole = cached.state
            return Way(
                whole.protocol, whole.metadata, lambda: whole, lambda *_, **__: whole, known.history, whole.token
            )
        base, anchor = self._cached_base(known, version)
        known = known if base is not None else self._with_short_tail(known, version)
        found = look.found if base is None and look.found is not None and look.found.known == known else None
        is_new = found is not None or self._memory.version(version) is None
        if found is not None and version == known.head:
            contents = found.contents
        elif base is None:
            contents = self._versions.read(next(segments(self.env, known, version)).versions, log=known)
        else:
            contents = self._versions.read_from(base.version, anchor, version)
        told = check_newest(self.env, contents) if is_new else None
        if contents and is_new and version < known.head and known.state_below(known.head) < version:
            check_above(self.env, contents[-1])
        opened = OpenedState() if found is None else found.opened
        protocol, metadata = header_above(self.env, self._versions, known, version, base, contents, opened)
        check_readable(protocol, self.url)
        token = opened.token_at(version, base, contents)
        if is_new:
            meant.check_still(self.env, known, version)
        self._memory.keep_versions(known.history, contents)
        self._memory.keep_header(known.history, version, protocol, metadata)

        def more(segment: LogSegment) -> Confirmed[VersionContent]:
            return self._versions.read_more(segment.versions, contents, known)

        def kept(found: TableState) -> TableState:
            return self._memory.keep_state(found, known.head_identity if known.head == version else None, known.history)

        def load() -> TableState:
            began = self.env.ambient.monotonic()
            found = kept(
                load_state(self.env, known, version, more, log_table=metadata.id, token=token, opened=opened, told=told)
                if base is None
                else fold(self.env, base, contents)
            )
            measures.note(self.url, "state load", self.env.ambient.monotonic() - began, files=found.files.num_rows)
            return found

        def load_some(where: Where, parts: Parts | None = None) -> TableState | PrunedState:
            if base is not None:
                return load()
            source = (self.env, known, version, more)
            found = load_pruned(*source, where, parts, log_table=metadata.id, token=token, opened=opened, told=told)
            return found if isinstance(found, PrunedState) else kept(found)

        return Way(protocol, metadata, load, load_some, known.history, token)

    def _metadata_at(self, look: Look, version: int) -> Header:
        known = self._reaching(look.known, version)
        protocol = self._memory.recall("protocol", known.history, version)
        metadata = self._memory.recall("metadata", known.history, version)
        if protocol is None or metadata is None:
            found = look.found
            if found is not None and found.known == known and version == known.head:
                read = (found.contents, found.opened)
                protocol, metadata = header_above(self.env, self._versions, known, version, None, *read)
            else:
                near = self._with_short_tail(known, version)
                protocol, metadata = searched_back(self.env, self._versions, near, version)
            meant.check_still(self.env, known, version)
            self._memory.keep_header(known.history, version, protocol, metadata)
        meant.check_id(self.env, metadata.id)
        return Header(version, protocol, metadata)

    def _with_short_tail(self, known: Known, version: int) -> Known:
        """Look again where the newest checkpoint known is far below, since there may be a nearer one by now."""
        if not self._memory.is_kept or version - known.state_below(version) <= FEW:
            return known
        near = around(self.env, version).below
        if near is None or near.version <= known.state_below(version):
            fresh = self._list_again(known)
            return fresh if fresh.head >= version else known
        self._memory.learn_state(near)
        return self._memory.known() or known

    def _cached_base(self, known: Known, version: int) -> tuple[TableState | None, FileIdentity | None]:
        """A state in memory that is nearer than the newest checkpoint known, and the identity of its version file."""
        kept = self._memory.state(known.history, "newest")
        if kept is None or kept.state.version > version or kept.state.version + 1 < known.first:
            return None, None
        return (kept.state, kept.anchor) if kept.state.version >= known.state_below(version) else (None, None)
