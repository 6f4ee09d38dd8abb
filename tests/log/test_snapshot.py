from __future__ import annotations

import logging

import msgspec
import pytest
from tests.log.logs import (
    METADATA,
    START_MS,
    add,
    append,
    create,
    local_env,
    memory_env,
    open_log,
    paths,
    remove,
    write,
)
from tests.world.store import counted

from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    LogCorrupt,
    LogGap,
    MetadataMissing,
    ObjectNotFound,
    TableNotFound,
    VersionExpired,
    VersionNotFound,
)
from indextables.log.care import opening
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.read.cache import LogCache
from indextables.log.wire.actions import Txn
from indextables.log.wire.names import POINTER_KEY, version_key


@pytest.fixture(params=["local", "memory"])
def env(request, tmp_path):
    """A log on files, which are probed, and one on a store that is listed like an object store."""
    return local_env(tmp_path / "t") if request.param == "local" else memory_env()


def with_options(env, **options):
    named = {key.replace("__", "."): value for key, value in options.items()}
    return Env(env.store, env.ambient, type(env.options)({**env.options, **named}, environ={}))


def checkpoint(env, version=None):
    return write_checkpoint(env, open_log(env).snapshot(version).state)


def delete(env, *keys):
    assert env.store.delete_many(keys) == {}


def test_the_newest_version_is_everything_up_to_it(env):
    create(env)
    append(env, 1, 2)
    write(env, 3, remove("f1.split"), Txn("app", 7))
    snapshot = open_log(env).snapshot()
    assert snapshot.version == 3
    assert paths(snapshot) == ["f2.split"]
    assert snapshot.txns["app"].version == 7
    assert snapshot.schema.names == ["id", "day"]
    assert snapshot.partition_columns == ["day"]
    assert snapshot.table_id == METADATA.id
    assert snapshot.in_commit_timestamp == START_MS + 3000
    assert snapshot.tokens.covers(0)
    assert snapshot.tokens.covers(3)


def test_a_snapshot_stays_what_it_was(env):
    create(env)
    append(env, 1)
    log = open_log(env)
    pinned = log.snapshot()
    append(env, 2)
    assert paths(pinned) == ["f1.split"]
    assert paths(log.snapshot()) == ["f1.split", "f2.split"]


def test_time_travel_gives_every_version_with_its_schema(env):
    create(env)
    append(env, 1)
    write(env, 2, msgspec.structs.replace(METADATA, schemaString=METADATA.schemaString.replace('"id"', '"key"')))
    append(env, 3)
    log = open_log(env)
    assert [paths(log.snapshot(v)) for v in range(4)] == [[], ["f1.split"], ["f1.split"], ["f1.split", "f3.split"]]
    assert log.snapshot(1).schema.names == ["id", "day"]
    assert log.snapshot(2).schema.names == ["key", "day"]


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 3, 6])
@pytest.mark.parametrize("form", ["json", "avro", "parquet"])
def test_a_checkpoint_changes_speed_and_no_result(env, form, at):
    create(env)
    append(env, 1, 2, 3)
    write(env, 4, remove("f2.split"))
    append(env, 5, 6)
    before = [open_log(env).snapshot(v).state for v in range(7)]
    checkpoint(with_options(env, state__format=form), at)
    for version, expected in enumerate(before):
        state = open_log(env).snapshot(version).state
        assert state.files.equals(expected.files)
        for name in ("protocol", "metadata", "txns", "domains", "skips", "tokens", "in_commit_timestamp"):
            assert getattr(state, name) == getattr(expected, name)


def test_files_below_the_checkpoint_are_not_opened(env):
    create(env)
    append(env, 1, 2)
    checkpoint(env)
    append(env, 3)
    delete(env, version_key(0), version_key(1), version_key(2))
    counting, store = counted(env)
    assert paths(open_log(counting).snapshot()) == ["f1.split", "f2.split", "f3.split"]
    # The slot above the newest is asked for as well, and is empty.
    opened = [key for call, key, size in store.calls if call == "get" and size and key.endswith(".json")]
    assert opened == [version_key(3)]


def test_a_checkpoint_as_the_newest_file_is_the_newest_version(env):
    create(env)
    append(env, 1)
    checkpoint(env)
    delete(env, version_key(0), version_key(1))
    assert paths(open_log(env).snapshot()) == ["f1.split"]
    append(env, 2)
    assert open_log(env).snapshot().version == 2


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"version":99999}', b'{"version":0}', b'{"version":"x"}'])
def test_the_pointer_changes_speed_and_no_result(env, content):
    create(env)
    append(env, 1, 2)
    checkpoint(env)
    append(env, 3)
    if content is None:
        delete(env, POINTER_KEY)
    else:
        env.store.put(POINTER_KEY, content)
    assert paths(open_log(env).snapshot()) == ["f1.split", "f2.split", "f3.split"]


def test_a_corrupt_checkpoint_is_passed_over_and_reported(env, caplog):
    create(env)
    append(env, 1)
    checkpoint(env)
    append(env, 2)
    newest = checkpoint(env)
    append(env, 3)
    env.store.put(newest.keys[0], b"garbage")
    with caplog.at_level(logging.WARNING, logger="indextables"):
        assert paths(open_log(env).snapshot()) == ["f1.split", "f2.split", "f3.split"]
    assert "checkpoint of version 2 cannot be read" in caplog.text


def test_all_checkpoints_corrupt_means_full_replay(env):
    create(env)
    append(env, 1)
    ref = checkpoint(env)
    append(env, 2)
    env.store.put(ref.keys[0], b"")
    assert paths(open_log(env).snapshot()) == ["f1.split", "f2.split"]


def test_a_corrupt_checkpoint_without_an_older_way_is_an_error_and_no_shorter_table(env):
    create(env)
    append(env, 1)
    ref = checkpoint(env)
    append(env, 2)
    delete(env, version_key(0))
    env.store.put(ref.keys[0], b"garbage")
    with pytest.raises(CheckpointError):
        open_log(env).snapshot().files  # noqa: B018 - files are loaded when they are asked for


def test_an_expired_version_is_named_as_such(env):
    create(env)
    append(env, 1, 2, 3)
    checkpoint(env, 2)
    delete(env, version_key(0), version_key(1))
    log = open_log(env)
    with pytest.raises(VersionExpired, match="oldest version left is 2"):
        log.snapshot(1)
    with pytest.raises(VersionExpired, match="version 0 is gone"):
        log.read_version(0)
    assert paths(log.snapshot(2)) == ["f1.split", "f2.split"]


@pytest.mark.parametrize("version", [-1, 3, 2**62])
def test_a_version_that_was_never_written_is_not_found(env, version):
    create(env)
    append(env, 1, 2)
    log = open_log(env)
    for read in (log.snapshot, log.read_version, log.metadata_at):
        with pytest.raises(VersionNotFound, match="the newest is 2"):
            read(version)


def test_an_empty_place_is_no_table(env):
    for read in (open_log(env).snapshot, open_log(env).latest_version, open_log(env).metadata_at):
        with pytest.raises(TableNotFound, match="No transaction log found"):
            read()


def test_a_log_without_metadata_says_so(env):
    write(env, 0, add("a"))
    for read in (open_log(env).snapshot, open_log(env).metadata_at):
        with pytest.raises(MetadataMissing, match="No metadata found"):
            read()


def test_reading_up_to_a_gap_is_an_option_with_a_warning(env, caplog):
    create(env)
    append(env, 1, 3)
    with pytest.raises(LogGap):
        open_log(env).snapshot()
    with caplog.at_level(logging.WARNING, logger="indextables"):
        assert open_log(with_options(env, log__stopAtGap=True)).snapshot().version == 1
    assert "version 2 is missing" in caplog.text


def test_plain_replay_gives_the_same_table(env):
    create(env)
    append(env, 1, 2)
    write(env, 3, remove("f1.split"), add("f2.split", size=5))
    fast, plain = (
        open_log(env).snapshot().state,
        open_log(with_options(env, transaction__useOptimized=False)).snapshot(),
    )
    assert plain.files.equals(fast.files)
    assert plain.tokens == fast.tokens


def test_metadata_is_found_without_loading_files(env):
    create(env)
    append(env, *range(1, 20))
    checkpoint(env, 12)
    counting, store = counted(env)
    version, protocol, metadata = open_log(counting).metadata_at()
    assert (version, metadata, protocol.minReaderVersion) == (19, METADATA, 4)
    assert not [key for _, key, _ in store.calls if "manifests/" in key]


def test_the_newest_metadata_of_a_version_is_found_backwards(env):
    create(env)
    append(env, 1)
    renamed = msgspec.structs.replace(METADATA, name="renamed")
    write(env, 2, renamed)
    append(env, 3)
    log = open_log(env)
    assert [log.metadata_at(v).metadata.name for v in range(4)] == [None, None, "renamed", "renamed"]


def test_a_refresh_of_local_files_lists_nothing(tmp_path):
    env = local_env(tmp_path / "t")
    create(env)
    append(env, *range(1, 12))
    counting, store = counted(env)
    log = open_log(counting)
    assert len(paths(log.snapshot())) == 11
    assert store.count("list") > 0
    store.calls.clear()
    assert log.latest_version() == 11
    append(env, 12, 13)
    assert paths(log.snapshot())[-1] == "f9.split"
    assert log.latest_version() == 13
    assert store.count("list") == 0


def test_probing_from_a_known_version_lists_nothing(tmp_path):
    env = local_env(tmp_path / "t")
    create(env)
    append(env, *range(1, 40))
    counting, store = counted(env)
    assert open_log(counting).latest_version(known=3) == 39
    assert store.count("list") == 0
    assert len(store.calls) < 25


def test_a_refresh_of_an_object_store_lists_from_the_known_version_on():
    env = memory_env()
    create(env)
    append(env, *range(1, 12))
    counting, store = counted(env)
    log = open_log(counting)
    log.snapshot()
    store.calls.clear()
    append(env, 12)
    assert log.latest_version() == 12
    assert [key for call, key, _ in store.calls if call == "list"] == [version_key(10)]


def test_what_was_cleaned_up_behind_a_reader_is_found_by_listing(env):
    create(env)
    append(env, 1)
    log = open_log(env)
    assert log.snapshot().version == 1
    append(env, 2, 3)
    checkpoint(env)
    append(env, 4)
    delete(env, *(version_key(v) for v in range(4)))
    assert log.latest_version() == 4
    assert paths(log.snapshot()) == [f"f{v}.split" for v in range(1, 5)]


def test_everything_cleaned_up_but_the_newest_checkpoint_is_still_the_newest_version(env):
    create(env)
    append(env, 1)
    log = open_log(env)
    log.snapshot()
    append(env, 2)
    checkpoint(env)
    delete(env, *(version_key(v) for v in range(3)))
    assert log.latest_version() == 2


def test_a_table_created_anew_at_the_same_place_shares_nothing_with_the_one_before(env):
    create(env)
    append(env, 1, 2)
    log = open_log(env)
    assert paths(log.snapshot()) == ["f1.split", "f2.split"]
    delete(env, *(version_key(v) for v in range(3)))
    other = msgspec.structs.replace(METADATA, id="table-2")
    create(env, other)
    for version in (1, 2, 3):
        write(env, version, add(f"new{version}.split"), table_id="table-2")
    assert paths(log.snapshot()) == ["new1.split", "new2.split", "new3.split"]
    assert log.snapshot().table_id == "table-2"
    assert paths(log.snapshot(1)) == ["new1.split"]


class ForgetfulStore:
    """Answers "not found" the first times a key is read, and leaves keys out of listings."""

    def __init__(self, store, *, missing=(), times=1, unlisted=()):
        self._store, self._left, self._unlisted = store, dict.fromkeys(missing, times), set(unlisted)

    def __getattr__(self, name):
        return getattr(self._store, name)

    def get(self, key, **more):
        if self._left.get(key, 0) > 0:
            self._left[key] -= 1
            raise ObjectNotFound(f"{key} is not there", key=key)
        return self._store.get(key, **more)

    def list_from(self, prefix, after=None, **more):
        return (meta for meta in self._store.list_from(prefix, after, **more) if meta.key not in self._unlisted)


def replaced(env, **how):
    return Env(ForgetfulStore(env.store, **how), env.ambient, env.options)


def test_a_listed_file_that_is_not_found_at_once_is_looked_for_again(env):
    create(env)
    append(env, 1, 2)
    log = opening.open_log(replaced(env, missing=[version_key(1)]), cache=LogCache())
    assert paths(log.snapshot()) == ["f1.split", "f2.split"]


def test_a_listed_file_that_is_never_found_is_a_typed_error(env):
    create(env)
    append(env, 1, 2)
    with pytest.raises(LogGap) as caught:
        opening.open_log(replaced(env, missing=[version_key(1)], times=99), cache=LogCache()).snapshot()
    assert caught.value.details["version"] == 1


@pytest.mark.parametrize("unlisted", [[3], [2, 3], [1], [1, 3], [0], [0, 1, 2, 3]])
def test_a_listing_that_lags_behind_does_not_shorten_the_table(env, unlisted):
    create(env)
    append(env, 1, 2, 3)
    log = opening.open_log(replaced(env, unlisted=map(version_key, unlisted)), cache=LogCache())
    assert paths(log.snapshot()) == ["f1.split", "f2.split", "f3.split"]


class DamagedOnce(ForgetfulStore):
    def get(self, key, **more):
        data = self._store.get(key, **more)
        if self._left.get(key, 0) > 0:
            self._left[key] -= 1
            return data[: len(data) // 2]
        return data


def test_a_short_answer_is_read_again(env):
    create(env)
    append(env, 1)
    once = Env(DamagedOnce(env.store, missing=[version_key(1)]), env.ambient, env.options)
    assert paths(open_log(once).snapshot()) == ["f1.split"]
    always = Env(DamagedOnce(env.store, missing=[version_key(1)], times=99), env.ambient, env.options)
    with pytest.raises(LogCorrupt):
        open_log(always).snapshot()


def test_foreign_files_in_the_log_folder_change_nothing(env):
    create(env)
    append(env, 1)
    for name in ("2.json", "00000000000000000002.json.tmp", "x/00000000000000000009.json", "state-v9/x.avro", "README"):
        env.store.put("_transaction_log/" + name, b"garbage")
    assert open_log(env).snapshot().version == 1


def test_the_newest_version_never_goes_back(env):
    create(env)
    log = open_log(env)
    seen = []
    for version in range(1, 30):
        append(env, version)
        seen.append(log.latest_version())
        if version % 7 == 0:
            checkpoint(env)
    assert seen == list(range(1, 30))


def test_paths_are_read_relative_to_the_table(env):
    create(env)
    write(env, 1, add("a b.split"), add(f"{env.store.url}/c.split"))
    write(env, 2, remove("a%20b.split"))
    assert paths(open_log(env).snapshot()) == ["c.split"]


def test_a_checkpoint_is_not_needed_where_checkpoints_are_switched_off(env):
    create(env)
    append(env, 1)
    ref = checkpoint(env)
    env.store.put(ref.keys[0], b"garbage")
    off = with_options(env, checkpoint__enabled=False)
    assert paths(open_log(off).snapshot()) == ["f1.split"]
