"""Which verbs and parameters of the public surface were used: what a life does not know cannot be forgotten."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import indextables
from indextables.embedded.merging import MergeBuilder

Use = tuple[str, str]
"""A verb and the name of one of its parameters; the empty name is the verb itself."""


class Told:
    """Hands out functions and methods of an object, and writes down what is used of them."""

    def __init__(self, inner: Any, prefix: str, used: set[Use]) -> None:
        self._inner, self._prefix, self._used = inner, prefix, used

    def __getattr__(self, name: str) -> Any:
        verb = f"{self._prefix}.{name}"
        self._used.add((verb, ""))
        found = getattr(self._inner, name)
        if not (inspect.isfunction(found) or inspect.ismethod(found)):
            return found
        return self._call(verb, found)

    def _call(self, verb: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            given = inspect.signature(function).bind(*args, **more).arguments
            self._used.update((verb, name) for name in given)
            return self.wrapped(function(*args, **more))

        return call

    def wrapped(self, answer: Any) -> Any:
        """A table is told about as well, and so is a merge."""
        if isinstance(answer, MergeBuilder):
            return Told(answer, "Merge", self._used)
        return Told(answer, "Table", self._used) if isinstance(answer, indextables.Table) else answer

    @property
    def plain(self) -> Any:
        """The object itself."""
        return self._inner


def surface_of(kind: type, prefix: str) -> set[Use]:
    """Every public method, property and parameter of a class."""
    found: set[Use] = set()
    for name, member in inspect.getmembers(kind):
        if name.startswith("_"):
            continue
        found.add((f"{prefix}.{name}", ""))
        if callable(member):
            found |= _parameters(f"{prefix}.{name}", member, skip=1)
    return found


def surface_of_module() -> set[Use]:
    """Every name in `indextables.__all__`, with the parameters of what is a function."""
    found: set[Use] = set()
    for name in indextables.__all__:
        found.add((f"indextables.{name}", ""))
        member = getattr(indextables, name)
        if inspect.isfunction(member):
            found |= _parameters(f"indextables.{name}", member, skip=0)
    return found


def _parameters(verb: str, function: Callable[..., Any], *, skip: int) -> set[Use]:
    return {(verb, name) for name in list(inspect.signature(function).parameters)[skip:]}
