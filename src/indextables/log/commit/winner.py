"""Reads a version that somebody else committed, only as far as a writer that goes on top of it must know it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import IndexTablesError, ObjectNotFound
from indextables.log.commit.staged import has_vectors
from indextables.log.wire import (
    Add,
    CommitInfo,
    DomainMetadata,
    Line,
    Metadata,
    PathRule,
    Protocol,
    Totals,
    Txn,
    VersionContent,
    build_next,
    check_version,
    corrupt,
    crc32c,
    decode_version,
    expand_all,
    version_key,
    with_few_files,
)
from indextables.storage.store import ObjectMeta

__all__ = ["Held", "Winner", "read_held", "read_slot"]

# A file of this size is read line by line; a larger one goes to the native reader at once.
_SMALL_BYTES = 64 << 10
_LINES = msgspec.json.Decoder(Line)


class Held:
    """What a slot holds: everything but its files, which only a `Winner` knows, because their names follow the table.

    A blind append needs the heads of the versions that it lost against and none of their files, and eight writers
    read every commit eight times: files that are left undecoded are what makes losing a race cheap.
    """

    def __init__(self, data: bytes, version: int, root_url: str, lines: list[Line] | None) -> None:
        self.version = version
        self.identity: str | None = None
        """What tells the file that was read from any other one of its name, where the store told it."""
        self._data = data
        self._root_url = root_url
        self._decoded: VersionContent | None = None
        self._files: list[Add] | None = None
        self._removes = False
        if lines is None:
            self._take(self._decode())
            return
        self.commit_info: CommitInfo | None = next((x.commitInfo for x in lines if x.commitInfo is not None), None)
        check_version(self.commit_info, version)
        self.protocol: Protocol | None = next((x.protocol for x in lines if x.protocol is not None), None)
        self.metadata: Metadata | None = next((x.metaData for x in lines if x.metaData is not None), None)
        self.txns: tuple[Txn, ...] = tuple(x.txn for x in lines if x.txn is not None)
        self.domains: tuple[DomainMetadata, ...] = tuple(
            x.domainMetadata for x in lines if x.domainMetadata is not None
        )
        self._files = [x.add for x in lines if x.add is not None]
        self._removes = any(x.remove is not None for x in lines)

    @property
    def token(self) -> str | None:
        """The commit token, None in files of other systems."""
        return None if self.commit_info is None else self.commit_info.token

    @property
    def crc32c(self) -> int:
        """The checksum of the stored bytes."""
        return crc32c(self._data)

    def under(self, rule: PathRule) -> Winner:
        """The version with its files, whose paths are read by the table's rule."""
        return Winner(self, rule)

    def _decode(self) -> VersionContent:
        if self._decoded is None:
            self._decoded = decode_version(self._data, self.version, root_url=self._root_url)
        return self._decoded

    def _take(self, content: VersionContent) -> None:
        self.commit_info = content.commit_info
        self.protocol = content.protocol
        self.metadata = content.metadata
        self.txns = content.txns
        self.domains = content.domains
        self._removes = bool(content.removes.num_rows)


class Winner(Held):
    """A version of a table whose rule of paths is known, with its files left undecoded until somebody asks."""

    def __init__(self, held: Held, rule: PathRule) -> None:
        self.__dict__.update(held.__dict__)
        self._rule = rule
        self._content: VersionContent | None = None

    @property
    def content(self) -> VersionContent:
        """Everything. Raises LogCorrupt, LimitExceeded, PathEscape."""
        if self._content is None:
            self._content = self._decode().under(self._rule)
        return self._content

    @property
    def adds(self) -> pa.Table:
        """The files that it adds."""
        return self.content.adds

    @property
    def removes(self) -> pa.Table:
        """The files that it removes."""
        return self.content.removes

    def totals_after(self, before: Totals | None) -> Totals | None:
        """The running totals; None where removes make them a matter of the file set."""
        if before is None or self._removes:
            return None
        if self._files is not None and not has_vectors(self._files) and self._are_canonical(self._files):
            return with_few_files(before, self._files)
        return build_next(before, self.content, b"").totals()

    def txns_after(self, before: Mapping[str, Txn] | None) -> Mapping[str, Txn] | None:
        """The watermarks after this version, where those before it are known."""
        return before if before is None or not self.txns else {**before, **{txn.appId: txn for txn in self.txns}}

    def _are_canonical(self, files: list[Add]) -> bool:
        return all(self._rule.canonical(add.path, self._root_url) == add.path for add in files)


def read_held(data: bytes, version: int, root_url: str) -> Held:
    """The version in `data`. Raises LogCorrupt, LimitExceeded, PathEscape.

    Whatever the quick look does not like is left to the strict reader, whose verdict counts.
    """
    return Held(data, version, root_url, _quick_look(data, version) if len(data) <= _SMALL_BYTES else None)


def read_slot(env: Env, version: int) -> Held | None:
    """What the slot of `version` holds, None if it is empty. Raises as `read_held`, and StoreError."""
    seen: list[ObjectMeta] = []
    try:
        data = env.store.get(version_key(version), noted=seen.append)
    except ObjectNotFound:
        return None
    held = read_held(data, version, env.store.url)
    held.identity = seen[-1].etag if seen else None
    return held


def _quick_look(data: bytes, version: int) -> list[Line] | None:
    def refuse(reason: str) -> IndexTablesError:
        return corrupt(version, None, reason)

    text = expand_all(data, refuse)
    if not text.endswith(b"\n"):
        return None
    try:
        lines = _LINES.decode_lines(text)
    except (ValueError, RecursionError):
        return None
    heads = sum((x.commitInfo is not None) for x in lines)
    return lines if heads == 1 else None
