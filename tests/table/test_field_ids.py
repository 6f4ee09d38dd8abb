"""Every field of a data file has the permanent id of its column, as Parquet's field id, whoever wrote the file."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest
from tests.split.frames import every_type
from tests.world.field_ids import check, declared, files, in_file, root

import indextables

DEEP = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("matrix", pa.list_(pa.list_(pa.int32()))),
        ("props", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("people", pa.list_(pa.struct([("name", pa.string()), ("langs", pa.list_(pa.string()))]))),
        ("by_name", pa.map_(pa.string(), pa.struct([("n", pa.int32()), ("m", pa.map_(pa.int32(), pa.int32()))]))),
        ("place", pa.struct([("city", pa.string()), ("geo", pa.struct([("at", pa.list_(pa.float64()))]))])),
        ("wide", pa.large_list(pa.struct([("a", pa.int64())]))),
    ]
)


def deep(number: int) -> pa.Table:
    row = {
        "id": number,
        "tags": ["a", None],
        "matrix": [[1], [], None],
        "props": [("k", [1, 2])],
        "people": [{"name": "Ada", "langs": ["en"]}],
        "by_name": [("x", {"n": 1, "m": [(1, 2)]})],
        "place": {"city": "Bern", "geo": {"at": [1.5]}},
        "wide": [{"a": 1}],
    }
    return pa.Table.from_pylist([row, {"id": -number}], schema=DEEP)


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", DEEP)
    made.append(deep(1))
    return made


def test_a_file_of_every_type_has_all_ids(tmp_path):
    rows = every_type()
    made = indextables.create(tmp_path / "t", rows.schema)
    made.append(rows)
    check(made)
    assert declared(made)["tags.element"] > max(n for path, n in declared(made).items() if "." not in path)


def test_elements_keys_and_values_have_ids_at_any_depth(table):
    check(table)
    ways = {"matrix.element.element", "props.value.element", "people.element.langs.element", "by_name.value.m.key"}
    assert ways | {"place.geo.at.element", "wide.element.a"} <= set(declared(table))


def test_merged_updated_and_reindexed_files_have_the_same_ids(table):
    before = declared(table)
    table.append(deep(2))
    table.merge_splits()
    check(table)
    table.update({"place": "null"}, where="id = 2")
    check(table)
    table.reindex(force=True)
    check(table)
    assert declared(table) == before


def test_a_merged_schema_numbers_on_and_keeps_what_is_there(table):
    before = declared(table)
    more = pa.table({"id": [3], "extra": pa.array([[("k", ["v"])]], pa.map_(pa.string(), pa.list_(pa.string())))})
    table.append(more, merge_schema=True)
    after = declared(table)
    assert {path: after[path] for path in before} == before
    assert min(after[path] for path in after.keys() - before.keys()) > max(before.values())
    assert in_file(files(table)[-1]) == after
    table.merge_splits()
    check(table)


def test_ids_of_elements_count_for_those_that_come_later_also_with_a_library_that_does_not_know_them(table):
    highest = max(declared(table).values())
    assert table.metadata.configuration["columnMapping.maxColumnId"] == str(highest)
    table.overwrite(pa.table({"id": [1]}), overwrite_schema=True)
    table.append(pa.table({"later": [1]}), merge_schema=True)
    assert declared(table)["later"] == highest + 1


def test_columns_of_another_table_bring_no_ids(table, tmp_path):
    other = indextables.create(tmp_path / "other", pa.schema([("id", pa.int64())]))
    other.append(table.to_arrow(), merge_schema=True)
    check(other)


def test_rows_that_are_read_say_nothing_about_parquet(table):
    assert b"PARQUET" not in table.to_arrow().schema.serialize().to_pybytes()
    assert b"PARQUET" not in table.search("id:1").schema.serialize().to_pybytes()


def strip_nested(table: indextables.Table) -> indextables.Table:
    """The table as a library before ids of elements would have made it."""
    first = root(table) / "_transaction_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in gzip.decompress(first.read_bytes()).splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["schemaString"] = _without(line["metaData"]["schemaString"])
            line["metaData"]["configuration"].pop("columnMapping.maxColumnId")
    first.write_bytes("".join(json.dumps(line) + "\n" for line in lines).encode())
    (first.parent / f"{0:020d}.crc").unlink()
    indextables.invalidate_caches()
    return indextables.open(root(table))


def _without(text: str) -> str:
    def clean(node: object) -> object:
        if isinstance(node, dict):
            return {key: clean(value) for key, value in node.items() if key != "indextables.nestedIds"}
        return [clean(item) for item in node] if isinstance(node, list) else node

    return json.dumps(clean(json.loads(text)))


def test_an_older_table_gets_ids_of_elements_with_its_next_schema(tmp_path):
    table = strip_nested(indextables.create(tmp_path / "t", DEEP))
    table.append(deep(1))
    ids = declared(table)
    assert "tags.element" not in ids
    told = {path: number for path, number in in_file(files(table)[0]).items() if number is not None}
    assert told == ids
    assert table.to_arrow() == deep(1).cast(table.schema)
    table.append(pa.table({"id": [2], "more": ["x"]}), merge_schema=True)
    after = declared(table)
    assert after.items() >= ids.items()
    assert after["tags.element"] > max(ids.values())
    assert in_file(files(table)[-1]) == after
    table.merge_splits()
    check(table)
    assert table.to_arrow(where="id < 2").drop_columns("more") == deep(1).cast(table.schema.remove(len(DEEP)))


def test_a_restored_schema_keeps_the_ids_that_its_elements_got_meanwhile(tmp_path):
    table = strip_nested(indextables.create(tmp_path / "t", DEEP))
    table.append(deep(1))
    table.append(pa.table({"more": ["x"]}), merge_schema=True)
    given = declared(table)
    table.restore(version=1)
    assert declared(table) == {path: number for path, number in given.items() if path != "more"}
    table.append(deep(2))
    assert in_file(files(table)[-1]) == declared(table)
