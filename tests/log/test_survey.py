"""The newest checkpoint above a version is found whatever is published and cut while the log is being listed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from tests.state.logs import RandomLog, environment

from indextables.env import Env
from indextables.log.care.cleanup import clean_up
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint
from indextables.log.checkpoint.find import find_states
from indextables.log.read.tokens import survey
from indextables.log.wire.names import LOG_DIR
from indextables.options import Options

QUICK = {"logRetention.duration": 0, "state.retention.hours": 0, "checkpointRetention.duration": 0}
FORMATS = ["avro", "json", "parquet"]


class Between:
    """A store whose listings let `happens` happen once, before the key of a number; keys arrive one after the other."""

    def __init__(self, store, at, happens) -> None:
        self._store, self._left, self._happens = store, at, happens

    def __getattr__(self, name):
        return getattr(self._store, name)

    def list_from(self, prefix: str, after: str | None = None) -> Iterator:
        while True:
            if self._left == 0:
                self._left = -1
                self._happens()
            found = next(iter(self._store.list_from(prefix, after)), None)
            if found is None:
                return
            self._left -= self._left > 0
            yield found
            after = found.key


def keys(env: Env) -> list[str]:
    return [meta.key for meta in env.store.list_from(LOG_DIR)]


def step(env: Env, log: RandomLog, state_format: str) -> None:
    """A version, its checkpoint in a format, and what cleanup makes of it."""
    env.ambient.advance(hours=1)
    log.time_ms = env.ambient.now_ms()
    log.append(1)
    checkpoint(msgspec.structs.replace(env, options=Options({**QUICK, "state.format": state_format})))
    env.ambient.advance(days=3)
    clean_up(env)


@pytest.mark.slow
@pytest.mark.parametrize("after", FORMATS)
@pytest.mark.parametrize("before", FORMATS)
def test_a_checkpoint_is_found_while_one_of_another_format_takes_its_place(before, after):
    moment = 0
    while True:
        env = environment(QUICK)
        log = RandomLog(env, 1)
        step(env, log, before)
        floor, happened = log.version, []

        def flip(env=env, log=log, happened=happened):
            step(env, log, after)
            happened.append(keys(env))

        torn = msgspec.structs.replace(env, store=Between(env.store, moment, flip))
        assert survey(torn, floor).newest is not None, (moment, happened)
        if not happened:
            break
        assert [ref.version for ref in find_states(env.store.list_from(LOG_DIR))] == [log.version]
        moment += 1
    assert moment > 2


@pytest.mark.slow
@pytest.mark.parametrize("manifests", [0, 1500])
def test_what_lies_between_the_ends_is_passed_over(manifests):
    env = environment(QUICK)
    log = RandomLog(env, 1)
    for number in range(manifests):
        env.store.put(f"{LOG_DIR}manifests/manifest-{number:012x}.avro", b"x")
    log.append(1)
    assert survey(env, 0).newest is None
    assert survey(env, 0).holds(1)
    checkpoint(env)
    assert survey(env, 1).newest.version == 1
    assert survey(env, 2).newest is None
    assert open_log(env).latest_version() == 1
