"""Make the golden tables: `python -m tests.golden.table.build NAME` writes `NAME.json` beside this file.

A golden file is never rebuilt: it shows that what was once written stays readable. A new form gets a new file.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import indextables as it
from tests.world.row_ids import scan_row_ids

FOLDER = Path(__file__).parent
FORMATS = ["json", "parquet", "avro"]


def build(folder: Path) -> dict[str, object]:
    """A table with a checkpoint in each format; its objects, and what must be read from them."""
    place = folder / "t"
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("message", pa.string())])
    it.create(place, schema, partition_by=["day"], indexing={"message": "text"})
    for number, form in enumerate(FORMATS):
        table = it.open(place, options={"state.format": form, "commit.user": "golden"})
        days = pa.array([f"d{number}", None])
        ids = pa.array([2 * number, 2 * number + 1], pa.int64())
        table.append(pa.table({"id": ids, "day": days, "message": [f"word{number} both", "both"]}, schema=schema))
        table.checkpoint()
    table.append(pa.table({"id": pa.array([6], pa.int64()), "day": ["d0"], "message": ["last"]}, schema=schema))
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    rows = [table.at(version).to_arrow().sort_by("id").to_pylist() for version in range(len(FORMATS) + 2)]
    return {
        "objects": {str(file.relative_to(place)): base64.b85encode(file.read_bytes()).decode() for file in files},
        "rows": rows,
        "id": table.metadata.id,
    }


def build_rows(folder: Path) -> dict[str, object]:
    """A table whose rows have ids and whose fields, elements, keys and values too: rows come, go, change and move."""
    place = folder / "t"
    kinds = [("id", pa.int64()), ("tags", pa.list_(pa.string())), ("props", pa.map_(pa.string(), pa.int64()))]
    table = it.create(place, pa.schema(kinds))
    for first in (0, 3):
        table.append([{"id": n, "tags": [f"t{n}"], "props": [("k", n)]} for n in range(first, first + 3)])
    table.delete("id = 1")
    table.update({"tags": "null"}, "id = 4")
    table.checkpoint()
    table.merge_splits()
    table.append([{"id": 6}])
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    return {
        "objects": {str(file.relative_to(place)): base64.b85encode(file.read_bytes()).decode() for file in files},
        "rows": [table.at(version).to_arrow().sort_by("id").to_pylist() for version in range(table.version + 1)],
        "row_ids": [row_ids(table.at(version)) for version in range(table.version + 1)],
        "schema": json.loads(table.metadata.schemaString),
    }


def build_altered(folder: Path) -> dict[str, object]:
    """A table with columns that were renamed, dropped, made again, widened and given a default."""
    place = folder / "t"
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string()), ("n", pa.int32())])
    table = it.create(place, schema, indexing={"a": "text"})
    table.append([{"id": n, "a": f"both word{n}", "b": f"b{n}", "n": n} for n in range(3)])
    for old, new in (("a", "third"), ("b", "a"), ("third", "b")):
        table.rename_column(old, new)
    table.drop_columns("n")
    table.add_columns("n string, c int DEFAULT 7 COMMENT 'why' AFTER id")
    table.append([{"id": 3, "a": "z", "b": "both", "n": "text"}, {"id": 4, "c": None}])
    table.alter_column("c", type="bigint", default=None)
    table.checkpoint()
    table.append([{"id": 5}])
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    return {
        "objects": {str(file.relative_to(place)): base64.b85encode(file.read_bytes()).decode() for file in files},
        "rows": [table.at(version).to_arrow().sort_by("id").to_pylist() for version in range(table.version + 1)],
        "schema": json.loads(table.metadata.schemaString),
        "former": table.metadata.configuration["columnMapping.formerNames"],
    }


def build_constraints(folder: Path) -> dict[str, object]:
    """A table with constraints: one from the first version on, one that came and went, one that came later."""
    place = folder / "t"
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = it.create(place, schema, constraints={"Sane": "id >= 0 AND id < 100"})
    table.append([{"id": n, "name": f"n{n}"} for n in range(3)])
    table.add_constraint("short", "length(name) < 5")
    table.drop_constraint("short")
    table.add_constraint("named", "name IS NOT NULL AND name <> ''")
    table.checkpoint()
    table.update({"id": "id + 10"}, "id = 1")
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    return {
        "objects": {str(file.relative_to(place)): base64.b85encode(file.read_bytes()).decode() for file in files},
        "rows": [table.at(version).to_arrow().sort_by("id").to_pylist() for version in range(table.version + 1)],
        "rules": {key: text for key, text in table.metadata.configuration.items() if key.startswith("constraints.")},
        "features": table.protocol.writerFeatures,
    }


def build_identity(folder: Path) -> dict[str, object]:
    """A table with two identity columns; rows came with and without numbers, changed and moved."""
    place = folder / "t"
    schema = pa.schema([("id", pa.int64()), ("down", pa.int64()), ("name", pa.string())])
    words = {"id": "ALWAYS AS IDENTITY", "down": "BY DEFAULT AS IDENTITY (START WITH -1 INCREMENT BY -3)"}
    table = it.create(place, schema, generated=words)
    table.append([{"name": name} for name in "abc"])
    table.append([{"name": "d", "down": 5}, {"name": "e"}])
    table.rename_column("id", "number")
    table.update({"name": "upper(name)"}, "number = 2")
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    claims = sorted(file for file in files if "_sequences" in file.parts)
    return {
        "objects": {str(file.relative_to(place)): base64.b85encode(file.read_bytes()).decode() for file in files},
        "rows": table.to_arrow().sort_by("number").to_pylist(),
        "schema": json.loads(table.metadata.schemaString),
        "claims": {str(file.relative_to(place)): json.loads(file.read_text()) for file in claims},
        "features": table.protocol.writerFeatures,
    }


def build_generated(folder: Path) -> dict[str, object]:
    """A table that is partitioned by a generated column; rows came with and without it, changed and moved."""
    place = folder / "t"
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("day", pa.date32())])
    table = it.create(place, schema, partition_by=["day"], generated={"day": "CAST(ts AS DATE)"})
    first = dt.datetime(2026, 1, 31, 23, 59, tzinfo=dt.UTC)
    table.append([{"id": n, "ts": first + dt.timedelta(minutes=n)} for n in range(3)])
    table.append([{"id": 3, "ts": None}, {"id": 4, "ts": first, "day": first.date()}])
    table.update({"ts": first + dt.timedelta(days=9)}, "id = 1")
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    rows = table.to_arrow().sort_by("id").to_pylist()
    return {
        "objects": {str(file.relative_to(place)): base64.b85encode(file.read_bytes()).decode() for file in files},
        "rows": [[row["id"], str(row["ts"]), str(row["day"])] for row in rows],
        "schema": json.loads(table.metadata.schemaString),
        "features": table.protocol.writerFeatures,
    }


def row_ids(table: it.Table) -> dict[str, int]:
    """The id of each row, by its column `id`."""
    batches = scan_row_ids(table._log.env, table._snapshot, ["id"])
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {str(row["id"]): row["_row_id"] for row in sorted(rows, key=lambda row: row["id"])}


BUILDS = {
    "v4": build,
    "v4-altered": build_altered,
    "v4-constraints": build_constraints,
    "v4-generated": build_generated,
    "v4-identity": build_identity,
    "v4-rows": build_rows,
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        (FOLDER / f"{sys.argv[1]}.json").write_text(json.dumps(BUILDS[sys.argv[1]](Path(made)), indent=1) + "\n")
