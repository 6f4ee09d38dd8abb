"""Picks from a listing what has to be read for one version, and checks that nothing is missing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from indextables.errors import LogGap, TableNotFound, VersionExpired, VersionNotFound
from indextables.log.wire import StateRef

__all__ = ["LogSegment", "build_segment", "head_of"]


class LogSegment(msgspec.Struct, frozen=True):
    """What makes up one version of a table.

    1. `base` is a checkpoint at or below the version, or None.
    2. `versions` follow it (or start at 0) without a gap and end at the version.
    """

    version: int
    base: StateRef | None
    versions: range


def head_of(versions: Sequence[int], states: Sequence[StateRef], url: str, *, stop_at_gap: bool = False) -> int:
    """The newest version that ascending `versions` and `states` make up.

    Raises TableNotFound if there is nothing, LogGap for a hole above the newest checkpoint (unless `stop_at_gap`).
    """
    newest_state = max((state.version for state in states), default=-1)
    if not versions and newest_state < 0:
        message = f"No transaction log found at {url}: create the table first, or check the path"
        raise TableNotFound(message, url=url)
    head = newest_state
    for version in versions:
        if version <= head:
            continue
        if version != head + 1:
            if stop_at_gap and head >= 0:
                return head
            raise gap(head + 1, version, url)
        head = version
    return head


def build_segment(
    version: int, versions: Collection[int], states: Sequence[StateRef], url: str, *, head: int
) -> LogSegment:
    """The files of `version` of a table whose newest version is `head`, by the first state at or below it.

    `states` are ordered, newest first: of the many that retention keeps few are looked at.
    Raises VersionNotFound above the head or below 0, LogGap for a hole that a later version proves, VersionExpired
    where cleanup took what the version needs.
    """
    if not 0 <= version <= head:
        message = f"version {version} does not exist at {url}: the newest is {head}"
        raise VersionNotFound(message, version=version, latest=head, url=url)
    base = next((state for state in states if state.version <= version), None)
    first = 0 if base is None else base.version + 1
    there = versions if isinstance(versions, (set, frozenset, range)) else set(versions)
    missing = next((number for number in range(first, version + 1) if number not in there), None)
    if missing is None:
        return LogSegment(version, base, range(first, version + 1))
    later = min((state.version for state in states if state.version > version), default=None)
    if later is not None:
        # A checkpoint above holds the version's successors whole, so that cleanup may have taken its files.
        message = (
            f"version {version} can no longer be read at {url}: cleanup took version file {missing}; "
            f"the oldest version left is {_earliest(there, states)}"
        )
        raise VersionExpired(message, version=version, earliest=_earliest(there, states), url=url)
    raise gap(missing, version, url)


def gap(missing: int, found: int, url: str) -> LogGap:
    """The error for a missing version file."""
    start = "No transaction log found that starts at version 0: " if missing == 0 else ""
    message = (
        f"{start}version {missing} is missing at {url} although version {found} exists; restore its file from a copy, "
        "or read up to the gap with log.stopAtGap"
    )
    return LogGap(message, version=missing, found=found, url=url)


def _earliest(versions: Collection[int], states: Sequence[StateRef]) -> int:
    """The oldest version that can be rebuilt: one with a checkpoint, or any if version 0 is there."""
    candidates = [state.version for state in states]
    if 0 in versions:
        candidates.append(0)
    return min(candidates)
