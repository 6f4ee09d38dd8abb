"""Texts in quotes, as SQL spells them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["keeping_backslashes", "meant_as_column"]

_SHOWN = 80
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_ESCAPE = re.compile(r"""\\(?P<known>u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[01][0-7]{2}|[ntr0bZ\\'"%_])?""")


def keeping_backslashes(typed: str) -> list[str]:
    r"""How else to write a literal of which SQL drops a backslash; empty if it drops none.

    Spark drops a backslash before most characters, so that `'\d'` means `d`, which nobody means.
    """
    known = [found["known"] is not None for found in _ESCAPE.finditer(typed)]
    if all(known):
        return []
    doubled = _ESCAPE.sub(lambda found: found.group() if found["known"] else "\\\\", typed)
    return [doubled] if any(known) else [doubled, f"r{typed}"]


def meant_as_column(tree: Any, query: str, columns: Sequence[str]) -> tuple[int, str] | None:
    """Where in `query` a text in double quotes stands that was surely meant as a column, and what to say about it.

    Spark reads `"a"` as a text, most other databases as the column `a`. It is taken for a text unless a column has that
    name, or nothing else in its condition could be a column.
    """
    from sqlglot import exp

    conditions = (exp.Predicate, exp.Between, exp.Contains, exp.EndsWith, exp.RegexpLike, exp.StartsWith)
    names = {name.lower(): name for name in columns}
    for literal in _in_double_quotes(tree, query):
        written = literal.this[:_SHOWN]
        text = "'" + written.replace("'", "''") + "'"
        name = names.get(literal.this.lower())
        if name is not None:
            column = f"{name} or `{name}`" if _PLAIN.match(name) else f"`{name}`"
            what = f"not the column: write {column} for the column, {text} for the text"
        elif _has_no_column(literal.find_ancestor(*conditions)):
            what = f"and its condition has no column: write `{written}` for a column, {text} for a text"
        else:
            continue
        return literal.meta["start"], f'"{written}" in double quotes is a text, {what}'
    return None


def _has_no_column(condition: Any) -> bool:
    from sqlglot import exp

    return condition is not None and condition.find(exp.Column) is None


def _in_double_quotes(tree: Any, query: str) -> Iterator[Any]:
    from sqlglot import exp

    if '"' in query:
        for literal in tree.find_all(exp.Literal):
            if literal.is_string and query.startswith('"', literal.meta.get("start", len(query))):
                yield literal
