"""Files that a command takes in: JSON lines, CSV and Parquet as Arrow batches of the table's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.cli.input import inputs
    from indextables.cli.input.inputs import Input

__all__ = [
    "Input",
    "inputs",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "inputs": ("Input",),
        },
    )
