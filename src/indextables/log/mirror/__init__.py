"""The table as a Delta table: this room writes `_delta_log` beside our log, over the same data files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.log.mirror.actions import Basis, obstacle
    from indextables.log.mirror.names import found_in
    from indextables.log.mirror.writing import (
        Standing,
        catch_up,
        check_mirror,
        follow,
        is_mirrored,
        make_room,
        remove_mirror,
        standing_of,
    )

__all__ = [
    "Basis",
    "Standing",
    "catch_up",
    "check_mirror",
    "follow",
    "found_in",
    "is_mirrored",
    "make_room",
    "obstacle",
    "remove_mirror",
    "standing_of",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "actions": ("Basis", "obstacle"),
            "names": ("found_in",),
            "writing": (
                "Standing",
                "catch_up",
                "check_mirror",
                "follow",
                "is_mirrored",
                "make_room",
                "remove_mirror",
                "standing_of",
            ),
        },
    )
