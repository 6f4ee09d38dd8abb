"""Refuses subqueries that DataFusion would answer otherwise than they say, by name. Pure.

DataFusion turns subqueries into joins. Where the join has no place for "unknown", or forgets for which outer row it
counts, numbers or cuts, its rows are wrong. Its plan before optimization says what it understood; where a condition
stands is read from the statement itself, because a shown plan has too few parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from indextables.errors import NotSupported, QueryInvalid
from indextables.sql.local.rewrite import parse

__all__ = ["check_subqueries"]

_SHOWN_TEXT = re.compile(r"Utf8(?:View)?\(\"[^\"]*\"\)")
_QUANTIFIED = re.compile(r"(?P<operator>\S+) (?P<word>ANY|ALL) \(<subquery>\)")
_SUBQUERY = re.compile(r"(?P<kind>(?:NOT )?(?:IN|EXISTS) )?\(<subquery>\)")
_SKIPS = re.compile(r"Limit: skip=(?!0,)")
_MANY_GROUPINGS = re.compile(r"groupBy=\[\[(?:ROLLUP|CUBE|GROUPING SETS)\b")


def check_subqueries(text: str, plan: str) -> None:
    """Raises NotSupported where a plan, as DataFusion shows it before optimization, holds a subquery it gets wrong."""
    shown = _SHOWN_TEXT.sub("Utf8", plan)
    if found := _QUANTIFIED.search(shown):
        raise NotSupported(_instead_of(found["operator"], found["word"]), query=text, position=0)
    for kind, block in _blocks(shown.splitlines()):
        if any("outer_ref(" in line for line in block):
            _check_correlated(text, kind, block)
    if " IN (<subquery>)" in shown:
        _check_places(text)


def _instead_of(operator: str, word: str) -> str:
    same = {("=", "ANY"): "IN (SELECT ...)", ("!=", "ALL"): "NOT IN (SELECT ...)"}.get((operator, word))
    if same is None:
        same = "EXISTS (SELECT ... WHERE ...), or compare with (SELECT min(...) ...) or (SELECT max(...) ...)"
    return f"{operator} {word} (SELECT ...) is not offered: write {same}"


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The lines of each subquery without those of subqueries in it, and in what it stands: IN, EXISTS or nothing."""
    for number, line in enumerate(lines):
        if line.strip() != "Subquery:":
            continue
        depth = _depth(line)
        above = next(n for n in range(number, -1, -1) if _depth(lines[n]) < depth)
        before = sum(lines[n].strip() == "Subquery:" and _depth(lines[n]) == depth for n in range(above, number))
        kinds = [found["kind"] or "" for found in _SUBQUERY.finditer(lines[above])]
        own, nested = [], None
        for inner in lines[number + 1 :]:
            if _depth(inner) <= depth:
                break
            if nested is None or _depth(inner) <= nested:
                nested = _depth(inner) if inner.strip() == "Subquery:" else None
                own.append(inner)
        yield (kinds[before].strip() if before < len(kinds) else ""), own


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _check_correlated(text: str, kind: str, block: list[str]) -> None:
    """A subquery that speaks about the outer row."""
    aggregates = [line for line in block if line.strip().startswith("Aggregate:")]
    # The one value of a scalar subquery is what DataFusion joins right, also where nothing is counted.
    inner = aggregates if kind else aggregates[1:]
    if kind == "NOT IN":
        what = "NOT IN (SELECT ...) that speaks about the outer row: write NOT EXISTS (SELECT ... WHERE ...)"
    elif any("Join:" in line and "outer_ref(" in line for line in block):
        what = "ON in a subquery that speaks about the outer row: move that condition to the subquery's WHERE"
    elif any("WindowAggr:" in line for line in block):
        what = "a window function in a subquery that speaks about the outer row: compute it in a join or WITH"
    elif any(_SKIPS.search(line) for line in block):
        what = "OFFSET in a subquery that speaks about the outer row: number the rows in a join or WITH"
    elif any("groupBy=[[]]" in line for line in inner) or any(_MANY_GROUPINGS.search(line) for line in aggregates):
        what = (
            "an aggregate without GROUP BY in a subquery that speaks about the outer row, unless its one value is what "
            "is asked for: write (SELECT count(*) ...) > 0, column = (SELECT max(...) ...), or use a join"
        )
    else:
        return
    raise NotSupported(f"not offered: {what}", query=text, position=0)


def _check_places(text: str) -> None:
    """`IN (SELECT ...)` is true or not true here, never unknown: it must stand where that makes no difference."""
    from sqlglot import exp

    try:
        tree, _ = parse(text)
    except QueryInvalid as cause:
        message = "a statement with IN (SELECT ...) that is written in an unusual way is not offered: write EXISTS"
        raise NotSupported(message, query=text, position=0) from cause
    for node in tree.find_all(exp.In):
        asks = node.args.get("query") or any(isinstance(item, exp.Subquery) for item in node.expressions)
        if asks and not _is_well_placed(node):
            message = (
                "IN (SELECT ...) below NOT, CASE, IS or in an expression, and NOT IN (SELECT ...) below OR or of a "
                "constant, take unknown for false here: make it a condition of its own in WHERE, joined by AND, or "
                "write [NOT] EXISTS (SELECT 1 FROM ... WHERE ...)"
            )
            raise NotSupported(message, query=text, position=0)


def _is_well_placed(node: Any) -> bool:
    from sqlglot import exp

    child, above = node, node.parent
    while isinstance(above, exp.Paren):
        child, above = above, above.parent
    negated = isinstance(above, exp.Not)
    if negated:
        if node.this.find(exp.Column) is None:
            return False
        child, above = above, above.parent
    while isinstance(above, exp.Paren | exp.And | exp.Or):
        if negated and isinstance(above, exp.Or):
            return False
        child, above = above, above.parent
    if isinstance(above, exp.Where):
        return not isinstance(above.parent, exp.Filter)
    return isinstance(above, exp.Having) or (isinstance(above, exp.Join) and above.args.get("on") is child)
