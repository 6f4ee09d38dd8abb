"""Hours that are added to a date are never lost: `sql` refuses, with what to write; whole days are added."""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import NotSupported

ROWS = pa.table(
    {
        "k": [0, 1, 2],
        "d": pa.array([dt.date(2025, 1, 1), dt.date(2024, 2, 29), None]),
        "ts": pa.array(["2025-01-01 10:00:00", "2024-02-29", None]).cast(pa.timestamp("us")),
        "s": ["+ interval '1 hour'", "x", None],
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = it.create(tmp_path_factory.mktemp("hours") / "t", ROWS.schema)
    made.append(ROWS)
    return made


@pytest.mark.parametrize(
    "statement",
    [
        "select d + interval '1 hour' from t",
        "select k from t where d + interval '1 hour' > d",
        "select interval '90 minutes' + d from t",
        "select d - interval '36 hours' from t",
        "select d + interval '1.5 days' from t",
        "select d + interval '1' hour from t",
        "select d + interval '1 day 1 hour' from t",
        "select d + (interval '1 hour') from t",
        "select d + cast('1 hour' as interval), d + '1 day'::interval from t",
        "select d + '1 minute'::interval from t",
        "select date '2025-01-01' + interval '1 second'",
        "select ts + interval '1 hour', d + interval '1 hour' from t",
        "select max(a) from (select coalesce(d, date '2025-01-01') as a from t) x where a - interval '5 minutes' < a",
        "select d + interval '1 day' + interval '1 hour' from t",
        "select d + (interval '1 day' + interval '1 hour') from t",
        "with x as (select d as e from t) select date_part('hour', e + interval '1 hour') from x",
        "select k from t order by d + interval '1 hour'",
    ],
)
def test_hours_that_would_be_lost_are_refused(table, statement):
    with pytest.raises(NotSupported, match=r"write CAST\(day AS TIMESTAMP\)"):
        table.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "select k, d + interval '1 day', d - interval '2 months' from t order by k",
        "select k, ts + interval '1 hour', interval '90 minutes' + ts, ts - interval '1.5 days' from t order by k",
        "select k, cast(d as timestamp) + interval '1 hour' from t order by k",
        "select k, d + interval '3 weeks', ts + interval '1 day 2 hours' from t order by k",
        "select k from t where ts > d + interval '1 day' - interval '1 month' order by k",
        "select k from t where s = '+ interval ''1 hour''' order by k",
        "select k, ts + (interval '1 day' + interval '1 hour') from t order by k",
        "select k, d + (interval '1 day' + interval '1 month') from t order by k",
        "select k, ts + (interval '1 hour') from t where d - interval '1 day' < d order by k",
        "select ts + interval '1 hour' from t where k = $k",
    ],
)
def test_what_loses_nothing_is_answered_as_duckdb_does(table, statement):
    params = {"k": 0} if "$k" in statement else None
    with duckdb.connect() as duck:
        duck.register("t", ROWS)
        expected = duck.execute(statement, params).fetchall()
    answer = table.sql(statement, params=params)
    rows = list(zip(*(column.to_pylist() for column in answer.columns), strict=True))
    assert [tuple(map(_moment, row)) for row in rows] == [tuple(map(_moment, row)) for row in expected]


def _moment(value):
    """A date as its first moment: DuckDB makes a timestamp of every date that is moved."""
    is_date = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return dt.datetime.combine(value, dt.time()) if is_date else value
