from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.clock import QuickAmbient

from indextables.errors import StoreError, StoreUnavailable
from indextables.storage import CallPolicy, ObjectMeta
from indextables.storage.listing import in_key_order
from indextables.storage.probe import skew_between
from indextables.storage.retry import retry, wait_before


def page(*keys: str) -> list[ObjectMeta]:
    return [ObjectMeta(key, 0, 0) for key in keys]


def keys(pages: list[list[ObjectMeta]]) -> list[str]:
    return [meta.key for meta in in_key_order(pages)]


@given(st.lists(st.text(max_size=3), unique=True), st.integers(1, 5))
def test_an_ordered_listing_passes_through_whatever_its_pages(found: list[str], size: int):
    found = sorted(key for key in found if key)
    pages = [page(*found[start : start + size]) for start in range(0, len(found), size)]
    assert keys(pages) == found


@given(st.lists(st.lists(st.text(alphabet="abc", min_size=1, max_size=2), max_size=5), max_size=5))
def test_any_listing_comes_out_sorted_and_complete_or_raises(found: list[list[str]]):
    try:
        result = keys([page(*part) for part in found])
    except StoreError:
        return
    assert result == sorted({key for part in found for key in part})


def test_a_page_that_repeats_the_last_is_read_once():
    assert keys([page("a", "b"), page("b", "c")]) == ["a", "b", "c"]


def test_a_key_that_comes_too_late_is_an_error():
    with pytest.raises(StoreError):
        keys([page("b", "c"), page("a")])


def test_pages_are_taken_one_at_a_time():
    taken = []

    def pages():
        for letter in "abc":
            taken.append(letter)
            yield page(letter)

    listing = in_key_order(pages())
    assert next(listing).key == "a"
    assert taken == ["a"]


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_longer_than_the_policy_says(attempt: int, chance: float):
    policy = CallPolicy(base_delay_s=0.1, max_delay_s=5)
    assert 0 <= wait_before(attempt, policy, chance) <= 5


def test_only_what_is_unavailable_is_tried_again():
    ambient = QuickAmbient()
    calls: list[float] = []

    def fails(seconds_left: float) -> None:
        calls.append(seconds_left)
        raise StoreUnavailable("no") if len(calls) < 3 else StoreError("for good")

    with pytest.raises(StoreError, match="for good"):
        retry(fails, CallPolicy(deadline_s=100), ambient)
    assert len(calls) == 3
    assert calls[0] > calls[1] > calls[2]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(-(10**6), 10**6))
def test_a_skew_is_told_only_where_it_is_proven(before: int, took: int, skew: int):
    stamped = before + took // 2 + skew
    told = skew_between(stamped, before, before + took)
    assert told == 0 or (told > 0) == (skew > 0)
    assert abs(told) <= abs(skew)
    assert abs(skew) - abs(told) <= max(took, took // 2 + 1000)
