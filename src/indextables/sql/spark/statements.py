"""Statements of Spark about a table by its name, as values: made, dropped, emptied, shown, cached. Pure.

All but `CREATE TABLE ... USING indextables` and `DROP INDEXTABLE` are Spark's own, and ours only if their table is:
what cannot be understood of those is None, and Spark says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from indextables.errors import CommandSyntaxError, NotSupported
from indextables.sql.command import (
    FORMAT,
    SYNTAX,
    Args,
    Cursor,
    ShowTable,
    TableName,
    Token,
    describe_rule,
    drop_rule,
    first_word,
    once,
    pairs,
    show_rule,
    tokens,
)

__all__ = [
    "CacheTable",
    "CommentOn",
    "DropTable",
    "MadeOtherwise",
    "MakeTable",
    "Moved",
    "Named",
    "TruncateTable",
    "named_statement",
]

MAKE = (
    "[CREATE [OR REPLACE] | REPLACE] TABLE [IF NOT EXISTS] <name> "
    "[(<column> <type> [NOT NULL] [COMMENT '<text>'], ...)] USING indextables "
    "[PARTITIONED BY (<column>, ...)] [LOCATION '<path>'] [COMMENT '<text>'] "
    "[TBLPROPERTIES ('<key>' = '<value>', ...)] [AS <query>]"
)
_FIRST = frozenset({"CREATE", "REPLACE", "DROP", "TRUNCATE", "SHOW", "DESCRIBE", "DESC", "CACHE", "UNCACHE"}) | {
    *("ALTER", "COMMENT"),
}
_QUERY = frozenset({"AS", "SELECT", "WITH", "FROM", "VALUES", "TABLE"})


class MakeTable(msgspec.Struct, frozen=True):
    """`columns` is the text between the parentheses; `query` the text of AS with the values of its parameters."""

    name: str
    if_there: Literal["error", "ignore", "replace", "must"]
    columns: str | None = None
    query: tuple[str, Args] | None = None
    location: str | None = None
    partition_by: tuple[str, ...] = ()
    comment: str | None = None
    properties: dict[str, str] = {}


class DropTable(msgspec.Struct, frozen=True):
    """`with_rows` for DROP INDEXTABLE, which takes the rows wherever they are."""

    target: TableName
    if_exists: bool = False
    with_rows: bool = False


class TruncateTable(msgspec.Struct, frozen=True):
    """`partition` is the text between the parentheses of PARTITION."""

    name: str
    partition: str | None = None


class CacheTable(msgspec.Struct, frozen=True):
    """CACHE TABLE of a whole table, and UNCACHE."""

    name: str
    is_kept: bool
    is_lazy: bool = False


class Moved(msgspec.Struct, frozen=True):
    """ALTER TABLE with words that change what Spark knows of a table and our log cannot follow."""

    name: str
    words: str


class CommentOn(msgspec.Struct, frozen=True):
    """COMMENT ON TABLE and COMMENT ON COLUMN; a `text` of None takes the comment away."""

    name: str
    text: str | None
    column: str | None = None


class MadeOtherwise(msgspec.Struct, frozen=True):
    """CREATE OR REPLACE TABLE, or REPLACE TABLE, in another format than ours."""

    name: str


Named: TypeAlias = MakeTable | DropTable | TruncateTable | ShowTable | CacheTable | Moved | CommentOn | MadeOtherwise


def named_statement(text: str, args: Args | None = None) -> Named | None:
    """What a statement says about a table by its name; None for all others.

    Raises CommandSyntaxError, NotSupported, for the two kinds that are ours whatever the catalog has.
    """
    first = first_word(text)
    if first not in _FIRST:
        return None
    found = list(tokens(text))
    words = [token.upper for token in found[:6]]
    if first in ("CREATE", "REPLACE"):
        return _made_otherwise(text, found, args) or _make(Cursor(text, found, args, MAKE), found, words)
    if first == "DROP" and words[1:2] == ["INDEXTABLE"] and words[2:3] != ["PARTITIONS"]:
        return _drop_indextable(Cursor(text, found, args, SYNTAX["DROP"]))
    try:
        return _of_spark(Cursor(text, found, args, ""), first)
    except CommandSyntaxError:
        return None


def _made_otherwise(text: str, found: Sequence[Token], args: Args | None) -> MadeOtherwise | None:
    at = Cursor(text, found, args, "")
    replaces = at.accept("REPLACE", "TABLE") or at.accept("CREATE", "OR", "REPLACE", "TABLE")
    if not replaces or _uses_ours(found):
        return None
    try:
        return MadeOtherwise(".".join(at.dotted("a table")))
    except CommandSyntaxError:
        return None


def _make(at: Cursor, found: Sequence[Token], words: list[str]) -> MakeTable | None:
    replaces = words[:3] == ["CREATE", "OR", "REPLACE"]
    must = words[0] == "REPLACE"
    rest = words[1 if must else 3 if replaces else 1 :]
    rest = rest[1:] if rest[:1] == ["EXTERNAL"] else rest
    if rest[:1] != ["TABLE"] or not _uses_ours(found):
        return None
    while not at.accept("TABLE"):
        at.expect(words.pop(0))
    quiet = at.accept("IF", "NOT", "EXISTS")
    name = ".".join(at.dotted("the name of a table"))
    given: dict[str, Any] = {}
    if at.accept("LIKE"):
        message = (
            "CREATE TABLE ... LIKE is not offered: CREATE TABLE t USING indextables AS SELECT * FROM s WHERE false"
        )
        raise NotSupported(message, query=at.text)
    token = at.token
    if token is not None and token.text == "(":
        given["columns"] = at.inside("columns and their types")
    while at.token is not None and not at.accept_mark(";"):
        if at.token.upper in _QUERY or at.token.text == "(":
            at.accept("AS")
            at_end = found[-1].start if found[-1].text == ";" else len(at.text)
            given["query"] = at.typed(at.position, at_end)
            break
        _clause(at, given)
    if "columns" in given and "query" in given:
        at.fail_at(found[0], "a table made by AS <query> has the columns of the query: leave out the list")
    if_there = "must" if must else "replace" if replaces else "ignore" if quiet else "error"
    return msgspec.convert({"name": name, "if_there": if_there, **given}, MakeTable)


def _clause(at: Cursor, given: dict[str, Any]) -> None:
    if at.accept("USING"):
        at.expect(FORMAT.upper())
    elif at.accept("LOCATION"):
        once(at, given, "location", at.string("a path in quotes"))
    elif at.accept("COMMENT"):
        once(at, given, "comment", at.string())
    elif at.accept("PARTITIONED", "BY"):
        once(at, given, "partition_by", _partition_columns(at))
    elif at.sees("TBLPROPERTIES|OPTIONS"):
        at.accept("TBLPROPERTIES|OPTIONS")
        listed = pairs(at)
        for key in [key for key in listed if key.lower() == "path"]:
            once(at, given, "location", listed.pop(key))
        given["properties"] = {**given.get("properties", {}), **listed}
    elif at.sees("CLUSTER|CLUSTERED", "BY"):
        message = (
            "a table of IndexTables has no buckets and no clustering of its own: MERGE SPLITS ... CLUSTER BY sorts rows"
        )
        raise NotSupported(message, query=at.text)
    else:
        at.fail("USING indextables, PARTITIONED BY, LOCATION, COMMENT, TBLPROPERTIES, OPTIONS, AS or the end")


def _partition_columns(at: Cursor) -> tuple[str, ...]:
    at.expect_mark("(")
    found = []
    while True:
        found.append(at.name("a column"))
        token = at.token
        if token is not None and token.text == "(":
            message = (
                f"PARTITIONED BY ({found[-1]}(...)): a table of IndexTables is partitioned by columns as they are. Add "
                "a column that holds the value, and name it"
            )
            raise NotSupported(message, query=at.text)
        if at.accept_mark(")"):
            return tuple(found)
        at.expect_mark(",")


def _uses_ours(found: Sequence[Token]) -> bool:
    """True if USING indextables stands among the clauses, before the query."""
    depth = 0
    for place, token in enumerate(found):
        if token.kind == "mark":
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        elif depth == 0 and token.upper == "USING":
            after = found[place + 1] if place + 1 < len(found) else None
            return after is not None and after.text.strip("`").lower() == FORMAT
        elif depth == 0 and place > 1 and token.upper in _QUERY - {"TABLE"}:
            return False
    return False


def _drop_indextable(at: Cursor) -> DropTable:
    asked = drop_rule(at)
    return DropTable(asked.target, asked.if_exists, with_rows=True)


def _of_spark(at: Cursor, first: str) -> Named | None:
    if first == "DROP":
        return _drop(at)
    if first == "TRUNCATE":
        return _truncate(at)
    if first == "SHOW":
        return show_rule(at)
    if first in ("DESCRIBE", "DESC"):
        return describe_rule(at)
    if first == "COMMENT":
        return _comment(at)
    return _alter(at) if first == "ALTER" else _cache(at)


def _drop(at: Cursor) -> DropTable | None:
    if not at.accept("DROP", "TABLE"):
        return None
    quiet = at.accept("IF", "EXISTS")
    target = TableName(".".join(at.dotted("a table")), is_path=False)
    at.accept("PURGE")
    at.end()
    return DropTable(target, quiet)


def _truncate(at: Cursor) -> TruncateTable:
    at.expect("TRUNCATE", "TABLE")
    name = ".".join(at.dotted("a table"))
    partition = at.inside("partition values") if at.accept("PARTITION") else None
    at.end()
    return TruncateTable(name, partition)


def _cache(at: Cursor) -> CacheTable | None:
    is_kept = at.accept("CACHE")
    if not is_kept:
        at.expect("UNCACHE")
    is_lazy = is_kept and at.accept("LAZY")
    at.expect("TABLE")
    if not is_kept:
        at.accept("IF", "EXISTS")
    name = ".".join(at.dotted("a table"))
    if is_kept and at.accept("OPTIONS"):
        at.inside("options")
    at.end()
    return CacheTable(name, is_kept, is_lazy)


def _comment(at: Cursor) -> CommentOn:
    at.expect("COMMENT", "ON")
    is_column = at.accept("COLUMN")
    if not is_column:
        at.expect("TABLE")
    parts = at.dotted("a table")
    at.expect("IS")
    text = None if at.accept("NULL") else at.string()
    at.end()
    column = parts.pop() if is_column and len(parts) > 1 else None
    return CommentOn(".".join(parts), text, column)


def _alter(at: Cursor) -> Moved | None:
    at.expect("ALTER", "TABLE")
    name = ".".join(at.dotted("a table"))
    for words in (("SET", "LOCATION"), ("ADD|DROP", "PARTITION"), ("ADD", "IF"), ("DROP", "IF", "EXISTS", "PARTITION")):
        if at.sees(*words):
            return Moved(name, " ".join(token.upper for token in list(tokens(at.text[at.position :]))[: len(words)]))
    return Moved(name, "PARTITION") if at.sees("PARTITION") or at.sees("RECOVER", "PARTITIONS") else None
