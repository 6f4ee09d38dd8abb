"""A table of another system becomes one of ours: this room plans which files are taken, copies rows, and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.convert.plan import grouped
    from indextables.table.convert.searched import RowsToSearch, copy_of_peer, copy_to_search
    from indextables.table.convert.source import Opened, open_source
    from indextables.table.convert.unit import WantedFile, places_of
    from indextables.table.convert.verb import ConvertReport, ConvertRequest, convert

__all__ = [
    "ConvertReport",
    "ConvertRequest",
    "Opened",
    "RowsToSearch",
    "WantedFile",
    "convert",
    "copy_of_peer",
    "copy_to_search",
    "grouped",
    "open_source",
    "places_of",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "plan": ("grouped",),
            "searched": ("RowsToSearch", "copy_of_peer", "copy_to_search"),
            "source": ("Opened", "open_source"),
            "unit": ("WantedFile", "places_of"),
            "verb": ("ConvertReport", "ConvertRequest", "convert"),
        },
    )
