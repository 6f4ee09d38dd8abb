from __future__ import annotations

import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.split.file import thrift
from indextables.split.file.thrift import Field, ThriftError, ThriftList

_INTS = {thrift.I16: 15, thrift.I32: 31, thrift.I64: 63}


def _scalars():
    whole = [st.builds(Field, st.just(kind), st.integers(-(2**bits), 2**bits - 1)) for kind, bits in _INTS.items()]
    return st.one_of(
        *whole,
        st.builds(Field, st.just(thrift.BOOL), st.booleans()),
        st.builds(Field, st.just(thrift.BYTE), st.integers(-128, 127)),
        st.builds(Field, st.just(thrift.DOUBLE), st.floats(allow_nan=False)),
        st.builds(Field, st.just(thrift.BINARY), st.binary(max_size=300)),
    )


def _lists(inner):
    bools = st.builds(ThriftList, st.just(thrift.BOOL), st.lists(st.booleans(), max_size=40))
    longs = st.builds(ThriftList, st.just(thrift.I64), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
    structs = st.builds(ThriftList, st.just(thrift.STRUCT), st.lists(inner, max_size=4))
    return st.builds(Field, st.just(thrift.LIST), st.one_of(bools, longs, structs))


def _structs():
    numbers = st.integers(0, 2**15 - 1)
    return st.recursive(
        st.dictionaries(numbers, _scalars(), max_size=5),
        lambda inner: st.dictionaries(
            numbers,
            st.one_of(_scalars(), _lists(inner), st.builds(Field, st.just(thrift.STRUCT), inner)),
            max_size=5,
        ),
        max_leaves=12,
    )


@given(_structs(), st.binary(max_size=8))
def test_what_is_written_is_read_again_and_bytes_behind_it_are_left_alone(value, rest):
    data = thrift.encode_struct(value)
    assert thrift.decode_struct(data + rest) == (value, len(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_struct_or_a_thrift_error(data):
    try:
        value, end = thrift.decode_struct(data)
    except ThriftError:
        return
    assert 0 < end <= len(data)
    again, _ = thrift.decode_struct(thrift.encode_struct(value))
    assert repr(again) == repr(value)


@pytest.mark.slow
@given(_structs(), st.data())
def test_a_struct_that_is_cut_off_is_a_thrift_error(value, data):
    whole = thrift.encode_struct(value)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ThriftError):
        thrift.decode_struct(whole[:cut])


def test_footers_of_pyarrow_come_back_byte_for_byte():
    table = pa.table({"a": range(3000), "l": [[str(i)] * (i % 3) for i in range(3000)], "f": [math.pi] * 3000})
    sink = io.BytesIO()
    pq.write_table(table, sink, write_page_index=True, row_group_size=700, compression="zstd")
    data = sink.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    value, end = thrift.decode_struct(footer)
    assert end == len(footer)
    assert thrift.encode_struct(value) == footer


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x1c" * 40, id="structs nested too deep"),
        pytest.param(b"\x19" * 40, id="lists nested too deep"),
        pytest.param(b"\x19\xf5\xff\xff\xff\xff\x0f", id="a list longer than the bytes"),
        pytest.param(b"\x18\xff\xff\xff\xff\x0f", id="a string longer than the bytes"),
        pytest.param(b"\x16" + b"\xff" * 12, id="a number without end"),
        pytest.param(b"\x15\xff\xff\xff\xff\xff\x01\x00", id="a number too large for its type"),
        pytest.param(b"\x1b\x00", id="a map"),
        pytest.param(b"\x15\x02\x05\x02\x02\x00", id="a field given twice"),
    ],
)
def test_hostile_bytes_are_a_thrift_error(data):
    with pytest.raises(ThriftError):
        thrift.decode_struct(data)
