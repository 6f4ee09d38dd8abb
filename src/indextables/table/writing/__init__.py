"""Rows become splits and `add` actions, and an overwrite learns what it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.writing import once, start
    from indextables.table.writing.answers import Answer, accepted, heard
    from indextables.table.writing.converted import (
        ConvertedFrom,
        file_marks,
        marks_in,
        marks_text,
        memory_of,
        turned_back,
    )
    from indextables.table.writing.kept import check_kept, check_there, safe_age_ms
    from indextables.table.writing.keys import data_keys, keys_of_paths
    from indextables.table.writing.once import turned
    from indextables.table.writing.purge_mark import LEASE, leave_mark
    from indextables.table.writing.replaced import AllRows, Partitions, Range, Where, files_inside
    from indextables.table.writing.splits import (
        NOT_IN_THE_LOG,
        SPLITS,
        WriteTarget,
        add_of,
        bringing_ids,
        discard,
        registered,
        split_folder,
        target_of,
        write_adds,
    )
    from indextables.table.writing.start import begun, begun_at, newest

__all__ = [
    "LEASE",
    "NOT_IN_THE_LOG",
    "SPLITS",
    "AllRows",
    "Answer",
    "ConvertedFrom",
    "Partitions",
    "Range",
    "Where",
    "WriteTarget",
    "accepted",
    "add_of",
    "begun",
    "begun_at",
    "bringing_ids",
    "check_kept",
    "check_there",
    "data_keys",
    "discard",
    "file_marks",
    "files_inside",
    "heard",
    "keys_of_paths",
    "leave_mark",
    "marks_in",
    "marks_text",
    "memory_of",
    "newest",
    "once",
    "registered",
    "safe_age_ms",
    "split_folder",
    "start",
    "target_of",
    "turned",
    "turned_back",
    "write_adds",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "answers": ("Answer", "accepted", "heard"),
            "converted": ("ConvertedFrom", "file_marks", "marks_in", "marks_text", "memory_of", "turned_back"),
            "kept": ("check_kept", "check_there", "safe_age_ms"),
            "keys": ("data_keys", "keys_of_paths"),
            "once": ("turned",),
            "purge_mark": ("LEASE", "leave_mark"),
            "replaced": ("AllRows", "Partitions", "Range", "Where", "files_inside"),
            "splits": (
                "NOT_IN_THE_LOG",
                "SPLITS",
                "WriteTarget",
                "add_of",
                "bringing_ids",
                "discard",
                "registered",
                "split_folder",
                "target_of",
                "write_adds",
            ),
            "start": ("begun", "begun_at", "newest"),
        },
    )
