"""Modules that are loaded when they are first used, so that a process pays for what it does.

Whoever opens a table to search it needs nothing of what writes or looks after one, and often none of Arrow's compute
functions, whose wrappers are made one by one when they are imported: loading that costs more than many a search. Types
come from imports that only the type checker sees.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["LazyModule", "pc"]


class LazyModule:
    """Stands for a module of this name, and has its attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LazyModule("pyarrow.compute")
