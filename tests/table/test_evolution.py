"""Schemas that grow and are replaced, in one process: what old files give under a newer schema, and what is refused."""

from __future__ import annotations

import math
import struct
import tempfile

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indextables
from indextables.errors import CommitConflict, InvalidArgument, MetadataChanged, SchemaInvalid, SchemaMismatch
from indextables.log.wire.field_ids import MAX_ID_KEY, field_id
from indextables.log.wire.schema import schema_from_json, widened
from indextables.query.evaluate import evaluate
from indextables.query.parse import parse

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
FLOATS = [pa.float32(), pa.float64()]


def files_of(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*.split"))


@pytest.fixture
def people(tmp_path):
    table = indextables.create(
        tmp_path / "t",
        pa.schema([("id", pa.int32()), ("name", pa.string()), ("score", pa.float32())]),
        indexing={"name": "text"},
    )
    table.append(pa.table({"id": [1, 2], "name": ["ada", "bob"], "score": [1.5, 0.1]}, schema=table.schema))
    return table


def test_new_columns_are_null_in_old_rows_and_widened_values_are_the_same(people):
    people.append(
        pa.table({"ID": [2**40], "name": ["cy"], "score": pa.array([1e300]), "city": ["bern"], "n": [7]}),
        merge_schema=True,
    )
    assert people.schema == pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("score", pa.float64()),
            ("city", pa.string()),
            ("n", pa.int64()),
        ]
    )
    narrow = struct.unpack("f", struct.pack("f", 0.1))[0]
    assert people.to_arrow().to_pylist() == [
        {"id": 1, "name": "ada", "score": 1.5, "city": None, "n": None},
        {"id": 2, "name": "bob", "score": narrow, "city": None, "n": None},
        {"id": 2**40, "name": "cy", "score": 1e300, "city": "bern", "n": 7},
    ]
    assert people.count(where="city is null") == 2
    assert people.count(where="id > 1") == 2
    assert people.count(where=f"score = {narrow!r}") == 1
    assert people.search("name:bob", columns=["id", "city"])["id"].to_pylist() == [2]
    assert people.search("city:bern OR name:ada", columns=["n"])["n"].to_pylist() in ([7, None], [None, 7])
    assert people.sql("select sum(id) as s, count(city) as c from t").to_pylist() == [{"s": 2**40 + 3, "c": 1}]
    assert people.search("*", order_by="id desc", limit=None)["id"].to_pylist() == [2**40, 2, 1]


def test_older_versions_keep_their_schema(people):
    people.append(pa.table({"city": ["bern"]}), merge_schema=True)
    old = people.at(version=1)
    assert old.schema.names == ["id", "name", "score"]
    assert old.count() == 2


def test_the_schema_changes_in_the_commit_that_brings_the_rows(people):
    before = people.version
    people.append(pa.table({"id": [2**40]}), merge_schema=True)
    assert people.version == before + 1
    actions = people.log()["action"].to_pylist()
    assert actions.count("metaData") == 1
    assert actions.count("protocol") == 1
    assert "typeWidening" in people.protocol.readerFeatures
    people.append(pa.table({"id": [2**41]}), merge_schema=True)
    assert people.log()["action"].to_pylist().count("metaData") == 0


def test_a_merge_without_rows_still_adds_the_columns(people):
    people.append(pa.schema([("extra", pa.date32())]).empty_table(), merge_schema=True)
    assert people.schema.field("extra").type == pa.date32()
    assert people.count() == 2


def test_without_merge_the_difference_and_the_way_are_named(people, tmp_path):
    before = files_of(tmp_path / "t")
    with pytest.raises(SchemaMismatch, match=r"city is not a column.*; merge_schema=True adds"):
        people.append(pa.table({"city": ["bern"]}))
    with pytest.raises(SchemaMismatch, match=r"id is int64, the table has int32.*overwrite_schema=True replaces"):
        people.append(pa.table({"id": [1]}))
    assert files_of(tmp_path / "t") == before


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"id": pa.array(["x"])}, "id is string, the table has int32"),
        ({"name": pa.array([1])}, "name is int64, the table has string"),
        ({"id": pa.array([1.5])}, "id is double, the table has int32"),
        ({"score": pa.array([1], pa.int64())}, "score is int64, the table has float"),
        ({"name": pa.array([b"x"])}, "name is binary"),
    ],
)
def test_a_merge_refuses_foreign_types_before_any_file_is_written(people, tmp_path, data, reason):
    before = files_of(tmp_path / "t")
    with pytest.raises(SchemaMismatch, match=reason):
        people.append(pa.table(data), merge_schema=True)
    assert files_of(tmp_path / "t") == before
    assert people.version == 1


def test_a_merge_leaves_nullability_alone(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    table.append(pa.table({"id": [1]}))
    new = pa.schema([pa.field("id", pa.int64(), nullable=True), pa.field("n", pa.int64(), nullable=False)])
    table.append(pa.table({"id": [2], "n": [1]}, schema=new), merge_schema=True)
    assert [field.nullable for field in table.schema] == [False, True]
    with pytest.raises(SchemaMismatch, match="id is missing and must not be null"):
        table.append(pa.table({"n": [1]}), merge_schema=True)


def test_a_new_column_without_a_type_is_none(people):
    people.append(pa.table({"id": pa.array([3], pa.int32()), "nothing": pa.nulls(1)}), merge_schema=True)
    assert people.schema.names == ["id", "name", "score"]
    assert people.count() == 3


def test_a_merge_refuses_names_that_no_table_can_have(people):
    with pytest.raises(SchemaInvalid, match="refused"):
        people.append(pa.table({"a.b": [1]}), merge_schema=True)
    with pytest.raises(InvalidArgument):
        people.append(pa.table({"a": [1], "A": [2]}), merge_schema=True)


def test_partition_columns_widen_as_whole_numbers_only(tmp_path):
    schema = pa.schema([("p", pa.int32()), ("f", pa.float32()), ("v", pa.int64())])
    table = indextables.create(tmp_path / "t", schema, partition_by=["p", "f"])
    table.append(pa.table({"p": [1], "f": [0.1], "v": [1]}, schema=schema))
    table.append(pa.table({"p": [2**40], "v": [2]}), merge_schema=True)
    assert table.to_arrow(where=f"p in (1, {2**40})")["v"].to_pylist() == [1, 2]
    assert table.to_arrow(where="p = 1")["v"].to_pylist() == [1]
    with pytest.raises(SchemaMismatch, match="partitioned by it as float"):
        table.append(pa.table({"f": [0.1]}), merge_schema=True)


def test_new_columns_are_indexed_as_the_call_says_from_now_on(people):
    table = indextables.open(people.url, options={"indexing.typemap.body": "text"})
    table.append(pa.table({"body": ["the quick fox"]}), merge_schema=True)
    later = indextables.open(people.url)
    later.append(pa.table({"body": ["a quick dog"]}))
    assert later.search("body:quick", columns=["body"]).num_rows == 2
    assert later.metadata.configuration["indexing.typemap.body"] == "text"


def test_a_handle_of_an_older_schema_conflicts_and_leaves_nothing(people, tmp_path):
    stale = indextables.open(people.url)
    people.append(pa.table({"city": ["bern"]}), merge_schema=True)
    before = files_of(tmp_path / "t")
    with pytest.raises(MetadataChanged, match="schema"):
        stale.append(pa.table({"name": ["dee"]}))
    with pytest.raises(CommitConflict):
        stale.append(pa.table({"other": [1]}), merge_schema=True)
    with pytest.raises(CommitConflict):
        stale.overwrite(pa.table({"other": [1]}), overwrite_schema=True)
    assert files_of(tmp_path / "t") == before
    stale.refresh().append(pa.table({"name": ["dee"]}))
    assert indextables.open(people.url).count() == 4
    assert indextables.open(people.url).schema.names == ["id", "name", "score", "city"]


def test_a_handle_that_knows_older_properties_does_not_take_them_back(people):
    from tests.world.commits import change_metadata

    stale = indextables.open(people.url, options={"indexing.typemap.name": "string"})
    before = people.metadata
    changed = msgspec.structs.replace(before, configuration={**before.configuration, "note": "kept"})
    change_metadata(people._log, changed)
    stale.append(pa.table({"name": ["dee"]}))
    after = indextables.open(people.url).metadata.configuration
    assert after["note"] == "kept"
    assert len(after) > len(changed.configuration)  # the plan of the new split is registered beside it


# Replace


def test_overwrite_replaces_schema_and_rows_at_once(people):
    people.overwrite(pa.table({"id": ["a", "b"], "when": [1, 2]}), overwrite_schema=True)
    assert people.schema == pa.schema([("id", pa.string()), ("when", pa.int64())])
    assert people.to_arrow().to_pylist() == [{"id": "a", "when": 1}, {"id": "b", "when": 2}]
    assert people.search("id:b", columns=["when"])["when"].to_pylist() == [2]
    assert people.at(version=1).to_arrow()["name"].to_pylist() == ["ada", "bob"]
    assert people.at(version=1).search("name:ada", columns=["id"])["id"].to_pylist() == [1]


def test_a_column_that_comes_back_has_an_id_of_its_own(people):
    def ids():
        schema = schema_from_json(people.metadata.schemaString)
        return {field.name: field_id(field) for field in schema}

    first = ids()
    people.overwrite(pa.table({"id": pa.array([1], pa.int32())}), overwrite_schema=True)
    assert ids() == {"id": first["id"]}
    people.append(pa.table({"name": [5]}), merge_schema=True)
    assert ids()["name"] > max(first.values())
    assert int(people.metadata.configuration[MAX_ID_KEY]) == max(ids().values())
    assert people.to_arrow()["name"].to_pylist() == [None, 5]
    assert people.search("name:5", columns=["name"])["name"].to_pylist() == [5]


def test_an_id_is_not_used_again_after_a_restore(people):
    people.append(pa.table({"city": ["bern"]}), merge_schema=True)
    highest = int(people.metadata.configuration[MAX_ID_KEY])
    people.restore(version=1)
    assert people.schema.names == ["id", "name", "score"]
    people.append(pa.table({"other": [1]}), merge_schema=True)
    schema = schema_from_json(people.metadata.schemaString)
    assert field_id(schema.field("other")) == highest + 1
    assert people.to_arrow()["other"].to_pylist() == [None, None, 1]


def test_the_partitioning_may_be_replaced_with_the_schema(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("p", pa.int64()), ("v", pa.int64())]), partition_by=["p"])
    table.append(pa.table({"p": [1, 2], "v": [1, 2]}))
    with pytest.raises(InvalidArgument, match="not in the schema"):
        table.overwrite(pa.table({"q": [1], "v": [1]}), overwrite_schema=True)
    table.overwrite(pa.table({"q": [1, 2], "v": [1, 2]}), overwrite_schema=True, partition_by=["q"])
    assert table.partition_columns == ["q"]
    assert table.to_arrow(where="q = 2")["v"].to_pylist() == [2]
    assert table.files(where="q = 2").num_rows == 1


def test_wishes_that_exclude_each_other_are_refused(people):
    rows = pa.table({"id": pa.array([1], pa.int32())})
    with pytest.raises(InvalidArgument, match="exclude"):
        people.overwrite(rows, overwrite_schema=True, merge_schema=True)
    with pytest.raises(InvalidArgument, match="all rows"):
        people.overwrite(rows, where="true", overwrite_schema=True)
    with pytest.raises(InvalidArgument, match="overwrite_schema"):
        people.overwrite(rows, partition_by=["id"])
    assert people.version == 1


def test_overwrite_may_merge_the_schema_of_one_partition(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("p", pa.int32()), ("v", pa.int32())]), partition_by=["p"])
    table.append(pa.table({"p": [1, 2], "v": [1, 2]}, schema=table.schema))
    table.overwrite(pa.table({"p": [2], "v": [2**40], "w": ["x"]}), where="p = 2", merge_schema=True)
    assert table.to_arrow().sort_by("p").to_pylist() == [
        {"p": 1, "v": 1, "w": None},
        {"p": 2, "v": 2**40, "w": "x"},
    ]


def test_a_batch_is_taken_once_by_append_and_overwrite(people):
    row = pa.table({"name": ["cy"]})
    for _ in range(2):
        people.append(row, txn=("job", 1))
        people.overwrite(row, txn=("job", 1))
    assert people.count() == 3
    people.overwrite(row, txn=("job", 2), user_metadata="the second")
    people.append(row, txn=("job", 2))
    assert people.count() == 1
    assert people.history(1).to_pylist()[0]["userMetadata"] == "the second"


# Dynamic overwrite


def test_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(tmp_path):
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("v", pa.int64())])
    table = indextables.create(tmp_path / "t", schema, partition_by=["a", "b"])
    names = ["x/y", "", None, "100%"]
    table.append(pa.table({"a": names * 2, "b": [1] * 4 + [None] * 4, "v": list(range(8))}, schema=schema))
    table.overwrite(pa.table({"a": ["", None], "b": [1, None], "v": [100, 200]}, schema=schema), partitions="dynamic")
    assert sorted(table.to_arrow()["v"].to_pylist()) == [0, 2, 3, 4, 5, 7, 100, 200]
    table.overwrite(schema.empty_table(), partitions="dynamic")
    assert table.count() == 8


def test_dynamic_overwrite_of_a_table_without_partitions_replaces_it(people):
    people.overwrite(pa.table({"name": ["zoe"]}), partitions="dynamic")
    assert people.to_arrow()["name"].to_pylist() == ["zoe"]


def test_dynamic_and_a_predicate_exclude_each_other(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("p", pa.int64()), ("v", pa.int64())]), partition_by=["p"])
    with pytest.raises(InvalidArgument, match="give one"):
        table.overwrite(pa.table({"p": [1], "v": [1]}), where="p = 1", partitions="dynamic")
    with pytest.raises(InvalidArgument, match="static or dynamic"):
        table.overwrite(pa.table({"p": [1], "v": [1]}), partitions="some")


def test_an_append_beside_a_dynamic_overwrite_goes_where_it_belongs(tmp_path):
    schema = pa.schema([("p", pa.int64()), ("v", pa.int64())])
    ours = indextables.create(tmp_path / "t", schema, partition_by=["p"])
    ours.append(pa.table({"p": [1, 2], "v": [1, 2]}))
    other = indextables.open(tmp_path / "t")
    other.append(pa.table({"p": [1, 2], "v": [11, 12]}))
    ours.overwrite(pa.table({"p": [1], "v": [100]}), partitions="dynamic")
    assert sorted(ours.to_arrow()["v"].to_pylist()) == [2, 12, 100]


# Against brute force

NAMES = ["k", "a", "b", "c", "d"]
TYPES = [*INTEGERS, *FLOATS, pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"), pa.list_(pa.int64())]


def values_of(kind):
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1) - 1
        return st.sampled_from([0, 1, -1, 5, most, -most - 1])
    if pa.types.is_float32(kind):
        return st.sampled_from([0.0, -0.0, struct.unpack("f", struct.pack("f", 0.1))[0], 1.5, math.inf, math.nan])
    if pa.types.is_floating(kind):
        return st.sampled_from([0.0, 0.1, -1e300, 1e300, math.inf, -math.inf, math.nan])
    if pa.types.is_string(kind):
        return st.sampled_from(["", "a", "b", "a b", "é", "z" * 40])
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_nested(kind):
        return st.lists(st.integers(0, 3), max_size=3)
    return st.sampled_from([0, 1, -1, 10**4])


@st.composite
def steps(draw):
    """Appends and overwrites, each with columns of its own."""
    found = []
    for _ in range(draw(st.integers(2, 5))):
        columns = {name: draw(st.sampled_from(TYPES)) for name in NAMES if name == "k" or draw(st.booleans())}
        columns["k"] = pa.int64()
        rows = draw(st.integers(0, 4))
        data = {
            name: pa.array(draw(st.lists(st.none() | values_of(kind), min_size=rows, max_size=rows)), kind)
            for name, kind in columns.items()
        }
        found.append((draw(st.sampled_from(["append", "append", "append", "overwrite", "replace"])), pa.table(data)))
    return found


PREDICATES = [
    "a is null",
    "a is not null and k >= 0",
    "a = 1",
    "a > 0",
    "a < 5 or b is null",
    "not (b = 'a')",
    "c <=> null",
    "k in (0, 5) and d is null",
]


def expected_rows(parts, schema):
    """Every part as the schema has it: missing columns null, narrow values as the wide ones that they are."""
    tables = []
    for part in parts:
        spelled = {name.lower(): name for name in part.column_names}
        columns = [
            part[spelled[f.name.lower()]].cast(f.type) if f.name.lower() in spelled else pa.nulls(len(part), f.type)
            for f in schema
        ]
        tables.append(pa.table(columns, schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def texts(table):
    return [repr(row) for row in table.to_pylist()]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(steps())
def test_whatever_the_schema_becomes_rows_are_those_of_brute_force(plan):
    with tempfile.TemporaryDirectory() as folder:
        table = indextables.create(folder, plan[0][1].schema)
        parts, seen = [], []
        for verb, rows in plan:
            try:
                if verb == "replace":
                    table.overwrite(rows, overwrite_schema=True)
                    parts = []
                elif verb == "overwrite":
                    table.overwrite(rows, merge_schema=True)
                    parts = []
                else:
                    table.append(rows, merge_schema=True)
            except SchemaMismatch:
                # Only what no ladder of types bridges may be refused, and then nothing has happened.
                old = {f.name: f.type for f in table.schema}
                both = [(old[f.name], f.type) for f in rows.schema if f.name in old]
                assert verb != "replace"
                assert any(widened(a, b) is None and a != b for a, b in both)
            else:
                parts = [*parts, rows]
            seen.append((table.version, table.schema, list(parts)))
        for version, schema, held in seen[-2:]:
            check(table.at(version=version), schema, held)


def check(table, schema, parts):
    everything = expected_rows(parts, schema)
    assert texts(table.to_arrow()) == texts(everything)
    assert table.sql("select count(*) as n, count(k) as k from t").to_pylist() == [
        {"n": everything.num_rows, "k": len(everything["k"].drop_null())}
    ]
    for text in PREDICATES:
        try:
            matches = evaluate(parse(text, schema), everything)
        except InvalidArgument:
            continue  # the schema lacks the column, or has it in a type that the predicate does not fit
        kept = everything.filter(pc.fill_null(matches, fill_value=False))
        assert texts(table.to_arrow(where=text)) == texts(kept)
        assert table.count(where=text) == kept.num_rows
        assert table.search("*", where=text, limit=None, columns=["k"]).num_rows == kept.num_rows
