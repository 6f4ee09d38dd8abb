"""Small splits become large ones: this room plans merges, runs them and commits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.merge import skips, verb
    from indextables.table.merge.batch import Group, Merging, Moved, groups_of, run_batch
    from indextables.table.merge.landing import Landing, land
    from indextables.table.merge.partly import files_beside_the_newest
    from indextables.table.merge.plan import Limits, MergePlan, deleted_shares, plan_groups
    from indextables.table.merge.tiers import Crowd, Due, Tiers, crowd_of, plan_due, within
    from indextables.table.merge.unit import Source, ref_of
    from indextables.table.merge.verb import MergeReport, merge_planned, merge_splits

__all__ = [
    "Crowd",
    "Due",
    "Group",
    "Landing",
    "Limits",
    "MergePlan",
    "MergeReport",
    "Merging",
    "Moved",
    "Source",
    "Tiers",
    "crowd_of",
    "deleted_shares",
    "files_beside_the_newest",
    "groups_of",
    "land",
    "merge_planned",
    "merge_splits",
    "plan_due",
    "plan_groups",
    "ref_of",
    "run_batch",
    "skips",
    "verb",
    "within",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "batch": ("Group", "Merging", "Moved", "groups_of", "run_batch"),
            "landing": ("Landing", "land"),
            "partly": ("files_beside_the_newest",),
            "plan": ("Limits", "MergePlan", "deleted_shares", "plan_groups"),
            "tiers": ("Crowd", "Due", "Tiers", "crowd_of", "plan_due", "within"),
            "unit": ("Source", "ref_of"),
            "verb": ("MergeReport", "merge_planned", "merge_splits"),
        },
    )
