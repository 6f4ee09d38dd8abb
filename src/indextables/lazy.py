"""Loads modules when they are first used, so that a process pays for what it does.

Whoever opens a table to search it needs nothing of what writes or looks after one, and often none of Arrow's compute
functions, whose wrappers are made one by one when they are imported: loading that costs more than many a search. Types
come from imports that only the type checker sees.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["LazyModule", "pc", "surface"]


class LazyModule:
    """Stands for a module of this name, and has its attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def surface(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose names live in these modules of it, each loaded when a name is first used.

    No name may be that of a module of the package: the import system would put the module in its place.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name not in home_of:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LazyModule("pyarrow.compute")
