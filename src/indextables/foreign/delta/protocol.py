"""Decides which Delta tables are read here: what a reader must know and does not is refused by name. Pure."""

from __future__ import annotations

from indextables.errors import LogCorrupt, ProtocolUnsupported
from indextables.log.wire import Protocol

__all__ = ["MAPPING", "READER_FEATURES", "check_delta_readable", "has_feature"]

MAPPING = "columnMapping"

READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        # A table that may have variants and has none is as any other; a column of that type is refused.
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""What a Delta table may ask of its readers to be read here."""

_BY_FEATURES = 3
_CATALOG = ("catalogManaged", "catalogOwned-preview", "catalogOwned")


def check_delta_readable(protocol: Protocol, url: str) -> None:
    """Raises ProtocolUnsupported for what a reader must know and this one does not, LogCorrupt for no protocol."""
    version, features = protocol.minReaderVersion, protocol.readerFeatures
    if version < 1 or (version == _BY_FEATURES and features is None):
        reason = f"reader version {version} names {'no list of features' if version == _BY_FEATURES else 'no protocol'}"
        raise LogCorrupt(f"the Delta table at {url} cannot be read: {reason}", url=url, reason=reason)
    if version > _BY_FEATURES:
        message = (
            f"the Delta table at {url} asks for reader version {version}, and this library reads up to "
            f"{_BY_FEATURES}: read it with the library that wrote it, or install a newer indextables"
        )
        raise ProtocolUnsupported(message, url=url, required=version, supported=_BY_FEATURES)
    unknown = sorted(set(features or ()) - READER_FEATURES) if version == _BY_FEATURES else []
    if not unknown:
        return
    if any(name in _CATALOG for name in unknown):
        advice = "its newest versions are known to its catalog alone: read it through the catalog"
    else:
        advice = "read it with the library that wrote it, or rewrite it there without the feature"
    message = f"the Delta table at {url} asks its readers for {', '.join(unknown)}, which is not read here; {advice}"
    raise ProtocolUnsupported(message, url=url, required=unknown, supported=sorted(READER_FEATURES))


def has_feature(protocol: Protocol, feature: str, *, since: int | None = None) -> bool:
    """True if the protocol asks readers for `feature`: by name, or by the reader version that brought it."""
    if protocol.minReaderVersion >= _BY_FEATURES:
        return feature in (protocol.readerFeatures or ())
    return since is not None and protocol.minReaderVersion >= since
