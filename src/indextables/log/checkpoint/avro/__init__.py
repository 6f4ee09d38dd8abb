"""The Avro form of a checkpoint: a list of manifests, and manifests that many lists share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.log.checkpoint.avro.bounds import as_maps, partition_types
    from indextables.log.checkpoint.avro.compaction import Mode, needs_compaction
    from indextables.log.checkpoint.avro.frame import plain_container
    from indextables.log.checkpoint.avro.list import StateList, hide
    from indextables.log.checkpoint.avro.manifests import ManifestInfo
    from indextables.log.checkpoint.avro.read import (
        PathsRepeat,
        Where,
        check_manifests,
        complete_list,
        live_parts,
        live_ranges,
        manifest_keys,
        read_avro_pruned,
        read_avro_state,
        read_entries,
        read_list,
        stats_rules,
    )
    from indextables.log.checkpoint.avro.write import difference, list_of, rewrite, write_increment, write_whole

__all__ = [
    "ManifestInfo",
    "Mode",
    "PathsRepeat",
    "StateList",
    "Where",
    "as_maps",
    "check_manifests",
    "complete_list",
    "difference",
    "hide",
    "list_of",
    "live_parts",
    "live_ranges",
    "manifest_keys",
    "needs_compaction",
    "partition_types",
    "plain_container",
    "read_avro_pruned",
    "read_avro_state",
    "read_entries",
    "read_list",
    "rewrite",
    "stats_rules",
    "write_increment",
    "write_whole",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "bounds": ("as_maps", "partition_types"),
            "compaction": ("Mode", "needs_compaction"),
            "frame": ("plain_container",),
            "list": ("StateList", "hide"),
            "manifests": ("ManifestInfo",),
            "read": (
                "PathsRepeat",
                "Where",
                "check_manifests",
                "complete_list",
                "live_parts",
                "live_ranges",
                "manifest_keys",
                "read_avro_pruned",
                "read_avro_state",
                "read_entries",
                "read_list",
                "stats_rules",
            ),
            "write": ("difference", "list_of", "rewrite", "write_increment", "write_whole"),
        },
    )
