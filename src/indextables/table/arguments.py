"""What callers may give, checked at the door: each function returns its argument or raises InvalidArgument. Pure."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from indextables.errors import InvalidArgument
from indextables.options import FAMILIES, PREFIX, known_options

__all__ = [
    "PartitionMode",
    "check_count",
    "check_flag",
    "check_hours",
    "check_mapping",
    "check_names",
    "check_note",
    "check_partition_mode",
    "check_spelling",
    "check_text",
    "check_txn",
    "check_version",
    "is_unicode",
    "millis",
]

PartitionMode: TypeAlias = Literal["static", "dynamic"]
"""`static` replaces what the predicate says, or all; `dynamic` the partitions that the new rows are in."""

_END = 2**63

_SHORT, _LONG = 5, 8
"""Below the first, a key is too short to tell a slip from another key; from the second on there may be two slips."""


def check_text(what: str, value: Any) -> str:
    """A text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} is a text, not {value!r}")
    if not is_unicode(value):
        raise InvalidArgument(f"{what} {value!r} holds half a surrogate pair, which is not a character")
    return value


def check_names(what: str, value: Any) -> list[str]:
    """A list of texts; one text alone is none, because its letters are not meant."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidArgument(f"{what} is a list of names, not {value!r}")
    return [check_text(f"a name in {what}", name) for name in value]


def check_mapping(what: str, value: Any) -> Mapping[str, Any]:
    """A mapping whose keys are texts that are not empty; nothing at all is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{what} is a dict, not {value!r}")
    for key in value:
        if not check_text(f"a key of {what}", key):
            raise InvalidArgument(f"a key of {what} is empty")
    return value


def check_spelling(what: str, given: Any) -> Mapping[str, Any]:
    """As `check_mapping`; refuses a key that is almost one of ours, or of our families (`checkpoint.intervall`).

    Other unknown keys may be another tool's.
    """
    checked = check_mapping(what, given)
    if not checked:
        return checked
    known = {key.lower(): key for option in known_options() for key in (option.key, *option.aliases)}
    for key in checked:
        meant = _meant(key.lower(), known)
        if meant is not None:
            message = f"{what} has the key {key!r}, which does not exist: is {meant} meant?"
            raise InvalidArgument(message, option=key)
    return checked


def _meant(key: str, known: Mapping[str, str]) -> str | None:
    """The key of ours that somebody meant who wrote this one; None if it is one, or may be another tool's."""
    plain = key.removeprefix(PREFIX)
    if plain in known or plain.startswith(FAMILIES):
        return None
    for name, shown in known.items():
        if 0 < _edits(plain, name, _allowed(name)) <= _allowed(name):
            return shown
    families = FAMILIES if key != plain else (*FAMILIES, PREFIX)
    for family in families:
        most = _allowed(family)
        cuts = range(len(family) + most, len(family) - most - 1, -1)
        edits, cut = min(((_edits(plain[:cut], family, most), cut) for cut in cuts), key=lambda pair: pair[0])
        if edits <= most:
            return f"{family}{plain[cut:].lstrip('.') or '<column>'}"
    return None


def _allowed(meant: str) -> int:
    return 0 if len(meant) < _SHORT else 1 if len(meant) < _LONG else 2


def _edits(typed: str, meant: str, most: int) -> int:
    """How many letters are wrong, missing, too many or in the wrong order; more than `most` if more are."""
    if abs(len(typed) - len(meant)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for place, letter in enumerate(typed):
        older, before, row = before, row, [place + 1]
        for other, wanted in enumerate(meant):
            steps = min(before[other + 1] + 1, row[other] + 1, before[other] + (letter != wanted))
            if place and other and letter == meant[other - 1] and typed[place - 1] == wanted:
                steps = min(steps, older[other - 1] + 1)
            row.append(steps)
        if min(row) > most:
            return most + 1
    return row[-1]


def check_count(what: str, value: Any, *, least: int = 0) -> None:
    """A number of rows or entries; None for no bound."""
    if value is not None and (not _is_whole(value) or value < least):
        raise InvalidArgument(f"{what} is a whole number of at least {least}, not {value!r}")


def check_flag(what: str, value: Any) -> bool:
    """True or false; a text that says so is none, because every text that is not empty would be true."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} is true or false, not {value!r}", argument=what)
    return value


def check_hours(what: str, value: Any, *, most: int) -> float:
    """A number of hours, not below 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        message = f"{what} is a number of hours from 0 to {most:,}, not {value!r}"
        raise InvalidArgument(message, argument=what)
    return value


def check_note(value: Any) -> str | None:
    """The text that a commit keeps for people."""
    return None if value is None else check_text("user_metadata", value)


def check_partition_mode(given: object) -> PartitionMode:
    """What an overwrite replaces: `static` or `dynamic`, in any case."""
    word = given.lower() if isinstance(given, str) else ""
    if word == "dynamic":
        return "dynamic"
    if word == "static":
        return "static"
    message = f"what is overwritten is static or dynamic, not {given!r}"
    raise InvalidArgument(message, option="partitionOverwriteMode", value=str(given))


def check_version(value: Any) -> int:
    """The number of a version, there or not; whatever is a whole number to Python, such as numpy's, is taken."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        try:
            value = operator.index(value)
        except TypeError as cause:
            raise InvalidArgument(f"a version is one whole number, not {value!r}") from cause
    if not _is_whole(value) or not -_END <= value < _END:
        raise InvalidArgument(f"a version is a whole number of 0 to 2^63 - 1, not {value!r}", version=value)
    return int(value)


def check_txn(value: Any) -> tuple[str, int] | None:
    """(application, batch number)."""
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidArgument(f"txn is a pair (application, batch number), not {value!r}")
    application, batch = value
    if not check_text("the application of a txn", application):
        raise InvalidArgument("the application of a txn is empty")
    if not _is_whole(batch) or not 0 <= batch < _END:
        raise InvalidArgument(f"the batch number of a txn is a whole number of 0 to 2^63 - 1, not {batch!r}")
    return application, int(batch)


def is_unicode(text: str) -> bool:
    """True if the text is made of characters: half a surrogate pair is none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def millis(when: dt.datetime | str | int) -> int:
    """Milliseconds since the epoch. Times without a zone are UTC."""
    if isinstance(when, int) and not isinstance(when, bool) and -(2**63) <= when < 2**63:
        return when
    if isinstance(when, str):
        try:
            when = dt.datetime.fromisoformat(when)
        except ValueError as cause:
            raise InvalidArgument(f"{when!r} is not a time; give 2024-01-31T23:59:59Z") from cause
    if not isinstance(when, dt.datetime):
        raise InvalidArgument(f"{when!r} is not a time; give a datetime, ISO text or milliseconds")
    zoned = when if when.tzinfo is not None else when.replace(tzinfo=dt.UTC)
    return int(zoned.timestamp() * 1000)
