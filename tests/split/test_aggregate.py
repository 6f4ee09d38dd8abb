"""Aggregations equal what plain Python adds up over the same rows."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import statistics
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.split.search_kinds import any_query
from tests.split.search_world import World, build_world, make_rows, open_searcher

import indextables
from indextables.errors import InvalidArgument, LimitExceeded
from indextables.options import Options
from indextables.split.search.aggregates import aggregate
from indextables.split.search.sketch import STANDARD_ERROR, distinct_estimate
from indextables.split.write.writer import write_splits
from indextables.storage import open_store

SPEC = {
    "hosts": {"terms": {"field": "host", "size": 100}},
    "tags": {"terms": {"field": "tags", "size": 2}},
    "codes": {"histogram": {"field": "status", "interval": 100}},
    "days": {"date_histogram": {"field": "at", "calendar_interval": "day"}},
    "hours": {"date_histogram": {"field": "at", "fixed_interval": "6h"}},
    "classes": {"range": {"field": "status", "ranges": [{"to": 200}, {"from": 200, "to": 500}, {"from": 500}]}},
    "status": {"stats": {"field": "status"}},
    "price": {"stats": {"field": "price"}},
    "distinct": {"cardinality": {"field": "day"}},
    "percentiles": {"percentiles": {"field": "id", "percents": [0, 50, 99]}},
}


@pytest.fixture(scope="module", params=[1, 5])
def world(request, tmp_path_factory) -> World:
    deleted = frozenset(range(0, 200, 7))
    return build_world(tmp_path_factory.mktemp("aggregate"), make_rows(200), request.param, deleted=deleted)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=any_query())
def test_every_aggregation_equals_a_plain_sum_over_the_matching_rows(world, case):
    text, meaning = case
    try:
        found = aggregate(world.searcher, text, SPEC)
    except LimitExceeded:
        return
    rows = [row for row in world.rows if row["id"] in world.meant(meaning)]

    def values(name):
        return [row[name] for row in rows if row[name] is not None]

    assert {b["key"]: b["doc_count"] for b in found["hosts"]["buckets"]} == Counter(values("host"))
    tags = Counter(tag for tags in values("tags") for tag in set(tags))
    best = sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:2]
    assert [(b["key"], b["doc_count"]) for b in found["tags"]["buckets"]] == best
    assert found["tags"]["sum_other_doc_count"] == sum(tags.values()) - sum(count for _, count in best)
    codes = Counter(value // 100 * 100 for value in values("status"))
    assert {b["key"]: b["doc_count"] for b in found["codes"]["buckets"]} == codes
    days = Counter(at.replace(hour=0, minute=0, second=0, microsecond=0) for at in values("at"))
    assert {b["key"]: b["doc_count"] for b in found["days"]["buckets"]} == days
    hours = Counter(at.replace(hour=at.hour // 6 * 6, minute=0, second=0, microsecond=0) for at in values("at"))
    assert {b["key"]: b["doc_count"] for b in found["hours"]["buckets"]} == hours
    numbers = values("status")
    classes = [sum(v < 200 for v in numbers), sum(200 <= v < 500 for v in numbers), sum(v >= 500 for v in numbers)]
    assert [b["doc_count"] for b in found["classes"]["buckets"]] == classes
    stats = found["status"]
    assert (stats["count"], stats["sum"]) == (len(numbers), sum(numbers) if numbers else None)
    assert (stats["min"], stats["max"]) == ((min(numbers), max(numbers)) if numbers else (None, None))
    assert found["price"]["sum"] == (sum(values("price"), Decimal(0)) if values("price") else None)
    assert found["distinct"] == {"value": len(set(values("day"))), "exact": True}
    ids = sorted(row["id"] for row in rows)
    assert found["percentiles"]["values"]["50.0"] == (statistics.median(ids) if ids else None)


def test_a_sum_does_not_overflow(tmp_path):
    schema = pa.schema([("id", pa.int64())])
    world = build_world(tmp_path, [{"id": 2**63 - 1}] * 3, schema=schema)
    assert aggregate(world.searcher, "*", {"s": {"stats": {"field": "id"}}})["s"]["sum"] == 3 * (2**63 - 1)


def test_a_bucket_of_time_begins_at_midnight_of_its_zone(world):
    spec = {"date_histogram": {"field": "at", "calendar_interval": "day", "time_zone": "Europe/Berlin"}}
    buckets = aggregate(world.searcher, "*", {"d": spec})["d"]["buckets"]
    assert all(b["key"].astimezone(b["key"].tzinfo).time() == dt.time(0) for b in buckets)
    assert sum(b["doc_count"] for b in buckets) == world.searcher.count("at:*")


@pytest.mark.parametrize("count", [0, 10, 1_000, 60_000])
def test_a_cardinality_sketch_stays_within_its_error(count):
    values = pa.array([f"value {n}" for n in range(count)] * 2, pa.string())
    assert abs(distinct_estimate(values) - count) <= 5 * STANDARD_ERROR * count


def test_a_percentile_sketch_says_that_it_is_one(world):
    found = aggregate(world.searcher, "*", {"p": {"percentiles": {"field": "id", "percents": [50], "sketch": True}}})
    assert found["p"]["exact"] is False
    assert math.isclose(found["p"]["values"]["50.0"], 100, rel_tol=0.1)


@pytest.mark.parametrize(
    "spec",
    [
        {"nonsense": {"field": "host"}},
        {"terms": {"field": "nowhere"}},
        {"terms": {"field": "host", "size": 0}},
        {"terms": {"field": "host", "depth": 3}},
        {"terms": {"field": "attrs"}},
        {"histogram": {"field": "host", "interval": 5}},
        {"histogram": {"field": "status", "interval": 0}},
        {"date_histogram": {"field": "status", "calendar_interval": "day"}},
        {"date_histogram": {"field": "at"}},
        {"date_histogram": {"field": "at", "calendar_interval": "eon"}},
        {"date_histogram": {"field": "at", "fixed_interval": "1y"}},
        {"range": {"field": "status", "ranges": [{"from": "a"}]}},
        {"percentiles": {"field": "status", "percents": [101]}},
        {"stats": {"field": "host"}},
        {},
        None,
        ["terms"],
        {"terms": "host"},
        {"terms": None},
        {"histogram": {"field": "status", "interval": float("inf")}},
        {"histogram": {"field": "ratio", "interval": 1e-320}},
        {"histogram": {"field": "status", "interval": 10, "offset": "1"}},
        {"range": {"field": "status", "ranges": 5}},
        {"range": {"field": "status", "ranges": [1]}},
        {"percentiles": {"field": "status", "percents": 50}},
        {"percentiles": {"field": "status", "percents": ["x"]}},
        {"terms": {"field": "status", 5: 1}},
    ],
)
def test_a_wrong_aggregation_is_refused_with_a_reason(world, spec):
    with pytest.raises(InvalidArgument):
        aggregate(world.searcher, "*", {"x": spec})


def test_ranges_of_times_have_ends_of_iso_text_dates_and_datetimes(tmp_path):
    moments = [dt.datetime(2024, 1, day, 12, tzinfo=dt.UTC) for day in range(1, 11)]
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("day", pa.date32())])
    table = indextables.create(str(tmp_path / "t"), schema)
    table.append([{"at": one, "local": one.replace(tzinfo=None), "day": one.date()} for one in moments])
    ends = {
        "at": ["2024-01-05", "2024-01-05T00:00:00Z", "2024-01-05 02:00:00+02:00", dt.date(2024, 1, 5)],
        "local": ["2024-01-05", "2024-01-05T00:00:00", dt.datetime.fromisoformat("2024-01-05")],
        "day": ["2024-01-05", dt.date(2024, 1, 5)],
    }
    ends["at"] += [dt.datetime.fromisoformat("2024-01-05"), dt.datetime(2024, 1, 5, tzinfo=dt.UTC)]
    for field, those in ends.items():
        for end in those:
            spec = {"x": {"range": {"field": field, "ranges": [{"to": end}, {"from": end}]}}}
            buckets = table.aggregate("*", spec)["x"]["buckets"]
            assert [bucket["doc_count"] for bucket in buckets] == [4, 6], (field, end)
            assert [bucket["to"] for bucket in buckets] == [end, None]


@pytest.mark.parametrize(
    ("field", "end"),
    [
        ("at", "soon"),
        ("at", 5),
        ("at", True),
        ("at", ["2024"]),
        ("status", "a"),
        ("status", dt.date(2024, 1, 1)),
        ("host", 5),
    ],
)
def test_an_end_of_a_range_that_is_none_is_told_in_a_sentence(world, field, end):
    for side in ("from", "to"):
        with pytest.raises(InvalidArgument, match="is no end of a range in a column of") as caught:
            aggregate(world.searcher, "*", {"x": {"range": {"field": field, "ranges": [{side: end}]}}})
        assert "kernel" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_aggregations_that_are_none_are_refused(world):
    with pytest.raises(InvalidArgument):
        aggregate(world.searcher, "*", [{"terms": {"field": "host"}}])


def test_buckets_at_the_ends_of_64_bits_hold_the_values_they_begin_before(tmp_path):
    numbers = [-(2**63), 2**63 - 1, 0, 7, None]
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("u", pa.uint64())])
    rows = [{"id": i, "n": n, "u": None if n is None else n + 2**63} for i, n in enumerate(numbers)]
    world = build_world(tmp_path, rows, options={}, schema=schema)
    for field, shift, interval, offset in itertools.product(("n", "u"), (0, 2**63), (10, 10**30), (0, 3, -(2**62))):
        if (field == "u") == (shift > 0):
            spec = {"histogram": {"field": field, "interval": interval, "offset": offset}}
            found = aggregate(world.searcher, "*", {"h": spec})["h"]["buckets"]
            keys = [(n + shift - offset) // interval * interval + offset for n in numbers if n is not None]
            assert found == [{"key": key, "doc_count": keys.count(key)} for key in sorted(set(keys))]


def test_a_column_that_cannot_be_grouped_or_told_is_a_typed_error(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("deep", pa.list_(pa.list_(pa.int64()))), ("at", pa.timestamp("us"))])
    table = pa.table({"id": [0], "deep": [[[1]]], "at": pa.array([2**62], pa.timestamp("us"))}, schema=schema)
    store = open_store(tmp_path / "t", Options({"storage.fsync": "false"}, environ={}))
    refs = [w.ref for w in write_splits(store, [table], schema, Options({}, environ={}))]
    searcher = open_searcher(store, refs, tmp_path / "cache")
    for kind, field in (("terms", "deep"), ("cardinality", "deep"), ("terms", "at"), ("stats", "at")):
        with pytest.raises(InvalidArgument):
            aggregate(searcher, "*", {"x": {kind: {"field": field}}})


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    """Rows with values inside of structs, with gaps, NaN and lists, over two files."""
    inner = pa.struct([("ms", pa.float64()), ("bytes", pa.int64()), ("user", pa.struct([("name", pa.string())]))])
    columns = [
        ("ts", pa.timestamp("us", "UTC")),
        ("level", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("req", inner),
    ]
    table = indextables.create(tmp_path_factory.mktemp("nested") / "t", pa.schema(columns))
    rows = []
    for n in range(60):
        name = None if n % 7 == 0 else {"name": f"user{n % 4}"}
        req = (
            None
            if n % 5 == 0
            else {"ms": math.nan if n == 3 else n / 4, "bytes": None if n % 11 == 0 else n, "user": name}
        )
        ts = None if n == 17 else dt.datetime(2026, 1, 1 + n % 3, n % 24, tzinfo=dt.UTC)
        rows.append({"ts": ts, "level": [None, "INFO", "WARN"][n % 3], "tags": ["a", "b", "a"][: n % 4], "req": req})
    table.append(rows[:35])
    table.append(rows[35:])
    return table, rows


def _field(row, path):
    for part in path.split("."):
        row = None if row is None else row[part]
    return row


OUTER = {
    "terms": ({"terms": {"field": "level", "size": 9}}, lambda row: [row["level"]]),
    "tags": ({"terms": {"field": "tags", "size": 9}}, lambda row: sorted(set(row["tags"]))),
    "names": ({"terms": {"field": "REQ.user.name", "size": 9}}, lambda row: [_field(row, "req.user.name")]),
    "days": (
        {"date_histogram": {"field": "ts", "calendar_interval": "day"}},
        lambda row: [row["ts"] and row["ts"].replace(hour=0)],
    ),
    "hours": (
        {"date_histogram": {"field": "ts", "fixed_interval": "12h"}},
        lambda row: [row["ts"] and row["ts"].replace(hour=row["ts"].hour // 12 * 12)],
    ),
    "sizes": (
        {"histogram": {"field": "req.bytes", "interval": 10}},
        lambda row: [None if _field(row, "req.bytes") is None else _field(row, "req.bytes") // 10 * 10],
    ),
    "slow": (
        {"histogram": {"field": "req.ms", "interval": 2.5}},
        lambda row: [
            None
            if _field(row, "req.ms") in (None, math.nan) or math.isnan(_field(row, "req.ms"))
            else _field(row, "req.ms") // 2.5 * 2.5
        ],
    ),
}
INNER = {
    "levels": {"terms": {"field": "level", "size": 9}},
    "n": {"value_count": {"field": "req.bytes"}},
    "total": {"sum": {"field": "req.bytes"}},
    "mean": {"avg": {"field": "req.bytes"}},
    "low": {"min": {"field": "req.bytes"}},
    "high": {"max": {"field": "ts"}},
}


@pytest.mark.parametrize("outer", OUTER)
def test_what_is_below_a_bucket_is_about_the_rows_of_that_bucket(requests, outer):
    table, rows = requests
    spec, keys_of = OUTER[outer]
    found = table.aggregate(None, {"outer": {**spec, "aggs": INNER}})["outer"]["buckets"]
    members: dict = {}
    for row in rows:
        for key in keys_of(row):
            if key is not None:
                members.setdefault(key, []).append(row)
    assert {bucket["key"] for bucket in found} == set(members)
    for bucket in found:
        inside = members[bucket["key"]]
        sizes = [size for row in inside if (size := _field(row, "req.bytes")) is not None]
        assert bucket["doc_count"] == len(inside)
        assert bucket["n"] == {"value": len(sizes)}
        assert bucket["total"] == {"value": sum(sizes) if sizes else None}
        assert bucket["mean"] == {"value": sum(sizes) / len(sizes) if sizes else None}
        assert bucket["low"] == {"value": min(sizes, default=None)}
        assert bucket["high"] == {"value": max((row["ts"] for row in inside if row["ts"]), default=None)}
        levels = Counter(row["level"] for row in inside if row["level"])
        assert {level["key"]: level["doc_count"] for level in bucket["levels"]["buckets"]} == levels


def test_ranges_and_two_levels_hold_what_is_below_them(requests):
    table, rows = requests
    ranges = {"range": {"field": "req.bytes", "ranges": [{"to": 20}, {"from": 20}, {"from": 10, "to": 30}]}}
    below = {
        "days": {
            "date_histogram": {"field": "ts", "calendar_interval": "day"},
            "aggs": {"n": {"value_count": {"field": "ts"}}},
        }
    }
    found = table.aggregate(None, {"r": {**ranges, "aggregations": below}})["r"]["buckets"]
    for bucket, (low, high) in zip(found, [(0, 20), (20, 1000), (10, 30)], strict=True):
        inside = [r for r in rows if _field(r, "req.bytes") is not None and low <= _field(r, "req.bytes") < high]
        assert bucket["doc_count"] == len(inside)
        days = Counter(row["ts"].replace(hour=0) for row in inside if row["ts"])
        assert {day["key"]: day["n"]["value"] for day in bucket["days"]["buckets"]} == days
    assert math.isnan(table.aggregate(None, {"x": {"max": {"field": "req.ms"}}})["x"]["value"])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"avg": {"field": "level"}}, "holds no numbers"),
        ({"avg": {"field": "req.nope"}}, "no column 'req.nope'"),
        ({"avg": {}}, 'avg needs "field"'),
        ({"max": {"field": "req"}}, "has no order"),
        ({"avg": {"field": "req.ms"}, "aggs": {"n": {"value_count": {"field": "ts"}}}}, "has no buckets"),
        ({"terms": {"field": "level"}, "aggs": {"key": {"value_count": {"field": "ts"}}}}, "cannot be called 'key'"),
        ({"terms": {"field": "level"}, "aggs": {"n": {"nope": {"field": "ts"}}}}, "it is one of"),
        ({"terms": {"field": "level"}, "aggs": 3}, "one dict with a name for each"),
    ],
)
def test_an_aggregation_that_cannot_be_below_or_of_a_field_says_so(requests, spec, words):
    with pytest.raises(InvalidArgument, match=words):
        requests[0].aggregate(None, {"a": spec})
