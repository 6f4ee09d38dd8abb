"""Finds the protocol and the metadata of a version: above a base, else in the checkpoint and older versions."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.env import Env
from indextables.errors import MetadataMissing
from indextables.log.read.confirming import Confirmed, Mixed
from indextables.log.read.load import OpenedState, header_of, is_another, segments
from indextables.log.read.meant import stranger
from indextables.log.read.newest import Known
from indextables.log.read.versions import Versions
from indextables.log.wire import V1, Metadata, Protocol, TableState, VersionContent

__all__ = ["header_above", "searched_back"]

_AT_ONCE = 8  # version files that are looked at together when metadata is searched backwards


def header_above(
    env: Env,
    versions: Versions,
    known: Known,
    version: int,
    base: TableState | None,
    contents: Confirmed[VersionContent],
    opened: OpenedState,
) -> tuple[Protocol, Metadata]:
    """The newest protocol and metadata of `base` and the versions above it, up to `version`.

    Raises MetadataMissing, and Mixed if this is another table by now.
    """
    protocol, metadata = _newest_of(contents)
    if base is not None:
        if is_another(base, contents):
            raise Mixed(f"another table lives at {env.store.url} now", url=env.store.url)
        return protocol or base.protocol, metadata or base.metadata
    return _completed(env, versions, known, version, (protocol, metadata), contents, opened)


def searched_back(env: Env, versions: Versions, known: Known, version: int) -> tuple[Protocol, Metadata]:
    """The protocol and the metadata of `version`, from the newest version file that brings them. As `header_above`."""
    tail = next(segments(env, known, version)).versions
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    seen: Confirmed[VersionContent] = Confirmed()
    for end in range(len(tail), 0, -_AT_ONCE):
        part = tail[max(0, end - _AT_ONCE) : end]
        contents = versions.read(part, above=seen[0] if seen else None, files=False, log=known)
        seen = seen.after(contents)
        newer = _newest_of(contents)
        protocol, metadata = protocol or newer[0], metadata or newer[1]
        if protocol is not None and metadata is not None:
            break
    return _completed(env, versions, known, version, (protocol, metadata), seen)


def _completed(
    env: Env,
    versions: Versions,
    known: Known,
    version: int,
    found: tuple[Protocol | None, Metadata | None],
    contents: Confirmed[VersionContent],
    opened: OpenedState | None = None,
) -> tuple[Protocol, Metadata]:
    """What the tail did not tell, from the newest readable checkpoint and the versions that it asks for."""
    protocol, metadata = found
    if protocol is None or metadata is None:
        segment, below = header_of(env, known, version, contents, opened=opened)
        older = segment.versions if not contents else range(segment.versions.start, contents[0].version)
        above = contents[0] if contents else None
        beside = versions.read(older, above=above, files=False, log=known)
        told = _newest_of(beside)
        if opened is not None and beside:
            opened.newest = beside[-1]
        protocol, metadata = protocol or told[0], metadata or told[1]
        if below is not None:
            protocol, metadata = protocol or below[0], metadata or below[1]
    if metadata is None:
        message = f"No metadata found in the log at {env.store.url} up to version {version}: restore version 0"
        raise MetadataMissing(message, version=version, url=env.store.url)
    for content in contents:
        if content.table_id not in {None, metadata.id}:
            raise stranger(env, content.version)
    return protocol or V1, metadata


def _newest_of(contents: Sequence[VersionContent]) -> tuple[Protocol | None, Metadata | None]:
    """The newest protocol and metadata that versions, in ascending order, bring. Pure."""
    protocol = next((c.protocol for c in reversed(contents) if c.protocol is not None), None)
    metadata = next((c.metadata for c in reversed(contents) if c.metadata is not None), None)
    return protocol, metadata
