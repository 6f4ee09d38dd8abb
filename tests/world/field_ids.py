"""The ids of columns, as the log declares them and as data files have them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq

import indextables

__all__ = ["check", "declared", "files", "in_file", "root"]


def declared(table: indextables.Table) -> dict[str, int]:
    """The id of each field, element, key and value by its path, as `schemaString` tells them."""
    found: dict[str, int] = {}

    def field(node: dict, parent: str) -> None:
        path = f"{parent}{node['name']}"
        found[path] = node["metadata"]["indextables.id"]
        for way, number in node["metadata"].get("indextables.nestedIds", {}).items():
            found[f"{path}.{way}"] = number
        below(node["type"], path)

    def below(kind: object, path: str) -> None:
        if not isinstance(kind, dict):
            return
        for inner in kind.get("fields", ()):
            field(inner, f"{path}.")
        for name in ("element", "key", "value"):
            if f"{name}Type" in kind:
                below(kind[f"{name}Type"], f"{path}.{name}")

    for node in json.loads(table.metadata.schemaString)["fields"]:
        field(node, "")
    return found


def in_file(path: Path) -> dict[str, int | None]:
    """The Parquet field id of each field, element, key and value by its path, as pyarrow finds them.

    The hidden column of row ids is none of the table.
    """
    found: dict[str, int | None] = {}

    def field(node: pa.Field, path: str) -> None:
        number = (node.metadata or {}).get(b"PARQUET:field_id")
        found[path] = None if number is None else int(number)
        kind = node.type
        if pa.types.is_struct(kind):
            for inner in kind:
                field(inner, f"{path}.{inner.name}")
        elif pa.types.is_map(kind):
            field(kind.key_field, f"{path}.key")
            field(kind.item_field, f"{path}.value")
        elif pa.types.is_list(kind):
            field(kind.value_field, f"{path}.element")

    for node in pq.ParquetFile(path).schema_arrow:
        if node.name != "_row_id":
            field(node, node.name)
    return found


def root(table: indextables.Table) -> Path:
    return Path(urlparse(table.url).path)


def files(table: indextables.Table) -> list[Path]:
    return [root(table) / path for path in table.files()["path"].to_pylist()]


def check(table: indextables.Table) -> None:
    ids = declared(table)
    assert len(set(ids.values())) == len(ids), "an id stands for two things"
    assert files(table)
    for path in files(table):
        assert in_file(path) == ids
