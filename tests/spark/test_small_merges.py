"""A small merge by plain keys ends on the driver, and leaves what the same merge by tasks leaves."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import indextables
from indextables.errors import CardinalityViolation, SchemaMismatch
from indextables.spark.change.here import ends_sooner

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]

SCHEMA = pa.schema(
    [
        pa.field("k", pa.string()),
        ("f", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("d", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())),
        pa.field("must", pa.int64(), nullable=False),
    ]
)
DDL = "k string, f double, at timestamp, day date, d decimal(10, 2), tags array<string>, must bigint"
TIME = dt.datetime(2026, 3, 8, 7, 30, tzinfo=dt.UTC)


def row(k, f, number, must=1):
    at = TIME + dt.timedelta(minutes=number)
    return (k, f, at, at.date(), Decimal(number), [str(number), None], must)


TARGET = [row(k, f, 0) for k, f in (("a", 1.0), ("b", -0.0), (None, 2.0), ("n", float("nan")), ("", None), ("é", 5.0))]
SOURCES = {
    "new and old": [row("a", 1.0, 1), row("z", 9.0, 2), row("", None, 3)],
    "nulls, NaN and zeros": [row(None, 2.0, 1), row("n", float("nan"), 2), row("b", 0.0, 3)],
    "a key twice, in no row": [row("x", 3.0, 1), row("x", 3.0, 2)],
    "none": [],
    "a key twice": [row("a", 1.0, 1), row("a", 1.0, 2)],
    "a null that must not be": [row("y", 3.0, 1, must=None)],
}
STAR = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
DELETE = "WHEN MATCHED THEN DELETE"
KEY = "t.k = s.k"
CASES = [
    ("new and old", KEY, STAR),
    ("new and old", KEY, "WHEN NOT MATCHED THEN INSERT *"),
    ("new and old", KEY, DELETE),
    ("nulls, NaN and zeros", KEY, STAR),
    ("nulls, NaN and zeros", "s.f = t.f", STAR),
    ("nulls, NaN and zeros", "t.f = s.f AND t.k = s.k", STAR),
    ("a key twice, in no row", KEY, STAR),
    ("a key twice", KEY, STAR),
    ("a key twice", KEY, DELETE),
    ("none", KEY, STAR),
    ("a null that must not be", KEY, STAR),
]
BY_TASKS = "indextables.spark.change.here._MOST_TARGET_ROWS"
"""The driver merges into tables of so many rows: none, for what tasks are to do."""


@pytest.fixture(scope="module")
def session(spark):
    """In a zone with summer time, and with a count of the jobs that a statement takes."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)
    spark.catalog.dropTempView("s")


def merged(session, place, on, clauses):
    """What is left, and what was told of it; or the error. Then how many jobs it took."""
    table = indextables.create(place, SCHEMA)
    table.append(pa.table([list(column) for column in zip(*TARGET, strict=True)], schema=SCHEMA))
    session.sparkContext.setJobGroup(str(place), "a merge")
    try:
        (told,) = indextables.sql(session, f"MERGE INTO indextables.`{place}` AS t USING s ON {on} {clauses}").collect()
    except (CardinalityViolation, SchemaMismatch) as error:
        answer = type(error).__name__
    else:
        counts = {name: n for name, n in told["metrics"].items() if "Time" not in name}
        answer = repr(sorted(map(repr, table.refresh().to_arrow().to_pylist()))), told[:4], counts
    return answer, len(session.sparkContext.statusTracker().getJobIdsForGroup(str(place)))


@pytest.mark.parametrize(("name", "on", "clauses"), CASES)
def test_the_driver_does_what_tasks_do(session, tmp_path, monkeypatch, name, on, clauses):
    session.createDataFrame(SOURCES[name], DDL).coalesce(1).createOrReplaceTempView("s")
    here, few = merged(session, tmp_path / "here", on, clauses)
    monkeypatch.setattr(BY_TASKS, -1)
    there, many = merged(session, tmp_path / "tasks", on, clauses)
    assert here == there
    assert few <= 2 < many


@pytest.mark.parametrize(
    "source",
    [
        "SELECT *, 7 AS more FROM s",
        "SELECT k AS K, must AS MUST, at, day, d, tags, f FROM s",
    ],
)
def test_columns_that_the_source_has_besides_or_in_another_order_change_nothing(session, tmp_path, monkeypatch, source):
    session.createDataFrame(SOURCES["new and old"], DDL).coalesce(1).createOrReplaceTempView("given")
    session.sql(source.replace(" s", " given")).createOrReplaceTempView("s")
    here, few = merged(session, tmp_path / "here", KEY, STAR)
    monkeypatch.setattr(BY_TASKS, -1)
    there, many = merged(session, tmp_path / "tasks", KEY, STAR)
    assert here == there
    assert few <= 2 < many


def test_what_has_to_be_converted_is_left_to_tasks(session, tmp_path):
    """Spark compares a text with a number in a way of its own, and casts what rows are set to."""
    session.createDataFrame(SOURCES["new and old"], DDL).selectExpr(
        "k", "cast(f AS float) AS f", "at", "day", "cast(d AS decimal(12, 2)) AS d", "tags", "cast(must AS int) AS must"
    ).createOrReplaceTempView("s")
    for number, (on, clauses) in enumerate(((KEY, STAR), ("t.must = s.must", DELETE), ("t.d = s.d", STAR))):
        _, jobs = merged(session, tmp_path / str(number), on, clauses)
        assert jobs > 2, on


def test_the_driver_merges_what_it_ends_sooner():
    """Pure: a larger source goes to tasks, the sooner the more cores there are."""
    assert ends_sooner(300_000, 1_000_000, 2)
    assert not ends_sooner(2_000_000, 1_000_000, 4)
    assert ends_sooner(100_000, 1_000_000, 200)
    assert not ends_sooner(300_000, 1_000_000, 200)
