"""`min` and `max` with GROUP BY lose numbers to NaN in DataFusion: `sql` refuses, with what to write."""

from __future__ import annotations

import itertools
import math

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import NotSupported


def made(path, values, kind):
    rows = pa.table({"k": [0, 1, 2], "g": [1, 1, 1], "f": pa.array(values, kind), "c": [1.0, 2.0, 3.0]})
    table = it.create(path, rows.schema)
    table.append(rows)
    return table


KNOWN = "filter (where not isnan(f))"
GROUPED = [
    "select min(f) a, max(f) z from t group by g",
    "select min(distinct f) a, max(f) z from t group by rollup(g)",
    "select min(x.q + 0) a, max(x.q) z from (select g, f as q from t) x group by g",
    "select f a, (select max(y.f) from t y where y.g = x.g) z from t x",
    "select count(distinct k) n, min(f) a, max(f) z from t",
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("statement", GROUPED)
def test_ends_of_groups_are_refused_where_nan_would_take_a_number_away(tmp_path, kind, statement):
    for n, values in enumerate(itertools.permutations([math.nan, 1.0, -2.0])):
        table = made(tmp_path / str(n), values, kind)
        with pytest.raises(NotSupported, match=r"FILTER \(WHERE NOT isnan\(f\)\)"):
            table.sql(statement)


@pytest.mark.parametrize(
    ("statement", "want"),
    [
        (
            "select min(f) filter (where not isnan(f)) a, max(f) filter (where not isnan(f)) z from t group by g",
            (-2, 1),
        ),
        ("select min(f) a, max(f) z from t where not isnan(f) group by g", (-2, 1)),
        ("select min(c) a, max(c) z from t group by g", (1, 3)),
        ("select min(k) a, max(k) z, sum(f) from t group by g", (0, 2)),
    ],
)
def test_what_nan_cannot_spoil_is_answered(tmp_path, statement, want):
    row = made(tmp_path / "t", [-2.0, math.nan, 1.0], pa.float64()).sql(statement).to_pylist()[0]
    assert (row["a"], row["z"]) == want


def test_ends_of_groups_without_nan_are_answered(tmp_path):
    table = made(tmp_path / "t", [-2.0, None, 1.0], pa.float64())
    assert table.sql("select min(f) a, max(f) z from t group by g").to_pylist() == [{"a": -2.0, "z": 1.0}]


def test_ends_of_the_whole_table_are_answered(tmp_path):
    table = made(tmp_path / "t", [-2.0, math.nan, 1.0], pa.float64())
    row = table.sql("select min(f) a, max(f) z from t").to_pylist()[0]
    assert row["a"] == -2.0
    assert math.isnan(row["z"])
