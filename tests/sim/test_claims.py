"""Writers claim numbers side by side, while answers get lost, writers sleep and die, and old claims are deleted."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from indextables.errors import StoreError
from indextables.log.commit import claims
from tests.sim.world import Actor, Chances, Sleeper, World

FIELD = 7
PLACES = 1_000_000
CLAIMING = re.compile(r"put_if_absent _transaction_log/_sequences/.*")


@pytest.fixture
def hasty(monkeypatch):
    """Claims that go after a second, so that sleepers outlive them; whoever took half of it starts again."""
    monkeypatch.setattr(claims, "_KEPT_MS", 1_000)
    monkeypatch.setattr(claims, "_PATIENCE_MS", 500)
    monkeypatch.setattr(claims, "_TIDY_ABOVE", 1)


def played(seed: int) -> tuple[World, list[tuple[str, claims.Claim]]]:
    dice = random.Random(f"claims {seed}")
    chances = Chances(
        put=dice.choice((0.0, 0.2, 0.5)),
        read=dice.choice((0.0, 0.05)),
        delete=dice.choice((0.0, 0.3)),
        stale=dice.choice((0.0, 0.3)),
        die=dice.choice((0.0, 0.02)),
        stall=dice.choice((0.0, 0.1)),
    )
    world = World(seed, chances, local=dice.random() < 0.5)
    got: list[tuple[str, claims.Claim]] = []

    def writer(actor: Actor) -> None:
        env = actor.env()
        for _ in range(12):
            wanted = world.random.choice((1, 3, 10))
            try:
                found = claims.claim(env, FIELD, least=1, wanted=wanted, places=PLACES)
            except StoreError:
                continue
            assert found is not None
            got.append((actor.name, found))
            env.ambient.sleep(world.random.choice((0, 0.3, 1.5)))

    for number in range(dice.choice((2, 3))):
        actor = world.spawn(f"writer{number}", writer, lives=3)
        if dice.random() < 0.7:
            world.sleepers.append(Sleeper(actor, CLAIMING, dice.randrange(6)))
    world.run()
    world.land_all()
    return world, got


@pytest.mark.slow
def test_no_place_is_ever_claimed_twice(hasty):
    happened: Counter[str] = Counter()
    deleted = 0
    for seed in range(400):
        world, got = played(seed)
        taken: dict[int, str] = {}
        for who, claim in got:
            for place in range(claim.first, claim.end):
                assert place not in taken, f"seed {seed}: place {place} is {taken[place]}'s and {who}'s"
                taken[place] = who
        happened += world.fired
        deleted += len(world.gone)
        for name in {who for who, _ in got}:
            firsts = [claim.first for who, claim in got if who == name]
            assert firsts == sorted(firsts), f"seed {seed}: the numbers of {name} do not grow"
    assert deleted > 100
    assert {"sleep", "death", "stale-list"} <= {fault for fault, times in happened.items() if times > 20}
