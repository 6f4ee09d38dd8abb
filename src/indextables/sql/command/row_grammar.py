"""DELETE, UPDATE and MERGE, and EXPLAIN of each: text to values. Pure.

Conditions and values stay text, as typed, with bound values as literals: whoever runs the statement reads them. The
source of a MERGE stays a query of the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from indextables.sql.command import statements as st
from indextables.sql.command.cursor import Cursor

if TYPE_CHECKING:
    from indextables.table.change import Clause

__all__ = ["ROW_SYNTAX", "explained", "lead_of", "rows_deleted", "rows_merged", "rows_updated"]

_TABLE = "('<path>' | <name> | indextables.`<path>`) [[AS] <alias>]"
_SET = "<column> = <value>, ..."
_STAR = "* [EXCEPT (<column>, ...)]"
ROW_SYNTAX: dict[str, str] = {
    "DELETE": f"DELETE FROM {_TABLE} [WHERE <predicate>]",  # noqa: S608 - a grammar
    "UPDATE": f"UPDATE {_TABLE} SET {_SET} [WHERE <predicate>]",  # noqa: S608
    "MERGE": f"MERGE [WITH SCHEMA EVOLUTION] INTO {_TABLE} USING (<table> | (<query>)) [[AS] <alias>] "  # noqa: S608
    f"ON <condition> (WHEN MATCHED [AND <condition>] THEN (UPDATE SET ({_STAR} | {_SET}) | DELETE) | "
    f"WHEN NOT MATCHED [BY TARGET] [AND <condition>] THEN INSERT ({_STAR} | (<column>, ...) VALUES (<value>, ...)) | "
    f"WHEN NOT MATCHED BY SOURCE [AND <condition>] THEN (UPDATE SET {_SET} | DELETE)) ...",
    "EXPLAIN": "EXPLAIN (DELETE ... | UPDATE ... | MERGE ...)",
}
"""The grammar of each statement, as errors and documentation show it."""

_TARGET, _SOURCE = "t", "s"
_NO_ALIAS = frozenset({"WHERE", "SET", "USING", "ON", "WHEN", "VERSION", "TIMESTAMP", "FOR", "SYSTEM_VERSION"})
_AS_OF = ("VERSION|SYSTEM_VERSION|TIMESTAMP|SYSTEM_TIME", "AS", "OF")
_When = Literal["matched", "not matched", "not matched by source"]


def lead_of(word: str) -> Callable[[Cursor], object]:
    """What takes the words before the table of a statement that begins so."""
    return {"DELETE": _lead_delete, "UPDATE": _lead_update, "MERGE": _lead_merge, "EXPLAIN": _lead_explain}[word]


def rows_deleted(at: Cursor) -> st.DeleteRows:
    """DELETE FROM. Raises CommandSyntaxError."""
    _lead_delete(at)
    target, alias = _target(at)
    where = at.predicate() if at.accept("WHERE") else None
    at.end("WHERE")
    return st.DeleteRows(target=target, alias=alias, where=where)


def rows_updated(at: Cursor) -> st.UpdateRows:
    """UPDATE. Raises CommandSyntaxError."""
    _lead_update(at)
    target, alias = _target(at)
    at.expect("SET")
    values = _assignments(at, alias, ("WHERE",))
    where = at.predicate() if at.accept("WHERE") else None
    at.end("WHERE")
    return st.UpdateRows(target=target, alias=alias, set=values, where=where)


def rows_merged(at: Cursor) -> st.MergeRows:
    """MERGE INTO. Raises CommandSyntaxError."""
    evolves = _lead_merge(at)
    target, alias = _target(at)
    at.expect("USING")
    source = _source(at)
    at.expect("ON")
    on = at.predicate(("WHEN", "MATCHED|NOT"), what="a condition")
    clauses = []
    while at.token is not None and not at.accept_mark(";"):
        clauses.append(_clause(at, alias))
    if not clauses:
        at.fail("WHEN MATCHED, WHEN NOT MATCHED or WHEN NOT MATCHED BY SOURCE")
    at.end()
    return st.MergeRows(target=target, alias=alias, source=source, on=on, clauses=tuple(clauses), merge_schema=evolves)


def explained(at: Cursor) -> st.Explain:
    """EXPLAIN before any of them. Raises CommandSyntaxError."""
    at.expect("EXPLAIN")
    rules: dict[str, Callable[[Cursor], st.RowChange]] = {
        "DELETE": rows_deleted,
        "UPDATE": rows_updated,
        "MERGE": rows_merged,
    }
    word = "" if at.token is None else at.token.upper
    if word not in rules:
        at.fail("DELETE, UPDATE or MERGE")
    at.syntax = ROW_SYNTAX[word]
    return st.Explain(statement=rules[word](at))


def _lead_delete(at: Cursor) -> None:
    at.expect("DELETE", "FROM")


def _lead_update(at: Cursor) -> None:
    at.expect("UPDATE")


def _lead_merge(at: Cursor) -> bool:
    at.expect("MERGE")
    evolves = at.accept("WITH")
    if evolves:
        at.expect("SCHEMA", "EVOLUTION")
    at.expect("INTO")
    return evolves


def _lead_explain(at: Cursor) -> None:
    at.expect("EXPLAIN")
    if at.token is not None:
        lead_of(at.token.upper)(at)


def _target(at: Cursor) -> tuple[st.TableName, str]:
    """The table that changes, and what its columns are qualified with."""
    target = at.target()
    if at.sees(*_AS_OF) or at.sees("FOR", *_AS_OF) or (at.token is not None and at.token.text == "@"):
        at.fail("no version, because rows of the newest one change; found", bare=True)
    return target, _alias(at) or _last_part(target) or _TARGET


def _last_part(table: st.TableName) -> str:
    return "" if table.is_path else table.text.rpartition(".")[2]


def _alias(at: Cursor) -> str | None:
    if at.accept("AS"):
        return at.name("an alias")
    token = at.token
    if token is None or token.upper in _NO_ALIAS or token.kind not in ("word", "name"):
        return None
    return at.name("an alias")


def _source(at: Cursor) -> st.SourceRows:
    """A table, perhaps at a version, or a query in parentheses, with its alias and names for its columns."""
    start = end = at.position
    table: st.TableName | None = None
    named = place = ""
    if at.token is not None and at.token.text == "(":
        at.inside("a query")
    else:
        table = at.target()
        named, end = _last_part(table), at.last_end
        if at.accept("FOR") or at.sees(*_AS_OF):
            at.expect(*_AS_OF)
            at.moment()
        elif at.accept_mark("@"):
            at.name("a version such as v3")
        if table.is_path:
            place = "indextables.`" + table.text.replace("`", "``") + "`"
        table = table if at.last_end == end else None
    if place:
        text, args = at.typed(end, at.last_end)
        text = place + text
    else:
        text, args = at.typed(start, at.last_end)
    alias = _alias(at)
    query = f"SELECT * FROM {text}"  # noqa: S608 - what the statement says itself
    if alias is not None and at.token is not None and at.token.text == "(":
        start, table = at.position, None
        at.names()
        query += f" AS {_SOURCE}{at.typed(start, at.last_end)[0]}"
    return st.SourceRows(query=query, alias=alias or named or _SOURCE, args=args, table=table)


def _clause(at: Cursor, alias: str) -> Clause:
    from indextables.table.change import Clause

    at.expect("WHEN")
    when = _when(at)
    condition = at.predicate(("THEN",), what="a condition") if at.accept("AND") else None
    at.expect("THEN")
    if when == "not matched":
        at.expect("INSERT")
        if at.accept_mark("*"):
            return Clause(when, "insert", condition, None, _except(at))
        return Clause(when, "insert", condition, _inserted(at, alias))
    if at.accept("DELETE"):
        return Clause(when, "delete", condition)
    if not at.accept("UPDATE"):
        at.fail("UPDATE SET or DELETE")
    at.expect("SET")
    if when == "matched" and at.accept_mark("*"):
        return Clause(when, "update", condition, None, _except(at))
    return Clause(when, "update", condition, _assignments(at, alias, ("WHEN", "MATCHED|NOT")))


def _when(at: Cursor) -> _When:
    if at.accept("MATCHED"):
        return "matched"
    if not at.accept("NOT"):
        at.fail("MATCHED or NOT MATCHED")
    at.expect("MATCHED")
    if not at.accept("BY"):
        return "not matched"
    if at.accept("TARGET"):
        return "not matched"
    if not at.accept("SOURCE"):
        at.fail("SOURCE or TARGET")
    return "not matched by source"


def _except(at: Cursor) -> tuple[str, ...]:
    return at.names() if at.accept("EXCEPT") else ()


def _assignments(at: Cursor, alias: str, stop: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    while True:
        column = _column(at, alias, found)
        at.expect_mark("=")
        found[column] = at.predicate(stop, what="a value", marks=",")
        if not at.accept_mark(","):
            return found


def _inserted(at: Cursor, alias: str) -> dict[str, str]:
    at.expect_mark("(")
    columns: dict[str, str] = {}
    while True:
        columns[_column(at, alias, columns)] = ""
        if not at.accept_mark(","):
            break
    at.expect_mark(")")
    at.expect("VALUES")
    at.expect_mark("(")
    for place, column in enumerate(columns):
        if place and not at.accept_mark(","):
            at.fail(f"a value for each of the {len(columns)} columns, the next is {column}: ','")
        columns[column] = at.predicate(what="a value", marks=",)")
    at.expect_mark(")")
    return columns


def _column(at: Cursor, alias: str, known: dict[str, str]) -> str:
    """The name of a column of the table, perhaps behind its alias. Fails for a part of a column, and for one twice."""
    token = at.token
    parts = at.dotted("a column")
    if len(parts) == 2 and parts[0].lower() == alias.lower():
        parts = parts[1:]
    if len(parts) > 1:
        at.fail_at(token, f"{'.'.join(parts)} is a part of a column, and columns are set as a whole")
    if parts[0].lower() in {name.lower() for name in known}:
        at.fail_at(token, f"column {parts[0]} is set twice")
    return parts[0]
