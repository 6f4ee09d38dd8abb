from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.query.partition import can_partition, partition_from_text, partition_to_text

INSTANTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001
KINDS = [
    (
        pa.string(),
        st.text(st.characters(exclude_categories=["Cs"])).filter(lambda t: t != "__HIVE_DEFAULT_PARTITION__"),
    ),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(allow_nan=False, width=32)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), INSTANTS),
    (pa.timestamp("us", "UTC"), INSTANTS.map(lambda t: t.replace(tzinfo=dt.UTC))),
    (pa.decimal128(20, 4), st.decimals(-(10**15), 10**15, places=4).map(decimal.Decimal)),
]


@pytest.mark.parametrize(("data_type", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_values_survive_the_log(data_type, values):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.none() | values, max_size=5))
    def check(items):
        typed = pa.array(items, data_type)
        back, known = partition_from_text(partition_to_text(typed), data_type)
        assert back.to_pylist() == typed.to_pylist()
        assert all(known.to_pylist())

    assert can_partition(data_type)
    check()


def test_texts_are_those_of_the_specification():
    moment = dt.datetime(2024, 1, 31, 23, 59, 59, 500_000, tzinfo=dt.UTC)
    assert partition_to_text(pa.array([moment], pa.timestamp("us", "UTC"))).to_pylist() == ["2024-01-31T23:59:59.5Z"]
    assert partition_to_text(pa.array([-0.0, 1.5, None])).to_pylist() == ["0", "1.5", None]
    assert partition_to_text(pa.array([True])).to_pylist() == ["true"]
    assert partition_to_text(pa.array([dt.date(2024, 1, 31)])).to_pylist() == ["2024-01-31"]


def test_text_of_another_type_is_not_known():
    values, known = partition_from_text(pa.array(["1", "x", None, "__HIVE_DEFAULT_PARTITION__"]), pa.int64())
    assert values.to_pylist() == [1, None, None, None]
    assert known.to_pylist() == [True, False, True, True]


def test_nested_and_binary_columns_cannot_partition():
    assert not can_partition(pa.binary())
    assert not can_partition(pa.list_(pa.int64()))
