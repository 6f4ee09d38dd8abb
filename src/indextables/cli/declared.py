"""How a command declares what it takes: `Annotated[int, Option("--limit", "-n", least=1, help="...")]`.

Read by `plain` for the usual command line, and handed to Typer for help, completion and everything unusual.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

__all__ = ["Argument", "Option", "Parameter", "parameters_of"]


class Argument(NamedTuple):
    """A word by its place."""

    metavar: str
    help: str


class Option:
    """A flag, or a name with a value. `"--a/--no-a"` is a flag with its opposite."""

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002 - as Typer calls it
        metavar: str | None = None,
        least: int | None = None,
        default: str | None = None,
    ) -> None:
        """`default` says in words what happens without it, where the value itself would say nothing."""
        self.flags = flags
        self.help = help
        self.metavar = metavar
        self.least = least
        self.default = default


class Parameter(NamedTuple):
    """One parameter of a command: of `kind`, or a list of it; `inspect.Parameter.empty` as `default` if required."""

    name: str
    declared: Argument | Option
    kind: type
    is_list: bool
    default: Any
    annotation: Any


def parameters_of(command: Callable[..., None]) -> list[Parameter]:
    """What a command takes, in its order."""
    hints = get_type_hints(command, include_extras=True)
    defaults = {name: parameter.default for name, parameter in inspect.signature(command).parameters.items()}
    return [_parameter(name, hints[name], default) for name, default in defaults.items()]


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    annotation, declared = get_args(hint)
    kind = annotation
    if get_origin(kind) is UnionType:
        (kind,) = (part for part in get_args(kind) if part is not type(None))
    is_list = get_origin(kind) is list
    return Parameter(name, declared, get_args(kind)[0] if is_list else kind, is_list, default, annotation)
