from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import LogGap, TableNotFound, VersionExpired, VersionNotFound
from indextables.log.read.segment import build_segment, head_of
from indextables.log.wire.state import StateRef

URL = "s3://bucket/tbl"


def state(version):
    return StateRef(version, "json", (f"{version}",))


def segment(version, versions, states=(), head=None):
    top = max([*versions, *states]) if head is None else head
    return build_segment(version, versions, [state(s) for s in sorted(states, reverse=True)], URL, head=top)


def test_without_a_checkpoint_everything_from_0_on_is_read():
    found = segment(2, [0, 1, 2, 3])
    assert (found.base, list(found.versions)) == (None, [0, 1, 2])


def test_only_versions_above_the_newest_checkpoint_are_read():
    found = segment(5, [0, 1, 2, 3, 4, 5], [2, 4])
    assert (found.base.version, list(found.versions)) == (4, [5])


def test_time_travel_starts_from_the_newest_checkpoint_at_or_below():
    found = segment(3, range(6), [2, 4])
    assert (found.base.version, list(found.versions)) == (2, [3])
    assert list(segment(4, range(6), [2, 4]).versions) == []


def test_a_checkpoint_can_be_the_newest_file():
    assert head_of([], [state(7)], URL) == 7
    assert list(segment(7, [], [7]).versions) == []


def test_gaps_below_the_newest_checkpoint_do_not_matter():
    assert head_of([0, 1, 5, 6], [state(5)], URL) == 6
    assert list(segment(6, [0, 1, 5, 6], [5]).versions) == [6]


def test_nothing_is_no_table():
    with pytest.raises(TableNotFound, match="No transaction log found at s3://bucket/tbl"):
        head_of([], [], URL)


def test_a_gap_above_the_newest_checkpoint_names_the_version_and_the_way_out():
    with pytest.raises(LogGap, match=r"version 6 is missing .* version 7 exists.*log\.stopAtGap") as caught:
        head_of([0, 5, 7], [state(5)], URL)
    assert caught.value.details["version"] == 6


def test_a_log_that_does_not_start_at_0_has_a_gap_there():
    with pytest.raises(LogGap, match="No transaction log found that starts at version 0") as caught:
        head_of([1, 2], [], URL)
    assert caught.value.details["version"] == 0
    with pytest.raises(LogGap):
        head_of([1, 2], [], URL, stop_at_gap=True)


def test_reading_may_stop_at_a_gap_where_that_is_asked_for():
    assert head_of([0, 1, 3, 4], [], URL, stop_at_gap=True) == 1


@pytest.mark.parametrize("version", [-1, 4, 10**9])
def test_a_version_that_was_never_written_is_not_found(version):
    with pytest.raises(VersionNotFound, match="the newest is 3") as caught:
        segment(version, [0, 1, 2, 3])
    assert caught.value.details["latest"] == 3


def test_a_version_whose_files_were_cleaned_up_has_expired():
    with pytest.raises(VersionExpired, match="the oldest version left is 5") as caught:
        segment(3, [4, 5, 6], [5])
    assert caught.value.details["earliest"] == 5


def test_a_missing_file_that_no_checkpoint_explains_is_a_gap():
    with pytest.raises(LogGap):
        segment(3, [0, 1, 3], head=3)


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12), max_size=3), st.integers(-1, 13))
def test_a_segment_is_contiguous_or_there_is_a_typed_error(versions, states, version):
    refs = [state(s) for s in sorted(states, reverse=True)]
    try:
        head = head_of(sorted(versions), refs, URL)
        found = build_segment(version, versions, refs, URL, head=head)
    except (TableNotFound, LogGap, VersionNotFound, VersionExpired):
        return
    first = 0 if found.base is None else found.base.version + 1
    assert list(found.versions) == list(range(first, version + 1))
    assert set(found.versions) <= versions
    assert found.base is None or (found.base.version in states and found.base.version <= version)
    assert (
        all(s <= found.base.version for s in states if s <= version)
        if found.base
        else not any(s <= version for s in states)
    )
