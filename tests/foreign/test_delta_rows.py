"""Rows of Delta tables, by the protocol: mapped and widened columns, partition values, vectors, paths, statistics."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import os
import struct
import uuid
import zlib
from urllib.parse import quote

import pyarrow as pa
import pytest
from tests.foreign.delta_world import SCHEMA, DeltaWorld, rows, with_features

import indextables
from indextables.errors import DvCorrupt, LogCorrupt, NotSupported, PathEscape, SplitCorrupt, VersionExpired
from indextables.log.wire import schema_to_json
from indextables.split.file import dv

MAPPING = with_features("columnMapping")
VECTORS = with_features("deletionVectors")
WIDENED = with_features("typeWidening", "timestampNtz")


@pytest.fixture
def world(tmp_path):
    return DeltaWorld(tmp_path / "table")


def read(world, **options):
    return indextables.open(world.root).to_arrow(**options).to_pylist()


def field(name, kind, number, physical=None, **more):
    told = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical or name}
    return {"name": name, "type": kind, "nullable": True, "metadata": told | more}


def struct_of(*fields):
    return {"type": "struct", "fields": list(fields)}


NESTED = struct_of(
    field("id", "long", 1, "col-1"),
    field("part", "string", 2, "col-2"),
    field(
        "deep",
        {
            "type": "array",
            "containsNull": True,
            "elementType": struct_of(field("a", "integer", 4, "col-4"), field("b", "string", 5, "col-5")),
        },
        3,
        "col-3",
    ),
    field(
        "by_key",
        {
            "type": "map",
            "keyType": "string",
            "valueType": struct_of(field("x", "double", 7, "col-7")),
            "valueContainsNull": True,
        },
        6,
        "col-6",
    ),
)


def numbered(name, kind, number):
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def nested_file(names):
    """The columns under the names that a file has for them, with their numbers; `b` is missing."""
    inner = pa.struct([numbered(names[3], pa.int32(), 4)])
    value = pa.struct([numbered(names[5], pa.float64(), 7)])
    schema = pa.schema(
        [
            numbered(names[4], pa.map_(pa.string(), value), 6),
            numbered(names[2], pa.list_(inner), 3),
            numbered(names[0], pa.int64(), 1),
            pa.field("dropped", pa.string()),
        ]
    )
    columns = [
        [[("k", {names[5]: 0.5}), ("l", None)], None, []],
        [[{names[3]: 7}, None], [], None],
        [1, 2, 3],
        ["never", "to be", "seen"],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


NESTED_ROWS = [
    {"id": 1, "part": "p", "deep": [{"a": 7, "b": None}, None], "by_key": [("k", {"x": 0.5}), ("l", None)]},
    {"id": 2, "part": "p", "deep": [], "by_key": None},
    {"id": 3, "part": "p", "deep": None, "by_key": []},
]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_found_on_every_level(world, mode):
    physical = ["col-1", "", "col-3", "col-4", "col-6", "col-7"]
    world.create(
        json.dumps(NESTED),
        protocol=MAPPING,
        partition_by=["part"],
        configuration={"delta.columnMapping.mode": mode},
    )
    # By number the names in a file mean nothing.
    names = physical if mode == "name" else ["id", "", "by_key", "x", "deep", "a"]
    world.commit(world.add(nested_file(names), values={"col-2": "p"}))
    assert read(world) == NESTED_ROWS
    assert read(world, columns=["deep"], where="id = 1") == [{"deep": NESTED_ROWS[0]["deep"]}]
    assert read(world, where="part = 'q'") == []


def test_columns_by_number_are_not_guessed_in_a_file_that_numbers_none(world):
    world.create(
        json.dumps(struct_of(field("id", "long", 1, "col-1"))),
        protocol=MAPPING,
        configuration={"delta.columnMapping.mode": "id"},
    )
    world.commit(world.add(pa.table({"id": pa.array([1], pa.int64())})))
    with pytest.raises(SplitCorrupt, match="numbers none"):
        read(world)


def test_mapping_counts_only_where_the_protocol_has_it(world):
    schema = json.dumps(struct_of(field("id", "long", 1, "col-1")))
    world.create(schema, configuration={"delta.columnMapping.mode": "name"})
    world.commit(world.add(pa.table({"id": pa.array([1], pa.int64()), "col-1": pa.array([2], pa.int64())})))
    assert read(world) == [{"id": 1}]


def test_a_renamed_and_a_dropped_column_of_the_same_name_do_not_mix(world):
    before = struct_of(field("id", "long", 1, "id"), field("name", "string", 2, "name"))
    after = struct_of(
        field("id", "long", 1, "id"), field("title", "string", 2, "name"), field("name", "string", 3, "c3")
    )
    mode = {"delta.columnMapping.mode": "name"}
    world.create(json.dumps(before), protocol=MAPPING, configuration=mode)
    world.commit(world.add(rows(1)))
    world.commit(world.metadata(json.dumps(after), configuration=mode))
    new = pa.table({"id": pa.array([2], pa.int64()), "name": ["kept"], "c3": ["new"]})
    world.commit(world.add(new))
    assert read(world) == [{"id": 1, "title": "row 1", "name": None}, {"id": 2, "title": "kept", "name": "new"}]


WIDENINGS = [
    ("byte", "short", pa.int8(), [1, -128], [1, -128]),
    ("byte", "long", pa.int8(), [1, None], [1, None]),
    ("short", "integer", pa.int16(), [-5], [-5]),
    ("integer", "long", pa.int32(), [2**31 - 1], [2**31 - 1]),
    ("integer", "double", pa.int32(), [2**31 - 1], [float(2**31 - 1)]),
    ("float", "double", pa.float32(), [1.5, math.inf], [1.5, math.inf]),
    ("date", "timestamp_ntz", pa.date32(), [dt.date(1600, 2, 29)], [dt.datetime(1600, 2, 29)]),  # noqa: DTZ001
    ("integer", "decimal(12,2)", pa.int32(), [-7], [decimal.Decimal("-7.00")]),
    ("long", "decimal(20,0)", pa.int64(), [2**63 - 1], [decimal.Decimal(2**63 - 1)]),
    (
        "decimal(5,2)",
        "decimal(12,4)",
        pa.decimal128(5, 2),
        [decimal.Decimal("999.99")],
        [decimal.Decimal("999.9900")],
    ),
]


@pytest.mark.parametrize(("before", "after", "kind", "given", "wanted"), WIDENINGS)
def test_widened_columns_hold_the_same_values(world, before, after, kind, given, wanted):
    def schema(name):
        told = {"delta.typeChanges": [{"fromType": before, "toType": after}]}
        inner = struct_of({"name": "v", "type": name, "nullable": True, "metadata": told})
        return json.dumps(
            struct_of(
                {"name": "v", "type": name, "nullable": True, "metadata": told},
                {"name": "in", "type": inner, "nullable": True, "metadata": {}},
                {
                    "name": "many",
                    "type": {"type": "array", "elementType": name, "containsNull": True},
                    "nullable": True,
                    "metadata": {},
                },
            )
        )

    world.create(schema(before), protocol=WIDENED)
    values = pa.array(given, kind)
    world.commit(
        world.add(
            pa.table(
                {
                    "v": values,
                    "in": pa.StructArray.from_arrays([values], ["v"]),
                    "many": pa.array([[value] for value in given], pa.list_(kind)),
                }
            )
        )
    )
    world.commit(world.metadata(schema(after)))
    assert read(world) == [{"v": value, "in": {"v": value}, "many": [value]} for value in wanted]
    assert indextables.open(world.root, version=1).to_arrow()["v"].to_pylist() == given


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("integer", pa.array([2**40], pa.int64())),
        ("integer", pa.array(["1"])),
        ("string", pa.array([1])),
        ("float", pa.array([0.1], pa.float64())),
        ("long", pa.array([1.0])),
        ("boolean", pa.array([1])),
        ("date", pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us"))),  # noqa: DTZ001
        ("decimal(4,2)", pa.array([decimal.Decimal("123.456")])),
        ("string", pa.array([[1]])),
        ({"type": "array", "elementType": "integer", "containsNull": True}, pa.array([1], pa.int32())),
        (struct_of(), pa.array([1], pa.int32())),
    ],
)
def test_values_that_are_no_values_of_the_column_are_refused(world, kind, stored):
    world.create(json.dumps(struct_of({"name": "v", "type": kind, "nullable": True, "metadata": {}})))
    world.commit(world.add(pa.table({"v": stored})))
    with pytest.raises(SplitCorrupt, match="column v is"):
        read(world)


def test_a_column_that_is_never_null_is_not(world):
    world.create(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    world.commit(world.add(pa.table({"id": pa.array([1, None], pa.int64())})))
    with pytest.raises(SplitCorrupt, match="nulls"):
        read(world)


INSTANTS = [
    (pa.timestamp("ms", "UTC"), {}),
    (pa.timestamp("us"), {}),
    (pa.timestamp("ns", "UTC"), {}),
    (pa.timestamp("us", "UTC"), {}),
    (pa.timestamp("us"), {"use_deprecated_int96_timestamps": True}),
]


@pytest.mark.parametrize(("stored", "options"), INSTANTS)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_instants_are_read_however_a_file_spells_them(world, stored, options, kind):
    schema = json.dumps(struct_of({"name": "at", "type": kind, "nullable": True, "metadata": {}}))
    world.create(schema, protocol=with_features("timestampNtz"))
    millis = [0, -1, 1_700_000_000_123]
    values = pa.array(millis, pa.int64()).cast(pa.timestamp("ms")).cast(stored)
    world.commit(world.add(pa.table({"at": values}), **options))
    found = indextables.open(world.root).to_arrow()["at"]
    assert found.type == pa.timestamp("us", "UTC" if kind == "timestamp" else None)
    assert found.cast(pa.int64()).to_pylist() == [ms * 1000 for ms in millis]


def test_old_int96_instants_keep_their_century(world):
    world.create(pa.schema([("at", pa.timestamp("us", "UTC"))]))
    given = [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)]
    values = pa.table({"at": pa.array(given, pa.timestamp("us"))})
    world.commit(world.add(values, use_deprecated_int96_timestamps=True))
    assert [row["at"] for row in read(world)] == given


PARTITION_VALUES = [
    ("string", "a b", "a b"),
    ("string", "", None),
    ("string", None, None),
    ("string", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
    ("string", "a%20b", "a%20b"),
    ("byte", "-128", -128),
    ("short", "32767", 32767),
    ("integer", "", None),
    ("integer", "-2147483648", -(2**31)),
    ("long", "9223372036854775807", 2**63 - 1),
    ("float", "1.5", 1.5),
    ("float", "-Infinity", -math.inf),
    ("double", "1.0E10", 1e10),
    ("double", "NaN", math.nan),
    ("decimal(10,2)", "-12.34", decimal.Decimal("-12.34")),
    ("decimal(38,18)", "0E-18", decimal.Decimal(0)),
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("date", "0001-01-01", dt.date(1, 1, 1)),
    ("date", "9999-12-31", dt.date(9999, 12, 31)),
    ("binary", "\x01\x02é", b"\x01\x02\xc3\xa9"),
    ("timestamp", "2026-05-01 12:30:07", dt.datetime(2026, 5, 1, 12, 30, 7, tzinfo=dt.UTC)),
    ("timestamp", "2026-05-01 12:30:07.007001", dt.datetime(2026, 5, 1, 12, 30, 7, 7001, tzinfo=dt.UTC)),
    ("timestamp", "2026-05-01T12:30:07.007001Z", dt.datetime(2026, 5, 1, 12, 30, 7, 7001, tzinfo=dt.UTC)),
    ("timestamp", "2026-05-01T12:30:07.5+02:00", dt.datetime(2026, 5, 1, 10, 30, 7, 500000, tzinfo=dt.UTC)),
    ("timestamp", "1969-12-31 23:59:59.999999", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)),
    ("timestamp_ntz", "2026-05-01 12:30:07.1", dt.datetime(2026, 5, 1, 12, 30, 7, 100000)),  # noqa: DTZ001
    ("timestamp_ntz", "2026-05-01T12:30:07", dt.datetime(2026, 5, 1, 12, 30, 7)),  # noqa: DTZ001
]


@pytest.mark.parametrize(("kind", "text", "wanted"), PARTITION_VALUES)
def test_partition_values_of_every_type(world, kind, text, wanted):
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "p", "type": kind, "nullable": True, "metadata": {}},
    ]
    world.create(json.dumps(struct_of(*fields)), partition_by=["p"], protocol=with_features("timestampNtz"))
    # What a file says of a partition column does not count.
    stored = pa.table({"id": pa.array([1], pa.int64()), "p": ["from the file"]})
    world.commit(world.add(stored, values={"p": text}))
    (found,) = read(world)
    assert found["id"] == 1
    assert found["p"] == wanted or (isinstance(wanted, float) and math.isnan(found["p"]) and math.isnan(wanted))
    assert indextables.open(world.root).count(where="p IS NULL") == (wanted is None)
    assert len(read(world, columns=["p"], where="p IS NOT NULL")) == (wanted is not None)


@pytest.mark.parametrize(
    ("kind", "text"), [("integer", "x"), ("date", "2026-13-01"), ("byte", "128"), ("boolean", "?")]
)
def test_a_partition_value_that_is_none_is_refused(world, kind, text):
    fields = [{"name": "p", "type": kind, "nullable": True, "metadata": {}}]
    world.create(json.dumps(struct_of(*fields)), partition_by=["p"])
    world.commit(world.add(rows(1), values={"p": text}))
    with pytest.raises(LogCorrupt, match="column p"):
        read(world)


def test_files_of_other_partitions_are_not_opened(world):
    world.create(SCHEMA, partition_by=["name"])
    world.commit(*(world.add(rows(number), values={"name": f"p{number}"}) for number in (1, 2, 3)))
    gone = indextables.open(world.root).files(where="name = 'p2'")["path"].to_pylist()
    assert len(gone) == 1
    (world.root / gone[0]).unlink()
    assert [row["id"] for row in read(world, where="name <> 'p2' AND id > 1")] == [3]
    with pytest.raises(VersionExpired):
        read(world, where="name = 'p2'")


def inline(*deleted):
    payload = dv.encode(deleted)
    return {
        "storageType": "i",
        "pathOrInlineDv": dv.z85_encode(payload),
        "sizeInBytes": len(payload),
        "cardinality": len(deleted),
    }


def in_file(world, deleted, *, folder="", kind="u", path=None):
    """A vector in a file as Delta writes it, without the binding of ours."""
    name, payload = uuid.uuid4(), dv.encode(deleted)
    place = world.root / folder / f"deletion_vector_{name}.bin"
    place.parent.mkdir(exist_ok=True)
    before = b"\x01" + b"padding"
    place.write_bytes(before + struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload)))
    text = folder + dv.z85_encode(name.bytes) if kind == "u" else path or str(place)
    return {
        "storageType": kind,
        "pathOrInlineDv": text,
        "offset": len(before),
        "sizeInBytes": len(payload),
        "cardinality": len(deleted),
    }


VECTOR_KINDS = {
    "inline": lambda _, deleted: inline(*deleted),
    "in a file": in_file,
    "in a folder": lambda world, deleted: in_file(world, deleted, folder="ab"),
    "by path": lambda world, deleted: in_file(world, deleted, kind="p"),
}


@pytest.mark.parametrize("stats", ["", None])
@pytest.mark.parametrize("kind", VECTOR_KINDS)
def test_rows_that_a_vector_deletes_are_gone(world, kind, stats):
    world.create(protocol=VECTORS)
    count, deleted = 1000, [0, 5, 6, 7, 999]
    vector = VECTOR_KINDS[kind](world, deleted)
    world.commit(world.add(rows(*range(count)), vector=vector, stats=stats, row_group_size=100))
    table = indextables.open(world.root)
    assert table.count() == count - len(deleted)
    assert table.to_arrow()["id"].to_pylist() == [i for i in range(count) if i not in deleted]
    assert table.to_arrow(["name"], where="id < 10", limit=3)["name"].to_pylist() == ["row 1", "row 2", "row 3"]
    assert table.sql("SELECT count(*) AS n, sum(id) AS s FROM t").to_pylist() == [
        {"n": count - len(deleted), "s": sum(range(count)) - sum(deleted)}
    ]


def test_a_vector_takes_the_place_of_the_one_before(world):
    world.create(protocol=VECTORS)
    add = world.add(rows(0, 1, 2, 3))
    world.commit(add)
    first = {"add": add["add"] | {"deletionVector": inline(1)}}
    second = {"add": add["add"] | {"deletionVector": inline(1, 2)}}
    world.commit(world.remove(add), first)
    world.commit(first | {"remove": None}, world.remove(first), second)
    world.commit(world.remove(second), add)
    table = indextables.open(world.root)
    assert [table.at(version=v).to_arrow()["id"].to_pylist() for v in range(5)] == [
        [],
        [0, 1, 2, 3],
        [0, 2, 3],
        [0, 3],
        [0, 1, 2, 3],
    ]


def test_a_file_that_is_live_twice_is_refused(world):
    world.create(protocol=VECTORS)
    add = world.add(rows(0, 1, 2, 3))
    world.commit(add, {"add": add["add"] | {"deletionVector": inline(1)}})
    with pytest.raises(LogCorrupt, match="twice"):
        read(world)


OUTSIDE = [
    "/etc/passwd",
    "file:///etc/passwd",
    "../other/x.bin",
    "s3://bucket/x.bin",
    "%2e%2e/x.bin",
    "_delta_log/x.bin",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_vector_outside_the_table_is_refused(world, path):
    world.create(protocol=VECTORS)
    world.commit(world.add(rows(0, 1), vector=in_file(world, [0], kind="p", path=path)))
    with pytest.raises(PathEscape):
        read(world)


def changed(vector, **fields):
    return vector | fields


@pytest.mark.parametrize(
    "fields",
    [
        {"cardinality": 2},
        {"sizeInBytes": 10**9},
        {"sizeInBytes": -1},
        {"sizeInBytes": 20},
        {"offset": 10**12},
        {"offset": -5},
        {"offset": 3},
        {"storageType": "x"},
        {"pathOrInlineDv": "short"},
        {"pathOrInlineDv": "../" + "0" * 20},
        {"pathOrInlineDv": "a/b/" + "0" * 20},
    ],
)
def test_a_vector_that_lies_is_refused(world, fields):
    world.create(protocol=VECTORS)
    world.commit(world.add(rows(0, 1, 2), vector=in_file(world, [1]) | fields))
    with pytest.raises((DvCorrupt, LogCorrupt)):
        read(world)


def test_a_vector_of_rows_that_are_not_there_is_refused(world):
    world.create(protocol=VECTORS)
    world.commit(world.add(rows(0, 1, 2), vector=inline(3)))
    with pytest.raises(DvCorrupt):
        read(world)


NAMES = ["a b.parquet", "100%.parquet", "ü/日本.parquet", "k=a%2Fb/x.parquet", "k=../x.parquet", "a+b#c?.parquet"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_decoded_once(world, name):
    world.create()
    world.commit(world.add(rows(1), name=name, path=quote(name)))
    assert [row["id"] for row in read(world)] == [1]


def test_an_absolute_path_inside_the_table_is_the_same_file(world):
    world.create()
    add = world.add(rows(1), name="a b.parquet", path=f"file://{world.root}/a%20b.parquet")
    world.commit(add)
    assert [row["id"] for row in read(world)] == [1]
    world.commit({"remove": {"path": "a%20b.parquet", "dataChange": True}})
    assert read(world) == []


@pytest.mark.parametrize("path", [*OUTSIDE, "..%2fx.parquet", "a/../../x.parquet", "", "a\\b", "a%00b", "."])
@pytest.mark.parametrize("action", ["add", "remove"])
def test_a_path_outside_the_table_is_refused(world, path, action):
    world.create()
    told = world.add(rows(1), path=path)
    world.commit(told if action == "add" else world.remove(told))
    with pytest.raises(PathEscape):
        read(world)


def test_a_link_out_of_the_table_is_not_followed(world, tmp_path):
    world.create()
    outside = DeltaWorld(tmp_path / "other")
    name, _ = outside.write(rows(1))
    add = world.add(rows(2), name="x.parquet")
    (world.root / "x.parquet").unlink()
    (world.root / "x.parquet").symlink_to(outside.root / name)
    world.commit(add)
    with pytest.raises(indextables.IndexTablesError):
        read(world)


def test_a_version_file_that_is_a_link_is_not_passed_over(world, tmp_path):
    world.create()
    world.commit(world.add(rows(1)))
    world.commit(world.add(rows(2)))
    newest = max(world.log.glob("*.json"))
    newest.rename(tmp_path / "moved.json")
    newest.symlink_to(tmp_path / "moved.json")
    with pytest.raises(indextables.IndexTablesError, match="symbolic link"):
        read(world)


@pytest.mark.parametrize("kind", ["folder", "empty folder", "pipe"])
def test_a_version_file_that_is_no_file_is_not_passed_over(world, kind):
    world.create()
    world.commit(world.add(rows(1)))
    world.commit(world.add(rows(2)))
    newest = max(world.log.glob("*.json"))
    newest.unlink()
    if kind == "pipe":
        os.mkfifo(newest)
    else:
        newest.mkdir()
    if kind == "folder":
        (newest / "inside").write_text("x")
    with pytest.raises(LogCorrupt, match="is not a file") as caught:
        read(world)
    assert caught.value.details["path"] == f"_delta_log/{newest.name}"
    assert indextables.open(world.root, version=1).count() == 1


@pytest.mark.parametrize("left", ["", "\n", " \r\n\t\n"])
@pytest.mark.parametrize("version", [1, 2])
def test_a_version_file_with_nothing_in_it_is_refused_by_name(world, version, left):
    world.create()
    world.commit(world.add(rows(1)))
    world.commit(world.add(rows(2)))
    whole = indextables.open(world.root)
    (world.log / f"{version:020d}.json").write_text(left)
    with pytest.raises(LogCorrupt, match="is empty") as caught:
        read(world)
    assert caught.value.details["version"] == version
    with pytest.raises(LogCorrupt, match="is empty"):
        whole.history()
    assert indextables.open(world.root, version=version - 1).count() == version - 1


def test_an_add_without_partition_values_is_refused_where_there_are_partitions(world):
    world.create(partition_by=["name"])
    add = world.add(rows(1).select(["id"]))
    world.commit(add)
    assert read(world) == [{"id": 1, "name": None}]
    lacking = world.add(rows(2).select(["id"]))
    del lacking["add"]["partitionValues"]
    world.commit(lacking)
    for use in (lambda table: table.to_arrow(), lambda table: table.count(), lambda table: table.files()):
        with pytest.raises(LogCorrupt, match="no partition values") as caught:
            use(indextables.open(world.root))
        assert lacking["add"]["path"] in str(caught.value)


def test_an_add_without_partition_values_is_read_where_there_are_no_partitions(world):
    world.create()
    lacking = world.add(rows(1))
    del lacking["add"]["partitionValues"]
    world.commit(lacking)
    assert [row["id"] for row in read(world)] == [1]


@pytest.mark.parametrize("size", [0, 5, 100, 10**15, 2**62])
def test_sizes_that_lie_are_refused(world, size):
    world.create()
    add = world.add(rows(1))
    add["add"]["size"] = size
    world.commit(add)
    with pytest.raises(SplitCorrupt):
        read(world)


def test_a_number_of_rows_that_lies_is_refused(world):
    world.create()
    world.commit(world.add(rows(1, 2), stats='{"numRecords":5}'))
    with pytest.raises(SplitCorrupt, match="number of rows"):
        read(world)


@pytest.mark.parametrize("stats", [None, "{}", "", "nonsense", '{"numRecords":"x"}', '{"numRecords":-1}', "{}{}", "[]"])
def test_rows_are_counted_where_the_log_does_not_tell(world, stats):
    world.create()
    world.commit(world.add(rows(1, 2), stats=stats), world.add(rows(3)))
    table = indextables.open(world.root)
    assert table.count() == 3
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_columns_that_a_file_lacks_are_null_and_names_match_in_any_case(world):
    world.create(
        schema_to_json(pa.schema([("ID", pa.int64()), ("Name", pa.string()), ("extra", pa.list_(pa.int32()))]))
    )
    world.commit(world.add(rows(1)))
    assert read(world) == [{"ID": 1, "Name": "row 1", "extra": None}]


def test_a_table_without_files_has_its_schema(world):
    world.create()
    table = indextables.open(world.root)
    assert (table.count(), table.to_arrow()) == (0, SCHEMA.empty_table())
    assert table.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 0}]
    assert table.files().num_rows == 0


OLD = {b"org.apache.spark.version": b"2.4.5"}
LEGACY = {b"org.apache.spark.version": b"3.5.0", b"org.apache.spark.legacyDateTime": b""}
NEW = {b"org.apache.spark.version": b"3.5.0"}
DAYS = [(dt.date(1582, 10, 14), False), (dt.date(1582, 10, 15), True), (None, True)]


@pytest.mark.parametrize("metadata", [OLD, LEGACY, NEW, {}])
@pytest.mark.parametrize(("day", "is_plain"), DAYS)
@pytest.mark.parametrize("deep", [False, True])
def test_days_of_the_julian_calendar_are_refused_where_a_file_may_have_them(world, metadata, day, is_plain, deep):
    kind = pa.list_(pa.struct([("d", pa.date32())])) if deep else pa.date32()
    value = [{"d": day}] if deep else day
    world.create(pa.schema([("v", kind)]))
    world.commit(world.add(pa.table([pa.array([value], kind)], schema=pa.schema([("v", kind)], metadata=metadata))))
    if is_plain or metadata in (NEW, {}):
        assert read(world) == [{"v": value}]
        return
    with pytest.raises(NotSupported, match="another calendar"):
        read(world)


@pytest.mark.parametrize(("year", "is_plain"), [(1899, False), (1900, True)])
def test_instants_before_1900_are_refused_where_a_file_may_count_them_otherwise(world, year, is_plain):
    when = dt.datetime(year, 1, 1, tzinfo=dt.UTC)
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    world.create(schema)
    world.commit(world.add(pa.table([[when]], schema=schema.with_metadata(OLD))))
    if is_plain:
        assert read(world) == [{"at": when}]
        return
    with pytest.raises(NotSupported, match="another calendar"):
        read(world)
