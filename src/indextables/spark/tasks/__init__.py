"""How work of ours runs as tasks of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.spark.tasks.handle import SparkHandle
    from indextables.spark.tasks.replay import forget_in_workers
    from indextables.spark.tasks.runner import (
        TASK_BYTES,
        Place,
        SparkRunner,
        default_parallelism,
        dump_error,
        grouped,
        load_error,
        session_options,
    )
    from indextables.spark.tasks.units import for_each

__all__ = [
    "TASK_BYTES",
    "Place",
    "SparkHandle",
    "SparkRunner",
    "default_parallelism",
    "dump_error",
    "for_each",
    "forget_in_workers",
    "grouped",
    "load_error",
    "session_options",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "handle": ("SparkHandle",),
            "replay": ("forget_in_workers",),
            "runner": (
                "TASK_BYTES",
                "Place",
                "SparkRunner",
                "default_parallelism",
                "dump_error",
                "grouped",
                "load_error",
                "session_options",
            ),
            "units": ("for_each",),
        },
    )
