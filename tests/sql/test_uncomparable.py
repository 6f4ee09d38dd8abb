"""Intervals and rows have no order that holds for all of them: `sql` refuses to compare them, with what to write."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import NotSupported

ROWS = pa.table(
    {
        "k": [0, 1, 2, 3],
        "i": pa.array([1, 2, None, 2], pa.int64()),
        "j": pa.array([2, None, 1, 3], pa.int64()),
        "a": pa.array(["2024-01-31 12:00:00", "2024-01-31 12:00:00", None, "1969-12-31"]).cast(pa.timestamp("us")),
        "b": pa.array(["2024-01-01", "2024-01-31", "2024-01-31", "2024-01-31"]).cast(pa.timestamp("us")),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = it.create(tmp_path_factory.mktemp("uncomparable") / "t", ROWS.schema)
    made.append(ROWS)
    return made


@pytest.mark.parametrize(
    ("condition", "instead"),
    [
        ("a - b > interval '29 days'", "INTERVAL"),
        ("interval '29 days' < a - b", "INTERVAL"),
        ("a - b = cast('1 day' as interval)", "INTERVAL"),
        ("a - b between interval '1 day' and interval '40 days'", "INTERVAL"),
        ("a - b in (interval '1 day', interval '12 hours')", "INTERVAL"),
        ("interval '30 days' < interval '1 month'", "INTERVAL"),
        ("(i, j) < (2, 3)", r"a < 1 OR"),
        ("(i, j) >= (2, 3)", r"a < 1 OR"),
        ("array[i, j] > array[1, 2]", r"a < 1 OR"),
    ],
)
def test_what_has_no_order_is_not_compared(table, condition, instead):
    with pytest.raises(NotSupported, match=instead):
        table.sql(f"select k from t where {condition}")


@pytest.mark.parametrize(
    "condition",
    [
        "a > b + interval '29 days'",
        "interval '29 days' + b < a",
        "a > interval '29 days' + b",
        "a - interval '29 days' > b",
        "a between b - interval '1 month' and b + interval '1 month'",
        "a - b > b - a",
        "(i, j) = (1, 2)",
        "(i, j) <> (1, 2)",
        "(i, j) not in ((1, 2), (2, null))",
        "not ((i, j) in ((2, 3)))",
        "i < 2 or (i = 2 and j < 3)",
    ],
)
def test_the_other_way_to_say_it_is_answered(table, condition):
    text = f"select k from t where {condition} order by k"
    with duckdb.connect() as duck:
        duck.register("t", ROWS)
        assert table.sql(text)["k"].to_pylist() == [row[0] for row in duck.execute(text).fetchall()]
