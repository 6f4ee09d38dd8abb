"""Reads the usual command line without Typer, whose import takes longer than many a search. Pure.

Nothing is decided here that Typer decides otherwise: what is not plainly right (an unknown flag, a value that looks
like one, a number that is none, a word too many) is left to it, with its messages.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from indextables.cli.declared import Argument, Option, Parameter, parameters_of

__all__ = ["read"]

_NUMBER = re.compile("[0-9]{1,18}", re.ASCII)


def read(command: Callable[..., None], given: Sequence[str]) -> dict[str, Any] | None:
    """The arguments to call `command` with, as Typer would; None where Typer has to be asked."""
    parameters = parameters_of(command)
    flags = _flags(parameters)
    values: dict[str, Any] = {}
    words: list[str] = []
    rest = list(reversed(given))
    while rest:
        word = rest.pop()
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        flag, equals, value = word.partition("=")
        parameter, is_on = flags.get(flag, (None, None))
        if parameter is None or (equals and (is_on is not None or not flag.startswith("--"))):
            return None
        if is_on is None and not equals:
            value = rest.pop() if rest else "-"
        if not _take(values, parameter, is_on if is_on is not None else _value(parameter, value)):
            return None
    return _complete(parameters, values, words)


def _flags(parameters: Sequence[Parameter]) -> dict[str, tuple[Parameter, bool | None]]:
    """Every spelling; True and False are what a flag says, None is a name that a value follows."""
    found: dict[str, tuple[Parameter, bool | None]] = {}
    for parameter in parameters:
        for spelling in parameter.declared.flags if isinstance(parameter.declared, Option) else ():
            on, _, off = spelling.partition("/")
            found[on] = (parameter, True if parameter.kind is bool else None)
            if off:
                found[off] = (parameter, False)
    return found


def _value(parameter: Parameter, text: str) -> str | int | None:
    """None where Typer has to look at it."""
    if not text or text.startswith("-") or not _is_text(text):
        return None
    if parameter.kind is str:
        return text
    if parameter.kind is not int or not _NUMBER.fullmatch(text):
        return None
    least = parameter.declared.least if isinstance(parameter.declared, Option) else None
    return int(text) if least is None or int(text) >= least else None


def _take(values: dict[str, Any], parameter: Parameter, value: object) -> bool:
    if value is None or (parameter.name in values and not parameter.is_list):
        return False
    if parameter.is_list:
        values.setdefault(parameter.name, []).append(value)
    else:
        values[parameter.name] = value
    return True


def _complete(parameters: Sequence[Parameter], values: dict[str, Any], words: list[str]) -> dict[str, Any] | None:
    """With the words in their places and defaults for the rest; None if a word is missing or left over."""
    for parameter in parameters:
        if isinstance(parameter.declared, Argument):
            count = len(words) if parameter.is_list else 1
            for word in words[:count]:
                if word != "-" or parameter.kind is not str:
                    if not _take(values, parameter, _value(parameter, word)):
                        return None
                else:
                    _take(values, parameter, word)
            words = words[count:]
        if parameter.default is inspect.Parameter.empty and parameter.name not in values:
            return None
        values.setdefault(parameter.name, parameter.default)
    return None if words else values


def _is_text(word: str) -> bool:
    """False for bytes of a command line that are no text."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
