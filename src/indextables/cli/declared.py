"""How a command declares what it takes: `Annotated[int, Option("--limit", "-n", least=1, help="...")]`.

A parameter whose type is a request of `table/requests.py` stands for a flag for each of its fields. What is declared is
read by `plain` for the usual command line, and handed to Typer for help, completion and everything unusual.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints

from indextables.errors import InvalidArgument

if TYPE_CHECKING:
    from indextables.table.requests import Declared, Request

__all__ = ["Argument", "Option", "Parameter", "arguments_of", "names", "parameters_of"]

_KINDS: dict[str, type] = {"count": int, "version": int, "hours": float, "flag": bool}
"""What a shell gives for a field of a kind; text for all others."""


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
    found: list[Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if _is_request(hints[name]):
            found += [_flag(declared) for declared in _fields(hints[name])]
        else:
            found.append(_parameter(name, hints[name], parameter.default))
    return found


def arguments_of(command: Callable[..., None], values: dict[str, Any]) -> dict[str, Any]:
    """What to call a command with, of the values of its parameters: requests are made of theirs.

    Raises InvalidArgument for what the verb does not take.
    """
    found = dict(values)
    for name, hint in get_type_hints(command).items():
        if _is_request(hint):
            found[name] = hint(
                **{declared.name: _value(declared, found.pop(declared.name)) for declared in _fields(hint)}
            )
    return found


def names(given: str | None, flag: str) -> list[str] | None:
    """A comma-separated list of names. Raises InvalidArgument if there is none in it."""
    found = None if given is None else [name.strip() for name in given.split(",") if name.strip()]
    if found == []:
        raise InvalidArgument(f"{flag} names no column")
    return found


def _is_request(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "__struct_fields__")


def _fields(request: type[Request]) -> tuple[Declared, ...]:
    from indextables.table.requests import fields_of

    return fields_of(request)


def _flag(declared: Declared) -> Parameter:
    """The flag of a field: a list is one text with commas, none is not a text; what is on can be turned off."""
    import msgspec

    name, field, default = declared
    kind = _KINDS.get(field.kind, str)
    shown = None if field.kind == "names" else default
    spelled = _spelled(name)
    option = Option(
        f"{spelled}/--no-{spelled.removeprefix('--')}" if default is True else spelled,
        *([field.short] if field.short else []),
        help=field.help,
        metavar=field.metavar,
        least=field.least,
    )
    if default is msgspec.NODEFAULT:
        return Parameter(name, option, kind, is_list=False, default=inspect.Parameter.empty, annotation=kind)
    return Parameter(
        name, option, kind, is_list=False, default=shown, annotation=kind | None if shown is None else kind
    )


def _value(declared: Declared, given: Any) -> Any:
    """The value of a field, of what the shell gave."""
    if given is None:
        return declared.default
    if declared.field.kind == "names":
        return names(given, _spelled(declared.name))
    return _bytes(given) if declared.field.kind == "size" else given


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")


def _bytes(given: str) -> int:
    """`512M` as bytes. Raises InvalidArgument."""
    from indextables import options as opt

    return opt.Options({opt.MERGE_TARGET_SIZE.key: given}, environ={})[opt.MERGE_TARGET_SIZE]


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    annotation, declared = get_args(hint)
    kind = annotation
    if get_origin(kind) is UnionType:
        (kind,) = (part for part in get_args(kind) if part is not type(None))
    is_list = get_origin(kind) is list
    return Parameter(name, declared, get_args(kind)[0] if is_list else kind, is_list, default, annotation)
