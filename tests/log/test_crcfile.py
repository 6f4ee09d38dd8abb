from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.logs import METADATA, add, info, remove, token

from indextables.errors import LogCorrupt
from indextables.log.read.folding import replay
from indextables.log.wire.codec import decode_version, encode_version
from indextables.log.wire.crcfile import (
    EMPTY_TOTALS,
    CrcFile,
    build_next,
    check_bytes,
    crc32c,
    encode_crc,
    parse_crc,
    totals_of,
)


def version(number, *actions):
    data = encode_version([info(number), *actions], compress=True)
    return decode_version(data, number), data


def chain(*versions):
    """Check files written one after the other, as a writer does that knows what it removes."""
    totals, state, crcs = None, None, []
    for number, actions in enumerate(versions):
        content, data = version(number, *actions)
        gone = set(content.removes.column("path").to_pylist())
        removed = None
        if gone and state is not None:
            keep = [path in gone for path in state.files.column("path").to_pylist()]
            removed = state.files.filter(keep)
        crc = build_next(totals, content, data, removed=removed)
        state = replay(state, [content])
        totals = crc.totals()
        crcs.append(crc)
    return crcs, state


SIZES = st.lists(st.integers(1, 100), min_size=1, max_size=6)


@pytest.mark.slow
@given(st.lists(SIZES, min_size=1, max_size=4), st.data())
def test_running_totals_equal_a_recount_at_every_version(batches, data):
    versions, live = [[METADATA]], []
    for number, sizes in enumerate(batches):
        new = [add(f"f{number}-{i}", size=size) for i, size in enumerate(sizes)]
        gone = data.draw(st.lists(st.sampled_from(live), unique_by=lambda a: a.path)) if live else []
        versions.append([*(remove(a.path, size=a.size) for a in gone), *new])
        live = [a for a in live if a not in gone] + new
    crcs, state = chain(*versions)
    assert crcs[-1].totals() == totals_of(state)
    assert crcs[-1].numRecords == sum(a.size for a in live)


def test_version_0_starts_from_nothing():
    content, data = version(0, METADATA)
    crc = build_next(None, content, data)
    assert crc.totals() == EMPTY_TOTALS
    assert (crc.numMetadata, crc.numProtocol, crc.token, crc.crc32c) == (1, 1, token(0), crc32c(data))


def test_without_the_totals_before_there_are_none():
    content, data = version(4, add("a"))
    crc = build_next(None, content, data)
    assert crc.totals() is None
    assert crc.crc32c == crc32c(data)


def test_a_remove_that_does_not_tell_its_size_leaves_totals_out():
    content, data = version(1, remove("a", size=None))
    assert build_next(EMPTY_TOTALS, content, data).totals() is None


def test_removes_alone_know_sizes_but_no_row_counts():
    _, state = chain([METADATA], [add("a"), add("b")])
    content, data = version(2, remove("a"))
    totals = build_next(totals_of(state), content, data).totals()
    assert totals.num_records is None
    assert totals.num_files == 1
    assert totals.set_hash == totals_of(replay(state, [content])).set_hash


def test_an_add_without_a_row_count_leaves_the_sum_of_rows_out():
    content, data = version(1, msgspec.structs.replace(add("a"), numRecords=None))
    totals = build_next(EMPTY_TOTALS, content, data).totals()
    assert (totals.num_records, totals.num_files) == (None, 1)


def test_bytes_that_differ_under_the_same_token_are_corrupt():
    content, data = version(3, add("a"))
    crc = build_next(None, content, data)
    check_bytes(crc, content, crc32c(data))
    with pytest.raises(LogCorrupt, match=r"version 3.*crc32c"):
        check_bytes(crc, content, crc32c(data + b" "))


def test_a_check_file_of_another_token_says_nothing():
    content, data = version(3, add("a"))
    check_bytes(CrcFile(crc32c=1, token="other"), content, crc32c(data))
    check_bytes(CrcFile(crc32c=1), content, crc32c(data))
    check_bytes(None, content, crc32c(data))


def test_a_check_file_round_trips_under_its_wire_names():
    crc = CrcFile(1, "t", 2, 3, 4, 1, 1, "00000000000000ff")
    data = encode_crc(crc)
    assert parse_crc(data) == crc
    assert set(msgspec.json.decode(data)) == {
        "crc32c",
        "token",
        "tableSizeBytes",
        "numFiles",
        "numRecords",
        "numMetadata",
        "numProtocol",
        "setHash",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"crc":5}',
        b'{"crc32c":"5"}',
        b'{"crc32c":-5}',
        b'{"crc32c":5,"numFiles":-1}',
        b'{"crc32c":5,"setHash":"xyz"}',
        b'{"crc32c":5,"setHash":"0000000000000000000"}',
        b"[" * 100_000,
        b'{"crc32c":5}' + b" " * 100_000,
        b"\xff\xfe",
    ],
)
def test_anything_else_counts_as_absent(data):
    assert parse_crc(data) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_check_file_or_none(data):
    assert parse_crc(data) is None or isinstance(parse_crc(data), CrcFile)


def test_unknown_keys_are_ignored():
    assert parse_crc(b'{"crc32c":5,"new":[1]}') == CrcFile(5)


def test_the_checksum_is_crc32c():
    assert crc32c(b"123456789") == 0xE3069283


def test_totals_beyond_64_bits_are_exact():
    content, data = version(1, add("a", size=2**62), add("b", size=2**62), add("c", size=5))
    assert build_next(EMPTY_TOTALS, content, data).totals().size_bytes == 2**63 + 5
