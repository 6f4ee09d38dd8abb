"""Which statements would DataFusion answer otherwise than they say? They are refused, by name. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal

from indextables.errors import NotSupported

__all__ = ["QUOTED", "check_comparisons", "check_plan", "check_statement", "no_decimal", "unsigned_zeros"]

QUOTED = re.compile(
    r"[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/", re.DOTALL
)
"""Texts, quoted names and comments: what stands in them is no keyword."""

_SIMILAR = re.compile(r"\bSIMILAR\s+TO\b", re.IGNORECASE)
_RLIKE = re.compile(r"\b(?P<word>RLIKE|REGEXP)\s*(?=e?'|\$)", re.IGNORECASE)
_ALL_OF = re.compile(r"\b(?P<word>INTERSECT|EXCEPT)\s+ALL\b", re.IGNORECASE)
_IGNORED = re.compile(
    r"\b(?P<word>TABLESAMPLE|PREWHERE|CONNECT\s+BY|START\s+WITH)\b|"
    r"\b(?:FROM|JOIN)\s+[\w.\"]+(?:\s+(?:AS\s+)?\w+)?\s+(?P<clause>SAMPLE|PARTITION)\s*(?:\w+\s*)?\(",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.$])(?:\d+\.\d*|\.\d+|\d{20,})(?![\w.])")
_SURE_DIGITS = 15
_WRITTEN = re.compile(r"(?<![\w$.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DOUBLE_LIKE = re.compile(r"(?<![\w$.])(?:\d+\.\d*|\.\d+|\d+[eE]|\d{20,})")
_AS_DOUBLE = re.compile(r"(?:\bAS|::)\s*(?:DOUBLE|FLOAT|REAL)", re.IGNORECASE)
_SHOWN_TEXT = re.compile(r"Utf8(?:View)?\(\"[^\"]*\"\)")
_SHOWN_DECIMAL = re.compile(r"\bDecimal128\(-?(?P<value>\d+(?:\.\d+)?),\d+,-?\d+\)")
_SHOWN_DOUBLE = re.compile(r"\bFloat64\(-?(?P<value>\d[\d.]*(?:[eE][+-]?\d+)?)\)")
_SHOWN_FLOAT = re.compile(r"\bFloat32\(-?(?P<value>\d[\d.]*(?:[eE][+-]?\d+)?)\)")
_DOUBLE, _FLOAT, _LONG = 2**53, 2**24, 2**63
_WORD = re.compile(r"\w+|[()*]")
_SIGNED_ZERO = re.compile(r"(?<!-)-(?=\s*(?:0+\.0*|\.0+|0+(?=[eE]))(?:[eE][+-]?\d+)?(?![\w.]))")
_SHOWN_SIGNED_ZERO = re.compile(r"\bFloat(?:64|32|16)\(-0(?:\.0)?\)")
_COMPARES = r"(?:[<>=] |\bBETWEEN |\bIN \(\[)"
_INTERVAL = r"Interval\w+\(\"[^\"]*\"\)"
_INTERVALS = re.compile(
    rf"{_COMPARES}{_INTERVAL}(?! [+*/-])|(?<![+-] ){_INTERVAL} (?:!?=|[<>])|{_COMPARES}CAST\(\S* AS Interval\("
)
_ROWS = re.compile(r"(?:[<>]=? |\bBETWEEN )(?:struct|named_struct|row|make_array)\(")
_SET_OPERATORS = frozenset({"union", "except", "intersect"})
_BEFORE_QUERY = _SET_OPERATORS | {"", "(", ")"}


def check_statement(text: str) -> None:
    """Raises NotSupported for `SIMILAR TO`, `RLIKE`, a FROM without SELECT, a number that would be rounded.

    And for set operations with ALL, which DataFusion gets wrong, and clauses that it reads over.
    """
    bare = QUOTED.sub(lambda found: _blank(found.group()), text)
    if found := _SIMILAR.search(bare):
        message = (
            "SIMILAR TO is not offered: write LIKE for % and _, or regexp_like(column, '^(?:one|two)$'), which takes a "
            "regular expression"
        )
        raise NotSupported(message, query=text, position=found.start())
    if found := _RLIKE.search(bare):
        message = (
            f"{found['word'].upper()} is not offered in this dialect: write column ~ 'pattern', which follows the "
            "rules of Rust's regular expressions, or use the filter of to_arrow(where=...), which follows Java's"
        )
        raise NotSupported(message, query=text, position=found.start())
    _check_clauses(text, bare)
    _check_numbers(text, bare)
    _check_from(text, bare)


def _check_clauses(text: str, bare: str) -> None:
    if found := _ALL_OF.search(bare):
        word = found["word"].upper()
        message = (
            f"{word} ALL is not offered: write {word}, or give every row of both sides its number, "
            "row_number() OVER (PARTITION BY all the columns), as one more column"
        )
        raise NotSupported(message, query=text, position=found.start())
    if found := _IGNORED.search(bare):
        word = " ".join((found["word"] or found["clause"]).upper().split())
        instead = "WHERE random() < 0.1 takes a sample" if "SAMPLE" in word else "write conditions in WHERE"
        raise NotSupported(f"{word} is not offered: {instead}", query=text, position=found.start())


def unsigned_zeros(text: str) -> str:
    """`text`, as long as it was, with -0.0 written as 0.0 or +0.0: to DataFusion the two are not always one value."""
    found = [match.start() for match in _SIGNED_ZERO.finditer(QUOTED.sub(lambda found: _blank(found.group()), text))]
    letters = list(text)
    for place in found:
        before = text[:place].rstrip()[-1:]
        if before != "-":
            letters[place] = " " if before in "(,=<>" else "+"
    return "".join(letters)


def _check_numbers(text: str, bare: str) -> None:
    """A number with a point, or beyond 64 bits, is a double to DataFusion: its digits must be those of one."""
    for found in _NUMBER.finditer(bare):
        meant = Decimal(found.group())
        if len(meant.as_tuple().digits) > _SURE_DIGITS and Decimal(repr(float(meant))) != meant:
            scale = max(0, -int(meant.as_tuple().exponent))
            message = (
                f"{found.group()[:60]} would be rounded to {float(meant)!r}: write CAST('{found.group()[:60]}' AS "
                f"DECIMAL(38, {min(scale, 38)})) for these digits, or AS DOUBLE for the number next to them"
            )
            raise NotSupported(message, query=text, position=found.start())


def _check_from(text: str, bare: str) -> None:
    """A query that begins with FROM has its SELECT behind it; without one, DataFusion gives rows without columns."""
    levels: list[tuple[bool, int | None]] = [(False, None)]
    before = ""
    for found in _WORD.finditer(bare):
        word = found.group().lower()
        has_select, begun = levels[-1]
        if word == "(":
            levels.append((False, None))
        elif word == ")":
            _refuse(text, *levels[-1])
            levels[-1:] = [] if len(levels) > 1 else [(False, None)]
        elif word == "select":
            levels[-1] = (True, begun)
        elif word == "from" and before in _BEFORE_QUERY and not has_select:
            levels[-1] = (False, found.start())
        elif word in _SET_OPERATORS and before != "*":
            _refuse(text, has_select, begun)
            levels[-1] = (False, None)
        # UNION ALL and UNION DISTINCT are UNION.
        before = before if before in _SET_OPERATORS and word in ("all", "distinct") else word
    _refuse(text, *levels[-1])


def _refuse(text: str, has_select: bool, begun: int | None) -> None:  # noqa: FBT001 - unpacked
    if begun is not None and not has_select:
        raise NotSupported("FROM needs a SELECT: write SELECT * FROM ...", query=text, position=begun)


def _blank(found: str) -> str:
    """As long, without keywords; a comment is blank."""
    if found.startswith(("--", "/*")):
        return " " * len(found)
    inside = found.index(found[-1]) + 1
    return found[:inside] + "_" * (len(found) - inside - 1) + found[-1]


def check_comparisons(text: str, plan: str) -> None:
    """Raises NotSupported where a plan, as shown before optimization, compares what DataFusion cannot order.

    It compares intervals by months, then days, then the rest, and takes null for the least value in rows and arrays.
    """
    plan = _SHOWN_TEXT.sub("Utf8", plan)
    if _INTERVALS.search(plan):
        message = (
            "intervals are not compared, because a month has no fixed length: instead of a - b > INTERVAL '29 days' "
            "write a > b + INTERVAL '29 days'"
        )
        raise NotSupported(message, query=text, position=0)
    if _ROWS.search(plan):
        message = "rows and arrays are compared by = and <> only: write a < 1 OR (a = 1 AND b < 2) for (a, b) < (1, 2)"
        raise NotSupported(message, query=text, position=0)


def check_plan(text: str, plan: str, values: Iterable[object] = ()) -> None:
    """Raises NotSupported where a plan, as DataFusion shows it, compares with another number than `text` says.

    DataFusion takes a number with a point for a double, and brings it and a column to one type: a decimal is compared
    with what the double looks like to 15 digits behind the point, a 64-bit integer is made a double, and what meets a
    32-bit float is made one. `values` are the parameters of the statement.
    """
    plan = _SHOWN_TEXT.sub("", plan)
    if _SHOWN_SIGNED_ZERO.search(plan):
        message = "a zero with a sign is not always equal to 0.0 here: write 0.0"
        raise NotSupported(message, query=text, position=0)
    numbers = [found.group() for found in _WRITTEN.finditer(text)]
    written = {*map(Decimal, numbers), *(Decimal(str(value)).copy_abs() for value in values if _is_number(value))}
    doubles = {Decimal(number) for number in numbers if "e" in number.lower()}
    bare = QUOTED.sub(lambda found: _blank(found.group()), text)
    for found in _SHOWN_DECIMAL.finditer(plan) if _DOUBLE_LIKE.search(bare) else ():
        number = Decimal(found["value"])
        digits = found["value"].replace(".", "").strip("0")
        if (len(digits) > _SURE_DIGITS and number not in written) or (number in doubles and number >= _DOUBLE):
            raise _inexact(text, number, "a decimal")
    # Who casts to double asks for it.
    is_cast = " AS Float64)" in plan and not _AS_DOUBLE.search(text)
    for found in _SHOWN_DOUBLE.finditer(plan) if is_cast else ():
        if _DOUBLE <= float(found["value"]) <= _LONG:
            raise _inexact(text, Decimal(found["value"]), "a whole number")
    for found in _SHOWN_FLOAT.finditer(plan):
        number = Decimal(found["value"])
        if number >= _FLOAT and number not in written:
            raise _inexact(text, number, "a float")


def no_decimal(text: str) -> NotSupported:
    """DataFusion found no decimal type for a column and the number that it is compared with."""
    message = (
        "a decimal column is compared with a number that DataFusion takes for a double, and has no place for both: "
        "write the number as CAST('…' AS DECIMAL(p, s)), or CAST(column AS DOUBLE)"
    )
    return NotSupported(message, query=text, position=0)


def _inexact(text: str, number: Decimal, what: str) -> NotSupported:
    message = (
        f"a column that holds {what} would be compared with {number:f}, or with rounded values: write the "
        "number as CAST('…' AS DECIMAL(p, s)), with the p and s of its digits, or CAST(column AS DOUBLE)"
    )
    return NotSupported(message, query=text, position=0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value)
