"""The clock of a machine is set while a process works: no commit from the future, and no history that goes for it."""

from __future__ import annotations

import time

import msgspec
import pytest
from tests.log.commits import METADATA, add, open_log
from tests.log.scripted import Scripted
from tests.world.clock import ShiftedClock
from tests.world.commits import append

from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.errors import ClockSkew
from indextables.log.care.cleanup import clean_up
from indextables.log.commit.create import create_table
from indextables.log.wire.names import LOG_DIR
from indextables.options import Options
from indextables.storage.local import LocalStore
from indextables.storage.memory import MemoryStore
from indextables.storage.probe import once_per_process, skew_between
from indextables.storage.store import StoreFacts
from indextables.storage.url import parse_location
from indextables.table.maintenance.purge.verb import purge
from indextables.table.maintenance.truncate import truncate_time_travel
from indextables.table.requests import Purge, TruncateTimeTravel
from indextables.table.running import Threads

DAY_MS = 86_400_000
STEPS = [40 * DAY_MS, -40 * DAY_MS, 400_000, -400_000]
ALLOWED_MS = 300_000


class Rightly(SystemAmbient):
    """What the store's clock says."""


@pytest.fixture(params=["local", "memory"])
def env(request, tmp_path):
    ambient = ShiftedClock()
    if request.param == "local":
        store = LocalStore(parse_location(tmp_path / "t"), fsync=False, ambient=ambient)
    else:
        store = MemoryStore(parse_location(f"memory://{tmp_path.name}/t"), ambient=Rightly())
    told = {"checkpoint.interval": "10", "logRetention.duration": str(DAY_MS)}
    return Env(store, ambient, Options(told, environ={}))


def table(env, versions=12):
    log = open_log(env)
    create_table(log, METADATA)
    for number in range(versions):
        append(log, [add(f"splits/{number}.split")])
    return log


def files(env):
    return {meta.key: meta.etag for meta in env.store.list_from(LOG_DIR)}


def ahead_ms(committed):
    return committed.timestamp_ms - time.time_ns() // 1_000_000


class Compared(Scripted):
    """A store whose own time is right, whatever the machine says."""

    def __init__(self, env):
        super().__init__(env.store)
        self.ambient = env.ambient

    def probe(self):
        return once_per_process(self.url, self._probe)

    def _probe(self):
        now_ms = self.ambient.now_ms()
        return StoreFacts(skew_ms=skew_between(time.time_ns() // 1_000_000, now_ms, now_ms))


def compared(env):
    """The same table in a store that tells how far the clocks are apart, as every real one does."""
    return env if env.store.is_local else msgspec.structs.replace(env, store=Compared(env))


@pytest.mark.parametrize("step_ms", STEPS)
def test_a_clock_that_was_set_commits_and_deletes_nothing_until_it_is_right(env, step_ms):
    env = compared(env)
    log = table(env)
    env.ambient.off_ms = step_ms
    before = files(env)
    for _ in range(2):
        with pytest.raises(ClockSkew):
            append(log, [add("splits/z.split")])
        with pytest.raises(ClockSkew):
            append(open_log(env), [add("splits/z.split")])
        with pytest.raises(ClockSkew):
            truncate_time_travel(log, TruncateTimeTravel())
        with pytest.raises(ClockSkew):
            purge(log, Purge(), runner=Threads(env, "maintenance"))
        assert "off ours" in clean_up(env).reason
    assert files(env) == before
    env.ambient.off_ms = 0
    assert abs(ahead_ms(append(log, [add("splits/z.split")]))) < ALLOWED_MS


@pytest.mark.parametrize("step_ms", [40 * DAY_MS, -40 * DAY_MS])
def test_at_whatever_step_of_a_commit_the_clock_is_set_no_later_one_follows(env, step_ms):
    env = compared(env)
    for at in range(1, 40):
        place = parse_location(f"{env.store.url}-{at}")
        ambient = ShiftedClock()
        plain = (
            LocalStore(place, fsync=False, ambient=ambient)
            if env.store.is_local
            else MemoryStore(place, ambient=Rightly())
        )
        inner = compared(Env(plain, ambient, env.options))
        log = table(inner, versions=2)
        store = Scripted(inner.store) if env.store.is_local else inner.store
        if env.store.is_local:
            store.probe = inner.store.probe
        calls = len(store.calls)
        original = store._do

        def do(verb, key, call, store=store, calls=calls, original=original, ambient=ambient, at=at):
            if len(store.calls) - calls == at - 1:
                ambient.off_ms = step_ms
            return original(verb, key, call)

        store._do = do
        log = open_log(msgspec.structs.replace(inner, store=store))
        try:
            first = append(log, [add("splits/a.split")])
        except ClockSkew:
            first = None
        if ambient.off_ms == 0:
            break
        assert first is None or abs(ahead_ms(first)) < ALLOWED_MS, at
        with pytest.raises(ClockSkew):
            append(log, [add("splits/b.split")])
        ambient.off_ms = 0
        assert abs(ahead_ms(append(log, [add("splits/c.split")]))) < ALLOWED_MS
    else:
        pytest.fail("a commit has fewer steps")
    assert at > 3


def test_the_time_of_a_written_file_tells_where_both_clocks_jump(env):
    """A machine that is resumed may take its monotonic clock along: then only the store knows."""
    env = compared(env)
    log = table(env)
    env.ambient.off_ms, env.ambient.monotonic_off_s = 40 * DAY_MS, 40 * DAY_MS / 1000
    append(log, [add("splits/y.split")])
    before = files(env)
    with pytest.raises(ClockSkew):
        append(log, [add("splits/z.split")])
    assert "off ours" in clean_up(env).reason
    assert files(env) == before


class Counted(LocalStore):
    probes = 0

    def _probe(self):
        self.probes += 1
        return super()._probe()


def test_a_machine_that_slept_compares_once_and_goes_on(tmp_path):
    """Its monotonic clock stood still, its wall clock is right."""
    ambient = ShiftedClock()
    store = Counted(parse_location(tmp_path / "t"), fsync=False, ambient=ambient)
    log = table(Env(store, ambient, Options(environ={})))
    assert store.probes == 1
    ambient.monotonic_off_s = -40 * DAY_MS / 1000
    for number in range(3):
        append(log, [add(f"splits/n{number}.split")])
    assert store.probes == 2
