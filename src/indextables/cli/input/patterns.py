"""Patterns that make columns of lines of text: by name, or a regular expression with named groups. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument

__all__ = ["JSON_INSIDE", "PATTERNS", "Pattern", "pattern_of"]

JSON_INSIDE = "json"
"""The name of the pattern whose columns are the fields of the JSON object in each line."""

_NAMED_GROUP = re.compile(r"\(\?P?<([^>=!]*)>")
_SYSLOG = (
    r"^(?:<(?P<priority>[0-9]{1,3})>)?(?:[0-9]{1,2} )?"
    r"(?P<time>[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9:]{5}))"
    r" (?P<host>\S+) (?P<app>[^\s\[:]+)(?:\[(?P<pid>[0-9]+)\]:?|:| (?P<procid>[0-9]+|-) \S+(?: -| \[.*\])?)?"
    r"(?: (?P<message>.*))?$"
)
_COMBINED = (
    r"^(?P<remote_addr>\S+) \S+ (?P<remote_user>\S+) \[(?P<time>[^\]]+)\] "
    r'"(?:(?P<method>[A-Z]+) (?P<path>\S+)(?: (?P<protocol>[^"]+))?|(?P<request>[^"]*))" '
    r'(?P<status>[0-9]{3}) (?P<bytes>[0-9]+|-)(?: "(?P<referer>[^"]*)" "(?P<user_agent>[^"]*)")?.*$'
)
_JSON = r"(?s)^(?P<prefix>[^{]*?)\s*(?P<object>\{.*\})\s*$"
_WEB_TIME = (
    r"^(?P<day>[0-9]{2})/(?P<month>[A-Z][a-z]{2})/(?P<year>[0-9]{4}):(?P<time>[0-9:]{8}) "
    r"(?P<hours>[+-][0-9]{2})(?P<minutes>[0-9]{2})$"
)
_MONTHS = pa.array(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
_NUMBERS = pa.array([f"{month:02d}" for month in range(1, 13)])

_Columns = dict[str, pa.Array]


class Pattern(NamedTuple):
    """A regular expression, what its groups become, and what it is called."""

    name: str
    expression: str
    refine: Callable[[_Columns], _Columns] = lambda columns: columns

    def columns(self, lines: pa.Array) -> tuple[_Columns, pa.Array]:
        """The groups of each line as columns of texts, and which lines the pattern does not match."""
        found = pc.extract_regex(lines, self.expression)
        columns = {field.name: pc.struct_field(found, field.name) for field in found.type}
        return self.refine(columns), pc.is_null(found)


def pattern_of(given: str) -> Pattern:
    """The pattern of this name, or the regular expression itself. Raises InvalidArgument."""
    if given in PATTERNS:
        return PATTERNS[given]
    names = _NAMED_GROUP.findall(given)
    if not names:
        known = ", ".join(PATTERNS)
        message = (
            f"--pattern {given[:80]!r} is not one of {known}, and has no named group such as (?P<level>[A-Z]+)"
            ", which would be a column"
        )
        raise InvalidArgument(message, pattern=given)
    twice = sorted({name for name in names if [other.lower() for other in names].count(name.lower()) > 1})
    if twice:
        raise InvalidArgument(f"--pattern has the group {twice[0]} twice; a group is a column", pattern=given)
    expression = re.sub(r"\(\?<(?![=!])", "(?P<", given)
    try:
        pc.extract_regex(pa.array([""]), expression)
    except pa.ArrowInvalid as cause:
        reason = str(cause).removeprefix("Invalid regular expression: ")
        raise InvalidArgument(f"--pattern cannot be read as a regular expression: {reason}", pattern=given) from cause
    return Pattern("the pattern", expression)


def _refine_syslog(columns: _Columns) -> _Columns:
    """One number of the process, whichever of the two forms of syslog gave it."""
    procid = columns.pop("procid")
    pid = columns["pid"]
    columns["pid"] = _without_dashes(pc.if_else(pc.equal(pid, ""), procid, pid))
    columns["priority"] = _without_dashes(columns["priority"])
    return columns


def _refine_web(columns: _Columns) -> _Columns:
    """Dashes are nothing, and times are written as the rest of the world writes them."""
    found = {name: _without_dashes(values) for name, values in columns.items()}
    found["time"] = _iso(columns["time"])
    return found


def _without_dashes(values: pa.Array) -> pa.Array:
    absent = pc.or_(pc.equal(values, "-"), pc.equal(values, ""))
    return pc.if_else(absent, pa.scalar(None, values.type), values)


def _iso(times: pa.Array) -> pa.Array:
    """`10/Oct/2026:13:55:36 -0700` as `2026-10-10T13:55:36-07:00`; other texts as they are."""
    parts = pc.extract_regex(times, _WEB_TIME)
    of = {field.name: pc.struct_field(parts, field.name) for field in parts.type}
    month = _NUMBERS.take(pc.index_in(of["month"], _MONTHS))
    day = pc.binary_join_element_wise(of["year"], month, of["day"], "-")
    written = pc.binary_join_element_wise(day, "T", of["time"], of["hours"], ":", of["minutes"], "")
    return pc.coalesce(written, times)


PATTERNS: dict[str, Pattern] = {
    "syslog": Pattern("syslog", _SYSLOG, _refine_syslog),
    "nginx": Pattern("nginx", _COMBINED, _refine_web),
    "apache": Pattern("apache", _COMBINED, _refine_web),
    JSON_INSIDE: Pattern(JSON_INSIDE, _JSON),
}
