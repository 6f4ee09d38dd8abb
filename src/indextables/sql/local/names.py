"""Gives the columns of an answer the names that its statement suggests, and lets two of them have one name. Pure.

DataFusion names an expression by its plan (`t.id` for `CAST(id AS VARCHAR)`, `t.id + Int64(1)` for `id + 1`), and
refuses a SELECT in which two such names are equal. An expression without a name of its own gets the text it is written
as. Where DataFusion refuses, the expressions get names that are unlike each other, which the answer does not show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from indextables.errors import IndexTablesError
from indextables.sql.local.rewrite import parse

__all__ = ["Aliased", "aliased", "readable"]

_END = frozenset(
    {"from", "where", "group", "having", "window", "qualify", "order", "limit", "offset", "fetch", "union"}
    | {"intersect", "except", ";"}
)
_UNNESTED = re.compile(r"\w+\.(\w+(?:\.\w+)+)\Z")
"""What DataFusion calls a field of a struct that a statement takes apart: the table, the column and the field."""
_PLAIN = re.compile(r"[^\W\d]\w*\Z")


class _Item(NamedTuple):
    """One expression of the SELECT list: its place in the text, and whether it has a name."""

    start: int
    end: int
    kind: Literal["named", "column", "star", "nameless"]
    name: str


class Aliased(NamedTuple):
    """A statement whose expressions have names that are unlike each other, and the names to show for them."""

    text: str
    shown: Mapping[str, str]


def readable(text: str, found: Sequence[str]) -> list[str]:
    """The names of an answer: what DataFusion calls an expression becomes its text in the statement."""
    if all(map(_PLAIN.match, found)):
        return list(found)
    items = _items(text)
    stars = sum(item.kind == "star" for item in items)
    if stars > 1 or (not stars and len(items) != len(found)) or not items:
        return [_UNNESTED.sub(r"\1", name) for name in found]
    names = list(found)
    before = next((place for place, item in enumerate(items) if item.kind == "star"), len(items))
    for place, item in enumerate(items):
        at = place if place < before else place - len(items)
        if item.kind == "column" and place != before and names[at].endswith("]"):
            # A field of a struct: by its own name, as a column.
            names[at] = item.name
        elif item.kind == "nameless" and place != before and _squeezed(item.name) != _squeezed(names[at]):
            names[at] = item.name
    return names


def aliased(text: str) -> Aliased | None:
    """`text` with a name for each expression that has none; None if there is nothing to name."""
    prefix = "__column"
    while prefix in text.lower():
        prefix += "_"
    shown: dict[str, str] = {}
    for place, item in reversed(list(enumerate(_items(text)))):
        if item.kind in ("column", "nameless"):
            shown[f"{prefix}{place}"] = item.name
            text = f'{text[: item.end]} AS "{prefix}{place}"{text[item.end :]}'
    return Aliased(text, shown) if shown else None


def _squeezed(name: str) -> str:
    return "".join(name.lower().split())


def _items(text: str) -> list[_Item]:
    """The SELECT list that names the answer; nothing if it is not sure which one that is."""
    from sqlglot import expressions as exp

    try:
        tree, words = parse(text)
    except IndexTablesError:
        return []
    while isinstance(tree, exp.SetOperation):
        tree = tree.this
    spans = _spans(text, words) if isinstance(tree, exp.Select) else []
    comments = any("--" in text[slice(*span)] or "/*" in text[slice(*span)] for span in spans)
    if comments or len(spans) != len(tree.expressions):
        return []
    return [_item(text, span, node) for span, node in zip(spans, tree.expressions, strict=True)]


def _item(text: str, span: tuple[int, int], node: Any) -> _Item:
    from sqlglot import expressions as exp

    if node.is_star:
        return _Item(*span, "star", "")
    if isinstance(node, exp.Alias):
        return _Item(*span, "named", node.alias)
    if isinstance(node, exp.Column):
        quoted = node.this.args.get("quoted")
        return _Item(*span, "column", node.name if quoted else node.name.lower())
    return _Item(*span, "nameless", " ".join(text[slice(*span)].split()))


def _spans(text: str, words: Sequence[Any]) -> list[tuple[int, int]]:
    """Where the expressions of the first SELECT begin and end, if no parenthesis is around it."""
    spans: list[tuple[int, int]] = []
    depth = 0
    start: int | None = None
    for place, word in enumerate(words):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[word.start : word.end], 0)
        bare = text[word.start : word.end].lower()
        if depth or (start is None and bare in ("union", "intersect", "except")):
            if start is None and depth and place == 0:
                return []
            continue
        if start is None:
            start = word.end if bare == "select" else None
        elif bare in ("distinct", "all") and words[place - 1].text.lower() == "select":
            start = word.end
        elif bare == "," or (bare in _END and words[place - 1].text.lower() != "distinct"):
            spans.append(_trimmed(text, start, word.start))
            if bare != ",":
                return spans
            start = word.end
    return spans if start is None else [*spans, _trimmed(text, start, len(text))]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - (len(part) - len(part.rstrip()))
