"""Picks the checkpoints and version files that make up one version of a Delta table. Pure."""

from __future__ import annotations

from typing import NamedTuple

from indextables.errors import LogGap, TableNotFound, VersionExpired, VersionNotFound
from indextables.foreign.delta.names import Checkpoint, LogListing

__all__ = ["Segment", "earliest", "segments_of"]


class Segment(NamedTuple):
    """A checkpoint, or none, and the versions above it up to the one that is wanted; each has its file."""

    checkpoint: Checkpoint | None
    versions: range


def segments_of(listing: LogListing, version: int | None, url: str) -> list[Segment]:
    """The ways to read a version, None for the newest: best first, at least one; the others are for a damaged one.

    Raises TableNotFound for an empty log, VersionNotFound, VersionExpired and LogGap.
    """
    newest = listing.newest
    if newest is None:
        raise TableNotFound(f"there is no Delta table at {url}: _delta_log holds no version", url=url)
    wanted = newest if version is None else version
    if not 0 <= wanted <= newest:
        message = f"the Delta table at {url} has no version {wanted}: the newest is {newest}"
        raise VersionNotFound(message, version=wanted, latest=newest, url=url)
    found = []
    for checkpoint in [*(c for c in listing.checkpoints if c.version <= wanted), None]:
        above = range(0 if checkpoint is None else checkpoint.version + 1, wanted + 1)
        if all(number in listing.commits for number in above):
            found.append(Segment(checkpoint, above))
    if found:
        return found
    raise _missing(listing, wanted, url)


def earliest(listing: LogListing) -> int | None:
    """The oldest version from which on every version with a file can be read; None if there is none."""
    if 0 in listing.commits:
        return 0
    return min((checkpoint.version for checkpoint in listing.checkpoints), default=None)


def _missing(listing: LogListing, wanted: int, url: str) -> VersionExpired | LogGap:
    below = [checkpoint.version for checkpoint in listing.checkpoints if checkpoint.version <= wanted]
    start = max(below) + 1 if below else 0
    lost = next(number for number in range(start, wanted + 1) if number not in listing.commits)
    if not below and lost == 0:
        first = earliest(listing)
        said = "no version can be read" if first is None else f"the oldest that can be read is {first}"
        message = f"version {wanted} of the Delta table at {url} is gone, as its log was cleaned up: {said}"
        return VersionExpired(message, version=wanted, earliest=first, url=url)
    message = (
        f"version {lost} of the Delta table at {url} has no file, although version {wanted} is there: restore the "
        "file, or read a version below it"
    )
    return LogGap(message, version=lost, url=url)
