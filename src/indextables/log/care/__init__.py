"""What happens after and beside commits: checkpoints, cleanup, repair, verification, intents and leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.log.care import cleanup, describe, schedule
    from indextables.log.care.cleanup import (
        CleanupPlan,
        CleanupReport,
        Foreseen,
        carry_out,
        listed,
        newest_usable,
        only,
        plan_cleanup,
    )
    from indextables.log.care.describe import StateDescription, describe_state
    from indextables.log.care.intents import (
        MAX_TTL_MS,
        Holder,
        Protection,
        Protections,
        announce_drop,
        protect_keys,
        protect_version,
        protections,
        seen_now_ms,
        store_now_ms,
    )
    from indextables.log.care.leasing import Lease, Ticket, acquire, holds, last_work, leases, who_holds
    from indextables.log.care.opening import open_log
    from indextables.log.care.rebuild import SplitFacts, folder_values, rebuild_log
    from indextables.log.care.repair import RepairReport, recreate_pointer, repair_log
    from indextables.log.care.retention import Rules, collectable_manifests
    from indextables.log.care.schedule import checkpoint
    from indextables.log.care.sweeping import (
        Sent,
        anchors,
        await_sweeps,
        found_now,
        lasting_sweep,
        promptly,
        why_over,
    )
    from indextables.log.care.verifying import Finding, VerifyReport, verify
    from indextables.log.care.work import MOST_BACK_OFF_MS, Work, failed

__all__ = [
    "MAX_TTL_MS",
    "MOST_BACK_OFF_MS",
    "CleanupPlan",
    "CleanupReport",
    "Finding",
    "Foreseen",
    "Holder",
    "Lease",
    "Protection",
    "Protections",
    "RepairReport",
    "Rules",
    "Sent",
    "SplitFacts",
    "StateDescription",
    "Ticket",
    "VerifyReport",
    "Work",
    "acquire",
    "anchors",
    "announce_drop",
    "await_sweeps",
    "carry_out",
    "checkpoint",
    "cleanup",
    "collectable_manifests",
    "describe",
    "describe_state",
    "failed",
    "folder_values",
    "found_now",
    "holds",
    "last_work",
    "lasting_sweep",
    "leases",
    "listed",
    "newest_usable",
    "only",
    "open_log",
    "plan_cleanup",
    "promptly",
    "protect_keys",
    "protect_version",
    "protections",
    "rebuild_log",
    "recreate_pointer",
    "repair_log",
    "schedule",
    "seen_now_ms",
    "store_now_ms",
    "verify",
    "who_holds",
    "why_over",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "cleanup": (
                "CleanupPlan",
                "CleanupReport",
                "Foreseen",
                "carry_out",
                "listed",
                "newest_usable",
                "only",
                "plan_cleanup",
            ),
            "describe": ("StateDescription", "describe_state"),
            "intents": (
                "Holder",
                "MAX_TTL_MS",
                "Protection",
                "Protections",
                "announce_drop",
                "protect_keys",
                "protect_version",
                "protections",
                "seen_now_ms",
                "store_now_ms",
            ),
            "leasing": ("Lease", "Ticket", "acquire", "holds", "last_work", "leases", "who_holds"),
            "opening": ("open_log",),
            "rebuild": ("SplitFacts", "folder_values", "rebuild_log"),
            "repair": ("RepairReport", "recreate_pointer", "repair_log"),
            "retention": ("Rules", "collectable_manifests"),
            "schedule": ("checkpoint",),
            "sweeping": ("Sent", "anchors", "await_sweeps", "found_now", "lasting_sweep", "promptly", "why_over"),
            "verifying": ("Finding", "VerifyReport", "verify"),
            "work": ("MOST_BACK_OFF_MS", "Work", "failed"),
        },
    )
