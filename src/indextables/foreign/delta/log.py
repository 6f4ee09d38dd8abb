"""`DeltaLog` finds the versions of a Delta table and makes snapshots of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    LimitExceeded,
    LogCorrupt,
    MetadataMissing,
    ObjectNotFound,
    PathEscape,
    StoreError,
)
from indextables.foreign.delta.actions import COMMIT, MAX_FILE_BYTES, decode_commits, last_metadata, last_protocol
from indextables.foreign.delta.checkpoint import read_checkpoint
from indextables.foreign.delta.names import DELTA_DIR, MAX_VERSION, POINTER_KEY, LogListing, commit_key, read_names
from indextables.foreign.delta.protocol import check_delta_readable
from indextables.foreign.delta.segment import Segment, segments_of
from indextables.log.wire import Metadata, Protocol
from indextables.storage.folders import is_no_file

__all__ = ["DeltaLog", "DeltaVersion"]

_MAX_POINTER = 1 << 20
_AT_ONCE = 256


class DeltaVersion(msgspec.Struct, frozen=True):
    """What the log says of one version: protocol, metadata, and the actions that its files follow from."""

    version: int
    protocol: Protocol
    metadata: Metadata
    base: pa.Table | None
    """The actions of the checkpoint; None for a log that is read from its first version."""
    actions: pa.Table
    """Those of the version files above it."""


class DeltaLog:
    """The log of the Delta table at the root of a store. It only reads."""

    def __init__(self, env: Env) -> None:
        self.env = env

    @property
    def url(self) -> str:
        return self.env.store.url

    def read(self, version: int | None = None) -> DeltaVersion:
        """A version, the newest by default, with a protocol that is understood.

        Raises TableNotFound, VersionNotFound, VersionExpired, LogGap, LogCorrupt, CheckpointError, MetadataMissing,
        ProtocolUnsupported, PathEscape, LimitExceeded, StoreError.
        """
        first: Exception | None = None
        for listing in self._listings(version):
            if version is None:
                self._look_behind(listing)
            for way in segments_of(listing, version, self.url):
                try:
                    return self._load(listing, way)
                except (CheckpointError, PathEscape, LimitExceeded) as error:
                    # Older checkpoints and version files tell the same, where they are all there.
                    first = first or error
        raise first or LogCorrupt(f"the log of {self.url} cannot be read", url=self.url)

    def list_all(self) -> LogListing:
        """Everything that the log folder holds now."""
        return read_names(self.env.store.list_from(DELTA_DIR))

    def commits(self, listing: LogListing, versions: Sequence[int]) -> list[tuple[int, bytes]]:
        """The bytes of version files. Raises LimitExceeded, LogCorrupt, StoreError."""

        def one(version: int) -> tuple[int, bytes]:
            meta = listing.commits[version]
            if meta.size > MAX_FILE_BYTES:
                message = f"{meta.key} has {meta.size} bytes, and no version has more than {MAX_FILE_BYTES}"
                raise LimitExceeded(message, path=meta.key, limit=MAX_FILE_BYTES, actual=meta.size)
            try:
                data = self.env.store.get(meta.key)
            except ObjectNotFound as error:
                message = f"version {version} ({meta.key}) was deleted while it was read: open the table again"
                raise LogCorrupt(message, version=version, path=meta.key, reason="the file is gone") from error
            if not data or data.isspace():
                # Every version has an action: without any, its rows would be missing in silence.
                message = (
                    f"version {version} ({meta.key}) is empty, as a write that was cut off leaves it: restore the "
                    "file, or read an earlier version"
                )
                raise LogCorrupt(message, version=version, path=meta.key, reason="the file is empty")
            return version, data

        return list(self.env.ambient.map("versions", one, versions))

    def _listings(self, version: int | None) -> Iterator[LogListing]:
        """What is there from the checkpoint on that the pointer names, if that leads to the version; then all."""
        hint = self._hint()
        if hint is not None and (version is None or version >= hint):
            found = read_names(self.env.store.list_from(DELTA_DIR, f"{DELTA_DIR}{hint:020d}"))
            if any(checkpoint.version == hint for checkpoint in found.checkpoints):
                yield found
        yield self.list_all()

    def _look_behind(self, listing: LogListing) -> None:
        """Raises StoreError where a link stands for the next version, LogCorrupt for a folder or another thing.

        A listing of local files passes them over.
        """
        if not self.env.store.is_local or listing.newest is None:
            return
        version = listing.newest + 1
        key = commit_key(version)
        if not self.env.store.exists(key) and is_no_file(self.url, key):
            message = (
                f"version {version} ({key}) is not a file: restore it, or read version {version - 1} by its number"
            )
            raise LogCorrupt(message, version=version, path=key, reason="not a file")

    def _hint(self) -> int | None:
        """The version in `_last_checkpoint`. It is a hint: whatever is wrong with it does not matter."""
        try:
            if self.env.store.head(POINTER_KEY).size > _MAX_POINTER:
                return None
            value = msgspec.json.decode(self.env.store.get(POINTER_KEY))
        except (StoreError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        version = value.get("version") if isinstance(value, dict) else None
        if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= MAX_VERSION:
            return None
        return version

    def _load(self, listing: LogListing, way: Segment) -> DeltaVersion:
        base = None if way.checkpoint is None else read_checkpoint(self.env, way.checkpoint)
        runs = (way.versions[at : at + _AT_ONCE] for at in range(0, len(way.versions), _AT_ONCE))
        actions = pa.concat_tables(
            [COMMIT.empty_table(), *(decode_commits(self.commits(listing, run)) for run in runs)]
        )
        version = way.versions[-1] if way.versions else way.checkpoint.version  # type: ignore[union-attr]
        try:
            protocol, metadata = last_protocol(actions), last_metadata(actions)
            if base is not None:
                protocol, metadata = protocol or last_protocol(base), metadata or last_metadata(base)
        except ValueError as error:
            message = f"protocol or metadata of the Delta table at {self.url} cannot be read: {error}"
            raise LogCorrupt(message, version=version, path=commit_key(version), reason=str(error)) from error
        if protocol is None or metadata is None:
            missing = "protocol" if protocol is None else "metaData"
            raise MetadataMissing(f"the log of the Delta table at {self.url} has no {missing}", url=self.url)
        check_delta_readable(protocol, self.url)
        return DeltaVersion(version, protocol, metadata, base, actions)
