"""Pruning never changes a result: random data, predicates, types and damaged statistics, pruned against unpruned."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indextables.errors import QueryInvalid
from indextables.query.evaluate import evaluate
from indextables.query.expr import And, Cast, Column, Comparison, In, IsNull, Literal, Not, Or, TextMatch
from indextables.query.parse import parse
from indextables.query.partition import partition_to_text
from indextables.query.prune import all_match, prune, prune_bounds
from indextables.query.stats import FOREIGN, OURS

MAP = pa.map_(pa.string(), pa.string())
TYPES = {
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float64(),
    "g": pa.float32(),
    "s": pa.string(),
    "d": pa.date32(),
    "t": pa.timestamp("us", "UTC"),
    "n": pa.timestamp("us"),
    "c": pa.decimal128(10, 2),
    "b": pa.bool_(),
}
PARTITIONED = ["l", "s", "d"]
SCHEMA = pa.schema(TYPES.items())
GARBAGE = [
    "",
    "x",
    "NaN",
    "-",
    "9" * 40,
    "2024-13-45",
    "\ud7ff",
    "Infinity",
    "1e400",
    "0x10",
    "__HIVE_DEFAULT_PARTITION__",
]


def values_of(data_type: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_integer(data_type):
        return st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 9, 10, 2**31 - 1])
    if pa.types.is_float32(data_type):
        return st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 1.5, 2.0, math.nan, math.inf])
    if pa.types.is_floating(data_type):
        return st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 1.5, 2.0, 1e300, math.nan, math.inf])
    if pa.types.is_string(data_type):
        return st.sampled_from(
            ["", "a", "ab", "abc", "b", "B", "10", "9", "a%", "é", "a" * 40, "a" * 40 + "b", "\U0001f600"]
        )
    if pa.types.is_date(data_type):
        return st.sampled_from([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)])
    if pa.types.is_timestamp(data_type):
        zone = dt.UTC if data_type.tz else None
        days = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 12), dt.datetime(2024, 3, 1)]  # noqa: DTZ001
        return st.sampled_from([day.replace(tzinfo=zone) for day in days])
    if pa.types.is_decimal(data_type):
        return st.sampled_from([decimal.Decimal(text) for text in ("-1.50", "0.00", "1.50", "99.99")])
    return st.booleans()


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Table]:
    """Files: each a small table whose partition columns are constant."""
    files = []
    for _ in range(draw(st.integers(1, 6))):
        rows = draw(st.integers(1, 4))
        columns = {}
        for name, data_type in TYPES.items():
            value = st.none() | values_of(data_type)
            data = [draw(value)] * rows if name in PARTITIONED else draw(st.lists(value, min_size=rows, max_size=rows))
            columns[name] = pa.array(data, data_type)
        files.append(pa.table(columns))
    return files


@st.composite
def predicates(draw: st.DrawFn, depth: int = 3):
    if depth and draw(st.booleans()):
        kind = draw(st.sampled_from(["and", "or", "not"]))
        if kind == "not":
            return Not(draw(predicates(depth=depth - 1)))
        terms = tuple(draw(predicates(depth=depth - 1)) for _ in range(draw(st.integers(1, 3))))
        return And(terms) if kind == "and" else Or(terms)
    name = draw(st.sampled_from(list(TYPES)))
    data_type = TYPES[name]
    node = Column(name, data_type)
    kind = draw(st.sampled_from(["compare", "compare", "in", "null", "prefix", "cast", "columns", "reverse"]))
    value = draw(values_of(data_type) | st.none() if kind == "compare" else values_of(data_type))
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
    if kind == "null":
        return IsNull(node)
    if kind == "prefix" and name == "s":
        return TextMatch(
            node,
            draw(st.sampled_from(["a", "ab", "", "é", "a" * 40])),
            draw(st.sampled_from(["startswith", "contains"])),
        )
    if kind == "in":
        chosen = draw(st.lists(values_of(data_type), min_size=1, max_size=4, unique_by=repr))
        return In(node, tuple(pa.scalar(item, data_type) for item in chosen), draw(st.booleans()))
    if kind == "cast" and name in "ilgf":
        target = draw(st.sampled_from([pa.float64(), pa.int64(), pa.decimal128(20, 1)]))
        return Comparison(
            op, Cast(node, target, strict=False), Literal(pa.scalar(draw(st.integers(-3, 3)), pa.int64()).cast(target))
        )
    if kind == "columns" and name in "il":
        return Comparison(op, Cast(node, pa.int64()), Cast(Column("i", pa.int32()), pa.int64()))
    if kind == "reverse":
        return Comparison(op, Literal(pa.scalar(value, data_type)), node)
    return Comparison(op, node, Literal(pa.scalar(value, data_type)))


def bound_text(value: object, data_type: pa.DataType, style: str) -> str:
    if pa.types.is_timestamp(data_type) and style != "iso":
        micros = pa.scalar(value, data_type).value
        return str(micros)
    return partition_to_text(pa.array([value], data_type))[0].as_py()


def logged(files: list[pa.Table], draw: st.DrawFn, *, cut: bool) -> pa.Table:
    rows = []
    for file in files:
        lows, highs = {}, {}
        for name, data_type in TYPES.items():
            present = [value for value in file[name].to_pylist() if value is not None]
            if name in PARTITIONED or not present or (any(v != v for v in present)):  # noqa: PLR0124 - NaN
                continue
            key = (lambda text: text.encode()) if name == "s" else None
            low, high = min(present, key=key), max(present, key=key)
            style = draw(st.sampled_from(["iso", "micros"]))
            lows[name], highs[name] = bound_text(low, data_type, style), bound_text(high, data_type, style)
            if name == "s":
                lows[name] = lows[name][:32]
                highs[name] = highs[name][:32] if cut or len(highs[name]) <= 32 else highs[name][:32] + "\U0010ffff"
            damage = draw(st.sampled_from(["none", "none", "none", "low", "high", "both", "drop"]))
            if damage in ("low", "both"):
                nonsense = [text for text in GARBAGE if name != "f" or not text.isdigit()]
                lows[name] = draw(st.sampled_from(nonsense)) if name != "s" else lows[name]
            if damage in ("high", "both") and name != "s":
                highs[name] = "oops"
            if damage == "drop":
                highs.pop(name)
        partition = {name: partition_to_text(file[name].combine_chunks())[0].as_py() for name in PARTITIONED}
        rows.append(
            {
                "partitionValues": list(partition.items()),
                "minValues": list(lows.items()),
                "maxValues": list(highs.items()),
            }
        )
    columns = {
        name: pa.array([row[name] for row in rows], MAP) for name in ("partitionValues", "minValues", "maxValues")
    }
    null_counts = [",".join(f'"{name}":{file[name].null_count}' for name in TYPES) for file in files]
    columns["stats"] = pa.array([f'{{"nullCount":{{{counts}}}}}' for counts in null_counts])
    columns["numRecords"] = pa.array([file.num_rows for file in files], pa.int64())
    return pa.table(columns)


def matching(files: list[pa.Table], predicate) -> list[int]:
    """How many rows of each file match, evaluated on all files at once."""
    hits = pc.fill_null(evaluate(predicate, pa.concat_tables(files)), fill_value=False).to_pylist()
    counts = []
    for file in files:
        counts.append(sum(hits[: file.num_rows]))
        hits = hits[file.num_rows :]
    return counts


def check_that_no_match_is_pruned(data: st.DataObject) -> None:
    files = data.draw(tables())
    cut = data.draw(st.booleans())
    log = logged(files, data.draw, cut=cut)
    rules = FOREIGN if cut else OURS
    for number, predicate in enumerate(data.draw(st.lists(predicates(), min_size=10, max_size=10))):
        kept = prune(log, predicate, SCHEMA, PARTITIONED, rules=rules).to_pylist()
        # It prunes several times: one of ten predicates is asked whether it takes whole files.
        asked = number == 0
        whole = (
            all_match(log, predicate, SCHEMA, PARTITIONED, rules=rules).to_pylist() if asked else [False] * len(kept)
        )
        for file, keep, all_rows, hits in zip(files, kept, whole, matching(files, predicate), strict=True):
            assert keep or hits == 0
            assert hits == file.num_rows or not all_rows


@pytest.mark.slow
@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_pruned_file_holds_no_match(data):
    check_that_no_match_is_pruned(data)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_pruned_manifest_holds_no_match(data):
    files = data.draw(tables())
    predicate = data.draw(predicates())
    lows, highs = {}, {}
    for name in PARTITIONED:
        present = [file[name][0].as_py() for file in files if file[name][0].is_valid]
        if present:
            key = (lambda text: text.encode()) if name == "s" else None
            lows[name] = partition_to_text(pa.array([min(present, key=key)], TYPES[name]))[0].as_py()
            highs[name] = partition_to_text(pa.array([max(present, key=key)], TYPES[name]))[0].as_py()
    minimum, maximum = pa.array([list(lows.items())], MAP), pa.array([list(highs.items())], MAP)
    kept = prune_bounds(minimum, maximum, predicate, SCHEMA, PARTITIONED)[0].as_py()
    assert kept or sum(matching(files, predicate)) == 0


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_pruned_file_holds_no_match_at_volume(data):
    check_that_no_match_is_pruned(data)


def test_a_file_is_taken_whole_where_values_or_bounds_prove_it():
    log = pa.table(
        {
            "partitionValues": pa.array([[("s", "a")], [("s", "b")], [("s", "a")]], MAP),
            "minValues": pa.array([[("i", "1")], [("i", "1")], [("i", "1")]], MAP),
            "maxValues": pa.array([[("i", "5")], [("i", "5")], [("i", "5")]], MAP),
            "stats": pa.array(['{"nullCount":{"i":0}}', '{"nullCount":{"i":0}}', '{"nullCount":{"i":2}}']),
            "numRecords": pa.array([4, 4, 4], pa.int64()),
        }
    )
    small = pa.schema([("i", pa.int32()), ("s", pa.string())])
    for text, expected in {
        "s = 'a'": [True, False, True],
        "i <= 5": [True, True, False],
        "i < 5": [False, False, False],
        "s = 'a' AND i BETWEEN 0 AND 9": [True, False, False],
        "s = 'b' OR i > 0": [True, True, False],
        "i IN (1, 2, 3, 4, 5, NULL)": [False, False, False],
        "i IN (9, NULL)": [False, False, False],
        "i + 1 > 0": [False, False, False],
        "NOT (s = 'b')": [True, False, True],
    }.items():
        assert all_match(log, parse(text, small), small, ["s"]).to_pylist() == expected, text


def test_an_error_in_a_value_keeps_the_file():
    log = pa.table(
        {
            "partitionValues": pa.array([[("s", "abc")]], MAP),
            "minValues": pa.array([[]], MAP),
            "maxValues": pa.array([[]], MAP),
        }
    )
    predicate = Comparison("=", Cast(Column("s", pa.string()), pa.int64()), Literal(pa.scalar(1, pa.int64())))
    assert prune(log, predicate, SCHEMA, ["s"]).to_pylist() == [True]
    with pytest.raises(QueryInvalid):
        evaluate(predicate, pa.table({"s": ["abc"]}))
