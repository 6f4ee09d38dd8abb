from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from indextables.query.expr import And, columns_of
from indextables.query.parse import parse
from indextables.query.prune import is_partition_only, partition_part, prune, prune_bounds
from indextables.query.stats import FOREIGN, OURS, map_values

MAP = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("region", pa.string()),
        ("n", pa.int64()),
        ("v", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
PARTITIONED = ["day", "region"]


def files(*rows: dict) -> pa.Table:
    """One file per row: `p` partition values, `lo` and `hi` bounds, optional `stats` and `records`."""
    return pa.table(
        {
            "partitionValues": pa.array([list(row.get("p", {}).items()) for row in rows], MAP),
            "minValues": pa.array([list(row.get("lo", {}).items()) for row in rows], MAP),
            "maxValues": pa.array([list(row.get("hi", {}).items()) for row in rows], MAP),
            "numRecords": pa.array([row.get("records", 10) for row in rows], pa.int64()),
            "stats": pa.array([row.get("stats") for row in rows], pa.string()),
        }
    )


def kept(table: pa.Table, where: str, rules=OURS) -> list[bool]:
    return prune(table, parse(where, SCHEMA), SCHEMA, PARTITIONED, rules=rules).to_pylist()


PARTS = files(
    {"p": {"day": "2024-01-01", "region": "eu"}},
    {"p": {"day": "2024-01-02", "region": ""}},
    {"p": {"day": None, "region": None}},
    {"p": {"day": "__HIVE_DEFAULT_PARTITION__"}},
    {"p": {"day": "not a day", "region": "a%20b"}},
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("day = '2024-01-01'", [1, 0, 0, 0, 1]),
        ("day > '2024-01-01'", [0, 1, 0, 0, 1]),
        ("day in ('2024-01-01', '2024-01-02')", [1, 1, 0, 0, 1]),
        ("day is null", [0, 0, 1, 1, 1]),
        ("day is not null", [1, 1, 0, 0, 1]),
        ("region = ''", [0, 1, 0, 0, 0]),
        ("region is null", [0, 0, 1, 1, 0]),
        ("region like 'e%'", [1, 0, 0, 0, 0]),
        ("year(day) = 2024 and region <> 'eu'", [0, 1, 0, 0, 1]),
        ("day = '2024-01-01' or n = 5", [1, 1, 1, 1, 1]),
        ("region = 'eu' and n = 5", [1, 0, 0, 0, 0]),
        ("false", [0, 0, 0, 0, 0]),
    ],
)
def test_partition_values_prune(where, expected):
    assert kept(PARTS, where) == [bool(flag) for flag in expected]


def test_escaped_partition_values_are_decoded_for_foreign_tables():
    assert kept(PARTS, "region = 'a b'") == [False] * 5
    assert kept(PARTS, "region = 'a b'", FOREIGN) == [False, False, False, False, True]


BOUNDS = files(
    {"lo": {"n": "9", "s": "b", "v": "1.5"}, "hi": {"n": "10", "s": "d", "v": "2.5"}},
    {"lo": {"n": "100", "s": "x"}, "hi": {"n": "200", "s": "z", "v": "NaN"}},
    {"lo": {"n": "oops"}, "hi": {"n": "3"}},
    {"lo": {"n": "5"}, "hi": {"n": "1"}},
    {},
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("n = 10", [1, 0, 0, 1, 1]),
        ("n = 11", [0, 0, 0, 1, 1]),
        ("n < 9", [0, 0, 1, 1, 1]),
        ("n <= 9", [1, 0, 1, 1, 1]),
        ("n > 10", [0, 1, 0, 1, 1]),
        ("not n > 10", [1, 0, 1, 1, 1]),
        ("n in (8, 150)", [0, 1, 0, 1, 1]),
        ("n > 9.5", [1, 1, 0, 1, 1]),
        ("n between 20 and 30", [0, 0, 0, 1, 1]),
        ("cast(n as double) > 10.5", [0, 1, 0, 1, 1]),
        ("s = 'c'", [1, 0, 1, 1, 1]),
        ("s like 'c%'", [1, 0, 1, 1, 1]),
        ("s like 'y%'", [0, 1, 1, 1, 1]),
        ("v > 3", [0, 1, 1, 1, 1]),
        ("n = 10 or n = 150", [1, 1, 0, 1, 1]),
        ("n + 1 = 400", [1, 1, 1, 1, 1]),
        ("n = length(s)", [1, 1, 1, 1, 1]),
    ],
)
def test_bounds_prune_and_damaged_ones_keep_the_file(where, expected):
    assert kept(BOUNDS, where) == [bool(flag) for flag in expected]


def test_long_lists_prune_by_their_range():
    assert kept(BOUNDS, f"n in ({','.join(map(str, range(11, 100)))})") == [False, False, False, True, True]


def test_times_are_understood_as_iso_and_as_epoch_of_any_unit():
    instant = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    seconds = int(instant.timestamp())
    texts = ["2024-01-01T00:00:00Z", "2024-01-01 00:00:00", str(seconds), str(seconds * 10**3), str(seconds * 10**6)]
    table = files(*({"lo": {"ts": text}, "hi": {"ts": text}} for text in texts))
    assert kept(table, "ts = timestamp '2024-01-01'") == [True] * 5
    assert kept(table, "ts > timestamp '2024-06-01'") == [False] * 5
    assert kept(table, "ts < timestamp '1969-01-01'") == [False] * 5
    assert kept(table, "ts < timestamp '2023-01-01'") == [False, False, True, True, False]


def test_a_cut_maximum_of_a_foreign_table_bounds_nothing():
    table = files({"lo": {"s": "a"}, "hi": {"s": "b" * 32}}, {"lo": {"s": "a"}, "hi": {"s": "b" * 31}})
    assert kept(table, "s > 'c'") == [False, False]
    assert kept(table, "s > 'c'", FOREIGN) == [True, False]


def test_null_counts_serve_is_null():
    table = files(
        {"stats": '{"nullCount":{"n":0}}'},
        {"stats": '{"nullCount":{"n":10}}'},
        {"stats": '{"nullCount":{"n":11}}'},
        {"stats": '{"nullCount":{"n":-1}}'},
        {"stats": '{"nullCount":[1]}'},
        {"stats": "{"},
        {},
    )
    assert kept(table, "n is null") == [False, True, True, True, True, True, True]
    assert kept(table, "n is not null") == [True, False, True, True, True, True, True]


def test_a_conjunction_splits_into_its_partition_part():
    where = parse("day = '2024-01-01' and n = 1 and region = 'eu'", SCHEMA)
    part = partition_part(where, PARTITIONED)
    assert isinstance(part, And)
    assert columns_of(part) == ("day", "region")
    assert is_partition_only(part, PARTITIONED)
    assert partition_part(parse("n = 1 or day is null", SCHEMA), PARTITIONED) is None


def test_manifest_bounds_prune():
    low = pa.array([[("day", "2024-01-01")], [("day", "2024-02-01")], []], MAP)
    high = pa.array([[("day", "2024-01-31")], [("day", "2024-02-29")], []], MAP)
    masks = {
        where: prune_bounds(low, high, parse(where, SCHEMA), SCHEMA, PARTITIONED).to_pylist()
        for where in ("day = '2024-02-10'", "day is null", "n = 1", "day < '2024-01-15' and n = 1")
    }
    assert masks == {
        "day = '2024-02-10'": [False, True, True],
        "day is null": [True, True, True],
        "n = 1": [True, True, True],
        "day < '2024-01-15' and n = 1": [True, False, True],
    }


def test_a_key_of_a_map_is_found_in_slices_and_chunks():
    maps = pa.array([[("a", "1"), ("b", "2")], None, [], [("b", "3")], [("b", "4"), ("b", "5")], [("b", None)]], MAP)
    assert map_values(maps, "b").to_pylist() == ["2", None, None, "3", None, None]
    assert map_values(maps.slice(3), "b").to_pylist() == ["3", None, None]
    assert map_values(pa.chunked_array([maps.slice(0, 2), maps.slice(2, 2)]), "b").to_pylist() == ["2", None, None, "3"]
    assert map_values(pa.chunked_array([], MAP), "b").to_pylist() == []
