"""The next state from the last one and the tail: equal to replay, and no more work than the tail is long."""

from __future__ import annotations

import itertools

import pytest

from indextables.errors import ObjectNotFound
from indextables.log.care.advance import advance_state
from indextables.log.checkpoint.avro import write as avrowrite
from indextables.log.checkpoint.avro.read import read_list
from indextables.log.checkpoint.columns import totals_of
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import read_state
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.wire.actions import CommitInfo
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import LOG_DIR, MANIFEST_DIR, version_key
from tests.log.commits import add
from tests.state.logs import RandomLog, environment, same, vector
from tests.state.spy import Spy


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("partitions", [("day", "shard"), ()])
def test_advancing_by_any_number_of_versions_is_what_replay_gives(seed, partitions):
    env = environment({"state.entriesPerManifest": 16, "state.compaction.maxManifests": 4})
    log = RandomLog(env, seed, partitions)
    ref = write_checkpoint(env, log.state())
    for number in range(30):
        log.step()
        if number % (1 + seed % 4) == 0:
            ref = advance_state(env, ref, log.version)[0]
            same(read_state(env, ref), log.state())


def test_an_append_writes_its_own_entries_and_reads_no_manifest():
    env = environment()
    log = RandomLog(env, 1)
    log.append(5000)
    first = write_checkpoint(env, log.state())
    log.append(100)
    spy = Spy(env)
    _, written = advance_state(spy.env, first, log.version)
    assert not [key for key in spy.read if key.startswith(MANIFEST_DIR)]
    assert [info.num_entries for info in written.manifests[-1:]] == [100]
    assert len([key for key in spy.written if key.startswith(MANIFEST_DIR)]) == 1


def test_a_remove_reads_only_manifests_of_its_partition():
    env = environment({"state.entriesPerManifest": 100})
    log = RandomLog(env, 2)
    log.append(4000)
    base = log.state()
    first = write_checkpoint(env, base)
    count = len(read_list(env, first).manifests)
    row = base.files.slice(17, 1).to_pylist()[0]
    log.commit([], [], [{"path": row["path"], "dataChange": True, "partitionValues": row["partitionValues"]}])
    spy = Spy(env)
    ref = advance_state(spy.env, first, log.version)[0]
    same(read_state(env, ref), log.state())
    assert 1 <= len([key for key in spy.read if key.startswith(MANIFEST_DIR)]) < count / 4


def test_a_remove_with_wrong_partition_values_still_takes_its_file_away():
    env = environment({"state.entriesPerManifest": 50})
    log = RandomLog(env, 3)
    log.append(1000)
    base = log.state()
    first = write_checkpoint(env, base)
    path = base.files.column("path")[0].as_py()
    lie = [("day", "1999-01-01"), ("shard", "0")]
    log.commit([], [], [{"path": path, "dataChange": True, "partitionValues": lie}])
    ref = advance_state(env, first, log.version)[0]
    files = read_state(env, ref).files
    assert len(files) == 999
    assert path not in files.column("path").to_pylist()


@pytest.mark.parametrize("partitions", [("day", "shard"), ()])
def test_a_vector_by_add_alone_counts_its_file_once(partitions):
    env = environment({"state.entriesPerManifest": 50})
    log = RandomLog(env, 4, partitions)
    log.append(400)
    first = write_checkpoint(env, log.state())
    rows = [log.live[path] | {"deletionVector": vector(n + 1)} for n, path in enumerate(sorted(log.live)[:3])]
    log.commit([], rows, [])
    ref, written = advance_state(env, first, log.version)
    same(read_state(env, ref), log.state())
    assert written.totals == totals_of(log.state().files)


def test_a_slot_that_a_stalled_writer_filled_again_gets_into_no_state():
    """Between the list and the tail, others write the next state and clean up, and a writer wakes up."""
    env = environment()
    log = RandomLog(env, 5)
    log.append(3)
    first = write_checkpoint(env, log.state())
    log.append(1)
    at = log.version
    log.append(2)
    newest = log.state()
    stray = encode_version([CommitInfo(timestamp=1, token="f" * 32), add("stray")], compress=False)

    class Overtaken(Spy):
        def get(self, key, **more):
            if key == version_key(at) and self.inner.exists(first.keys[0]):
                write_checkpoint(env, newest)
                env.store.delete_many([*first.keys, *(version_key(v) for v in range(log.version))])
                env.store.put_if_absent(key, stray)
            return super().get(key, **more)

    with pytest.raises(ObjectNotFound):
        advance_state(Overtaken(env).env, first, at)
    assert [ref.version for ref in find_states(env.store.list_from(LOG_DIR))] == [newest.version]


def test_a_restored_path_is_visible_after_its_tombstone():
    env = environment()
    log = RandomLog(env, 4)
    log.append(30)
    row = next(iter(log.live.values()))
    ref = write_checkpoint(env, log.state())
    log.commit([], [], [{"path": row["path"], "dataChange": True}])
    ref = advance_state(env, ref, log.version)[0]
    assert len(read_list(env, ref).tombstones) == 1
    assert len(read_state(env, ref).files) == 29
    log.commit([], [row], [])
    ref = advance_state(env, ref, log.version)[0]
    assert len(read_state(env, ref).files) == 30


def test_a_huge_commit_is_cut_into_manifests():
    env = environment({"state.entriesPerManifest": 1000})
    log = RandomLog(env, 5, partitions=())
    ref = write_checkpoint(env, log.state())
    log.append(3500)
    ref = advance_state(env, ref, log.version)[0]
    assert sorted(info.num_entries for info in read_list(env, ref).manifests) == [500, 1000, 1000, 1000]


def test_small_manifests_are_merged_ten_at_a_time_and_entries_rarely_rewritten():
    env = environment({"state.entriesPerManifest": 1000, "state.compaction.maxManifests": 20})
    log = RandomLog(env, 6)
    ref = write_checkpoint(env, log.state())
    spy = Spy(env)
    written = 0
    for _ in range(200):
        log.append(1)
        ref, state = advance_state(spy.env, ref, log.version)
        written = sum(info.num_entries for key in spy.written for info in state.manifests if key.endswith(info.path))
        assert sum(1 for info in state.manifests if info.num_entries < 125) <= 21
    assert written <= 5 * 200
    same(read_state(env, ref), log.state())


def test_tombstones_above_the_threshold_are_compacted_away_and_untouched_manifests_stay():
    env = environment({"state.entriesPerManifest": 100, "state.compaction.tombstoneThreshold": 0.1})
    log = RandomLog(env, 7)
    log.append(1000)
    base = log.state()
    ref = write_checkpoint(env, base)
    before = {info.path for info in read_list(env, ref).manifests}
    doomed = [path for path in base.files.column("path").to_pylist() if path.startswith("day=2024-01-0")]
    log.commit([], [], [{"path": path, "dataChange": True} for path in doomed])
    ref, state = advance_state(env, ref, log.version)
    assert len(doomed) > 100
    assert len(state.tombstones) == 0
    assert before & {info.path for info in state.manifests}
    same(read_state(env, find_states(env.store.list_from(LOG_DIR))[0]), log.state())


def test_full_compaction_sorts_by_partition_and_changes_no_row():
    env = environment({"state.entriesPerManifest": 80})
    log = RandomLog(env, 8)
    ref = write_checkpoint(env, log.state())
    for _ in range(8):
        log.append(120)
        log.step()
        ref = advance_state(env, ref, log.version)[0]
    log.step()
    expected = log.state()
    ref, state = advance_state(env, ref, log.version, "full")
    same(read_state(env, ref), expected)
    assert len(state.tombstones) == 0
    days = [info.bounds["day"] for info in state.manifests]
    assert all(left.max <= right.min for left, right in itertools.pairwise(days))
    assert all(10 <= info.num_entries <= 80 for info in state.manifests[:-1])


@pytest.mark.parametrize("partitions", [("day", "shard"), ()])
def test_a_table_larger_than_memory_allows_is_compacted_range_by_range(partitions, monkeypatch):
    monkeypatch.setattr(avrowrite, "RANGE_ENTRIES", 100)
    env = environment({"state.entriesPerManifest": 40, "state.compaction.maxManifests": 1000})
    log = RandomLog(env, 9, partitions)
    ref = write_checkpoint(env, log.state())
    for _ in range(6):
        log.append(150)
        log.step()
        ref = advance_state(env, ref, log.version)[0]
    log.step()
    ref, state = advance_state(env, ref, log.version, "full")
    same(read_state(env, ref), log.state())
    assert len(state.tombstones) == 0
    if partitions:
        days = [info.bounds["day"] for info in state.manifests]
        assert all(left.max <= right.min for left, right in itertools.pairwise(days))
