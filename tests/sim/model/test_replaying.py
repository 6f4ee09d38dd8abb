"""The model and the code are one rule: traces of the model, played by the real code."""

from __future__ import annotations

import itertools

import pytest

from tests.sim.model import rule as m
from tests.sim.model.replaying import Replay, refills, walk

RULES = pytest.mark.parametrize("rule", [m.OURS, m.OURS_LOCAL], ids=["list", "stat"])
SIZES = {
    "race": {"writers": 3, "cleaners": 0},
    "cleanup": {"writers": 3, "cleaners": 1},
    "remembered heads": {"writers": 2, "commits": (2, 2), "cleaners": 1},
}


def agreed(model: m.Model, way: list[m.Step]) -> Replay:
    """Play a trace; the outcome of every commit and the table at the end must be the model's."""
    replay = Replay(model)
    replay.play(way)
    hist = way[-1].state.hist
    assert replay.versions() == {f"t{token}": version for version, token in enumerate(hist) if version}
    assert replay.told == {token: f"version {version}" for version, token in enumerate(hist) if version}
    return replay


@RULES
@pytest.mark.parametrize("size", SIZES)
def test_the_code_goes_every_way_that_the_model_goes(rule, size):
    model = m.Model(rule, remembered=True, as_coded=True, **SIZES[size])
    for seed in range(20):
        agreed(model, walk(model, seed))


@RULES
def test_the_code_does_what_the_model_does_where_a_slot_is_refilled(rule):
    model = m.Model(rule, remembered=True, as_coded=True, writers=2, commits=(3, 1), cleaners=1)
    ways = (walk(model, seed, asleep=1) for seed in range(500))
    met = list(itertools.islice((way for way in ways if refills(way)), 10))
    assert len(met) == 10
    for way in met:
        assert agreed(model, way).world.truth.refills


@pytest.mark.parametrize("stat", [False, True], ids=["list", "stat"])
@pytest.mark.parametrize(
    ("weak", "kind"),
    [(m.NAIVE, "lost"), (m.TOKENS, "lost"), (m.OURS._replace(check_boundary=False), "lost")],
    ids=["naive", "tokens", "no boundary"],
)
def test_the_code_survives_the_ways_on_which_weaker_rules_break(weak, kind, stat):
    model = m.Model(weak._replace(stat=stat), remembered=True, as_coded=True, writers=2, commits=(3, 1), cleaners=1)
    way = m.trace(model, kind)
    assert way
    replay = Replay(model)
    replay.play(way, freely=True)
    versions = replay.versions()
    assert len(replay.told) == 4
    assert {f"t{token}": f"version {versions[f't{token}']}" for token in replay.told} == {
        f"t{token}": told for token, told in replay.told.items()
    }
