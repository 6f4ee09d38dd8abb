"""NaN is above every number and -0.0 is 0.0, whichever way a table is asked."""

import math

import pyarrow as pa
import pytest

import indextables

VALUES = [None, math.nan, -math.inf, 2.0, -0.0, 0.0, math.nan, math.inf, None, -1.5]


@pytest.fixture(params=[pa.float64(), pa.float32()], ids=str)
def table(request, tmp_path):
    made = indextables.create(tmp_path / "t", pa.schema([("n", pa.int64()), ("f", request.param)]))
    rows = [{"n": n, "f": f} for n, f in enumerate(VALUES)]
    made.append(rows[:4])
    made.append(rows[4:])
    return made


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, len(VALUES)])
def test_a_search_in_the_order_of_a_column_gives_the_values_that_sql_gives(table, direction, limit):
    found = table.search("*", order_by=f"f {direction}", limit=limit)["f"].to_pylist()
    said = table.sql(f"select f from t order by f {direction} nulls last limit {limit}")["f"].to_pylist()
    assert [str(value).replace("-0.0", "0.0") for value in found] == [
        str(value).replace("-0.0", "0.0") for value in said
    ]


@pytest.mark.slow
@pytest.mark.parametrize("low", [None, -2.0, 0, 1.5, math.inf])
@pytest.mark.parametrize("high", [None, 0.0, 1.5, math.inf])
def test_a_range_counts_the_rows_that_where_finds(table, low, high):
    spec = {key: value for key, value in (("from", low), ("to", high)) if value is not None}
    counted = table.aggregate("*", {"r": {"range": {"field": "f", "ranges": [spec]}}})["r"]["buckets"][0]["doc_count"]
    conditions = ["f is not null"]
    conditions += [f"f >= cast('{low}' as double)"] if low is not None else []
    conditions += [f"f < cast('{high}' as double)"] if high is not None else []
    assert counted == table.count(where=" and ".join(conditions))


def test_statistics_have_the_ends_that_sql_has(table):
    for where in ("f is not null", "isnan(f)", "f < -1", "f > 1"):
        found = table.aggregate("*", {"s": {"stats": {"field": "f"}}}, where=where)["s"]
        said = table.sql(f"select min(f) a, max(f) z from t where {where}").to_pylist()[0]
        assert (str(found["min"]), str(found["max"])) == (str(said["a"]), str(said["z"]))


def test_both_zeros_are_one_term_and_nan_is_one(table):
    found = table.aggregate("*", {"t": {"terms": {"field": "f"}}, "c": {"cardinality": {"field": "f"}}})
    counts = {str(bucket["key"]): bucket["doc_count"] for bucket in found["t"]["buckets"]}
    assert counts == {"0.0": 2, "nan": 2, "-inf": 1, "inf": 1, "2.0": 1, "-1.5": 1}
    assert found["t"]["distinct"] == found["c"]["value"] == 6
