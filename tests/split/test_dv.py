from __future__ import annotations

import struct
import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from indextables.errors import DvCorrupt, InvalidArgument
from indextables.split.file import dv
from indextables.split.file.dv import DvDescriptor
from indextables.storage import open_store

TOKEN = "0123456789abcdef0123456789abcdef"
_ROWS = st.one_of(
    st.sets(st.integers(0, 300_000), max_size=200),
    st.builds(
        lambda a, n, step: set(range(a, a + n * step, step)),
        st.integers(0, 70_000),
        st.integers(0, 9000),
        st.integers(1, 3),
    ),
)


@given(_ROWS)
def test_rows_come_back_and_others_read_the_same_bytes(rows):
    payload = dv.encode(rows)
    assert set(dv.decode(payload, 400_000, "k")) == rows
    assert set(BitMap64.deserialize(payload[4:])) == rows
    assert dv.cardinality(payload, "k") == len(rows)


@given(_ROWS)
def test_vectors_of_other_writers_are_read(rows):
    plain = struct.pack("<I", 1_681_511_377) + BitMap64(rows).serialize()
    assert set(dv.decode(plain, 400_000, "k")) == rows


@given(_ROWS, _ROWS)
def test_a_union_has_the_rows_of_both(one, two):
    joined = dv.union([dv.encode(one), dv.encode(two)], 400_000, "k")
    assert set(dv.decode(joined, 400_000, "k")) == one | two


@given(st.sets(st.integers(0, 999)), st.integers(1000, 1200))
def test_masks_and_words_have_a_bit_for_every_live_row(rows, num_rows):
    payload = dv.encode(rows)
    mask = dv.alive_mask(payload, num_rows, "k")
    assert set(np.flatnonzero(~mask).tolist()) == rows
    words = dv.alive_words(payload, num_rows, "k")
    assert len(words) == (num_rows + 63) // 64 * 8
    value = int.from_bytes(words, "little")
    assert all((value >> row) & 1 == (row not in rows) for row in range(num_rows))
    assert value >> num_rows == 0


def test_no_vector_means_that_every_row_is_alive():
    assert dv.alive_mask(None, 5, "k").tolist() == [True] * 5
    assert dv.alive_words(None, 3, "k") == b"\x07" + bytes(7)


@given(st.binary(max_size=100))
def test_z85_comes_back(data):
    text = dv.z85_encode(data)
    assert dv.z85_decode(text)[: len(data)] == data


def test_z85_is_the_one_of_zeromq():
    assert dv.z85_encode(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"


@given(_ROWS)
def test_inline_vectors_come_back(rows):
    payload = dv.encode(rows)
    assert dv.load(None, dv.inline(payload), "k", 400_000) == payload


def test_the_example_of_the_delta_protocol_is_read():
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    found = dv.load(None, DvDescriptor("i", text, 44, 6), "k", 1000)
    assert sorted(dv.decode(found, 1000, "k")) == [3, 4, 7, 11, 18, 29]


def test_one_file_holds_the_vectors_of_many_splits_each_bound_to_its_own(store):
    payloads = [dv.encode(range(n)) for n in (1, 10, 5000)]
    found = dv.write_file(store, [(f"s{i}.split", 9000 + i, p) for i, p in enumerate(payloads)], TOKEN)
    for number, (vector, payload) in enumerate(zip(found, payloads, strict=True)):
        assert dv.load(store, vector, f"s{number}.split", 9000 + number) == payload
        with pytest.raises(DvCorrupt, match="another split"):
            dv.load(store, vector, "other.split", 9000 + number)
        with pytest.raises(DvCorrupt, match="another split"):
            dv.load(store, vector, f"s{number}.split", 9999)


def test_files_of_delta_are_read_without_a_binding(store):
    payload = dv.encode([1, 2, 3])
    data = b"\x01" + struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    name = dv.z85_encode(bytes(range(16)))
    store.put(dv.file_key("ab" + name, "k"), data)
    assert dv.load(store, DvDescriptor("u", "ab" + name, len(payload), 3, 1), "k", 10) == payload


def test_file_names_are_those_of_the_delta_protocol():
    key = dv.file_key("ab^-aqEH.-t@S}K{vb[*k^", "k")
    assert key == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"cardinality": 4}, id="cardinality lies"),
        pytest.param({"sizeInBytes": 5}, id="size too small"),
        pytest.param({"sizeInBytes": 1 << 40}, id="size too large"),
        pytest.param({"sizeInBytes": 31}, id="size wrong"),
        pytest.param({"offset": 0}, id="offset before the first vector"),
        pytest.param({"offset": -1}, id="negative offset"),
        pytest.param({"offset": 10**9}, id="offset behind the end"),
        pytest.param({"offset": 3}, id="offset inside a vector"),
        pytest.param({"storageType": "x"}, id="unknown storage"),
        pytest.param({"storageType": "p", "pathOrInlineDv": "/etc/passwd"}, id="absolute path"),
        pytest.param({"pathOrInlineDv": "../.." + "0" * 20}, id="path that leaves the table"),
        pytest.param({"pathOrInlineDv": "\x00" * 20}, id="name that is none"),
        pytest.param({"storageType": "i", "pathOrInlineDv": "abc"}, id="inline of odd length"),
        pytest.param({"storageType": "i", "pathOrInlineDv": "ééééé"}, id="inline that is not ASCII"),
        pytest.param({"storageType": "i", "pathOrInlineDv": "#####"}, id="inline above 32 bits"),
    ],
)
def test_a_descriptor_that_lies_is_corrupt(store, change):
    payload = dv.encode([1, 2, 3])
    vector = dv.write_file(store, [("k", 10, payload)], TOKEN)[0]
    with pytest.raises(DvCorrupt) as raised:
        dv.load(store, msgspec.structs.replace(vector, **change), "k", 10)
    assert raised.value.path == "k"


def test_a_row_beyond_the_split_is_corrupt():
    payload = dv.encode([10])
    for call in (dv.decode, dv.alive_mask, dv.alive_words):
        with pytest.raises(DvCorrupt, match="row 10"):
            call(payload, 10, "k")


def test_rows_that_no_split_has_are_refused_when_encoding():
    for rows in ([-1], [1 << 31]):
        with pytest.raises(InvalidArgument):
            dv.encode(rows)


def _bitmap(body):
    return struct.pack("<IQI", 1_681_511_377, 1, 0) + body


_PLAIN = struct.pack("<I", 12346)
_RUNS = struct.pack("<I", 12347)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes(12), id="wrong magic"),
        pytest.param(struct.pack("<IQ", 1_681_511_377, 2) + bytes(40), id="two maps"),
        pytest.param(struct.pack("<IQI", 1_681_511_377, 1, 7) + BitMap([1]).serialize(), id="rows above 2^32"),
        pytest.param(_bitmap(BitMap([1 << 31]).serialize()), id="rows above 2^31"),
        pytest.param(_bitmap(b"\x00\x00\x00\x00"), id="unknown cookie"),
        pytest.param(_bitmap(_PLAIN + struct.pack("<I", 1 << 31)), id="too many containers"),
        pytest.param(_bitmap(_PLAIN + struct.pack("<IHHI", 1, 0, 1, 16) + struct.pack("<HH", 5, 3)), id="unsorted"),
        pytest.param(_bitmap(_PLAIN + struct.pack("<IHHI", 1, 0, 1, 16) + struct.pack("<HH", 5, 5)), id="duplicate"),
        pytest.param(
            _bitmap(_PLAIN + struct.pack("<IHHHHII", 2, 1, 0, 0, 0, 0, 0) + bytes(4)), id="containers unsorted"
        ),
        pytest.param(_bitmap(_PLAIN + struct.pack("<IHHI", 1, 0, 0xFFFF, 16) + bytes(8192)), id="bitmap lies"),
        pytest.param(_bitmap(_RUNS + b"\x01" + struct.pack("<HHHHH", 0, 9, 1, 5, 7)), id="run lies on its cardinality"),
        pytest.param(_bitmap(_RUNS + b"\x01" + struct.pack("<HHHHH", 0, 1, 1, 65535, 1)), id="run leaves container"),
        pytest.param(_bitmap(_RUNS + b"\x01" + struct.pack("<HHHHHHH", 0, 3, 2, 5, 1, 6, 1)), id="runs overlap"),
        pytest.param(_bitmap(_RUNS + b"\x01" + struct.pack("<HHH", 0, 0, 0)), id="no runs"),
        pytest.param(dv.encode([1]) + b"\x01", id="bytes behind the end"),
        pytest.param(dv.encode([1])[:-1], id="cut"),
    ],
)
def test_a_payload_that_is_none_is_corrupt(payload):
    with pytest.raises(DvCorrupt):
        dv.decode(payload, 1 << 31, "k")


@given(_ROWS, st.data())
def test_flips_and_cuts_are_corrupt_or_still_a_set_of_rows(rows, data):
    payload = bytearray(dv.encode(rows))
    if data.draw(st.booleans()):
        del payload[data.draw(st.integers(0, len(payload) - 1)) :]
    else:
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = dv.decode(bytes(payload), 400_000, "k")
    except DvCorrupt:
        return
    assert len(found) == 0 or max(found) < 400_000


@given(st.sets(st.integers(0, 5000), min_size=1), st.data())
def test_every_flip_in_a_file_is_noticed(rows, data):
    store = open_store("memory://dv-flips")
    payload = dv.encode(rows)
    vector = dv.write_file(store, [("k", 6000, payload)], TOKEN)[0]
    key = dv.file_key(vector.pathOrInlineDv, "k")
    body = bytearray(store.get(key))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    store.put(key, bytes(body))
    binding = 1 + 4 + len(payload) + 4
    if binding <= at < binding + 4:
        # Without its magic the binding is bytes of another writer.
        assert dv.load(store, vector, "k", 6000) == payload
        return
    with pytest.raises(DvCorrupt):
        dv.load(store, vector, "k", 6000)
