"""Modules that are loaded when they are first used, so that a process pays for what it does.

Whoever opens a table to search it needs nothing of what writes or looks after one: loading that costs more than many a
search. Types come from an import that only the type checker sees.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["LazyModule"]


class LazyModule:
    """Stands for a module of this name, and has its attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
