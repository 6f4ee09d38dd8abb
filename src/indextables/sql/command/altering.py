"""Parses what an ALTER TABLE asks for into a wish, and runs it; the shell reads the words behind the table so too."""

from __future__ import annotations

import pyarrow as pa

from indextables.sql.command import statements as st
from indextables.sql.command.context import Context
from indextables.sql.command.cursor import Cursor
from indextables.sql.command.lexer import tokens
from indextables.sql.command.results import table_of
from indextables.table.alter import (
    AddColumns,
    AddConstraint,
    AlterColumn,
    DropColumns,
    DropConstraint,
    RenameColumn,
    SetIndexing,
    SetNames,
    SetProperties,
    UnsetProperties,
    UpgradeProtocol,
    Wish,
    alter,
    columns_from_ddl,
    type_from_ddl,
)

__all__ = ["ALTERED", "ALTER_SYNTAX", "alter_rule", "alter_table", "begins_a_wish", "comment_rule", "wish_of"]

_WISH = (
    "(ADD COLUMNS (<column> <type> [NOT NULL] [DEFAULT <constant>] [COMMENT '<text>'] [FIRST | AFTER <column>], ...) "
    "| RENAME COLUMN <column> TO <name> | DROP COLUMNS [IF EXISTS] (<column>, ...) "
    "| ALTER COLUMN <column> (TYPE <type> | COMMENT '<text>' | SET NOT NULL | DROP NOT NULL | SET DEFAULT <constant> "
    "| DROP DEFAULT | FIRST | AFTER <column>) | ADD CONSTRAINT <name> CHECK (<predicate>) "
    "| DROP CONSTRAINT [IF EXISTS] <name> | SET INDEXING (<column> text, ...) "
    "| SET TBLPROPERTIES ('<key>' = '<value>', ...) | UNSET TBLPROPERTIES [IF EXISTS] ('<key>', ...) "
    "| SET NAME '<text>' | SET DESCRIPTION '<text>' | ADD FEATURES (<feature>, ...))"
)
_TABLE = "TABLE ('<path>' | <name> | indextables.`<path>`)"
ALTER_SYNTAX = {"ALTER": f"ALTER {_TABLE} {_WISH}", "COMMENT": f"COMMENT ON {_TABLE} IS ('<text>' | NULL)"}

_WISHES = (
    ("ADD", "COLUMN|COLUMNS|CONSTRAINT|FEATURE|FEATURES"),
    ("RENAME", "COLUMN"),
    ("DROP", "COLUMN|COLUMNS|CONSTRAINT"),
    ("ALTER|CHANGE|MODIFY", "COLUMN"),
    ("SET", "TBLPROPERTIES|INDEXING|NAME|DESCRIPTION"),
    ("UNSET", "TBLPROPERTIES"),
)

ALTERED = pa.schema([("path", pa.string()), ("version", pa.int64())])
"""The answer: the version that has what was asked for."""


def begins_a_wish(at: Cursor) -> bool:
    """True before words that change a table; ALTER TABLE with others is about the catalog of an engine."""
    return any(at.sees(*words) for words in _WISHES)


def alter_rule(at: Cursor) -> st.Command:
    """`ALTER TABLE <table> <wish>`. Raises CommandSyntaxError, SchemaInvalid for columns and types."""
    at.expect("ALTER", "TABLE")
    target = at.target()
    return st.AlterTable(target=target, wish=_wish(at))


def comment_rule(at: Cursor) -> st.Command:
    """`COMMENT ON TABLE <table> IS '<text>'`: the description of the table. Raises CommandSyntaxError."""
    at.expect("COMMENT", "ON", "TABLE")
    target = at.target()
    at.expect("IS")
    wish = SetNames(description=None if at.accept("NULL") else at.string("a text in quotes, or NULL"))
    at.end()
    return st.AlterTable(target=target, wish=wish)


def wish_of(text: str) -> Wish:
    """The wish in the words behind the table: `RENAME COLUMN a TO b`. Raises as `alter_rule`."""
    return _wish(Cursor(text, list(tokens(text)), None, _WISH))


def alter_table(command: st.AlterTable, context: Context) -> pa.Table:
    """Grant the wish of a command. Raises as `alter`."""
    log = context.log(command.target)
    return table_of([{"path": log.url, "version": alter(log, command.wish)}], ALTERED)


def _wish(at: Cursor) -> Wish:
    wish = _granted(at)
    at.end()
    return wish


def _granted(at: Cursor) -> Wish:
    if at.accept("ADD", "COLUMN|COLUMNS"):
        token = at.token
        listed = at.inside("columns and their types") if token is not None and token.text == "(" else at.predicate()
        return AddColumns(columns_from_ddl(listed))
    if at.accept("ADD", "FEATURE|FEATURES"):
        return UpgradeProtocol(_names(at, "a feature"))
    if at.accept("ADD", "CONSTRAINT"):
        name = at.name("the name of the constraint")
        at.expect("CHECK")
        return AddConstraint(name, at.inside("a predicate").strip())
    if at.accept("DROP", "CONSTRAINT"):
        quiet = at.accept("IF", "EXISTS")
        return DropConstraint(at.name("the name of the constraint"), quiet)
    if at.accept("RENAME", "COLUMN"):
        column = at.name("a column")
        at.expect("TO")
        return RenameColumn(column, at.name("the new name"))
    if at.accept("DROP", "COLUMN|COLUMNS"):
        quiet = at.accept("IF", "EXISTS")
        return DropColumns(_names(at, "a column"), quiet)
    if at.accept("ALTER|CHANGE|MODIFY", "COLUMN"):
        return _column(at)
    if at.accept("SET", "TBLPROPERTIES"):
        return SetProperties(_pairs(at))
    if at.accept("SET", "INDEXING"):
        return SetIndexing(_pairs(at))
    if at.accept("SET", "NAME"):
        return SetNames(name=at.string("a name in quotes"))
    if at.accept("SET", "DESCRIPTION"):
        return SetNames(description=at.string())
    if at.accept("UNSET", "TBLPROPERTIES"):
        quiet = at.accept("IF", "EXISTS")
        return UnsetProperties(_texts(at), quiet)
    return at.fail(
        "ADD COLUMNS, RENAME COLUMN, DROP COLUMNS, ALTER COLUMN, ADD or DROP CONSTRAINT, SET or UNSET TBLPROPERTIES, "
        "SET INDEXING, SET NAME, SET DESCRIPTION or ADD FEATURES"
    )


def _column(at: Cursor) -> Wish:
    name = at.name("a column")
    if at.accept("TYPE"):
        return AlterColumn(column=name, type=type_from_ddl(at.predicate(what="a type")))
    if at.accept("COMMENT"):
        return AlterColumn(column=name, comment=at.string())
    if at.accept("SET", "NOT", "NULL"):
        return AlterColumn(column=name, nullable=False)
    if at.accept("DROP", "NOT", "NULL"):
        return AlterColumn(column=name, nullable=True)
    if at.accept("SET", "DEFAULT"):
        return AlterColumn(column=name, default=at.predicate(what="a constant"))
    if at.accept("DROP", "DEFAULT"):
        return AlterColumn(column=name, default=None)
    if at.accept("FIRST"):
        return AlterColumn(column=name, first=True)
    if at.accept("AFTER"):
        return AlterColumn(column=name, after=at.name("a column"))
    return at.fail("TYPE, COMMENT, SET NOT NULL, DROP NOT NULL, SET DEFAULT, DROP DEFAULT, FIRST or AFTER")


def _names(at: Cursor, what: str) -> tuple[str, ...]:
    token = at.token
    return at.names(what) if token is not None and token.text == "(" else (at.name(what),)


def _pairs(at: Cursor) -> dict[str, str]:
    at.expect_mark("(")
    found = [at.skip_text_pair()]
    while at.accept_mark(","):
        found.append(at.skip_text_pair())
    at.expect_mark(")")
    return dict(found)


def _texts(at: Cursor) -> tuple[str, ...]:
    at.expect_mark("(")
    found = [_key(at)]
    while at.accept_mark(","):
        found.append(_key(at))
    at.expect_mark(")")
    return tuple(found)


def _key(at: Cursor) -> str:
    token = at.token
    if token is not None and token.kind in ("text", "parameter"):
        return at.string("a key")
    key = at.name("a key")
    while at.accept_mark("."):
        key += "." + at.name("the next part of the key")
    return key
