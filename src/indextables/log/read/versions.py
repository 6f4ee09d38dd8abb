"""Reads version files: many at once, from memory where they are known, confirmed before anybody sees them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from indextables.env import Env
from indextables.errors import LogCorrupt, ObjectNotFound
from indextables.log.read.confirming import Confirmed, by_anchor, confirm
from indextables.log.read.memory import LogMemory
from indextables.log.read.newest import Known
from indextables.log.read.reduce import ReducedContent
from indextables.log.wire import (
    CommitInfo,
    FileIdentity,
    Metadata,
    VersionContent,
    commit_info_of,
    crc32c,
    decode_version,
    decode_versions,
    is_small,
    version_key,
)
from indextables.storage.store import Noted

__all__ = ["ReadTail", "Stamp", "Versions", "read_contents", "read_stamp"]

ReadTail: TypeAlias = Callable[[Sequence[int]], Sequence[ReducedContent] | None]


class Stamp(msgspec.Struct, frozen=True):
    """Who a version is, without what it holds."""

    version: int
    commit_info: CommitInfo | None
    crc32c: int | None
    metadata: Metadata | None = None

    @property
    def token(self) -> str | None:
        """The commit token, None in files of other systems."""
        return None if self.commit_info is None else self.commit_info.token


def read_stamp(env: Env, version: int) -> Stamp:
    """Who wrote a version and when, not confirmed. Raises ObjectNotFound, LogCorrupt, LimitExceeded, StoreError."""
    data = env.store.get(version_key(version))
    return Stamp(version, commit_info_of(data, version), crc32c(data))


def read_contents(env: Env, versions: Sequence[int]) -> list[VersionContent]:
    """The content of versions as their files have it: whoever asks confirms it.

    Files are read side by side; a large one is decoded as soon as it is there, small ones are decoded together.
    Raises ObjectNotFound for one that is not there, LogCorrupt, LimitExceeded, PathEscape, StoreError.
    """
    url = env.store.url

    def one(version: int) -> bytes | VersionContent:
        data = env.store.get(version_key(version))
        return data if is_small(data) else decode_version(data, version, root_url=url)

    read = list(zip(versions, env.ambient.map("versions", one, versions), strict=True))
    small = [(version, data) for version, data in read if isinstance(data, bytes)]
    decoded = iter(decode_versions(small, root_url=url))
    return [next(decoded) if isinstance(data, bytes) else data for _, data in read]


class Versions:
    """The version files of one log. `memory` has those that were confirmed before, and what is known of the log.

    `tail` reads many version files at once, in other places than this process; None where it declines.
    """

    def __init__(self, env: Env, memory: LogMemory, tail: ReadTail | None) -> None:
        self.env = env
        self._memory = memory
        self._tail = tail

    def read(
        self,
        versions: Sequence[int],
        *,
        above: VersionContent | None = None,
        files: bool = True,
        log: Known | None = None,
    ) -> Confirmed[VersionContent]:
        """The content of versions, in ascending order; `above` is confirmed and follows the last one.

        `log` is what is known of the log, where that is more than what is remembered.

        Without `files` adds and removes may be left out. Raises ObjectNotFound for one that is not there, Superseded,
        Mixed, LogCorrupt, LimitExceeded, PathEscape, StoreError.
        """
        log = log or self._memory.last_listed()
        contents, known = self._read_many(versions, files=files)
        return self._noted(confirm(self.env, contents, above=above, known=known, log=log), known, log)

    def unconfirmed(self, versions: Sequence[int]) -> list[VersionContent]:
        """The content of versions as their files have it: whoever asks confirms it. Raises as `read`."""
        return self._read_many(versions)[0]

    def at_slot(self, version: int, noted: Noted | None = None) -> VersionContent | None:
        """The content of a version as its file has it, None where the slot is empty. As `unconfirmed`.

        `noted` is told which file that is.
        """
        try:
            return self._read(version, noted=noted)
        except ObjectNotFound:
            return None

    def read_from(self, base: int, anchor: FileIdentity | None, upto: int) -> Confirmed[VersionContent]:
        """The versions after `base`, whose confirmed file had the identity `anchor`, up to `upto`. As `read`."""
        log = self._memory.last_listed()
        contents, known = self._read_many(range(base + 1, upto + 1))
        found = by_anchor(self.env, base, anchor, contents)
        return self._noted(confirm(self.env, contents, known=known, log=log) if found is None else found, known, log)

    def read_more(
        self, versions: Sequence[int], read: Confirmed[VersionContent], log: Known | None = None
    ) -> Confirmed[VersionContent]:
        """As `read`, where some versions have been read and confirmed."""
        before = {content.version: content for content in read}
        if versions and versions[0] in before and versions[-1] in before:
            first = read[0].version
            return read[versions[0] - first : versions[-1] + 1 - first]
        log = log or self._memory.last_listed()
        contents, known = self._read_many(versions, before)
        return confirm(self.env, contents, known=known | before.keys(), log=log)

    def stored(self, version: int) -> bytes:
        """The bytes of a version file. Raises as `read`."""
        log = self._memory.last_listed()
        data = self.env.store.get(version_key(version))
        confirm(self.env, [Stamp(version, commit_info_of(data, version), crc32c(data))], log=log)
        return data

    def _noted(
        self, contents: Confirmed[VersionContent], known: Collection[int], log: Known | None
    ) -> Confirmed[VersionContent]:
        """The same, after its newest version has become the anchor of what is known, where its file was read now."""
        if log is not None and log.head_identity is not None and self.env.store.is_local and contents:
            newest = contents[-1].version
            if newest == log.head and newest not in known and log.anchored < newest:
                self._memory.learn_anchor(log)
        return contents

    def _read_many(
        self, versions: Sequence[int], before: Mapping[int, VersionContent] | None = None, *, files: bool = True
    ) -> tuple[list[VersionContent], frozenset[int]]:
        """The contents, and which of them were confirmed before."""
        given = before or {}
        if self._tail is not None and files and not given and self._memory.reads_at_once:
            elsewhere = self._tail(versions)
            if elsewhere is not None:
                return list(elsewhere), frozenset()
        known = {
            version: found for version in versions if (found := given.get(version) or self._memory.version(version))
        }

        if len(known) == len(versions):
            return [known[version] for version in versions], frozenset(known)

        missing = [version for version in versions if version not in known]
        if not self._memory.reads_at_once:
            read = [self._read(version, files=files) for version in missing]
        elif files:
            read = self._read_together(missing)
        else:
            read = list(self.env.ambient.map("versions", lambda version: self._read(version, files=False), missing))
        contents = known | dict(zip(missing, read, strict=True))
        return [contents[version] for version in versions], frozenset(known)

    def _read_together(self, versions: Sequence[int]) -> list[VersionContent]:
        try:
            return read_contents(self.env, versions)
        except LogCorrupt:
            # A short or damaged answer is no damaged file: the second look decides.
            return [self._read(version) for version in versions]

    def _read(self, version: int, *, files: bool = True, noted: Noted | None = None) -> VersionContent:
        key, url = version_key(version), self.env.store.url
        try:
            return decode_version(self.env.store.get(key, noted=noted), version, root_url=url, files=files)
        except LogCorrupt:
            # A short or damaged answer is no damaged file: the second look decides.
            return decode_version(self.env.store.get(key, noted=noted), version, root_url=url, files=files)
