from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import InvalidArgument
from indextables.storage import check_key
from indextables.table.rows.partitions import check_partition_columns, folder_of, split_rows

SCHEMA = pa.schema([("day", pa.date32()), ("hour", pa.int64()), ("x", pa.string()), ("tags", pa.list_(pa.string()))])


def test_folders_nest_in_the_order_of_the_columns():
    assert folder_of(["day", "hour"], ["2024-01-01", "10"]) == "day=2024-01-01/hour=10/"
    assert folder_of([], []) == ""
    assert folder_of(["a/b"], [None]) == "a%2Fb=__HIVE_DEFAULT_PARTITION__/"
    assert folder_of(["x"], [""]) == "x=__HIVE_DEFAULT_PARTITION__/"
    assert folder_of(["x"], ["a b%c=d/é"]) == "x=a b%25c%3Dd%2Fé/"


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_value_makes_a_key_that_every_store_takes(value):
    check_key(folder_of(["x"], [value]) + "splits/split-0.split")


def test_rows_are_grouped_by_value_and_keep_their_order():
    batch = pa.RecordBatch.from_pydict({"p": ["b", "a", None, "b", "a", ""], "n": [0, 1, 2, 3, 4, 5]})
    parts = {part.values: part.rows["n"].to_pylist() for part in split_rows(batch, ["p"])}
    assert parts == {("b",): [0, 3], ("a",): [1, 4], (None,): [2], ("",): [5]}
    assert list(parts) == [("b",), ("a",), (None,), ("",)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2])), max_size=30))
def test_every_row_is_in_exactly_one_part_with_its_values(rows):
    batch = pa.RecordBatch.from_pydict(
        {
            "p": pa.array([p for p, _ in rows], pa.string()),
            "q": pa.array([q for _, q in rows], pa.int64()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    seen = []
    values = set()
    for part in split_rows(batch, ["p", "q"]):
        assert part.values not in values
        values.add(part.values)
        for row in part.rows.to_pylist():
            assert (row["p"], None if row["q"] is None else str(row["q"])) == part.values
            seen.append(row["n"])
    assert sorted(seen) == list(range(len(rows)))


def test_the_text_that_others_read_as_null_is_refused():
    batch = pa.RecordBatch.from_pydict({"p": ["__HIVE_DEFAULT_PARTITION__"]})
    with pytest.raises(InvalidArgument, match="read as null"):
        list(split_rows(batch, ["p"]))


def test_partition_columns_are_found_in_any_case_and_checked():
    assert check_partition_columns(SCHEMA, ["DAY", "hour"]) == ["day", "hour"]
    for columns, reason in [
        (["nope"], "not in the schema"),
        (["day", "Day"], "twice"),
        (["tags"], "cannot partition"),
    ]:
        with pytest.raises(InvalidArgument, match=reason):
            check_partition_columns(SCHEMA, columns)
    with pytest.raises(InvalidArgument, match="not a partition column"):
        check_partition_columns(pa.schema([("d", pa.date32())]), ["d"])


def test_floats_and_times_group_by_their_text():
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    batch = pa.RecordBatch.from_pydict(
        {"f": [0.0, -0.0, float("nan")], "t": pa.array([moment] * 3, pa.timestamp("us", "UTC"))}
    )
    assert [part.values for part in split_rows(batch, ["f", "t"])] == [
        ("0", "2024-01-01T00:00:00Z"),
        ("nan", "2024-01-01T00:00:00Z"),
    ]
