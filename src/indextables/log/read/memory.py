"""`LogMemory` keeps what one `Log` has read in the cache of the process, as the table's properties ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.log.read.cache import KeptState, LogCache, Region, Small, cache_for
from indextables.log.read.newest import Known
from indextables.log.read.reduce import ReducedContent
from indextables.log.wire import FileIdentity, Metadata, Protocol, StateRef, TableState, VersionContent, identity
from indextables.storage.store import ObjectMeta

__all__ = ["LogMemory"]


class LogMemory:
    """What is remembered of one table. Without a cache only the last listing is, so that a handle can be compared.

    Safe for threads: one may switch the cache off (`heed`) while others use it, so that each call takes it once.
    """

    def __init__(self, env: Env, cache: LogCache | None = None) -> None:
        self._env = env
        self._url = env.store.url
        # One URL at two endpoints, or for two accounts, is two tables.
        self._place = (env.store.url, env.store.identity)
        self._cache = cache if cache is not None else cache_for(env)
        self._listed: Known | None = None
        self._heeded: object = None
        self.options = env.options

    @property
    def is_kept(self) -> bool:
        """True if what is read is found again by later reads."""
        return self._cache is not None

    @property
    def reads_at_once(self) -> bool:
        """True if many version files may be read together."""
        return bool(self.options[opt.TRANSACTION_USE_OPTIMIZED])

    def heed(self, metadata: Metadata) -> None:
        """Go by the table's own properties from now on, where nobody asked otherwise."""
        if self._heeded is not metadata.configuration:
            self._heeded, self.options = metadata.configuration, self._env.over(metadata.configuration)
        cache = self._cache
        if cache is not None and not self.options[opt.TRANSACTION_CACHE_ENABLED]:
            cache.invalidate(self._url)
            self._cache = None

    def invalidate(self, regions: tuple[Region, ...] | None = None) -> int:
        """Forget the entries of this table in these regions, or in all; how many there were."""
        cache = self._cache
        if cache is None:
            return 0
        return cache.invalidate(self._url) if regions is None else cache.invalidate(self._url, regions)

    def known(self) -> Known | None:
        """What the last look at the log of this table told, by whichever handle of this process."""
        cache = self._cache
        if cache is None:
            return None
        known = cache.get("versionsList", self._place, self._env.ambient.monotonic())
        return known if isinstance(known, Known) else None

    def last_listed(self) -> Known | None:
        """As `known`; without a cache what this handle saw last."""
        return self._listed if self._cache is None else self.known()

    def learn(self, known: Known) -> None:
        """Remember what a look at the log told."""
        cache = self._cache
        if cache is None:
            self._listed = known
            return

        def is_newer(kept: Known) -> bool:
            """A slower thread must not bring back what this process knew before: memory reaches further than that."""
            return (kept.history, kept.head) > (known.history, known.head)

        cache.put_known(self._place, known, self._expiry(), is_newer)

    def learn_commit(self, version: int, meta: ObjectMeta, below: str | None) -> None:
        """Remember a version that was committed by us, where the file below it (etag `below`) was the newest known."""
        known = self.known()
        if known is None or known.head != version - 1 or known.head_identity is None or below is None:
            return
        if known.head_identity.etag == below:
            self.learn(msgspec.structs.replace(known, head=version, head_identity=identity(meta)))

    def learn_anchor(self, confirmed: Known) -> None:
        """Remember that the newest version of a look at the log was read after it, and confirmed."""
        known = self.known()
        if known is not None and known.history == confirmed.history and known.anchored < confirmed.head:
            self.learn(msgspec.structs.replace(known, anchor=confirmed.head_identity, anchored=confirmed.head))

    def learn_state(self, ref: StateRef) -> None:
        """Remember a checkpoint that was written by us, so that no read goes further back than to it."""
        known = self.known()
        if known is None or ref.version > known.head or any(state.version == ref.version for state in known.states):
            return
        states = sorted((ref, *known.states), key=lambda state: -state.version)
        self.learn(msgspec.structs.replace(known, states=tuple(states)))

    def recall(self, region: Small, history: int, version: int | str) -> Any:
        """The entry of a version, or None."""
        cache = self._cache
        if cache is None:
            return None
        return cache.get(region, (*self._place, history, version), self._env.ambient.monotonic())

    def version(self, version: int) -> VersionContent | None:
        """The actions of a version, or None."""
        known = self.known()
        found: VersionContent | None = None if known is None else self.recall("version", known.history, version)
        return found

    def state(self, history: int, version: int | Literal["newest"]) -> KeptState | None:
        """The whole table at a version, or the newest of it that is remembered."""
        cache = self._cache
        if cache is None:
            return None
        return cache.get("files", (*self._place, history, version), self._env.ambient.monotonic())

    def keep(self, region: Small, history: int, version: int | str, value: Any, size: int = 0) -> None:
        """Remember an entry of a version."""
        cache = self._cache
        if cache is not None:
            cache.put(region, (*self._place, history, version), value, self._expiry(), size)

    def keep_header(self, history: int, version: int, protocol: Protocol, metadata: Metadata) -> None:
        """Go by the properties of a version, and remember what it says of the table."""
        self.heed(metadata)
        self.keep("protocol", history, version, protocol)
        self.keep("metadata", history, version, metadata)

    def keep_versions(self, history: int, contents: Iterable[VersionContent]) -> None:
        """Remember the actions of versions that have been confirmed."""
        for content in contents:
            if not isinstance(content, ReducedContent) and self.version(content.version) is not content:
                self.keep("version", history, content.version, content, content.weight)

    def keep_state(self, state: TableState, anchor: FileIdentity | None, history: int) -> TableState:
        """The state, which later snapshots find in the cache; `anchor` is the identity of its version file."""
        cache = self._cache
        if cache is not None:
            kept = KeptState(state, anchor)
            cache.put("files", (*self._place, history, state.version), kept, self._expiry())
            newest = self.state(history, "newest")
            if newest is None or newest.state.version <= state.version:
                cache.put("files", (*self._place, history, "newest"), kept, self._expiry())
        return state

    def _expiry(self) -> float:
        return self._env.ambient.monotonic() + self.options[opt.TRANSACTION_CACHE_EXPIRATION_SECONDS]
