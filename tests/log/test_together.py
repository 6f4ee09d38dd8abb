"""Many version files decoded at once are what each is alone, and damage is told of the file that has it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.log.logs import METADATA, add, info, remove, vector
from tests.log.test_codec import ADDS, GOOD, REMOVES, TEXT

from indextables.errors import IndexTablesError
from indextables.log.wire import PathRule, decode_version, decode_versions
from indextables.log.wire.actions import DomainMetadata, MergeSkip, Txn
from indextables.log.wire.codec import encode_version

ROOT = "s3://bucket/tbl"

# What one version does to the others in the same batch: each of these is decoded alone, or makes all be decoded so.
ODD_PATHS = st.sampled_from(["a b", "day=x%20y/b", "day=x%2Fy/a", f"{ROOT}/c", "%61/d", "../escape", "_delta_log/x"])
SMALL = st.one_of(
    st.builds(Txn, TEXT.filter(bool), st.integers(0, 2**63 - 1)),
    st.builds(DomainMetadata, TEXT.filter(bool), TEXT, st.booleans()),
    st.just(METADATA),
    st.just(MergeSkip(path="a b", skipTimestamp=1, reason="r", operation="merge", skipCount=1)),
)
FILES = st.one_of(ADDS, REMOVES, st.builds(add, ODD_PATHS), st.builds(remove, ODD_PATHS))
VERSIONS = st.builds(
    lambda heads, files, times, packed: encode_version([*heads, *files * times], compress=packed),
    st.lists(SMALL, max_size=2, unique_by=type),
    st.lists(FILES, max_size=3),
    st.sampled_from([1, 1, 1, 20]),
    st.booleans(),
)
TOLD = [encode_version([info(version), add(f"f{version}"), remove("gone")], compress=False) for version in range(3)]
DAMAGED = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            b"{}\n",
            b"\n" + GOOD,
            GOOD[:-1],
            GOOD + b"{\n",
            b'{"add":{"path":"a"}}\n',
            b'{"add":{"path":"a","path":"b","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n',
            b'{"add":{"path":"a"},"remove":{"path":"a"}}\n',
            b'{"add":{"path":"a","partitionValues":{},"size":"1","modificationTime":1,"dataChange":true}}\n',
            b'{"remove":{"dataChange":true}}\n',
            GOOD.replace(b"\n", b"\r\n"),
            GOOD * 40,
            TOLD[2],
        ]
    ),
)


def outcome(decode):
    try:
        contents = decode()
    except IndexTablesError as error:
        return type(error), str(error), error.details
    plain = [msgspec.structs.replace(one, adds=None, removes=None, on_disk=None) for one in contents]
    files = [(one.adds.schema, one.adds.to_pylist(), one.removes.schema, one.removes.to_pylist()) for one in contents]
    return plain, files, [_on_disk(one) for one in contents]


def _on_disk(content):
    try:
        other = content.under(PathRule.ON_DISK)
    except IndexTablesError as error:
        return type(error), str(error)
    return other.adds["path"].to_pylist(), other.removes["path"].to_pylist(), other.skips


@pytest.mark.slow
@given(st.lists(st.one_of(VERSIONS, VERSIONS, VERSIONS, DAMAGED), min_size=2, max_size=6))
@example([encode_version([add("day=x%2Fy/a")], compress=False), *TOLD])
@example([encode_version([add("x", deletionVector=vector("v"))], compress=True), TOLD[1]])
@example([TOLD[0], TOLD[1], b""])
def test_versions_decoded_together_are_what_each_is_alone(stored):
    files = list(enumerate(stored))
    together = outcome(lambda: decode_versions(files, root_url=ROOT))
    alone = outcome(lambda: [decode_version(data, version, root_url=ROOT) for version, data in files])
    assert together == alone


def test_more_versions_than_share_their_columns_come_back_in_order():
    files = [(version, encode_version([info(version), add(f"f{version}")], compress=False)) for version in range(150)]
    contents = decode_versions(files)
    assert [content.version for content in contents] == list(range(150))
    assert [content.adds["path"].to_pylist() for content in contents] == [[f"f{version}"] for version in range(150)]
    assert [content.adds["addedAtVersion"].to_pylist() for content in contents] == [[v] for v in range(150)]


def test_a_large_file_among_small_ones_is_decoded_as_it_is_alone():
    large = encode_version([info(1), *(add(f"f{number}") for number in range(2_000))], compress=False)
    contents = decode_versions([(0, TOLD[0]), (1, large), (2, TOLD[2])])
    assert [content.adds.num_rows for content in contents] == [1, 2_000, 1]
    assert contents[1].adds.equals(decode_version(large, 1).adds)


def test_no_version_is_decoded_where_none_is_asked_for():
    assert decode_versions([]) == []
