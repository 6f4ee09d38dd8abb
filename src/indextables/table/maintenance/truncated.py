"""When was the history of a table cut off? A named piece of its metadata remembers, for purge to count ages from.

Cutting the history forgets when files were removed. From then on every file that no version names counts as removed at
the time of the cut.
"""

from __future__ import annotations

import msgspec

from indextables.log.read import Snapshot
from indextables.log.wire import DomainMetadata

__all__ = ["TRUNCATED", "Truncation", "truncated_at", "truncation_of"]

TRUNCATED = "indextables.truncated"
"""The domain: the newest cut of the history."""


class Truncation(msgspec.Struct, frozen=True):
    """The store's time of the cut, and the version that was newest then."""

    atMs: int
    version: int

    def as_domain(self) -> DomainMetadata:
        """As the log keeps it."""
        return DomainMetadata(TRUNCATED, msgspec.json.encode(self).decode())


def truncation_of(snapshot: Snapshot) -> Truncation | None:
    """The newest cut of the history, None if there was none or its record cannot be read."""
    domain = snapshot.domains.get(TRUNCATED)
    if domain is None:
        return None
    try:
        return _READ_TRUNCATION.decode(domain.configuration)
    except msgspec.MsgspecError:
        return None


def truncated_at(snapshot: Snapshot) -> int | None:
    """The store's time, in milliseconds, of the newest cut."""
    cut = truncation_of(snapshot)
    return None if cut is None else cut.atMs


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_TRUNCATION = msgspec.json.Decoder(Truncation)
