"""The quick ways of the writing side agree with the ways that take any number of files."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.commits import METADATA, add, remove, version

from indextables.log.commit.winner import read_held
from indextables.log.wire.actions import Add, DeletionVector, DomainMetadata, Txn
from indextables.log.wire.codec import decode_version, encode_version
from indextables.log.wire.crcfile import EMPTY_TOTALS, build_next, with_few_files
from indextables.log.wire.paths import PathRule
from indextables.log.wire.sethash import few_files_hash, set_hash

NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=40)
VECTORS = st.none() | st.builds(
    DeletionVector, st.just("i"), NAMES, st.integers(0, 99), st.integers(0, 99), st.none() | st.integers(0, 2**40)
)
FILES = st.lists(
    st.builds(
        lambda name, size, rows, vector: Add(
            name, {}, size, 1, dataChange=True, numRecords=rows, deletionVector=vector
        ),
        NAMES,
        st.integers(0, 2**62),
        st.none() | st.integers(0, 2**40),
        VECTORS,
    ),
    max_size=6,
    unique_by=lambda file: file.path,
)


@pytest.mark.slow
@given(FILES)
@settings(max_examples=200, deadline=None)
def test_totals_of_few_files_are_those_of_many(files):
    content = version(1, *files)
    assert f"{few_files_hash(content_adds(content, files)):016x}" == set_hash(content.adds)
    by_columns = build_next(EMPTY_TOTALS, content, b"").totals()
    assert with_few_files(EMPTY_TOTALS, content_adds(content, files)) == by_columns


def content_adds(content, files):
    """The same files under the paths that the log gives them."""
    paths = content.adds["path"].to_pylist()
    return [
        Add(path, {}, f.size, 1, dataChange=True, numRecords=f.numRecords, deletionVector=f.deletionVector)
        for path, f in zip(paths, files, strict=True)
    ]


@pytest.mark.slow
@given(FILES, st.booleans())
@settings(max_examples=100, deadline=None)
def test_the_quick_look_at_a_winner_sees_what_the_strict_reader_sees(files, compress):
    actions = [METADATA, Txn("app", 3), DomainMetadata("d", "1"), remove("gone"), *files]
    content = version(7, *actions)
    data = encode_version([content.commit_info, *actions], compress=compress)
    winner = read_held(data, 7, "").under(PathRule.ENCODED)
    strict = decode_version(data, 7)
    for name in ("commit_info", "protocol", "metadata", "txns", "domains", "token"):
        assert getattr(winner, name) == getattr(strict, name)
    assert winner.adds.equals(strict.adds)
    assert winner.removes.equals(strict.removes)
    assert winner.totals_after(EMPTY_TOTALS) is None


def test_a_large_winner_is_read_natively_and_comes_out_the_same():
    files = [add(f"f{i}", size=i) for i in range(3000)]
    data = encode_version([version(1).commit_info, *files], compress=False)
    winner = read_held(data, 1, "").under(PathRule.ENCODED)
    assert winner.totals_after(EMPTY_TOTALS) == with_few_files(EMPTY_TOTALS, files)


@pytest.mark.parametrize("rule", list(PathRule))
@pytest.mark.parametrize("path", ["a%41.split", "a b.split", "a%20b.split", "d.split"])
def test_the_totals_after_a_winner_count_the_names_that_the_table_gives_its_files(path, rule):
    data = encode_version([version(1).commit_info, add(path, size=3)], compress=False)
    counted = build_next(EMPTY_TOTALS, decode_version(data, 1).under(rule), b"").totals()
    assert read_held(data, 1, "").under(rule).totals_after(EMPTY_TOTALS) == counted
