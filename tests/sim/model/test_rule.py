"""Every interleaving of the commit rule, and of the rules that are not enough."""

from __future__ import annotations

import os

import pytest

from tests.sim.model import rule as m

RULES = pytest.mark.parametrize("rule", [m.OURS, m.OURS_LOCAL], ids=["list", "stat"])

SLEEPER = {"writers": 2, "commits": (3, 1), "cleaners": 1}
"""One writer makes three versions, and another one sleeps before its put: it wakes up when cleanup has been there."""


def found(rule: m.Rule, **size: object) -> dict[str, int]:
    return m.explore(m.Model(rule, **size)).violations


@pytest.mark.parametrize("faults", [0, 1])
def test_taking_a_refused_put_for_a_conflict_loses_acknowledged_commits(faults):
    broken = found(m.NAIVE, writers=2, cleaners=1, faults=faults)
    assert broken["lost"] > 0
    assert ("twice" in broken) == bool(faults)


def test_comparing_tokens_alone_still_loses_and_doubles():
    broken = found(m.TOKENS, writers=2, cleaners=1, faults=1)
    assert broken["lost"] > 0
    assert broken["twice"] > 0


def test_a_boundary_without_tokens_is_safe_but_often_cannot_tell():
    result = m.explore(m.Model(m.BOUNDARY, writers=2, cleaners=1, faults=1))
    assert result.violations == {}
    assert result.unknown > 0


def test_a_conflict_check_on_slots_below_an_unseen_checkpoint_is_deceived():
    assert found(m.OURS._replace(check_winners=False), writers=3, cleaners=1).keys() == {"deceived"}


def test_a_checkpoint_of_a_tail_that_was_cleaned_and_refilled_is_forged():
    assert found(m.OURS._replace(confirm="not"), writers=2, cleaners=2).keys() == {"forged"}


def test_a_version_that_is_read_alone_and_not_confirmed_is_misread():
    assert found(m.OURS._replace(confirm="not"), **SLEEPER, readers=(m.Reader(2, alone=True),)).keys() == {"misread"}


def test_the_checkpoint_that_a_reader_started_from_is_no_sign_where_checkpointers_are_slow():
    weak = m.Model(m.OURS._replace(confirm="base", links=False), **SLEEPER, slow=(1,), readers=(m.Reader(2),))
    assert m.explore(weak, stop_at_violation=True).violations == {"misread": 1}


HINTED = {**SLEEPER, "slow": (1,), "readers": (m.Reader(hinted=True),)}
FEWER = {**HINTED, "commits": (2, 1)}


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        pytest.param(m.OURS_LOCAL, "token", id="stat-token", marks=pytest.mark.soak),
        pytest.param(m.OURS_LOCAL, "after", id="stat-after"),
        pytest.param(m.OURS_LOCAL, "trusted", id="stat-trusted", marks=pytest.mark.soak),
        pytest.param(m.OURS, "trusted", id="list-trusted"),
        pytest.param(m.OURS, "slots", id="list-slots"),
        pytest.param(m.OURS, "versions", id="list-versions"),
    ],
)
def test_a_hint_that_is_trusted_deceives(rule, hint):
    """Without the token of the file that it begins at, or without a look after the reads."""
    weak = m.Model(rule._replace(hint=hint), **HINTED)
    assert m.explore(weak, stop_at_violation=True).violations.keys() & {"misread", "outdated"}


@pytest.mark.parametrize(
    "size", [pytest.param(FEWER, id="fewer"), pytest.param(HINTED, id="more", marks=pytest.mark.soak)]
)
def test_a_sure_listing_without_a_version_above_is_a_proof_since_the_newest_file_stays(size):
    alone = m.explore(m.Model(m.OURS._replace(hint="versions"), as_coded=True, **size))
    assert alone.complete
    assert alone.violations == {}


@pytest.mark.soak
def test_versions_alone_are_no_proof_where_they_do_not_name_those_below_them():
    weak = m.Model(m.OURS._replace(hint="versions", links=False), as_coded=True, **HINTED)
    assert m.explore(weak, stop_at_violation=True).violations == {"misread": 1}


def test_a_checkpoint_of_whatever_table_is_no_sign_that_the_base_is_there():
    weak = m.OURS._replace(compare_tables=False)
    assert found(weak, writers=3, heirs=1, drops=1, slow=(1,)).keys() == {"stray"}


def test_a_put_into_a_slot_that_was_lost_is_no_commit_although_nobody_else_has_the_slot():
    assert found(m.OURS._replace(look_above=False), writers=3, losses=1).keys() == {"lost"}


def test_a_file_that_could_not_be_taken_back_is_a_doubt():
    assert found(m.OURS._replace(heed_delete=False), writers=3, losses=1, faults=1).keys() == {"returns"}


def test_the_stat_rule_needs_cleanup_in_ascending_order():
    assert found(m.OURS_LOCAL._replace(ascending=False), writers=3, cleaners=1)["lost"] > 0
    assert found(m.OURS._replace(ascending=False), writers=3, cleaners=1) == {}


@RULES
def test_a_token_window_that_is_too_short_gives_unknown_and_never_a_wrong_answer(rule):
    result = m.explore(m.Model(rule, writers=3, cleaners=1, window=1, give_up=True))
    assert result.complete
    assert result.violations == {}
    assert result.unknown > 0


@pytest.mark.parametrize(
    ("rule", "size"),
    [
        pytest.param(m.OURS, {"writers": 2, "cleaners": 1, "faults": 2}, id="list-2-faults"),
        pytest.param(m.OURS, {"writers": 3, "cleaners": 1}, id="list-3-writers"),
        pytest.param(m.OURS, {"writers": 2, "cleaners": 2}, id="list-2-cleaners"),
        pytest.param(m.OURS, {"writers": 2, "cleaners": 1, "faults": 1, "commits": (2, 2)}, id="list-remembered"),
        pytest.param(m.OURS, {**SLEEPER, "readers": (m.Reader(2, alone=True),)}, id="list-stream"),
        pytest.param(m.OURS, {**SLEEPER, "slow": (1,), "readers": (m.Reader(2),)}, id="list-reader"),
        pytest.param(m.OURS, FEWER, id="list-hinted"),
        pytest.param(m.OURS_LOCAL, FEWER, id="stat-hinted"),
        pytest.param(m.OURS_LOCAL, {"writers": 2, "cleaners": 2}, id="stat-2-cleaners"),
        pytest.param(m.OURS_LOCAL, {"writers": 3, "cleaners": 1, "give_up": True}, id="stat-3-writers"),
        pytest.param(m.OURS_LOCAL, {"writers": 2, "cleaners": 1, "commits": (2, 2)}, id="stat-remembered"),
        pytest.param(m.OURS_LOCAL, {**SLEEPER, "readers": (m.Reader(2, alone=True),)}, id="stat-stream"),
    ],
)
def test_the_rule_loses_nothing_doubles_nothing_and_always_knows(rule, size):
    result = m.explore(m.Model(rule, **size))
    assert result.complete
    assert result.violations == {}
    assert result.unknown == 0
    print(f"{rule.name}, {size}: {result.states:,} states, {result.ends:,} ends, 0 violations, 0 unknown")


@RULES
@pytest.mark.parametrize(
    "size",
    [
        pytest.param({"writers": 3, "heirs": 1, "drops": 1, "slow": (1,)}, id="another-table"),
        pytest.param({"writers": 2, "heirs": 1, "drops": 1, "slow": (1,), "commits": (2, 2)}, id="another-remembered"),
        pytest.param({"writers": 3, "losses": 1, "faults": 1}, id="lost-file"),
    ],
)
def test_where_the_ground_is_lost_nothing_is_reported_that_is_not_so(rule, size):
    """Unknown is allowed: a put is out, and what it stood on is gone."""
    result = m.explore(m.Model(rule, **size))
    assert result.complete
    assert result.violations == {}


@pytest.mark.soak
@pytest.mark.timeout(0)
@RULES
@pytest.mark.parametrize(
    "size",
    [
        {"writers": 4, "cleaners": 1, "faults": 1},
        HINTED,
        {"writers": 3, "cleaners": 2, "faults": 2},
        {"writers": 3, "cleaners": 2, "slow": (1, 2), "readers": (m.Reader(2), m.Reader(1, alone=True))},
    ],
)
def test_the_rule_holds_in_larger_models(rule, size):
    limit = int(os.environ.get("INDEXTABLES_MODEL_STATES", "10000000"))
    result = m.explore(m.Model(rule, **size), limit=limit)
    assert result.violations == {}
    assert result.unknown == 0
    assert result.complete or result.states >= limit
