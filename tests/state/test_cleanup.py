"""What cleanup deletes, what it never does, and that every version that stays reads as before."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pytest

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointInvalid, StoreError, VersionExpired
from indextables.log.care.advance import advance_state
from indextables.log.care.cleanup import carry_out, clean_up, only, plan_cleanup
from indextables.log.care.intents import INTENT_DIR, protect_version
from indextables.log.care.opening import open_log
from indextables.log.care.retention import Rules
from indextables.log.care.schedule import checkpoint
from indextables.log.checkpoint.avro.read import manifest_keys, read_list
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import read_state
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.read.folding import TableState, replay
from indextables.log.wire.names import LOG_DIR, MANIFEST_DIR, manifest_key, parse_key, state_key, version_key
from indextables.options import Options
from tests.state.logs import RandomLog, environment, same
from tests.state.spy import Spy

RETENTION = {"logRetention.duration": 30 * 86_400_000, "checkpoint.interval": 1000}


def keys(env: Env) -> list[str]:
    return [meta.key for meta in env.store.list_from(LOG_DIR)]


def slots(env: Env) -> list[int]:
    return [f.version for key in keys(env) if (f := parse_key(key)) and f.kind == "version"]


def states(env: Env) -> list[int]:
    return sorted(ref.version for ref in find_states(env.store.list_from(LOG_DIR)))


def newest_state(env: Env) -> TableState:
    return read_state(env, find_states(env.store.list_from(LOG_DIR))[0])


def aged_log(env: Env, count: int, *, every: int = 10) -> RandomLog:
    """`count` commits, a day apart, with a checkpoint after every tenth."""
    return _aged(count, every, env.options[opt.STATE_FORMAT]).onto(env)


@functools.lru_cache
def _aged(count: int, every: int, state_format: str) -> RandomLog:
    env = environment(RETENTION | {"state.format": state_format})
    log = RandomLog(env, 1)
    for _ in range(count):
        env.ambient.advance(days=1)
        log.time_ms = env.ambient.now_ms()
        log.step()
        if log.version % every == 0:
            checkpoint(env)
    env.ambient.advance(hours=1)
    return log


def test_version_files_go_when_they_are_old_and_covered_and_states_below_the_cut_with_them():
    env = environment(RETENTION)
    log = aged_log(env, 100)
    report = clean_up(env)
    assert report.cut == 70
    assert slots(env) == list(range(71, 101))
    assert states(env) == [70, 80, 90, 100]
    for version in (70, 71, 79, 80, 81, 99, 100):
        same(open_log(env).snapshot(version).state, replay(None, log.history[: version + 1]))
    with pytest.raises(VersionExpired):
        open_log(env).snapshot(69)


def test_the_example_of_the_protocol_thirty_days_checkpoint_ninety_current_one_hundred():
    env = environment(RETENTION)
    aged_log(env, 100, every=5)
    clean_up(env)
    left = slots(env)
    assert 50 not in left
    assert {85, 95} <= set(left)


@pytest.mark.parametrize("kind", ["json", "parquet", "avro"])
def test_every_format_can_be_the_base(kind):
    env = environment(RETENTION | {"state.format": kind})
    log = aged_log(env, 60)
    assert clean_up(env).cut == 30
    for version in (30, 31, 59, 60):
        same(open_log(env).snapshot(version).state, replay(None, log.history[: version + 1]))


def test_nothing_goes_while_all_is_young():
    env = environment(RETENTION)
    aged_log(env, 25)
    before = keys(env)
    report = clean_up(env)
    assert report.cut is None
    assert report.reason
    assert keys(env) == before


def test_a_table_that_rests_keeps_its_newest_state_and_its_current_version():
    env = environment(RETENTION)
    log = aged_log(env, 40)
    env.ambient.advance(days=400)
    report = clean_up(env)
    assert report.cut == 40
    assert slots(env) == [40]
    assert states(env) == [40]
    same(open_log(env).snapshot().state, log.state())


@pytest.mark.parametrize("kept", [1, 4, 100])
def test_beyond_the_retention_of_the_log_no_number_keeps_a_state(kept):
    env = environment(RETENTION | {"state.retention.versions": kept})
    aged_log(env, 100)
    assert clean_up(env).cut == 70


def test_states_that_were_written_within_the_retention_are_kept_by_number():
    """Checkpoints on demand, of versions that are all old by now."""
    env = environment(RETENTION | {"state.retention.versions": 2, "state.retention.hours": 0})
    log = RandomLog(env, 1)
    log.time_ms = env.ambient.now_ms()
    written = []
    for _ in range(6):
        log.step()
        written.append(open_log(env).snapshot().state)
    env.ambient.advance(days=31)
    for state in written:
        write_checkpoint(env, state)
    env.ambient.advance(hours=1)
    assert clean_up(env).cut == 4
    assert states(env) == [4, 5, 6]


def test_old_states_are_kept_by_age():
    env = environment(RETENTION | {"state.retention.hours": 24 * 55})
    aged_log(env, 100)
    assert clean_up(env).cut == 50


def test_a_minimum_number_of_versions_is_kept_where_it_is_set():
    env = environment(RETENTION | {"checkpoint.retention": 65})
    aged_log(env, 100)
    assert clean_up(env).cut == 30


def test_the_hours_of_purge_outrank_the_milliseconds_of_the_log():
    env = environment(RETENTION | {"purge.txLogRetentionHours": 24 * 60})
    aged_log(env, 100)
    assert clean_up(env).cut == 40


def test_age_needs_the_store_time_and_the_commit_time_to_be_old():
    env = environment(RETENTION)
    log = aged_log(env, 100)
    for version in range(40, 60):
        env.store.put(version_key(version), env.store.get(version_key(version)))
    assert clean_up(env, dry_run=True).cut == 30
    young = environment(RETENTION)
    log = RandomLog(young, 1)
    log.time_ms = young.ambient.now_ms() + 400 * 86_400_000
    for _ in range(20):
        young.ambient.advance(days=1)
        log.step()
    checkpoint(young)
    young.ambient.advance(days=400)
    assert clean_up(young, dry_run=True).cut is None


def test_a_checkpoint_without_tokens_is_no_base_for_deleting():
    env = environment(RETENTION | {"state.format": "json"})
    log = RandomLog(env, 1)
    for _ in range(10):
        log.step()
    write_checkpoint(env, msgspec.structs.replace(log.state(), tokens=None))
    env.ambient.advance(days=400)
    log.step()
    report = clean_up(env)
    assert report.cut is None
    assert slots(env) == list(range(12))


@pytest.mark.parametrize(("has_tokens", "cut"), [(True, 10), (False, None)])
def test_an_old_checkpoint_without_tokens_is_no_base_for_deleting_although_the_newest_has_them(has_tokens, cut):
    env = environment(RETENTION | {"state.format": "json"})
    log = RandomLog(env, 1)
    for _ in range(10):
        log.step()
    old = log.state()
    write_checkpoint(env, old if has_tokens else msgspec.structs.replace(old, tokens=None))
    env.ambient.advance(days=400)
    log.step()
    write_checkpoint(env, log.state())
    assert clean_up(env).cut == cut


def harm(env: Env, version: int, damage: str) -> set[int]:
    """Make a checkpoint unusable; which ones are, because they share the manifests that were harmed."""
    if damage == "garbage":
        env.store.put(state_key(version), b"garbage")
        return {version}
    refs = find_states(env.store.list_from(LOG_DIR))
    named = {ref.version: set(manifest_keys(ref, read_list(env, ref))) for ref in refs}
    newest = max(named)
    # The newest one stays usable where another is harmed, and all others where it is.
    spared = set(named) - {version} if version == newest else {newest}
    own = named[version].difference(*(named[v] for v in spared))
    assert own
    for key in own:
        data = env.store.get(key)
        env.store.delete_many([key])
        if damage == "short manifest":
            env.store.put(key, data[:-1])
    return {v for v, keys in named.items() if keys & own}


DAMAGE = pytest.mark.parametrize("damage", ["garbage", "missing manifest", "short manifest"])


@DAMAGE
def test_a_damaged_checkpoint_is_no_base_for_deleting(damage):
    env = environment(RETENTION)
    log = aged_log(env, 100)
    harmed = harm(env, 70, damage)
    usable = max(set(range(10, 80, 10)) - harmed)
    assert clean_up(env).cut == usable
    for version in (usable, usable + 1, 70, 71, 79, 100):
        same(open_log(env).snapshot(version).state, replay(None, log.history[: version + 1]))


@DAMAGE
def test_nothing_goes_while_the_newest_checkpoint_cannot_be_used(damage):
    env = environment(RETENTION)
    log = aged_log(env, 100)
    harm(env, 100, damage)
    env.ambient.advance(days=400)
    before = keys(env)
    report = clean_up(env)
    assert report.cut is None
    assert "newest checkpoint" in report.reason
    assert keys(env) == before
    for version in (0, 70, 100):
        same(open_log(env).snapshot(version).state, replay(None, log.history[: version + 1]))


def test_a_missing_version_above_the_cut_stops_cleanup():
    env = environment(RETENTION)
    aged_log(env, 100)
    env.store.delete_many([version_key(95)])
    before = keys(env)
    report = clean_up(env)
    assert report.cut is None
    assert "missing" in report.reason
    assert keys(env) == before


def test_a_dry_run_names_exactly_what_the_run_deletes():
    env = environment(RETENTION)
    aged_log(env, 100)
    before = keys(env)
    planned = clean_up(env, dry_run=True)
    assert keys(env) == before
    assert planned.deleted == 0
    done = clean_up(env)
    assert (planned.states, planned.versions, planned.manifests) == (done.states, done.versions, done.manifests)
    assert set(before) - set(keys(env)) == {*done.states, *done.versions, *done.manifests}


@pytest.mark.parametrize(
    ("stays", "versions"),
    [
        (version_key(40), list(range(40))),
        (state_key(40), list(range(41))),
    ],
)
def test_a_plan_of_which_something_stays_leaves_no_gap_and_no_version_above_the_oldest_checkpoint(stays, versions):
    env = environment(RETENTION)
    log = aged_log(env, 100)
    plan = plan_cleanup(env, Rules.of(env.options, env.ambient.now_ms()))
    report = carry_out(env, only(plan, {*plan.keys} - {stays}))
    assert [parse_key(key).version for key in report.versions if key.endswith(".json")] == versions
    oldest = min(states(env))
    for version in range(oldest, 101):
        same(open_log(env).snapshot(version).state, replay(None, log.history[: version + 1]))


def test_a_plan_of_which_nothing_of_the_cut_is_left_cuts_nothing_and_says_why():
    env = environment(RETENTION)
    aged_log(env, 100)
    plan = only(plan_cleanup(env, Rules.of(env.options, env.ambient.now_ms())), ())
    report = carry_out(env, plan)
    assert (plan.cut.at, plan.keys, report.cut, report.deleted) == (None, (), None, 0)
    assert report.reason


def test_cleaning_up_twice_changes_nothing_more():
    env = environment(RETENTION)
    aged_log(env, 100)
    clean_up(env)
    after = keys(env)
    assert clean_up(env).deleted == 0
    assert keys(env) == after


def test_states_go_before_version_files_and_version_files_in_ascending_order():
    env = environment(RETENTION)
    aged_log(env, 100)
    spy = Spy(env)
    clean_up(spy.env)
    kinds = [parse_key(key).kind for key in spy.deleted]
    assert kinds.index("version") > max(at for at, kind in enumerate(kinds) if kind == "state")
    numbers = [parse_key(key).version for key in spy.deleted if parse_key(key).kind == "version"]
    assert numbers == sorted(numbers)


class Stubborn:
    """A store that cannot delete some keys."""

    def __init__(self, inner: Any, refuse: str) -> None:
        self._inner = inner
        self._refuse = refuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def delete_many(self, wanted: Any, **more: Any) -> dict[str, str]:
        wanted = list(wanted)
        failed = {key: "denied" for key in wanted if self._refuse in key}
        self._inner.delete_many([key for key in wanted if key not in failed], **more)
        return failed


def test_while_an_old_state_cannot_be_deleted_no_version_file_is():
    env = environment(RETENTION)
    log = aged_log(env, 100)
    stubborn = msgspec.structs.replace(env, store=Stubborn(env.store, "state-v00000000000000000050"))
    report = clean_up(stubborn)
    assert report.failed == {state_key(50): "denied"}
    assert report.versions == ()
    assert slots(env) == list(range(101))
    same(open_log(env).snapshot().state, log.state())
    failing = msgspec.structs.replace(
        stubborn, options=Options(RETENTION | {"cleanup.failurePolicy": "fail"}, environ={})
    )
    with pytest.raises(StoreError):
        clean_up(failing)


def test_a_clock_that_disagrees_with_the_store_deletes_nothing():
    env = environment(RETENTION)
    aged_log(env, 100)
    before = keys(env)

    class Skewed(Stubborn):
        def probe(self) -> Any:
            return msgspec.structs.replace(self._inner.probe(), skew_ms=400_000)

    report = clean_up(msgspec.structs.replace(env, store=Skewed(env.store, "nothing")))
    assert report.cut is None
    assert keys(env) == before


def test_manifests_nobody_names_go_after_the_safety_window_and_no_sooner():
    env = environment(RETENTION)
    log = aged_log(env, 30)
    env.store.put(manifest_key("orphan"), b"x")
    assert manifest_key("orphan") not in clean_up(env).manifests
    env.ambient.advance(hours=2)
    report = clean_up(env)
    assert report.manifests == (manifest_key("orphan"),)
    same(open_log(env).snapshot().state, log.state())


def test_a_checkpoint_that_one_cleanup_has_looked_at_is_not_read_again_by_the_next():
    env = environment(RETENTION)
    log = aged_log(env, 29, every=2)
    env.store.put(manifest_key("orphan"), b"x")
    env.ambient.advance(hours=2)
    spy = Spy(env)
    clean_up(spy.env, dry_run=True)
    before = states(env)
    assert {state_key(version) for version in before} <= set(spy.read)
    log.step()
    checkpoint(env)
    spy.read.clear()
    assert clean_up(spy.env).manifests == (manifest_key("orphan"),)
    assert {key for key in spy.read if key.endswith("_manifest.avro")} == {state_key(30)}
    assert len(before) > 10


def test_what_a_checkpoint_said_before_it_was_written_anew_lets_none_of_its_manifests_go():
    env = environment(RETENTION)
    log = aged_log(env, 20)
    env.store.put(manifest_key("orphan"), b"x")
    env.ambient.advance(hours=2)
    assert clean_up(env).manifests == (manifest_key("orphan"),)
    checkpoint(env, compact="full")
    env.ambient.advance(hours=2)
    assert clean_up(env).manifests
    newest = find_states(env.store.list_from(LOG_DIR))[0]
    assert set(manifest_keys(newest, read_list(env, newest))) <= set(keys(env))
    same(open_log(env).snapshot().state, log.state())


def test_a_checkpoint_that_is_young_is_looked_at_again():
    """Another one may take its place within one tick of the store's clock, and look the same."""
    env = environment(RETENTION)
    log = RandomLog(env, 1)
    for _ in range(2):
        log.step()
        checkpoint(env)
    spy = Spy(env)
    for second, is_read in ((1, True), (2, True), (60, True), (61, False)):
        env.ambient.advance(seconds=1 if second % 60 != 0 else 58)
        spy.read.clear()
        clean_up(spy.env, dry_run=True)
        assert (state_key(1) in spy.read) is is_read, second


def test_no_manifest_goes_while_a_state_cannot_be_read():
    env = environment(RETENTION)
    aged_log(env, 30)
    env.store.put(manifest_key("orphan"), b"x")
    env.store.put(state_key(5), b"garbage")
    env.ambient.advance(hours=2)
    assert clean_up(env).manifests == ()


def test_files_without_a_place_in_the_protocol_survive():
    env = environment(RETENTION)
    aged_log(env, 100)
    strangers = [LOG_DIR + "note.txt", LOG_DIR + "00000000000000000001.json.gz", MANIFEST_DIR + "x.parquet", "a.json"]
    for key in strangers:
        env.store.put(key, b"x")
    env.ambient.advance(days=500)
    clean_up(env)
    assert all(env.store.exists(key) for key in strangers)


def test_a_state_that_a_stalled_writer_publishes_after_its_manifests_were_collected_is_passed_over():
    env = environment(RETENTION | {"state.retention.hours": 0})
    log = aged_log(env, 40)
    old = next(r for r in find_states(env.store.list_from(LOG_DIR)) if r.version == 10)

    class Stalls(Stubborn):
        """Cleanup runs to its end just before the list is put."""

        def put_if_absent(self, key: str, data: bytes, **more: Any) -> Any:
            if "state-v" in key:
                for meta in list(self._inner.list_from(MANIFEST_DIR)):
                    self._inner.delete_many([meta.key])
            return self._inner.put_if_absent(key, data, **more)

    stalled = msgspec.structs.replace(env, store=Stalls(env.store, "nothing"))
    with pytest.raises(CheckpointInvalid):
        advance_state(stalled, old, 15)
    same(replay(None, log.history), open_log(env).snapshot().state)
    same(replay(None, log.history[:16]), open_log(env).snapshot(15).state)


def test_a_state_that_was_published_is_never_taken_back_for_a_listing_that_lags():
    """Cleanup may rely on a state from the moment on at which it is there: a delete of it would come too late."""
    env = environment(RETENTION)
    log = RandomLog(env, 3)
    log.append(5)

    class Lags(Stubborn):
        """Listings do not show manifests yet."""

        def list_from(self, prefix: str, after: str | None = None, **more: Any) -> Any:
            found = self._inner.list_from(prefix, after, **more)
            return (meta for meta in found if not meta.key.startswith(MANIFEST_DIR))

    checkpoint(msgspec.structs.replace(env, store=Lags(env.store, "nothing")))
    newest = open_log(env).latest_version()
    assert newest in states(env)
    same(replay(None, log.history), newest_state(env))


def test_a_state_that_cannot_be_published_in_full_is_left_where_others_may_have_replaced_it():
    env = environment(RETENTION)
    log = RandomLog(env, 3)
    log.append(5)
    newest = open_log(env).latest_version()

    class Races(Stubborn):
        """The manifests go right before the put; right after it another writer replaces the state, which is broken."""

        def put_if_absent(self, key: str, data: bytes, **more: Any) -> Any:
            if "state-v" not in key:
                return self._inner.put_if_absent(key, data, **more)
            self._inner.delete_many([meta.key for meta in list(self._inner.list_from(MANIFEST_DIR))])
            return self._inner.put_if_absent(key, data, **more)

        def delete_many(self, keys: Any, **more: Any) -> Any:
            checkpoint(env)
            return self._inner.delete_many(keys, **more)

    with pytest.raises(CheckpointInvalid):
        checkpoint(msgspec.structs.replace(env, store=Races(env.store, "nothing")))
    assert newest in states(env)
    checkpoint(env)
    same(replay(None, log.history), newest_state(env))


def test_what_a_live_reader_protects_stays_until_its_intent_is_over():
    env = environment(RETENTION)
    log = aged_log(env, 100)
    held = protect_version(env, 45, ttl_ms=3_600_000)
    report = clean_up(env)
    assert report.cut == 40
    same(open_log(env).snapshot(45).state, replay(None, log.history[:46]))
    env.ambient.advance(hours=2)
    assert clean_up(env).cut == 70
    held.release()


@pytest.mark.parametrize(("version", "cut"), [(5, None), (15, 10)])
def test_where_a_reader_alone_stands_in_the_way_the_reason_says_so(version, cut):
    env = environment(RETENTION)
    aged_log(env, 100)
    with protect_version(env, version, ttl_ms=3_600_000):
        report = clean_up(env)
    assert report.cut == cut
    assert report.reason == (f"a reader needs version {version}" if cut is None else "")


def test_where_nothing_is_old_enough_a_reader_is_not_the_reason():
    env = environment(RETENTION)
    aged_log(env, 20)
    with protect_version(env, 5, ttl_ms=3_600_000):
        assert clean_up(env).reason == "nothing is old enough"


def test_the_mark_of_a_purge_is_not_told_as_a_reader():
    env = environment(RETENTION)
    aged_log(env, 100)
    with protect_version(env, 5, ttl_ms=3_600_000, task="purge"):
        assert clean_up(env).reason.startswith("a purge at work keeps version 5 (")


def test_an_intent_that_cannot_be_understood_stops_the_cleanup():
    env = environment(RETENTION)
    aged_log(env, 100)
    env.store.put(INTENT_DIR + "odd.json", b"{")
    report = clean_up(env)
    assert (report.deleted, report.cut) == (0, None)
    assert "odd.json" in report.reason
