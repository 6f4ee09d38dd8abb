"""Columns of Iceberg that files lack, name otherwise, or hold as other types than ours."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables
from indextables.errors import NotSupported, ProtocolUnsupported, SplitCorrupt

pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

from tests.foreign.test_iceberg import DATA, World, rows


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "t")


def numbered(name, kind, number):
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def put(world, name, table):
    """A data file that holds this table."""
    pq.write_table(table, world.root / "data" / name)
    return world.file(name, DATA, len(table))


def retold(world, change):
    """The newest metadata file, changed."""
    place = max((world.root / "metadata").glob("*.json"))
    told = json.loads(place.read_text())
    change(told)
    place.write_text(json.dumps(told))
    return world.root


def with_columns(*fields, form=3):
    def change(told):
        told["format-version"] = form
        told["next-row-id"] = 0
        told["schemas"][0]["fields"] += fields
        told["last-column-id"] = 100

    return change


def test_a_column_with_a_value_for_older_rows_has_it_where_files_lack_it(world):
    world.data("a.parquet", rows(1))
    given = [
        ("n", "int", 42, 42),
        ("x", "double", 0.5, 0.5),
        ("b", "boolean", False, False),
        ("s", "string", "2024-02-29", "2024-02-29"),
        ("d", "date", "2024-02-29", dt.date(2024, 2, 29)),
        ("t", "time", "01:02:03.000004", dt.time(1, 2, 3, 4)),
        ("ts", "timestamp", "1969-12-31T23:59:59.999999", dt.datetime.fromisoformat("1969-12-31 23:59:59.999999")),
        ("tz", "timestamptz", "2024-02-29T00:00:00+00:00", dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
        ("dec", "decimal(9, 2)", "-1.25", decimal.Decimal("-1.25")),
        ("u", "uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("bin", "binary", "00ff", b"\x00\xff"),
    ]
    fields = [
        {"id": 10 + at, "name": name, "required": at % 2 == 0, "type": kind, "initial-default": told}
        for at, (name, kind, told, _) in enumerate(given)
    ]
    new = [numbered("id", pa.int64(), 1), numbered("n", pa.int32(), 10)]
    put(world, "b.parquet", pa.table({"id": [2], "n": [7]}, schema=pa.schema(new))).commit()
    table = indextables.open(retold(world, with_columns(*fields)))
    found = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert {name: found[1][name] for name, *_ in given} == {name: value for name, _, _, value in given}
    assert (found[2]["n"], found[2]["s"]) == (7, "2024-02-29")
    assert [table.count(where=f"n = {n}") for n in (42, 7, 0)] == [1, 1, 0]
    assert table.to_arrow(["tz"])["tz"].null_count == 0


def test_a_part_of_a_struct_with_a_value_for_older_rows_has_it_where_the_struct_is_there(world, tmp_path):
    struct = pa.struct([numbered("a", pa.int64(), 4)])
    schema = pa.schema([numbered("id", pa.int64(), 1), numbered("st", struct, 3)])
    put(world, "a.parquet", pa.table({"id": [1, 2], "st": [{"a": 1}, None]}, schema=schema)).commit()
    parts = [
        {"id": 4, "name": "a", "required": False, "type": "long"},
        {"id": 5, "name": "w", "required": False, "type": "string", "initial-default": "in"},
    ]
    field = {"id": 3, "name": "st", "required": False, "type": {"type": "struct", "fields": parts}}
    table = indextables.open(retold(world, with_columns(field)))
    assert table.to_arrow(["st"])["st"].to_pylist() == [{"a": 1, "w": "in"}, None]
    indextables.convert(world.root, tmp_path / "ours")
    assert indextables.open(tmp_path / "ours").to_arrow(["st"])["st"].to_pylist() == [{"a": 1, "w": "in"}, None]


@pytest.mark.parametrize(
    ("kind", "told", "value"),
    [
        (pa.int64(), "long", 1),
        (pa.string(), "string", "x"),
        (pa.bool_(), "boolean", True),
        (pa.list_(pa.int64()), {"type": "list", "element-id": 9, "element": "long", "element-required": False}, [1]),
    ],
)
def test_a_part_that_is_never_null_is_in_a_struct_that_may_be(world, tmp_path, kind, told, value):
    struct = pa.struct([numbered("a", kind, 4)])
    schema = pa.schema([numbered("id", pa.int64(), 1), numbered("st", struct, 3)])
    whole = [{"id": 1, "st": {"a": value}}, {"id": 2, "st": None}]
    put(world, "a.parquet", pa.Table.from_pylist(whole, schema=schema)).commit()
    parts = [{"id": 4, "name": "a", "required": True, "type": told}]
    field = {"id": 3, "name": "st", "required": False, "type": {"type": "struct", "fields": parts}}
    table = indextables.open(retold(world, with_columns(field)))
    assert table.to_arrow(["id", "st"]).to_pylist() == whole
    indextables.convert(world.root, tmp_path / "ours")
    assert indextables.open(tmp_path / "ours").to_arrow(["id", "st"]).to_pylist() == whole
    put(world, "b.parquet", pa.Table.from_pylist([{"id": 3, "st": {"a": None}}], schema=schema)).commit()
    with pytest.raises(SplitCorrupt, match="column a holds nulls"):
        indextables.open(retold(world, with_columns(field))).to_arrow()


def test_files_without_numbers_are_read_by_the_names_that_the_table_tells(world):
    world.data("a.parquet", rows(1))
    put(world, "b.parquet", pa.table({"said": ["old name"], "ID": [5], "id": [2], "st": [{"x": 1, "y": 2}]})).commit()
    with pytest.raises(SplitCorrupt, match="the file numbers none"):
        indextables.open(world.root).to_arrow()
    names = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["m", "said"]}]
    names.append({"field-id": 3, "names": ["st"], "fields": [{"field-id": 4, "names": ["y"]}]})

    def change(told):
        told["properties"]["schema.name-mapping.default"] = json.dumps(names)
        parts = [{"id": 4, "name": "z", "required": False, "type": "long"}]
        fields = told["schemas"][0]["fields"]
        fields.append({"id": 3, "name": "st", "required": False, "type": {"type": "struct", "fields": parts}})
        fields.append({"id": 9, "name": "said", "required": False, "type": "string"})
        told["last-column-id"] = 9

    table = indextables.open(retold(world, change))
    assert sorted(table.to_arrow().to_pylist(), key=str) == [
        {"id": 1, "m": "row 1", "st": None, "said": None},
        {"id": 2, "m": "old name", "st": {"z": 2}, "said": None},
    ]


def test_uuids_are_texts(world):
    values = [uuid.UUID(int=number << 120 | 7) for number in range(5)]
    kinds = pa.schema([numbered("id", pa.int64(), 1), numbered("u", pa.uuid(), 9)])
    stored = pa.array([*(value.bytes for value in values), None], pa.uuid())
    put(world, "a.parquet", pa.table([pa.array(range(6)), stored], schema=kinds))
    plain = pa.schema([numbered("id", pa.int64(), 1), numbered("u", pa.binary(16), 9)])
    put(
        world, "b.parquet", pa.table([pa.array([9]), pa.array([values[3].bytes], pa.binary(16))], schema=plain)
    ).commit()
    root = retold(world, with_columns({"id": 9, "name": "u", "required": False, "type": "uuid"}))
    table = indextables.open(root)
    found = table.to_arrow(["id", "u"]).sort_by("id")["u"].to_pylist()
    assert found == [*map(str, values), None, str(values[3])]
    assert table.count(where=f"u = '{values[3]}'") == 2


def test_a_column_of_no_type_holds_nulls(world):
    root = retold(
        world.data("a.parquet", rows(1)).commit(),
        with_columns({"id": 9, "name": "v", "required": False, "type": "unknown"}),
    )
    assert indextables.open(root).to_arrow(["v"])["v"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("variant", "v .* variant"),
        ("timestamp_ns", "v .* timestamp_ns"),
        ("geometry(srid:4326)", "v .* geometry"),
        ({"type": "list", "element-id": 10, "element": "variant", "element-required": False}, "v.element .* variant"),
    ],
)
def test_types_that_are_not_read_are_refused_by_name(world, kind, named):
    root = retold(
        world.data("a.parquet", rows(1)).commit(),
        with_columns({"id": 9, "name": "v", "required": False, "type": kind}),
    )
    with pytest.raises(NotSupported, match=named):
        indextables.open(root)


def test_a_newer_form_of_the_metadata_is_refused_by_its_number(world):
    root = retold(world.data("a.parquet", rows(1)).commit(), with_columns(form=4))
    with pytest.raises(ProtocolUnsupported, match="format version 4"):
        indextables.open(root)


def test_names_that_differ_in_case_alone_are_refused(world):
    root = retold(
        world.data("a.parquet", rows(1)).commit(),
        with_columns({"id": 9, "name": "ID", "required": False, "type": "long"}),
    )
    with pytest.raises(NotSupported, match="the columns id and ID"):
        indextables.open(root)
