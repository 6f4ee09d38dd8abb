"""Every interleaving of the commit rule, and of the rules that are not enough."""

from __future__ import annotations

import os

import pytest

from tests.sim.model import rule as m


@pytest.mark.parametrize("faults", [0, 1])
def test_taking_a_refused_put_for_a_conflict_loses_acknowledged_commits(faults):
    found = m.explore(m.Model(m.NAIVE, writers=2, cleaners=1, faults=faults)).violations
    assert found["lost"] > 0
    assert ("twice" in found) == bool(faults)


def test_comparing_tokens_alone_still_loses_and_doubles():
    found = m.explore(m.Model(m.TOKENS, writers=2, cleaners=1, faults=1)).violations
    assert found["lost"] > 0
    assert found["twice"] > 0


def test_a_boundary_without_tokens_is_safe_but_often_cannot_tell():
    result = m.explore(m.Model(m.BOUNDARY, writers=2, cleaners=1, faults=1))
    assert result.violations == {}
    assert result.unknown > 0


def test_a_conflict_check_on_slots_below_an_unseen_checkpoint_is_deceived():
    found = m.explore(m.Model(m.OURS._replace(check_winners=False), writers=3, cleaners=1, faults=0)).violations
    assert found.keys() == {"deceived"}


def test_a_checkpoint_of_a_tail_that_was_cleaned_and_refilled_is_forged():
    found = m.explore(m.Model(m.OURS._replace(recheck_checkpoint=False), writers=2, cleaners=2, faults=0)).violations
    assert found.keys() == {"forged"}


def test_the_stat_rule_needs_cleanup_in_ascending_order():
    found = m.explore(m.Model(m.OURS_LOCAL._replace(ascending=False), writers=3, cleaners=1, faults=0)).violations
    assert found["lost"] > 0
    listed = m.explore(m.Model(m.OURS._replace(ascending=False), writers=3, cleaners=1, faults=0))
    assert listed.violations == {}


@pytest.mark.parametrize("rule", [m.OURS, m.OURS_LOCAL], ids=["list", "stat"])
def test_a_token_window_that_is_too_short_gives_unknown_and_never_a_wrong_answer(rule):
    result = m.explore(m.Model(rule, writers=3, cleaners=1, faults=0, window=1, give_up=True))
    assert result.complete
    assert result.violations == {}
    assert result.unknown > 0


@pytest.mark.parametrize(
    ("rule", "size"),
    [
        pytest.param(m.OURS, {"writers": 3, "cleaners": 1, "faults": 1}, id="list-3-writers"),
        pytest.param(m.OURS, {"writers": 2, "cleaners": 2, "faults": 1}, id="list-2-cleaners"),
        pytest.param(m.OURS_LOCAL, {"writers": 2, "cleaners": 2, "faults": 1}, id="stat-2-cleaners"),
        pytest.param(m.OURS_LOCAL, {"writers": 3, "cleaners": 1, "faults": 0, "give_up": True}, id="stat-3-writers"),
    ],
)
def test_the_rule_loses_nothing_doubles_nothing_and_always_knows(rule, size):
    result = m.explore(m.Model(rule, **size))
    assert result.complete
    assert result.violations == {}
    assert result.unknown == 0
    print(f"{rule.name}, {size}: {result.states:,} states, {result.ends:,} ends, 0 violations, 0 unknown")


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("rule", [m.OURS, m.OURS_LOCAL], ids=["list", "stat"])
@pytest.mark.parametrize(
    "size", [{"writers": 4, "cleaners": 1, "faults": 1}, {"writers": 3, "cleaners": 2, "faults": 2}]
)
def test_the_rule_holds_in_larger_models(rule, size):
    limit = int(os.environ.get("INDEXTABLES_MODEL_STATES", "10000000"))
    result = m.explore(m.Model(rule, **size), limit=limit)
    assert result.violations == {}
    assert result.unknown == 0
    assert result.complete or result.states >= limit
