"""What a process keeps of splits: what somebody holds is found, what nobody holds goes after a while."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st
from tests.split.search_world import build_world, open_searcher

from indextables.split.index.remembered import IDLE_S, Remembered
from indextables.split.search.state import States

KEYS = st.integers(0, 6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("use"), KEYS, st.integers(1, 5)),
        st.tuples(st.sampled_from(["hold", "release", "ask", "forget"]), KEYS, st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.sampled_from([1, IDLE_S // 2, IDLE_S])),
    ),
    max_size=40,
)
MOST = 12


class Thing:
    def __init__(self, weight: int) -> None:
        self.weight = weight


class Model:
    """The same, slowly: every use in a list, the latest last."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used: list[tuple[int, int, float]] = []
        self.held: set[int] = set()

    def found(self) -> set[int]:
        return {key for key, *_ in self.used} | self.held

    def use(self, key: int, weight: int) -> None:
        known = [used for used in self.used if used[0] == key]
        self.used = [used for used in self.used if used[0] != key]
        self.used.append((key, known[0][1] if known else weight, self.now))
        while self.used and (sum(used[1] for used in self.used) > MOST or self.used[0][2] + IDLE_S <= self.now):
            del self.used[0]


@given(STEPS)
def test_what_is_held_is_found_and_all_else_is_bounded_by_weight_and_age(steps):
    model, holders = Model(), {}
    kept: Remembered[int, Thing] = Remembered(MOST, lambda thing: thing.weight, lambda: model.now)
    weights: dict[int, int] = {}
    for what, key, number in steps:
        if what == "use":
            given_now = Thing(number)
            weight = weights[key] if key in model.found() else number
            weights[key] = weight
            assert kept.setdefault(key, given_now).weight == weight
            model.use(key, weight)
            del given_now
        elif what == "hold" and (found := kept.get(key)) is not None:
            model.use(key, weights[key])
            holders[key] = found
            model.held.add(key)
            del found
        elif what == "release":
            holders.pop(key, None)
            model.held.discard(key)
        elif what == "ask":
            assert (kept.get(key) is not None) == (key in model.found())
            if key in model.found():
                model.use(key, weights[key])
        elif what == "forget":
            assert kept.forget(lambda each, key=key: each == key) == int(key in model.found())
            model.used = [used for used in model.used if used[0] != key]
            holders.pop(key, None)
            model.held.discard(key)
        else:
            model.now += number
        gc.collect(0)
        assert len(kept) == len(model.found())
        assert kept.weight == sum(weights[key] for key in model.found())


def test_what_is_heavier_than_all_that_may_be_is_found_only_while_somebody_holds_it():
    kept: Remembered[str, Thing] = Remembered(MOST, lambda thing: thing.weight)
    held = kept.setdefault("heavy", Thing(MOST + 1))
    kept.setdefault("light", Thing(1))
    assert kept.get("heavy") is held
    assert kept.get("light") is not None
    del held
    gc.collect()
    assert kept.get("heavy") is None
    assert len(kept) == 1


def test_splits_that_no_searcher_has_go_after_a_while_and_those_of_one_that_lives_stay(tmp_path):
    now = [0.0]
    rows = [{"id": i, "message": "foo"} for i in range(60)]
    world = build_world(tmp_path, rows, 6)
    states = States(clock=lambda: now[0])
    first = open_searcher(world.store, world.refs, tmp_path / "cache", states=states)
    assert first.count("message:foo") == 60
    later = open_searcher(world.store, world.refs[:2], tmp_path / "cache", states=states)
    now[0] += IDLE_S
    assert open_searcher(world.store, world.refs, tmp_path / "cache", states=states).states == first.states
    del first
    gc.collect()
    now[0] += IDLE_S
    last = open_searcher(world.store, world.refs[:3], tmp_path / "cache", states=states)
    gc.collect()
    assert len(states) == 3
    assert last.states[:2] == later.states
    assert last.count("message:foo") == sum(ref.num_rows for ref in world.refs[:3])
