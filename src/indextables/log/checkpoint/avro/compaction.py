"""When is a state compacted, and which manifests are then rewritten? Pure.

Three triggers, each with the least work that answers it:

- too many small manifests: those below an eighth of `state.entriesPerManifest` that no compaction wrote. Up to ten of
  one size tier are merged at a time, so that an entry is rewritten a handful of times in its life, whatever the size
  of the table;
- too many tombstones (a share of the entries, or an absolute number), or merge splits just ran: the manifests with
  hidden entries are rewritten and all tombstones go;
- on demand: everything, sorted by partition.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from indextables import options as opt
from indextables.log.checkpoint.avro.layout import SMALLEST_SHARE
from indextables.log.checkpoint.avro.list import StateList
from indextables.options import Options

__all__ = ["MAX_TOMBSTONES", "MERGE_WIDTH", "Compaction", "Mode", "needs_compaction", "plan"]

MAX_TOMBSTONES = 20_000
MERGE_WIDTH = 10

Mode = Literal["auto", "none", "hit", "full"]


class Compaction(msgspec.Struct, frozen=True):
    """What to do: `merge` the manifests at these places into one, drop what is `hit` by tombstones, or all of it."""

    kind: Literal["none", "merge", "hit", "full"]
    merge: tuple[int, ...] = ()


def plan(state: StateList, options: Options, mode: Mode = "auto") -> Compaction:
    """What the state needs; with another `mode` than `auto` what was asked for."""
    if mode != "auto":
        return Compaction(kind=mode if mode != "hit" or len(state.tombstones) else "none")
    if too_many_tombstones(state, options):
        return Compaction(kind="hit")
    small = _small(state, options)
    if len(small) > options[opt.STATE_COMPACTION_MAX_MANIFESTS]:
        return Compaction(kind="merge", merge=_fullest_tier(state, small))
    return Compaction(kind="none")


def needs_compaction(state: StateList, options: Options) -> bool:
    """True if the next checkpoint will compact by itself."""
    return plan(state, options).kind != "none"


def too_many_tombstones(state: StateList, options: Options) -> bool:
    """By share of the entries referenced, or by number."""
    count = len(state.tombstones)
    threshold = options[opt.STATE_COMPACTION_TOMBSTONE_THRESHOLD]
    return count > MAX_TOMBSTONES or count > threshold * max(1, state.num_entries)


def _small(state: StateList, options: Options) -> list[int]:
    least = options[opt.STATE_ENTRIES_PER_MANIFEST] / SMALLEST_SHARE
    return [at for at, info in enumerate(state.manifests) if info.num_entries < least and not info.compacted]


def _fullest_tier(state: StateList, small: list[int]) -> tuple[int, ...]:
    tiers: dict[int, list[int]] = {}
    for at in small:
        tiers.setdefault(len(str(max(1, state.manifests[at].num_entries))), []).append(at)
    _, members = max(tiers.items(), key=lambda tier: (min(len(tier[1]), MERGE_WIDTH), -tier[0]))
    return tuple(members[:MERGE_WIDTH])
