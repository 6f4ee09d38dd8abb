"""Partition values that make odd folder names: whatever a column holds is written, found and read again."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import indextables
from indextables.log.wire.paths import encode_path, key_of
from indextables.table.rows.partitions import folder_of

ODD = [
    "\0",
    "a%00b",
    "%",
    "%25",
    "%252525252525252525",
    "%2E%2E",
    "%2F",
    "..",
    ".",
    "../..",
    "/",
    "a/b",
    "a\\b",
    "a=b",
    "a:b",
    "x" * 190 + "%",
    "x" * 5000,
    "é" * 190,
    "\n",
    "\r\n",
    " ",
    " a ",
    "_transaction_log",
    "\U0001f600",
    "\ufeff",
    "\x7f",
    "null",
    "-",
]


@pytest.mark.slow
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value[:20]))
def test_an_odd_partition_value_comes_back(tmp_path, value):
    schema = pa.schema([("k", pa.int64()), ("p", pa.string())])
    table = indextables.create(str(tmp_path / "t"), schema, partition_by=["p"])
    table.append([{"k": 0, "p": "fine"}, {"k": 1, "p": value}])
    again = indextables.open(str(tmp_path / "t"))
    assert sorted(again.to_arrow()["p"].to_pylist()) == sorted(["fine", value])
    assert again.verify().findings == ()
    again.append([{"k": 2, "p": value}])
    assert again.count() == 3


@pytest.mark.parametrize("name", ["a%00b", "%252525252525252525", "é" * 140, "a/b"])
def test_an_odd_partition_column_is_written_and_read(tmp_path, name):
    schema = pa.schema([("k", pa.int64()), (name, pa.string())])
    table = indextables.create(str(tmp_path / "t"), schema, partition_by=[name])
    table.append([{"k": 0, name: "fine"}])
    assert indextables.open(str(tmp_path / "t")).to_arrow()[name].to_pylist() == ["fine"]


@given(st.text(max_size=40) | st.text("%025Ff./\\\0=", max_size=40), st.text("a%025Ff./\\\0=", min_size=1, max_size=40))
def test_every_folder_passes_the_check_of_the_log(value, name):
    folder = folder_of([name], [value])
    assert key_of(encode_path(folder + "x"), "") == folder + "x"
    assert folder.count("/") == 1
    assert len(folder.encode()) <= 256


@given(st.lists(st.text("%025Ff./\\\0=", max_size=12), unique=True, min_size=2, max_size=2))
def test_different_values_have_different_folders(values):
    one, other = (folder_of(["p"], [value]) for value in values)
    assert one != other
