from __future__ import annotations

import contextlib
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import SchemaInvalid
from indextables.log.wire.field_ids import FIELD_ID, NESTED_IDS, assign_ids, field_id, highest_id
from indextables.log.wire.schema import (
    MAX_FIELDS,
    schema_from_json,
    schema_to_json,
    validate_schema,
)

TEXTS = {"type": "array", "elementType": "string", "containsNull": True}

SIMPLE = [
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "void",
    "decimal(1,0)",
    "decimal(38,38)",
    "decimal(10,2)",
]
DETAILED = [
    "interval day to second",
    "interval hour to minute",
    "interval second",
    "interval year to month",
    "interval month",
    "time(6)",
    "time(0)",
    "char(5)",
    "varchar(300)",
]


def struct(*fields):
    return json.dumps({"type": "struct", "fields": list(fields)})


def field(name, kind, *, nullable=True, **metadata):
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def types(depth=2):
    leaf = st.sampled_from([*(name for name in SIMPLE if name != "void"), "interval day to second", "time(6)"])
    if depth == 0:
        return leaf
    inner = types(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda e, n: {"type": "array", "elementType": e, "containsNull": n}, inner, st.booleans()),
        st.builds(
            lambda k, v, n: {"type": "map", "keyType": k, "valueType": v, "valueContainsNull": n},
            leaf,
            inner,
            st.booleans(),
        ),
        fields(depth - 1).map(lambda f: {"type": "struct", "fields": f}),
    )


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.integers(),
    st.booleans(),
    st.lists(st.integers(), max_size=2),
)


def fields(depth):
    kinds = st.one_of(types(depth), st.sampled_from(DETAILED))
    metadata = st.dictionaries(
        NAMES.filter(lambda k: not k.startswith(("json:", "PARQUET:", "spark."))), VALUES, max_size=2
    )
    one = st.builds(
        lambda n, t, b, m: {"name": n, "type": t, "nullable": b, "metadata": m}, NAMES, kinds, st.booleans(), metadata
    )
    return st.lists(one, min_size=1, max_size=4, unique_by=lambda f: f["name"].casefold())


@pytest.mark.slow
@given(fields(2))
def test_a_schema_string_round_trips_names_types_nullability_and_metadata(given_fields):
    text = json.dumps({"type": "struct", "fields": given_fields})
    schema = schema_from_json(text)
    assert json.loads(schema_to_json(schema)) == json.loads(text)
    assert schema_from_json(schema_to_json(schema)).equals(schema, check_metadata=True)


@pytest.mark.slow
@given(fields(2))
def test_permanent_ids_are_unique_stay_and_survive_the_round_trip(given_fields):
    schema = schema_from_json(json.dumps({"type": "struct", "fields": given_fields}))
    numbered = assign_ids(schema)
    assert assign_ids(numbered).equals(numbered, check_metadata=True)
    again = schema_from_json(schema_to_json(numbered))
    assert again.equals(numbered, check_metadata=True)
    assert highest_id(numbered) >= len(schema)


def test_a_new_column_gets_an_id_that_no_dropped_column_had():
    schema = assign_ids(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    kept = pa.schema([schema.field("a"), pa.field("c", pa.int64())])
    assert field_id(assign_ids(kept, start=highest_id(schema) + 1).field("c")) == 3


@pytest.mark.parametrize("name", [*SIMPLE, *DETAILED])
def test_every_spark_type_comes_back_under_its_name(name):
    text = struct(field("c", name))
    assert json.loads(schema_to_json(schema_from_json(text)))["fields"][0]["type"] == name


@pytest.mark.parametrize(
    ("kind", "spark"),
    [
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.large_binary(), "binary"),
        (pa.binary(4), "binary"),
        (pa.uint8(), "short"),
        (pa.uint32(), "long"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.timestamp("ns", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.date64(), "date"),
        (pa.time32("s"), "time(6)"),
        (pa.duration("ns"), "interval day to second"),
        (pa.decimal256(38, 2), "decimal(38,2)"),
    ],
)
def test_arrow_types_that_fit_a_spark_type_are_taken(kind, spark):
    assert json.loads(schema_to_json(pa.schema([("c", kind)])))["fields"][0]["type"] == spark


@pytest.mark.parametrize(
    "kind", [pa.decimal256(50, 2), pa.month_day_nano_interval(), pa.sparse_union([pa.field("x", pa.int8())])]
)
def test_arrow_types_that_spark_does_not_have_are_refused(kind):
    with pytest.raises(SchemaInvalid, match="'c'"):
        schema_to_json(pa.schema([("c", kind)]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "5",
        '{"type":"struct"}',
        '{"type":"array","elementType":"long"}',
        struct({"type": "long"}),
        struct(field("", "long")),
        struct(field("a", "variant")),
        struct(field("a", "interval")),
        struct(field("a", "decimal(39,0)")),
        struct(field("a", "decimal(5,6)")),
        struct(field("a", "string collate UNICODE")),
        struct(field("a", {"type": "udt", "class": "x"})),
        struct(field("a", 5)),
        struct(field("a", None)),
        struct({"name": "a", "type": "long", "nullable": "yes"}),
        struct({"name": "a", "type": "long", "metadata": []}),
        struct(field("a", "long", **{FIELD_ID: -1})),
        struct(field("a", "long", **{FIELD_ID: "1"})),
        struct(field("a", "long", **{FIELD_ID: 1}), field("b", "long", **{FIELD_ID: 1})),
        struct(field("a", TEXTS, **{FIELD_ID: 1, NESTED_IDS: {"element": 1}})),
        struct(field("a", TEXTS, **{FIELD_ID: 1, NESTED_IDS: {"element": 0}})),
        struct(field("a", TEXTS, **{FIELD_ID: 1, NESTED_IDS: {"element": "2"}})),
        struct(field("a", TEXTS, **{FIELD_ID: 1, NESTED_IDS: [2]})),
        struct(field("a", "long"), field("a", "long")),
        struct(field("a", "long"), field("A", "long")),
        struct(field("s", {"type": "struct", "fields": [field("x", "long"), field("X", "long")]})),
        struct(field("a", {"type": "array", "elementType": "char(3)"})),
        struct(field("a", "void", nullable=False)),
        struct(field("a", {"type": "map", "keyType": "void", "valueType": "long"})),
        '{"type":"struct","fields":[{"name":"\\ud800","type":"long"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","metadata":{"c":"\\ud800"}}]}',
        '{"type":"struct","fields":' + '[{"name":"a","type":{"type":"struct","fields":' * 5000,
        struct(*(field(f"c{i}", "long") for i in range(MAX_FIELDS + 1))),
    ],
)
def test_a_schema_no_table_can_have_is_refused(text):
    with pytest.raises(SchemaInvalid):
        schema_from_json(text)


def test_a_schema_nested_too_deep_is_refused():
    kind = "long"
    for _ in range(70):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    with pytest.raises(SchemaInvalid, match="deeper"):
        schema_from_json(struct(field("a", kind)))


@pytest.mark.parametrize("name", ["a.b", "a`b", "a'b", 'a"b', "a\nb", "a\x00b", "x" * 300])
def test_a_new_table_cannot_have_names_that_queries_could_not_write(name):
    with pytest.raises(SchemaInvalid):
        validate_schema(pa.schema([(name, pa.int64())]))
    assert schema_from_json(struct(field(name, "long"))).names == [name]


def test_a_new_table_needs_a_column():
    with pytest.raises(SchemaInvalid, match="at least one"):
        validate_schema(pa.schema([]))


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([]),
        pa.struct([("a", pa.struct([]))]),
        pa.list_(pa.list_(pa.struct([]))),
        pa.map_(pa.int8(), pa.struct([])),
    ],
)
def test_a_new_table_cannot_have_structs_without_fields(kind):
    with pytest.raises(SchemaInvalid, match=r"'v.*without fields"):
        validate_schema(pa.schema([("v", kind)]))


@given(st.text(max_size=200))
def test_any_text_is_a_schema_or_a_typed_error(text):
    with contextlib.suppress(SchemaInvalid):
        schema_from_json(text)
