"""A zero with a sign and a NaN with other bits are the same value as the plain one, wherever a statement looks."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import indextables as it

DOUBLES = [0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 0x123, 0x3FF0 << 48, 0xFFF0 << 48, 1 << 63, 0]
FLOATS = [0x7FC00000, 0xFFC00000, 0x7FC00123, 0x3F800000, 0xFF800000, 1 << 31, 0]
ROWS = pa.table(
    {
        "k": list(range(7)),
        "f": pa.array(np.array(DOUBLES, dtype=np.uint64).view(np.float64), from_pandas=False),
        "g": pa.array(np.array(FLOATS, dtype=np.uint32).view(np.float32), from_pandas=False),
    }
)
CONDITIONS = [
    "{c} = 'NaN'::double",
    "{c} > 5",
    "{c} < 5",
    "{c} >= 'NaN'::double",
    "{c} <> 'NaN'::double",
    "{c} < 'NaN'::double",
    "{c} in ('NaN'::double, 7.0)",
    "{c} in ('NaN'::double, 7.0, 8.0, 9.0, 10.0)",
    "{c} in (0.0, 5.0, 7.0, 8.0, 9.0)",
    "{c} in (-0.0, 5.0, 7.0, 8.0, 9.0)",
    "{c} not in (0.0, 5.0, 7.0, 8.0, 9.0)",
    "{c} not in (-0e0, 5.0, 7.0, 8.0, 9.0)",
    "{c} between 1 and 'NaN'::double",
    "{c} between - 0.0 and -0.",
    "{c} = -.0",
    "{c} > -0.0 and {c} >= 0.0",
    "{c} is not distinct from -0.0",
    "isnan({c})",
    "case {c} when 0.0 then true else false end",
    "case {c} when -0.0 then true else false end",
    "coalesce(nullif({c}, 0.0), 99) = 99",
    "({c}, k) in ((0.0, 5), (-0.0, 6))",
    "{c} in (select {c} from t where k = 5)",
    "{c} not in (select {c} from t where k = 1)",
]
STATEMENTS = [
    "select count(*) from (select distinct {c} from t)",
    "select count(distinct {c}) from t",
    "select count(distinct {c}), count(distinct k) from t",
    "select count(*) from t x join t y on x.{c} = y.{c}",
    "select k from t order by {c}, k",
    "select k from t order by {c} desc, k limit 3",
    "select min({c}), max({c}) from t",
    "select k, rank() over (order by {c}) from t order by k",
    "select k, max(k) over (partition by {c}) from t order by k",
    "select count(*) n from t group by {c} order by n",
    "select count(*) from (select {c} from t where k = 5 intersect select {c} from t where k = 6)",
    "select count(*) from (select {c} from t where k = 1 except select {c} from t where k = 2)",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = it.create(tmp_path_factory.mktemp("floats") / "t", ROWS.schema)
    made.append(ROWS.slice(0, 3))
    made.append(ROWS.slice(3))
    return made


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        connection.register("t", ROWS)
        yield connection


def said(table, text, **params):
    return list(zip(*(column.to_pylist() for column in table.sql(text, **params).columns), strict=True))


@pytest.mark.parametrize("column", ["f", "g"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_holds_for_all_bits_of_a_value_or_for_none(table, duck, column, condition):
    text = f"select k from t where {condition.format(c=column)} order by k"
    assert said(table, text) == duck.execute(text).fetchall()


@pytest.mark.parametrize("column", ["f", "g"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_values_are_counted_sorted_and_joined_as_values(table, duck, column, statement):
    text = statement.format(c=column)
    assert repr(said(table, text)) == repr(duck.execute(text).fetchall())


@pytest.mark.parametrize("bits", [1 << 63, 0xFFF8 << 48])
def test_a_parameter_is_a_value_too(table, bits):
    given = float(np.uint64(bits).view(np.float64))
    found = said(table, "select k from t where f in ($x, 5.0, 7.0, 8.0, 9.0) order by k", params={"x": given})
    assert found == ([(0,), (1,), (2,)] if math.isnan(given) else [(5,), (6,)])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.float64()), [-0.0, 1.0]),
        (pa.list_(pa.float32(), 2), [-0.0, 1.0]),
        (pa.struct([("a", pa.float64())]), {"a": -0.0}),
        (pa.map_(pa.string(), pa.float64()), [("a", -0.0)]),
    ],
    ids=str,
)
def test_a_zero_inside_of_a_nested_value_is_one_too(tmp_path, kind, value):
    rows = pa.table({"v": pa.array([value, None, value], kind)})
    table = it.create(tmp_path / "t", rows.schema)
    table.append(rows)
    assert "-0.0" not in repr(table.sql("select v from t")["v"].to_pylist())
    assert table.sql("select v from t where v is null").num_rows == 1


def test_a_minus_before_a_zero_is_still_a_minus_elsewhere(table):
    text = "select 5-0.0 a, '-0.0' b, 10-0.5 c, -0.05 d, 1 -- -0.0\n-0.0 e from t limit 1"
    assert said(table, text) == [(5.0, "-0.0", 9.5, -0.05, 1.0)]


@pytest.mark.parametrize("column", ["f", "g"])
def test_aggregate_counts_all_bits_of_a_value_as_one(table, column):
    asked = {
        "t": {"terms": {"field": column}},
        "c": {"cardinality": {"field": column}},
        "s": {"cardinality": {"field": column, "sketch": True}},
    }
    found = table.aggregate(None, asked)
    assert {str(b["key"]): b["doc_count"] for b in found["t"]["buckets"]} == {"nan": 3, "0.0": 2, "1.0": 1, "-inf": 1}
    assert found["t"]["distinct"] == found["c"]["value"] == round(found["s"]["value"]) == 4
