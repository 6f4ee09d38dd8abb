"""JSON = Parquet = Avro = replay, at every version of random logs."""

from __future__ import annotations

import pytest

from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import inspect_state, read_state
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.read.folding import replay
from indextables.log.wire.names import LOG_DIR
from tests.state.logs import RandomLog, environment, same, with_options

FORMATS = {
    "json": {"state.format": "json"},
    "json in parts": {"state.format": "json", "checkpoint.maxFileSize": 1500},
    "parquet": {"state.format": "parquet"},
    "parquet in parts": {"state.format": "parquet", "checkpoint.maxFileSize": 9000, "checkpoint.compression": "zstd"},
    "avro": {"state.format": "avro", "state.entriesPerManifest": 8, "state.compaction.maxManifests": 3},
    "avro snappy": {"state.format": "avro", "state.compression": "snappy", "state.entriesPerManifest": 16},
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(3))
def test_a_checkpoint_at_every_version_is_what_replay_gives(name, seed):
    env = environment(FORMATS[name])
    log = RandomLog(env, seed, partitions=("day", "shard") if seed % 2 else ())
    contents = log.contents()
    previous = None
    for _ in range(25):
        contents.append(log.step())
        expected = replay(None, contents)
        previous = write_checkpoint(env, expected, previous=previous)
        found = find_states(env.store.list_from(LOG_DIR))
        assert found[0].version == log.version
        same(read_state(env, found[0]), expected)
        assert inspect_state(env, found[0]).tokens == expected.tokens


@pytest.mark.parametrize("name", FORMATS)
def test_a_checkpoint_and_the_versions_after_it_are_what_full_replay_gives(name):
    env = environment(FORMATS[name])
    log = RandomLog(env, 99)
    for _ in range(30):
        log.step()
    contents = log.contents()
    expected = replay(None, contents)
    previous = None
    for version in range(0, 31, 5):
        state = replay(None, contents[: version + 1])
        previous = write_checkpoint(env, state, previous=previous)
        same(replay(read_state(env, previous), contents[version + 1 :]), expected)


def test_formats_mix_in_one_log():
    env = environment()
    log = RandomLog(env, 5)
    previous = None
    for number in range(24):
        log.step()
        state = log.state()
        options = list(FORMATS.values())[number % len(FORMATS)]
        asked = with_options(env, **options)
        previous = write_checkpoint(asked, state, previous=previous)
        same(read_state(env, find_states(env.store.list_from(LOG_DIR))[0]), state)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", FORMATS)
def test_a_thousand_logs_more_are_what_replay_gives(name):
    for seed in range(1000, 2000):
        test_a_checkpoint_at_every_version_is_what_replay_gives(name, seed)
