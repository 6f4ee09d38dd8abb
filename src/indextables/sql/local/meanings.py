"""Refuses what a statement would mean in another way than a predicate of `where` does, with what to write. Pure.

DataFusion's own mistake is among them: it takes a CAST off a decimal column and compares the column itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa

from indextables.errors import NotSupported
from indextables.sql.command import QUOTED

__all__ = ["check_casts", "check_meanings", "looks_for_backslashes"]

_ESCAPE = re.compile(r"\\[nrtbZ0'\"\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\1[0-7]{2}")
"""What stands for another sign in a text of a predicate."""
_SINGLE_ESCAPE = re.compile(r"\\.", re.DOTALL)
_RAW = re.compile(r"(?<![\w'])[rR]$")
_WORD = re.compile(rf"{QUOTED.pattern}|[^\W\d]\w*|!?~\*?|\S", re.DOTALL)
_CONCAT = re.compile(r"(?<![\w.$@])concat\s*\(", re.IGNORECASE)
_SUBSTRING = re.compile(r"(?<![\w.$@])(?P<name>substr|substring)\s*\(", re.IGNORECASE)
_START = re.compile(r"\s*(?:-\s*\d|0+(?![\d.]))")
_COMPARES = r"(?:=|!=|<>|<=|>=|<|>|(?:NOT )?IN\b|(?:NOT )?BETWEEN\b|IS (?:NOT )?DISTINCT FROM\b)"
_DISTINCT = re.compile(r"\bDISTINCT\b", re.IGNORECASE)
_ENDS_CONDITION = frozenset(
    {",", ";", "select", "where", "group", "having", "order", "limit", "union", "except", "intersect", "on", "join"}
    | {"left", "right", "full", "inner", "cross", "when", "then", "else", "window", "qualify"}
)
_MATCHES = re.compile(r"~|\bregexp_", re.IGNORECASE)
_BACKSLASH = re.compile(r"\\\\|\\x|\\u|\[[^\]]*\\", re.IGNORECASE)
_COLUMN = r"[\w\"]+\.[\w\"]+"
# With a value: two columns are compared as they are.
_COMPARED_BEFORE = re.compile(rf"(?<!\S)(?!\(?{_COLUMN} )\S+ {_COMPARES} $")
_COMPARED_AFTER = re.compile(rf" {_COMPARES} (?!{_COLUMN}(?:[\s)\]]|$))")
_CAST = re.compile(r"CAST\(")
_CAST_TO = re.compile(r"^(?P<what>.*) AS (?P<to>U?Int\d+|Decimal\d+\(\d+, ?(?P<scale>-?\d+)\))$", re.DOTALL)
_PLAIN_NAME = re.compile(r"(?:[\w\"]+\.)*\"?(?P<name>\w+)\"?")


def check_meanings(text: str) -> None:
    """Raises NotSupported for a backslash that begins an escape in a predicate, `concat`, and places below 1."""
    _check_backslashes(text)
    _check_distinct(text)
    bare = QUOTED.sub(lambda found: found[0][0] + "_" * (len(found[0]) - 2) + found[0][-1], text)
    if found := _CONCAT.search(bare):
        message = (
            "concat is null in a predicate where one value is, and leaves nulls out here: write a || b, which is null, "
            "or concat_ws('', a, b), which leaves them out"
        )
        raise NotSupported(message, query=text, position=found.start())
    for found in _SUBSTRING.finditer(bare):
        start = _second(bare, found.end())
        if start is not None and _START.match(bare, start):
            message = (
                f"{found['name']} counts from 1 here: a place below 1 means another one in a predicate; write "
                "left(text, n) for the beginning and right(text, n) for the end"
            )
            raise NotSupported(message, query=text, position=found.start())


def _check_backslashes(text: str) -> None:
    """A text is as it stands, and a predicate reads escapes in it; patterns and queries have backslashes of their own.

    Patterns stand behind `~` and inside of functions called `regexp_...`.
    """
    if "\\" not in text:
        return
    calls: list[bool] = []
    before = ""
    for found in _WORD.finditer(text):
        word = found[0]
        if word == "(":
            is_read = before.lower().startswith(("regexp_", "textsearch", "indexquery"))
            calls.append(is_read or (bool(calls) and calls[-1]))
        elif word == ")" and calls:
            calls.pop()
        elif word.startswith("'") and "\\" in word:
            is_pattern = "~" in before or before.lower() == "indexquery" or (bool(calls) and calls[-1])
            if before in ("r", "R") and _RAW.search(text[: found.start()]):
                instead = f"write {word} alone" if is_pattern or not _escapes(word) else f"write {_written(word)}"
                raise NotSupported(f"r'...' is not offered here: {instead}", query=text, position=found.start() - 1)
            if not is_pattern and _escapes(word):
                message = (
                    f"a backslash is a letter here, and begins an escape in a predicate: write {_written(word)} for "
                    f"the text as it stands, E{_shown(word)} for the escape, or give it as a parameter"
                )
                raise NotSupported(message, query=text, position=found.start())
        before = word


def _check_distinct(text: str) -> None:
    """DataFusion takes `a IS DISTINCT FROM b OR c` for `a IS DISTINCT FROM (b OR c)`."""
    if not _DISTINCT.search(text):
        return
    open_at: list[int | None] = [None]
    before = ("", "", "")
    for found in _WORD.finditer(text):
        word = found[0].lower()
        if word.startswith(("--", "/*")):
            continue
        if word in ("(", "[", "case"):
            open_at.append(None)
        elif word in (")", "]", "end"):
            open_at[-1:] = [] if len(open_at) > 1 else [None]
        elif word == "from" and before[2] == "distinct" and "is" in before[:2]:
            open_at[-1] = found.start()
        elif word in ("and", "or") and open_at[-1] is not None:
            message = (
                f"IS DISTINCT FROM takes what stands behind it with the {word.upper()} here: put the comparison in "
                f"parentheses, (a IS DISTINCT FROM b) {word.upper()} c"
            )
            raise NotSupported(message, query=text, position=open_at[-1])
        elif word in _ENDS_CONDITION:
            open_at[-1] = None
        before = (before[1], before[2], word)


def looks_for_backslashes(text: str, values: Iterable[object]) -> bool:
    """Whether a regular expression may look for a backslash, which DataFusion's simplifier loses on the way to LIKE."""
    if not _MATCHES.search(QUOTED.sub(" ", text)):
        return False
    texts = [found[0] for found in QUOTED.finditer(text)] + [value for value in values if isinstance(value, str)]
    return any(_BACKSLASH.search(one) for one in texts)


def _escapes(word: str) -> bool:
    """Whether a predicate reads another text than the one that stands there."""
    return any(
        _ESCAPE.match(found[0] + word[found.end() : found.end() + 8]) for found in _SINGLE_ESCAPE.finditer(word[1:-1])
    )


def _written(word: str) -> str:
    return "E" + _shown(word.replace("\\", "\\\\"))


def _shown(word: str) -> str:
    return word if len(word) <= 60 else f"{word[:57]}...'"


def _second(bare: str, start: int) -> int | None:
    """Where the second argument of a call begins, of `f(a, b)` and of `f(a FROM b)`."""
    depth = 0
    for found in re.compile(r"[()\[\]]|,|\bFROM\b", re.IGNORECASE).finditer(bare, start):
        if found[0] in "([":
            depth += 1
        elif found[0] in ")]":
            depth -= 1
            if depth < 0:
                return None
        elif not depth:
            return found.end()
    return None


def check_casts(text: str, plan: str, schemas: Iterable[pa.Schema]) -> None:
    """Raises NotSupported where a decimal is cast to fewer digits and compared, in a plan before optimization.

    DataFusion compares the decimal itself then: `CAST(d AS INT) = 1` misses 1.30.
    """
    if "CAST(" not in plan:
        return
    types: dict[str, list[pa.DataType]] = {}
    has_decimals = "Decimal" in plan
    for schema in schemas:
        for field in schema:
            types.setdefault(field.name.lower(), []).append(field.type)
            has_decimals = has_decimals or "decimal" in str(field.type)
    if not has_decimals:
        return
    for before, inner, after in _casts(plan):
        to = _CAST_TO.match(inner)
        if to is None or not (_COMPARED_BEFORE.search(before) or _COMPARED_AFTER.match(after)):
            continue
        if _loses_digits(to["what"], None if to["scale"] is None else int(to["scale"]), types):
            message = (
                "a decimal that is cast to fewer digits is not compared right by DataFusion: write CAST(d AS INT) + 0 "
                "= 1, or round(d, 2) = 1.23 for CAST(d AS DECIMAL(10, 2)) = 1.23"
            )
            raise NotSupported(message, query=text)


def _casts(plan: str) -> Iterator[tuple[str, str, str]]:
    """What stands before each CAST of a plan, in it, and behind it."""
    for found in _CAST.finditer(plan):
        depth, end = 1, found.end()
        while end < len(plan) and depth:
            depth += (plan[end] == "(") - (plan[end] == ")")
            end += 1
        start = found.start() - len("TRY_") if plan[: found.start()].endswith("TRY_") else found.start()
        yield plan[max(0, start - 40) : start], plan[found.end() : end - 1], plan[end : end + 40]


def _loses_digits(what: str, scale: int | None, types: dict[str, list[pa.DataType]]) -> bool:
    column = _PLAIN_NAME.fullmatch(what)
    known = types.get(column["name"].lower()) if column else None
    if known is not None:
        kinds = [kind for kind in known if pa.types.is_decimal(kind)]
        return any(scale is None or kind.scale > scale for kind in kinds if kind.scale > 0)
    words = {word.lower() for word in re.findall(r"\w+", what)}
    named = any(pa.types.is_decimal(kind) for word in words for kind in types.get(word, ()))
    # A name that no table has is one that a subquery gave.
    return named or "Decimal" in what or bool(column and not what.startswith(("Utf8", "Int", "Float")))
