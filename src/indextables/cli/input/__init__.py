"""Files that a command takes in: JSON lines, CSV, Parquet and text as Arrow batches of the table's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.cli.input import infer, inputs, sources
    from indextables.cli.input.aside import BadLines
    from indextables.cli.input.follow import Follower, PartChanged
    from indextables.cli.input.infer import infer_schema, whole_schema
    from indextables.cli.input.inputs import Input
    from indextables.cli.input.merged import with_new_columns
    from indextables.cli.input.patterns import Pattern, pattern_of
    from indextables.cli.input.sources import Format
    from indextables.cli.input.text_lines import MESSAGE

__all__ = [
    "MESSAGE",
    "BadLines",
    "Follower",
    "Format",
    "Input",
    "PartChanged",
    "Pattern",
    "infer",
    "infer_schema",
    "inputs",
    "pattern_of",
    "sources",
    "whole_schema",
    "with_new_columns",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "aside": ("BadLines",),
            "follow": ("Follower", "PartChanged"),
            "infer": ("infer_schema", "whole_schema"),
            "inputs": ("Input",),
            "merged": ("with_new_columns",),
            "patterns": ("Pattern", "pattern_of"),
            "sources": ("Format",),
            "text_lines": ("MESSAGE",),
        },
    )
