from __future__ import annotations

import struct

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import InvariantViolated, SplitCorrupt
from indextables.split.file import layout
from indextables.split.file.layout import Component, Directory, IndexPointer

_NAMES = [*layout.COMPONENT_ORDER]


def _directory(**changed):
    base = {
        "num_rows": 3,
        "tantivy": "0.27.0",
        "index_format": 7,
        "segment": "",
        "schema": "[]",
        "doc_mapping": '{"fields":[],"version":1}',
        "components": (),
    }
    return Directory(**(base | changed))


def _section(directory, parts):
    pieces, written, range1 = layout.encode_section(directory, parts)
    return b"".join(pieces), written, range1


@given(
    st.dictionaries(st.sampled_from(_NAMES), st.tuples(st.binary(max_size=5000), st.binary(max_size=50)), max_size=6),
    st.dictionaries(st.text(max_size=5), st.integers(0, 2**63), max_size=3),
)
def test_every_component_comes_back_from_its_place(contents, tokens):
    parts = [layout.pack(name, raw, raw[-len(tail) :] if tail else b"") for name, (raw, tail) in contents.items()]
    data, written, range1 = _section(_directory(tokens=tokens), parts)
    found = layout.decode_directory(data[:range1], "k", section_length=len(data))
    assert found == written
    assert found.tokens == tokens
    for name, (raw, _) in contents.items():
        component = found.component(name)
        assert bytes(layout.unpack(component, data[component.offset : component.end], "k")) == raw
    term = found.component("term")
    assert term is None or term.end == range1


def test_components_lie_in_the_order_of_need():
    parts = [layout.pack(name, name.encode() * 500) for name in reversed(_NAMES)]
    _, written, _ = _section(_directory(), parts)
    assert [c.name for c in written.components] == _NAMES


def test_few_bytes_are_stored_as_they_are_and_more_of_them_packed():
    few, more = (layout.pack("term", b"needle " * times) for times in (20, 200))
    assert (few.codec, bytes(few.stored), few.raw_length) == ("none", b"needle " * 20, 140)
    assert more.codec == "zstd"
    assert memoryview(more.stored).nbytes < 200


def test_zeros_that_look_like_a_bomb_are_stored_as_they_are():
    part = layout.pack("fieldnorm", bytes(70 << 20))
    assert part.codec == "none"


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_is_noticed_in_directory_and_component(place, bits):
    raw = bytes(range(256)) * 40
    data, written, range1 = _section(_directory(), [layout.pack("term", raw)])
    damaged = bytearray(data)
    at = place % len(data)
    damaged[at] ^= bits
    component = written.component("term")
    try:
        found = layout.decode_directory(bytes(damaged[:range1]), "k", section_length=len(data))
        unpacked = layout.unpack(component, bytes(damaged[component.offset : component.end]), "k")
    except SplitCorrupt:
        return
    # Only the padding between directory and components, and two bytes of the header, mean nothing.
    assert found == written
    assert bytes(unpacked) == raw


@given(st.integers(0, 4000))
def test_a_section_that_is_cut_off_is_corrupt(length):
    data, _, range1 = _section(_directory(), [layout.pack("term", bytes(range(256)) * 4)])
    directory_end = layout.directory_length(data[: layout.HEADER_BYTES], "k")
    cut = length % range1
    if cut >= directory_end:
        layout.decode_directory(data[:cut], "k")
        return
    with pytest.raises(SplitCorrupt):
        layout.decode_directory(data[:cut], "k")


def _lying(*components, **changed):
    """A section whose directory is well formed, checksummed, and wrong."""
    directory = _directory(components=tuple(components), **changed)
    raw = msgspec.msgpack.encode(directory)
    body = pa.Codec("zstd").compress(raw, asbytes=True)
    header = struct.pack("<4sHHIII", b"ITIX", 1, 0, len(body), len(raw), layout.crc32c(body))
    return header + body


def _component(**changed):
    base = {"name": "term", "offset": 1000, "length": 10, "raw_length": 10, "codec": "none", "crc32c": 0}
    return Component(**(base | changed))


_PAD = '{"fields":[],"version":1}' + " " * 300


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(_lying(doc_mapping=_PAD, num_rows=-1), id="negative rows"),
        pytest.param(_lying(doc_mapping=_PAD, num_rows=1 << 40), id="too many rows"),
        pytest.param(_lying(_component(), _component(offset=2000), doc_mapping=_PAD), id="component twice"),
        pytest.param(_lying(_component(offset=-5), doc_mapping=_PAD), id="negative offset"),
        pytest.param(_lying(_component(length=-5), doc_mapping=_PAD), id="negative length"),
        pytest.param(_lying(_component(offset=3), doc_mapping=_PAD), id="inside the directory"),
        pytest.param(_lying(_component(length=5000), doc_mapping=_PAD), id="beyond the section"),
        pytest.param(
            _lying(_component(), _component(name="idx", offset=1005), doc_mapping=_PAD), id="overlapping components"
        ),
        pytest.param(_lying(_component(codec="rar"), doc_mapping=_PAD), id="unknown codec"),
        pytest.param(_lying(_component(codec="zstd", raw_length=1 << 33), doc_mapping=_PAD), id="bomb"),
        pytest.param(_lying(_component(raw_length=11), doc_mapping=_PAD), id="two lengths"),
        pytest.param(_lying(_component(tail=b"x" * 11), doc_mapping=_PAD), id="tail longer than its component"),
        pytest.param(_lying(doc_mapping=_PAD, segment="../../etc/passwd"), id="segment id that is a path"),
        pytest.param(_lying(_component(), doc_mapping=_PAD, segment="0" * 32), id="segment without its components"),
    ],
)
def test_a_directory_that_lies_is_refused_before_a_length_is_used(section):
    with pytest.raises(SplitCorrupt):
        layout.decode_directory(section.ljust(1010), "k", section_length=2000)


@pytest.mark.parametrize(
    "later",
    [
        _component(name="bloom", offset=1500),
        _component(name="bloom", offset=1500, codec="brotli", raw_length=1 << 50),
        _component(name="../../etc/passwd", offset=-1, length=1 << 60),
    ],
)
def test_a_component_of_a_later_library_is_left_alone(later):
    section = _lying(later, _component(), doc_mapping=_PAD)
    found = layout.decode_directory(section.ljust(1010), "k", section_length=2000)
    assert found.components == (_component(),)


def test_other_formats_are_named():
    data, _, _ = _section(_directory(), [])
    newer = data[:4] + b"\x02\x00" + data[6:]
    with pytest.raises(SplitCorrupt, match="format 2"):
        layout.decode_directory(newer, "k")


def test_a_key_is_filled_into_the_footer_and_guards_it():
    blank = layout.KEY + b"\x18\xc8\x01" + b" " * layout.KEY_BYTES
    footer = b"schema" + blank + b"rest"
    filled = layout.fill_key(footer, 7, IndexPointer(start=100, length=50, range1=20), "0" * 32)
    assert len(filled) == len(footer)
    value = filled[6 + len(blank) - layout.KEY_BYTES : 6 + len(blank)]
    key = layout.decode_key(value, "k")
    assert (key.rows, key.index) == (7, IndexPointer(100, 50, 20))
    layout.verify_footer(filled, value, key, "k")
    with pytest.raises(SplitCorrupt, match="checksum"):
        layout.verify_footer(filled.replace(b"schema", b"schemb"), value, key, "k")


def test_a_footer_without_room_for_the_key_is_a_bug_of_ours():
    with pytest.raises(InvariantViolated):
        layout.fill_key(b"no blank here", 1, IndexPointer(4, 1, 1), "0" * 32)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b'{"format":2,"rows":1,"footer_crc32c":0}',
        b'{"format":1,"rows":-1,"footer_crc32c":0}',
        b'{"format":1,"rows":1,"footer_crc32c":0,"index":{"start":-1,"length":1,"range1":1}}',
        b'{"format":1,"rows":1,"footer_crc32c":0,"index":{"start":9,"length":1,"range1":2}}',
        b"[" * 50_000,
    ],
)
def test_a_key_that_is_none_is_corrupt(value):
    with pytest.raises(SplitCorrupt):
        layout.decode_key(value, "k")
