"""INSERT with clauses that Spark has no way to hand to a source in Python: WITH, PARTITION and REPLACE WHERE. Pure.

The values of PARTITION become columns of the query, and the partitions that are replaced an option of the write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from indextables import options as opt
from indextables.errors import CommandSyntaxError, InvalidArgument, NotSupported
from indextables.sql.command import Args, Cursor, TableName, first_word, pairs, tokens

__all__ = ["Insert", "insert_statement", "partition_values", "plain_insert"]

_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
_OVERWRITE = "OVERWRITE"
_MODE = opt.PARTITION_OVERWRITE_MODE.key.lower()


class Insert(msgspec.Struct, frozen=True):
    """`named` is the target as typed; `values` are those of PARTITION, None for a column that the query has."""

    target: TableName
    named: str
    verb: str
    query: tuple[str, Args]
    options: dict[str, str] = {}
    values: dict[str, str | None] = {}
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: str | None = None


def insert_statement(text: str, args: Args | None = None) -> Insert | None:
    """What an INSERT with one of these clauses says; None for every other statement, and what Spark shall refuse.

    One that says where its rows go, by WITH (path = ...), is Spark's too. Raises NotSupported for IF NOT EXISTS.
    """
    if first_word(text) != "INSERT":
        return None
    try:
        return _read(Cursor(text, list(tokens(text)), args, ""))
    except CommandSyntaxError:
        return None


def _read(at: Cursor) -> Insert | None:
    at.expect("INSERT")
    verb = "INTO" if at.accept("INTO") else _OVERWRITE
    if verb == _OVERWRITE:
        at.expect(_OVERWRITE)
    at.accept("TABLE")
    start = at.position
    target = at.target()
    named = at.text[start : at.last_end]
    given: dict[str, Any] = {}
    if at.sees("WITH") and _is_mark(at, 1, "("):
        at.accept("WITH")
        given["options"] = pairs(at)
    if at.sees("PARTITION") and _is_mark(at, 1, "("):
        at.accept("PARTITION")
        at.expect_mark("(")
        given["values"] = partition_values(at)
        at.expect_mark(")")
        if at.accept("IF"):
            message = "INSERT ... PARTITION (...) IF NOT EXISTS is not offered for tables of IndexTables: leave it out"
            raise NotSupported(message, query=at.text)
    by_name = at.accept("BY", "NAME")
    if verb == "INTO" and "values" not in given and at.accept("REPLACE", "WHERE"):
        verb = _OVERWRITE
        given["replace_where"] = at.predicate(*((word,) for word in _QUERY), what="a predicate")
    elif not by_name and _is_mark(at, 0, "(") and not _begins_query(at, 1):
        given["columns"] = at.names()
    says_where = any(key.lower() == "path" for key in given.get("options", ()))
    if says_where or not given.keys() & {"options", "values", "replace_where"}:
        return None
    last = at.text.rstrip()
    query = at.typed(at.position, len(last) - last.endswith(";"))
    return Insert(target, named, verb, query, by_name=by_name, **given)


def partition_values(at: Cursor) -> dict[str, str | None]:
    """`a = 1, b`: the text of each value by its column. Raises CommandSyntaxError, InvalidArgument."""
    found: dict[str, str | None] = {}
    while True:
        column = at.name("a partition column")
        if column.lower() in map(str.lower, found):
            raise InvalidArgument(f"PARTITION names {column} twice", column=column)
        found[column] = at.predicate(what="a value", marks=",)") if at.accept_mark("=") else None
        if not at.accept_mark(","):
            return found


def plain_insert(
    asked: Insert, columns: Mapping[str, str], partitioned_by: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """The statement without these clauses, and the options of its write.

    `columns` has the Spark type of each column of the table. Raises InvalidArgument for a column that does not
    partition it.
    """
    spelled = {name.lower(): name for name in partitioned_by}
    for name in asked.values:
        if name.lower() not in spelled:
            raise InvalidArgument(f"{asked.named} is not partitioned by {name}", column=name)
    fixed = {spelled[name.lower()]: value for name, value in asked.values.items() if value is not None}
    query, options = asked.query[0], dict(asked.options)
    listed = asked.columns
    if fixed:
        cast = {name: f"CAST({value} AS {columns[name]})" for name, value in fixed.items()}
        # A place of a column goes by the order of the table, where its value is not given.
        shown = ", ".join(f"{value} AS {_name(name)}" for name, value in cast.items())
        query = f"SELECT *, {shown} FROM ({query}\n)"  # noqa: S608 - the statement of the caller
        if not asked.by_name:
            listed = (*(listed or (name for name in columns if name not in fixed)), *fixed)
    names = "BY NAME " if asked.by_name else "" if listed is None else f"({', '.join(map(_name, listed))}) "
    where = asked.replace_where
    is_dynamic = any(key.lower() == _MODE and value.lower() == "dynamic" for key, value in options.items())
    if asked.verb == _OVERWRITE and fixed and not (is_dynamic and len(fixed) < len(partitioned_by)):
        where = " AND ".join(f"{_name(name)} <=> {value}" for name, value in fixed.items())
        options = {key: value for key, value in options.items() if key.lower() != _MODE}
    if where is not None:
        if opt.REPLACE_WHERE.key.lower() in map(str.lower, options):
            message = "WITH (replaceWhere = ...) and the statement each say what is replaced: leave out one"
            raise InvalidArgument(message, option=opt.REPLACE_WHERE.key)
        options[opt.REPLACE_WHERE.key] = where
    return f"INSERT {asked.verb} {asked.named} {names}{query}", options


def _is_mark(at: Cursor, ahead: int, mark: str) -> bool:
    token = at.ahead(ahead)
    return token is not None and token.kind == "mark" and token.text == mark


def _begins_query(at: Cursor, ahead: int) -> bool:
    token = at.ahead(ahead)
    return token is not None and (token.upper in _QUERY or token.text == "(")


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
