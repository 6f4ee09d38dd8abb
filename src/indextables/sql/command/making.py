"""Parses the commands that make tables and take them away: CREATE, CONVERT and DROP. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from indextables.sql.command import statements as st
from indextables.sql.command.cursor import KEYWORDS, Cursor

__all__ = ["convert_rule", "create_rule", "drop_rule", "once", "pairs", "place_of"]


def create_rule(at: Cursor) -> st.Command:
    """CREATE INDEXTABLE."""
    at.expect("CREATE", "|".join(KEYWORDS))
    quiet = at.accept("IF", "NOT", "EXISTS")
    target = at.target()
    given: dict[str, Any] = {}
    if at.accept("LOCATION"):
        given["location"] = at.string("a path in quotes")
    columns = at.inside("columns and their types")
    while at.token is not None and not at.accept_mark(";"):
        _create_clause(at, given)
    at.end()
    if target.is_path == ("location" in given):
        if target.is_path:
            at.fail("no LOCATION, because the table is named by its path")
        at.fail("LOCATION '<path>', because the table is given by name")
    values = {"target": target, "columns": columns, "if_not_exists": quiet, **given}
    return msgspec.convert(values, st.CreateTable)


def drop_rule(at: Cursor) -> st.DropTable:
    """DROP INDEXTABLE."""
    at.expect("DROP", "INDEXTABLE")
    quiet = at.accept("IF", "EXISTS")
    target = at.target()
    at.end()
    return st.DropTable(target, quiet)


def _create_clause(at: Cursor, given: dict[str, Any]) -> None:
    if at.accept("LOCATION"):
        once(at, given, "location", at.string("a path in quotes"))
    elif at.accept("USING"):
        at.expect("|".join(KEYWORDS))
    elif at.accept("PARTITIONED", "BY"):
        once(at, given, "partition_by", at.names())
    elif at.accept("COMMENT"):
        once(at, given, "comment", at.string())
    elif at.accept("TBLPROPERTIES|OPTIONS"):
        once(at, given, "properties", pairs(at))
    elif at.accept("INDEXING"):
        once(at, given, "indexing", pairs(at))
    else:
        at.fail("INDEXING, PARTITIONED BY, LOCATION, COMMENT, TBLPROPERTIES or the end")


def convert_rule(at: Cursor) -> st.Command:
    """CONVERT TO INDEXTABLES."""
    at.expect("CONVERT", "TO", "|".join(KEYWORDS))
    system = next((word for word in _SYSTEMS if at.accept(word)), None)
    source = place_of(at)
    given: dict[str, Any] = {}
    if at.accept("VERSION", "AS", "OF"):
        given["version"] = at.whole("a version")
    while not at.sees("AT"):
        if at.accept("PARTITIONED", "BY"):
            once(at, given, "partition_by", at.names())
        elif at.accept("COMMENT"):
            once(at, given, "comment", at.string())
        elif at.accept("TBLPROPERTIES|OPTIONS"):
            once(at, given, "properties", pairs(at))
        elif at.accept("INDEXING"):
            once(at, given, "indexing", pairs(at))
        else:
            at.fail("INDEXING, PARTITIONED BY, COMMENT, TBLPROPERTIES or AT LOCATION '<target>'")
    at.expect("AT", "LOCATION")
    target = place_of(at)
    at.end()
    return st.ConvertTable(source=source, target=target, system=system, **given)


_SYSTEMS = ("DELTA", "PARQUET", "INDEXTABLES4SPARK", "ICEBERG")


def place_of(at: Cursor) -> st.TableName:
    """A path in quotes."""
    position = 0 if at.token is None else at.token.start
    return st.TableName(at.string("a path in quotes"), is_path=True, position=position)


def pairs(at: Cursor) -> dict[str, str]:
    """Keys and values in parentheses."""
    at.expect_mark("(")
    found = [at.skip_text_pair()]
    while at.accept_mark(","):
        found.append(at.skip_text_pair())
    at.expect_mark(")")
    return dict(found)


def once(at: Cursor, given: dict[str, Any], name: str, value: object) -> None:
    """Note the value of a clause; twice is a fault."""
    if name in given:
        at.fail(f"{name.replace('_', ' ').upper()} once")
    given[name] = value
