"""A table of another system becomes one of ours: this room plans which files are taken, copies rows, and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.convert.verb import ConvertReport, ConvertRequest, convert

__all__ = ["ConvertReport", "ConvertRequest", "convert"]

if not TYPE_CHECKING:
    __getattr__ = surface(__name__, {"verb": ("ConvertReport", "ConvertRequest", "convert")})
