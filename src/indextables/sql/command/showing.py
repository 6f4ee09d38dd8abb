"""SHOW and DESCRIBE of a table: what is asked, and what the log says to it, in Spark's columns. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import CommandSyntaxError, InvalidArgument, NotSupported
from indextables.log.read import Snapshot
from indextables.log.wire import REGISTRY_PREFIX
from indextables.query.stats import map_values
from indextables.query.stored import CURRENT_DEFAULT, generated_columns, identity_columns
from indextables.sql.command.cursor import KEYWORDS, Cursor
from indextables.sql.command.lexer import first_word, tokens
from indextables.table.rows import folder_of

__all__ = ["ShowTable", "describe_rule", "own_properties", "show_rule", "shown", "what_to_show"]

_TEXT = pa.string()
_HIDDEN = (REGISTRY_PREFIX, "columnMapping.", "partitioning.former")
"""Properties that the library keeps for itself."""

_SHORT = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_NO_TABLES = frozenset(
    {"QUERY", "FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG", "PROCEDURE", "HISTORY", "DETAIL"}
)
_QUERY = frozenset({"AS", "SELECT", "WITH", "FROM", "VALUES", "TABLE"})
_LINES = pa.schema([("col_name", _TEXT), ("data_type", _TEXT), ("comment", _TEXT)])
_INFO = pa.schema([("info_name", _TEXT), ("info_value", _TEXT)])


class ShowTable(msgspec.Struct, frozen=True):
    """`key` is the property, or the column, that is asked about."""

    name: str
    what: Literal["columns", "partitions", "tblproperties", "create", "describe", "extended", "partition"]
    key: str | None = None


def show_rule(at: Cursor) -> ShowTable | None:
    """SHOW of one table; None for all others. Raises CommandSyntaxError."""
    at.expect("SHOW")
    if at.accept("CREATE", "TABLE"):
        found = ShowTable(".".join(at.dotted("a table")), "create")
    elif at.accept("COLUMNS"):
        at.expect("IN|FROM")
        name = ".".join(at.dotted("a table"))
        schema = ".".join(at.dotted("a schema")) + "." if at.accept("IN|FROM") else ""
        found = ShowTable(schema + name, "columns")
    elif at.accept("PARTITIONS"):
        found = ShowTable(".".join(at.dotted("a table")), "partitions")
        if at.accept("PARTITION"):
            found = msgspec.structs.replace(found, key=at.inside("partition values"))
    elif at.accept("TBLPROPERTIES"):
        found = ShowTable(".".join(at.dotted("a table")), "tblproperties")
        if at.accept_mark("("):
            found = msgspec.structs.replace(found, key=_key(at))
            at.expect_mark(")")
    else:
        return None
    at.end()
    return found


def _key(at: Cursor) -> str:
    token = at.token
    return at.string() if token is not None and token.kind == "text" else ".".join(at.dotted("a key"))


def describe_rule(at: Cursor) -> ShowTable | None:
    """DESCRIBE of a table or column; None for all others. Raises CommandSyntaxError."""
    at.expect("DESCRIBE|DESC")
    at.accept("TABLE")
    if at.token is None or at.token.upper in _NO_TABLES | _QUERY | KEYWORDS:
        return None
    what: Literal["describe", "extended"] = "extended" if at.accept("EXTENDED|FORMATTED") else "describe"
    name = ".".join(at.dotted("a table"))
    if at.sees("AS"):
        return None
    token = at.ahead(1)
    if at.sees("PARTITION") and token is not None and token.text == "(":
        at.accept("PARTITION")
        found = ShowTable(name, "partition", at.inside("partition values"))
        at.end()
        return found
    following = at.ahead(0)
    named = following is not None and following.kind in ("word", "name")
    column = ".".join(at.dotted("a column")) if named else None
    at.end()
    return ShowTable(name, what, column)


def what_to_show(text: str) -> ShowTable | None:
    """What SHOW or DESCRIBE of one table asks; None for all other statements."""
    word = first_word(text)
    if word not in ("SHOW", "DESCRIBE", "DESC"):
        return None
    at = Cursor(text, list(tokens(text)), None, "")
    try:
        return show_rule(at) if word == "SHOW" else describe_rule(at)
    except CommandSyntaxError:
        return None


def shown(asked: ShowTable, name: str, url: str, snapshot: Snapshot, *, is_managed: bool = False) -> pa.Table:
    """The answer to a statement about the table at `url`, whose full name is `name`.

    Raises InvalidArgument, NotSupported.
    """
    if asked.what == "columns":
        return pa.table({"col_name": pa.array(snapshot.schema.names, _TEXT)})
    if asked.what == "partitions":
        return _partitions(asked, snapshot)
    if asked.what == "tblproperties":
        return _properties(asked, snapshot)
    if asked.what == "create":
        return pa.table({"createtab_stmt": [_statement(name, url, snapshot, is_managed=is_managed)]})
    if asked.what == "partition":
        message = (
            f"DESCRIBE {asked.name} PARTITION ({asked.key}) is not offered: SHOW PARTITIONS {asked.name} lists the "
            f"partitions, and DESCRIBE DETAIL {asked.name} is about the whole table"
        )
        raise NotSupported(message, name=asked.name)
    if asked.key is not None:
        return _column(asked, snapshot)
    lines = _columns(snapshot)
    if asked.what == "extended":
        rules = _column_rules(snapshot)
        lines += [("", "", ""), ("# Column Rules", "", ""), *rules] if rules else []
        lines += [
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            *_details(name, url, snapshot, is_managed=is_managed),
        ]
    return pa.Table.from_pylist([dict(zip(_LINES.names, line, strict=True)) for line in lines], schema=_LINES)


def _partitions(asked: ShowTable, snapshot: Snapshot) -> pa.Table:
    names = list(snapshot.partition_columns)
    if not names:
        raise InvalidArgument(f"the table {asked.name} is not partitioned", name=asked.name)
    if asked.key is not None:
        message = "SHOW PARTITIONS shows all of them: SELECT DISTINCT <partition columns> FROM t WHERE ... shows some"
        raise InvalidArgument(message, name=asked.name)
    files = snapshot.files
    columns = {f"p{place}": map_values(files["partitionValues"], name) for place, name in enumerate(names)}
    listed = pa.table(columns).group_by(list(columns)).aggregate([])
    rows = (tuple(row[key] for key in columns) for row in listed.to_pylist())
    texts = sorted(folder_of(names, row).rstrip("/") for row in rows)
    return pa.table({"partition": pa.array(texts, _TEXT)})


def _properties(asked: ShowTable, snapshot: Snapshot) -> pa.Table:
    found = own_properties(snapshot.metadata.configuration)
    if asked.key is not None:
        missing = f"Table {asked.name} does not have property: {asked.key}"
        found = {asked.key: found.get(asked.key, missing)}
    return pa.table({"key": pa.array(list(found), _TEXT), "value": pa.array(list(found.values()), _TEXT)})


def own_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Properties without those that the library keeps for itself."""
    return {key: given[key] for key in sorted(given) if not key.startswith(_HIDDEN)}


class _Field(msgspec.Struct, frozen=True):
    name: str
    type: str
    nullable: bool
    comment: str | None


def _fields(snapshot: Snapshot) -> list[_Field]:
    fields = json.loads(snapshot.metadata.schemaString)["fields"]
    return [
        _Field(f["name"], _type(f["type"]), f.get("nullable", True), (f.get("metadata") or {}).get("comment"))
        for f in fields
    ]


def _type(kind: Any) -> str:
    """A type of a schema as people write it."""
    if not isinstance(kind, dict):
        return _SHORT.get(kind, str(kind))
    if kind["type"] == "struct":
        inner = (f"{field['name']}:{_type(field['type'])}" for field in kind["fields"])
        return f"struct<{','.join(inner)}>"
    if kind["type"] == "array":
        return f"array<{_type(kind['elementType'])}>"
    return f"map<{_type(kind['keyType'])},{_type(kind['valueType'])}>"


def _columns(snapshot: Snapshot) -> list[tuple[str, str, str | None]]:
    lines = {f.name: (f.name, f.type, f.comment) for f in _fields(snapshot)}
    found: list[tuple[str, str, str | None]] = list(lines.values())
    if snapshot.partition_columns:
        head = [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        found += [*head, *(lines[name] for name in snapshot.partition_columns)]
    return found


def _column_rules(snapshot: Snapshot) -> list[tuple[str, str, str | None]]:
    """What holds for the values of a column, as SQL says it."""
    generated, numbered = generated_columns(snapshot.schema), identity_columns(snapshot.schema)
    found: list[tuple[str, str, str | None]] = []
    for field in snapshot.schema:
        default = (field.metadata or {}).get(CURRENT_DEFAULT)
        words = [] if field.nullable else ["NOT NULL"]
        words += [] if default is None else [f"DEFAULT {default.decode()}"]
        words += [f"GENERATED ALWAYS AS ({generated[field.name]})"] if field.name in generated else []
        words += [f"GENERATED {numbered[field.name].sql}"] if field.name in numbered else []
        found += [(field.name, " ".join(words), "")] if words else []
    return found


def _column(asked: ShowTable, snapshot: Snapshot) -> pa.Table:
    wanted = (asked.key or "").lower()
    for field in _fields(snapshot):
        if field.name.lower() == wanted:
            values = [field.name, field.type, "NULL" if field.comment is None else field.comment]
            return pa.Table.from_arrays(
                [pa.array(["col_name", "data_type", "comment"]), pa.array(values)], schema=_INFO
            )
    there = ", ".join(snapshot.schema.names)
    raise InvalidArgument(f"there is no column {asked.key} in {asked.name}; it has {there}", column=asked.key)


def _details(name: str, url: str, snapshot: Snapshot, *, is_managed: bool = False) -> list[tuple[str, str, str]]:
    catalog, schema, table = [*([""] * 3), *name.replace("`", "").split(".")][-3:]
    properties = ",".join(f"{key}={value}" for key, value in own_properties(snapshot.metadata.configuration).items())
    bytes_of = pc.sum(snapshot.files["size"], min_count=0).as_py() or 0
    found = {
        "Catalog": catalog,
        "Database": schema,
        "Table": table,
        "Type": "MANAGED" if is_managed else "EXTERNAL",
        "Provider": "indextables",
        "Comment": snapshot.metadata.description or "",
        "Table Properties": f"[{properties}]",
        "Location": url,
        "Version": str(snapshot.version),
        "Statistics": f"{bytes_of} bytes, {snapshot.files.num_rows} files",
        "Partition Columns": ", ".join(snapshot.partition_columns),
    }
    return [(key, value, "") for key, value in found.items() if value]


def _statement(name: str, url: str, snapshot: Snapshot, *, is_managed: bool = False) -> str:
    """A CREATE TABLE that makes such a table. Its LOCATION stands there where the catalog did not choose it."""
    columns, generated = [], generated_columns(snapshot.schema)
    numbered = identity_columns(snapshot.schema)
    for field in _fields(snapshot):
        words = [f"  {_name(field.name)} {field.type}", "" if field.nullable else "NOT NULL"]
        words += [f"GENERATED ALWAYS AS ({generated[field.name]})"] if field.name in generated else []
        words += [f"GENERATED {numbered[field.name].sql}"] if field.name in numbered else []
        default = (snapshot.schema.field(field.name).metadata or {}).get(CURRENT_DEFAULT)
        words += [] if default is None else [f"DEFAULT {default.decode()}"]
        words += [] if field.comment is None else [f"COMMENT {_quoted(field.comment)}"]
        columns.append(" ".join(word for word in words if word))
    lines = [f"CREATE TABLE {name.replace('`', '')} (", ",\n".join(columns) + ")", "USING indextables"]
    if snapshot.partition_columns:
        lines.append(f"PARTITIONED BY ({', '.join(map(_name, snapshot.partition_columns))})")
    if snapshot.metadata.description:
        lines.append(f"COMMENT {_quoted(snapshot.metadata.description)}")
    if not is_managed:
        lines.append(f"LOCATION {_quoted(url)}")
    properties = [
        f"  {_quoted(key)} = {_quoted(value)}" for key, value in own_properties(snapshot.metadata.configuration).items()
    ]
    if properties:
        lines += ["TBLPROPERTIES (", ",\n".join(properties) + ")"]
    return "\n".join(lines) + "\n"


def _name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
