"""Schedules of checkpointing, compaction and cleanup: every state that can be read is the truth at its version.

What `tests/sim/schedule.py` does with JSON checkpoints happens here with all formats, incremental states, compaction
and the collection of manifests, with checkpointers that fall asleep for hours in the middle of a write.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from indextables.errors import CheckpointError, ObjectNotFound, TableNotFound, VersionExpired
from indextables.log.care.cleanup import clean_up
from indextables.log.care.schedule import checkpoint, maybe_checkpoint
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import read_state
from indextables.log.wire.names import LOG_DIR, parse_key
from tests.log.commits import open_log
from tests.sim import schedule
from tests.sim.truth import Broken
from tests.sim.world import Actor, Chances, World

SCHEDULES = int(os.environ.get("INDEXTABLES_STATE_SCHEDULES", "150"))
NAP_MS = 2 * 3_600_000

FORMATS = (
    {"state.format": "avro", "state.entriesPerManifest": "2", "state.compaction.maxManifests": "2"},
    {"state.format": "avro", "state.entriesPerManifest": "8", "state.compaction.tombstoneThreshold": "0.5"},
    {"state.format": "parquet", "checkpoint.maxFileSize": "9000"},
    {"state.format": "json"},
)


class StateWorld(World):
    """A world in which whoever writes checkpoints may sleep for hours at any step."""

    def _go(self, actor: Actor) -> None:
        if actor.name.startswith("pointer") and actor.about_to and self.random.random() < 0.01:
            self.cover(actor, "nap")
            actor.wake_ms = self.clock_ms + NAP_MS + self.random.randrange(1000)
            return
        super()._go(actor)


@pytest.fixture(scope="module")
def met() -> Counter[str]:
    """What the schedules of this module came across."""
    return Counter()


@pytest.mark.parametrize("part", range(6))
def test_every_state_that_can_be_read_is_the_truth(part, met):
    size = SCHEDULES // 6
    for seed in range(part * size, (part + 1) * size):
        play(seed, met)
        met["schedules"] += 1


def test_the_schedules_have_met_naps_and_compaction_and_collected_manifests(met):
    """A generator that never gets there proves nothing."""
    if met["schedules"] < 40:
        pytest.skip(f"coverage is a matter of 40 schedules, not of {met['schedules']}")
    assert met["naps"] > 5
    assert met["manifests deleted"] > 5
    assert met["versions deleted"] > 20
    assert met["states read"] > 40


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_every_state_of_the_long_run_is_the_truth():
    for seed in range(1_000_000, 1_100_000):
        play(seed)


def test_a_seed_replays_bit_by_bit():
    assert [play(seed) for seed in (3, 17)] == [play(seed) for seed in (3, 17)]


def play(seed: int, met: Counter[str] | None = None) -> str:
    """One schedule to its end; the digest of its trace. Raises Broken."""
    dice = random.Random(f"state {seed}")
    chances = Chances(
        put=dice.choice((0.0, 0.1, 0.2)),
        read=dice.choice((0.0, 0.02)),
        die=dice.choice((0.0, 0.01)),
        stall=dice.choice((0.0, 0.05)),
    )
    options = {
        "checkpoint.enabled": "false",
        "logRetention.duration": str(schedule.RETENTION_MS),
        "checkpointRetention.duration": "0",
        "state.retention.versions": "1",
        "state.retention.hours": "0",
    }
    world = StateWorld(seed, chances, local=dice.random() < 0.5, options=options)
    outcomes: Counter[str] = Counter()
    _populate(world)
    verbs = ("append", "append", "rewrite", "merge", "overwrite", "property")
    for number in range(2):
        chosen = [dice.choice(verbs) for _ in range(3)]
        world.spawn(f"writer{number}", schedule.writer(chosen, outcomes, f"app{number}"), lives=2)
    for number in range(2):
        world.spawn(f"pointer{number}", _checkpointer(dice.randrange(1000), 4), lives=2)
    world.spawn("cleaner0", _cleaner([0.8, 0.9]), lives=2)
    world.spawn("cleaner1", _cleaner([1.0, NAP_MS / 1000 + 2, 1.0]))
    world.spawn("reader", schedule.reader(3), lives=2)
    late = [dice.choice(verbs) for _ in range(2)]
    world.spawn("writer9", _after(NAP_MS / 1000, schedule.writer(late, outcomes, "app9")))
    world.spawn("pointer9", _after(NAP_MS / 1000 + 0.5, _checkpointer(dice.randrange(1000), 3)))
    try:
        world.run()
        schedule.settle(world, outcomes)
        _check_states(world, met)
    except AssertionError:
        raise
    except Exception as error:
        raise Broken(f"seed {seed}: {type(error).__name__}: {error}") from error
    if met is not None:
        met["naps"] += sum(count for (_, _, fault), count in world.coverage.items() if fault == "nap")
        kinds = [file.kind for key, _ in world.gone if (file := parse_key(key))]
        met["manifests deleted"] += kinds.count("manifest")
        met["versions deleted"] += kinds.count("version")
    return world.trace.hexdigest()


def _populate(world: World) -> None:
    """A table with a file or two, made in peace."""
    stormy, world.chances = world.chances, Chances()
    maker = world.spawn("maker", schedule.make)
    world.run()
    world.chances = stormy
    world.actors.remove(maker)


def _after(seconds: float, script: Callable[[Actor], None]) -> Callable[[Actor], None]:
    def later(actor: Actor) -> None:
        actor.ambient.sleep(seconds)
        script(actor)

    return later


def _checkpointer(seed: int, rounds: int) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        dice = random.Random(seed)
        for _ in range(rounds):
            actor.doing = "checkpoint"
            actor.ambient.sleep(actor.ambient.random() * 0.3)
            env = actor.env(**dice.choice(FORMATS))
            try:
                if dice.random() < 0.3:
                    due = actor.env(
                        **{**dice.choice(FORMATS), "checkpoint.enabled": "true", "checkpoint.interval": "1"}
                    )
                    maybe_checkpoint(due, open_log(due).latest_version(), after_merge=dice.random() < 0.5)
                else:
                    checkpoint(env, compact=dice.choice(("auto", "auto", "hit", "full")))
            except TableNotFound:
                _expect(actor.world, actor.world.truth.acked < 0, "L8: no table is found")
            except schedule.TROUBLE:
                pass

    return script


def _cleaner(waits: list[float]) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        for wait in waits:
            actor.doing = "clean up"
            actor.ambient.sleep(wait)
            with contextlib.suppress(*schedule.TROUBLE):
                clean_up(actor.env())

    return script


def _check_states(world: World, met: Counter[str] | None) -> None:
    """C1, C3, C5-C7: what a state says is the truth, or it says that it is broken; and the newest version is there."""
    truth = world.truth

    def look(actor: Actor) -> None:
        env = actor.env()
        for ref in find_states(env.store.list_from(LOG_DIR)):
            try:
                state = read_state(env, ref)
            except (CheckpointError, ObjectNotFound):
                if met is not None:
                    met["broken states"] += 1
                continue
            if met is not None:
                met["states read"] += 1
            wrong = set(state.files.column("path").to_pylist()) ^ truth.live[ref.version]
            _expect(world, not wrong, f"C1: the state of {ref.version} has or lacks {sorted(wrong)}")
            _expect(world, state.tokens is not None, f"the state of {ref.version} has no tokens")
            for version in range(state.tokens.first, ref.version + 1):
                held = truth.history[version].token
                _expect(
                    world, state.tokens.token_at(version) == held, f"{ref.version} names another token of {version}"
                )
            _expect(world, state.in_commit_timestamp == truth.history[ref.version].time, f"time of {ref.version}")
        log = open_log(env)
        oldest = min((ref.version for ref in find_states(env.store.list_from(LOG_DIR))), default=0)
        for version in log.versions():
            try:
                paths = log.snapshot(version).files.column("path").to_pylist()
            except VersionExpired:
                # A cleanup that died half way leaves version files below its cut.
                _expect(world, version < oldest, f"P7: version {version} is gone")
                continue
            _expect(world, set(paths) == truth.live[version], f"P7: version {version} reads differently")

    world.actors = []
    world.spawn("auditor", look)
    world.run()


def _expect(world: World, holds: bool, message: str) -> None:
    if not holds:
        raise Broken(f"seed {world.seed}: {message}")
