"""Turns what DataFusion says about a statement that it does not run into one sentence with what to do next. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from indextables.errors import IndexTablesError, NotSupported, QueryInvalid
from indextables.sql.command import no_decimal

__all__ = ["ONE_NAME", "explained"]

ONE_NAME = "Projections require unique expression names"
"""What DataFusion says of a SELECT with two columns of one name."""

# Functions that only DataFusion's simplifier can evaluate, in a statement that runs without it.
_UNSIMPLIFIED = re.compile(r"(?:on a simplified )?\b(?P<name>\w+)(?: should have been simplified|\(\) function\b)")
_PREFIXES = re.compile(
    r"^(DataFusion error: |Error during planning: |Schema error: |SQL error: |Execution error: |Arrow error: |"
    r"This feature is not implemented: |Optimizer rule '\w+' failed\s+caused by\s+|\w+\ncaused by\n)+"
)
_KINDS = (
    (re.compile("U?Int"), "a whole number"),
    (re.compile("Float|Decimal"), "a number"),
    (re.compile("Boolean"), "true or false"),
    (re.compile("Date"), "a date"),
    (re.compile("Timestamp"), "a time"),
)
_ALIKE = 0.88

_NO_TABLE = re.compile(r"table '(?P<name>.*)' not found$")
_NO_COLUMN = re.compile(
    r"No field named (?P<name>.+?)\.(?: Did you mean '(?P<near>[^']*)'\?)?(?: Valid fields are (?P<known>.*)\.)?$"
)
_NO_FUNCTION = re.compile(r"Invalid function '(?P<name>[^']*)'\.(?: Did you mean '(?P<near>[^']*)'\?)?")
_NO_VALUE = re.compile(r"Cast error: Cannot cast (?:string|value) '?(?P<value>.*?)'? to value of (?P<kind>\w+)")
_NO_PARSE = re.compile(r"(?:Cast|Parser) error: Error parsing (?:timestamp from )?'(?P<value>.*?)'")
_NOT_GROUPED = re.compile(r'column "(?P<name>[^"]*)" must appear in the GROUP BY')
_NO_NODE = re.compile(r"Unsupported ast node (?P<name>\w+)")


def explained(text: str, cause: Exception, tables: Sequence[str] = ()) -> IndexTablesError:
    """The error to raise for what DataFusion raised about `text`; `tables` are those that it could have read."""
    message = " ".join(_PREFIXES.sub("", str(cause)).replace("datafusion.public.", "").split())
    refused = _not_offered(text, message)
    if refused is not None:
        return refused
    if "only supports a single SQL statement" in message:
        return QueryInvalid("give one statement, not several", query=text, position=0)
    if message.startswith("No SQL statements were provided"):
        return QueryInvalid("the statement is empty", query=text, position=0)
    plain = _about_names(message, tables) or _about_values(message)
    message, position = (plain, 0) if plain is not None else _placed(text, message)
    return QueryInvalid(f"{message[:500]}", query=text, position=position)


def _not_offered(text: str, message: str) -> NotSupported | None:
    if "Cannot cast to Decimal128(" in message:
        return no_decimal(text)
    what = None
    if re.search(r"(DDL|DML|Statement) not supported", message):
        what = "only queries are run here: give a SELECT statement"
    elif found := _UNSIMPLIFIED.search(message):
        what = (
            f"{found['name']} is not offered beside lists of values that meet in one condition: write CASE WHEN a IS "
            "NULL THEN b ELSE a END for coalesce(a, b), give the time as a parameter, or make one list of them"
        )
    elif "Physical plan does not support logical expression" in message:
        what = (
            "a subquery of this kind is not offered at this place: write (SELECT count(*) > 0 FROM ...) for EXISTS "
            "(SELECT ... FROM ...), a join, or WITH and a join"
        )
    elif message == "TOP":
        what = "TOP is not offered: write LIMIT at the end of the statement"
    elif message.startswith("FETCH clause"):
        what = "FETCH is not offered: write LIMIT 5 for FETCH FIRST 5 ROWS ONLY"
    elif found := _NO_NODE.match(message):
        name = found["name"].upper()
        instead = ": write sum(x) FILTER (WHERE ...) or CASE WHEN for each column" if name == "PIVOT" else ""
        what = f"{name} is not offered{instead}"
    return None if what is None else NotSupported(what, query=text)


def _about_names(message: str, tables: Sequence[str]) -> str | None:
    if message.startswith("No field named") and "__search" in message:
        return "TEXTSEARCH cannot be used at this place; use it in WHERE beside the table's FROM"
    if found := _NO_TABLE.match(message):
        known = f"the tables are {', '.join(tables)}" if len(tables) > 1 else f"the table is called {''.join(tables)}"
        return f"there is no table {found['name']!r} here: {known}"
    if found := _NO_COLUMN.match(message):
        near = f" (is {found['near']} meant?)" if found["near"] else ""
        known = f"; the columns are {found['known']}" if found["known"] else ""
        return f"there is no column {found['name']}{near}{known}"
    if found := _NO_FUNCTION.match(message):
        is_near = SequenceMatcher(None, found["name"].lower(), found["near"] or "").ratio() >= _ALIKE
        return f"there is no function {found['name']}" + (f" (is {found['near']} meant?)" if is_near else "")
    if found := _NOT_GROUPED.search(message):
        return f"{found['name']} is neither in GROUP BY nor in an aggregate: put it there, or write max(...) of it"
    if message.startswith("For SELECT DISTINCT, ORDER BY"):
        return "SELECT DISTINCT is ordered by columns of its own: write ORDER BY 1, or give it a name with AS"
    if message.startswith(ONE_NAME):
        return "two columns of one SELECT have the same name: give one of them another with AS"
    return None


def _about_values(message: str) -> str | None:
    if found := _NO_VALUE.search(message):
        kind = next((words for pattern, words in _KINDS if pattern.match(found["kind"])), found["kind"])
        return f"{found['value']!r} is not {kind}; TRY_CAST gives null instead of this error"
    if found := _NO_PARSE.search(message):
        return f"{found['value']!r} is not a date or time; TRY_CAST gives null instead of this error"
    if message.startswith("Divide by zero"):
        return "a number is divided by zero: write a / nullif(b, 0), which is null then"
    return None


def _placed(text: str, message: str) -> tuple[str, int]:
    """The message of a parser without its wrapping, and the position it speaks of."""
    found = re.search(r"^\w*Error\(\"(?P<what>.*?),? ?\.? at Line: (?P<line>\d+), Column: (?P<column>\d+)\"\)", message)
    if found is None:
        return message, 0
    line, column = int(found["line"]), int(found["column"])
    what = found["what"].replace('\\"', '"')
    if what.startswith("Unterminated string literal") or "close delimiter" in what:
        what = "a quote is not closed"
    start = sum(len(part) + 1 for part in text.split("\n")[: line - 1])
    return f"{what} (line {line}, column {column})", min(start + column - 1, len(text))
