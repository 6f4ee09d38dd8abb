"""Turns the text of an option of one load or save of Spark into a value. `options.py` declares them.

They are no options of a table: other doors take them as arguments. So no property, session or environment gives them,
and they have no default but "not given".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Generic, TypeVar

from indextables.errors import InvalidArgument

__all__ = [
    "CallOption",
    "asked_flag",
    "asked_names",
    "asked_number",
    "asked_predicate",
    "asked_text",
    "asked_version",
    "not_a_column",
]

T_co = TypeVar("T_co", covariant=True)

# As Spark spells a Column that was given where a text belongs.
_COLUMN = re.compile(r"Column<.*>", re.DOTALL)


class CallOption(Generic[T_co]):
    """One option: `kind` says what its text is, `instead` how doors other than Spark's take it."""

    __slots__ = ("_parse", "help", "instead", "key", "kind")

    def __init__(self, key: str, parse: Callable[[str, str], T_co], kind: str, help_text: str, instead: str) -> None:
        self.key = key
        self.kind = kind
        self.help = help_text
        self.instead = instead
        self._parse = parse

    def read(self, given: str) -> T_co:
        """The typed value of a text. Raises InvalidArgument."""
        return self._parse(self.key, given)


def asked_text(key: str, help_text: str, *, instead: str, kind: str = "text") -> CallOption[str]:
    """Declare any text, or one that its reader checks."""
    return CallOption(key, lambda _, given: given, kind, help_text, instead)


def asked_predicate(key: str, help_text: str, *, instead: str) -> CallOption[str]:
    """Declare a SQL predicate; the text of a Spark Column is none."""
    return CallOption(key, _predicate, "a SQL predicate", help_text, instead)


def asked_names(key: str, help_text: str, *, instead: str) -> CallOption[list[str]]:
    """Declare names separated by commas, or a JSON array of names where one of them has a comma."""
    return CallOption(key, _names, "names separated by commas, or a JSON array of names", help_text, instead)


def asked_number(key: str, help_text: str, *, instead: str) -> CallOption[int]:
    """Declare a whole number of at least 0."""
    return CallOption(key, _number, "a whole number of at least 0", help_text, instead)


def asked_version(key: str, help_text: str, *, instead: str) -> CallOption[int]:
    """Declare the number of a version."""
    return CallOption(key, _version, "the number of a version", help_text, instead)


def asked_flag(key: str, help_text: str, *, instead: str) -> CallOption[bool]:
    """Declare true or false; false where it is not given."""
    return CallOption(key, _flag, "true or false", help_text, instead)


def not_a_column(key: str) -> InvalidArgument:
    """What to say where a Spark Column is given as a predicate."""
    message = (
        f"{key} is SQL text, such as \"day = '2024-01-31'\", because it is read before Spark plans anything; a "
        "Column goes to DataFrame.where()"
    )
    return InvalidArgument(message, option=key)


def _predicate(key: str, given: str) -> str:
    if _COLUMN.fullmatch(given.strip()):
        raise not_a_column(key)
    return given


def _names(key: str, given: str) -> list[str]:
    if not given.lstrip().startswith("["):
        return [part.strip() for part in given.split(",") if part.strip()]
    try:
        found: list[str] = json.loads(given)
        "".join(found).encode()
    except (TypeError, ValueError) as cause:
        raise InvalidArgument(f"option {key} = {given!r} is not a JSON array of names", option=key) from cause
    return found


def _number(key: str, given: str) -> int:
    if not _is_whole(given):
        message = f"option {key} = {given!r} is not a whole number of at least 0"
        raise InvalidArgument(message, option=key, value=given)
    return int(given)


def _version(key: str, given: str) -> int:
    if not _is_whole(given):
        raise InvalidArgument(f"{key} = {given!r} is not a version", option=key, value=given)
    return int(given)


def _flag(key: str, given: str) -> bool:
    word = given.strip().lower()
    if word not in ("true", "false"):
        raise InvalidArgument(f"option {key} = {given!r} is not true or false", option=key, value=given)
    return word == "true"


def _is_whole(given: str) -> bool:
    return given.isascii() and given.isdigit() and len(given) < 19
