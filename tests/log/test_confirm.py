"""A reader between its listing and its reads, and a sleeper that fills the slot which cleanup has emptied."""

from __future__ import annotations

import time

import msgspec
import pytest
from tests.log.commits import METADATA, add
from tests.log.test_commit import Place, checkpoint, place
from tests.world.clock import Clock
from tests.world.commits import append

from indextables.env import Env
from indextables.errors import LogError, VersionExpired
from indextables.log.care.cleanup import clean_up
from indextables.log.commit.create import create_table
from indextables.log.wire.actions import CommitInfo
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import crc_key, version_key

__all__ = ["place"]


RETENTION = {
    "logRetention__duration": 0,
    "checkpointRetention__duration": 0,
    "state__retention__versions": 1,
    "state__retention__hours": 0,
}


def cut(place: Place) -> int:
    """A checkpoint of the newest version, and the library's own cleanup a moment later, which keeps nothing older.

    Two checkpoints, because one always stays beside the newest: it is cut at that one, whose version is returned.
    """
    for _ in range(2):
        append(place.process(), [add(f"more-{place.process().snapshot().version}")])
        checkpoint(place)
    env = place.process(**RETENTION).env
    report = clean_up(Env(env.store, Clock(time.time_ns() // 1_000_000 + 1000), env.options))
    assert report.cut is not None, report.reason
    assert not report.failed
    return report.cut


def refill(place: Place, version: int) -> None:
    info = CommitInfo(inCommitTimestamp=9, operation="SLEEPER", token="f" * 32, tableId=METADATA.id)
    place.process().env.store.put_if_absent(version_key(version), encode_version([info, add("z")], compress=True))


@pytest.mark.parametrize("warm", [False, True], ids=["from the start", "from memory"])
def test_a_refilled_slot_is_not_read_as_a_version(place, warm):
    create_table(place.process(), METADATA)
    append(place.process(), [add("a")])
    reader = place.process()
    if warm:
        assert reader.snapshot().files.num_rows == 1
    append(place.process(), [add("b")])
    append(place.process(), [add("c")])

    def overtaken(call):
        assert cut(place) >= 3
        refill(place, 2)
        return call()

    reader.env.store.play("get", version_key(2), overtaken)
    snapshot = reader.snapshot()
    assert snapshot.version == 5
    assert sorted(snapshot.files["path"].to_pylist()) == ["a", "b", "c", "more-3", "more-4"]


def test_metadata_is_not_read_from_a_refilled_slot(place):
    create_table(place.process(), METADATA)
    append(place.process(), [add("a")])
    reader = place.process()

    def overtaken(call):
        assert cut(place) >= 1
        refill(place, 1)
        return call()

    reader.env.store.play("get", version_key(1), overtaken)
    version, _, metadata = reader.metadata_at()
    assert (version, metadata.id) == (3, METADATA.id)


def test_a_version_that_expired_while_it_was_read_is_said_to_be_gone(place):
    create_table(place.process(), METADATA)
    for name in "abc":
        append(place.process(), [add(name)])
    reader = place.process()

    def overtaken(call):
        assert cut(place) >= 1
        refill(place, 1)
        return call()

    reader.env.store.play("get", version_key(1), overtaken)
    with pytest.raises(LogError):
        _ = reader.snapshot(1).files


def test_a_version_that_no_list_of_tokens_reaches_has_expired(place):
    create_table(place.process(), METADATA)
    for name in "abc":
        append(place.process(), [add(name)])
    older_files(place, 4)
    checkpoint(place, commit__tokenWindow=1)
    with pytest.raises(VersionExpired):
        place.process().read_version(2)
    assert place.process().read_version(3).token is not None
    assert place.paths() == ["a", "b", "c"]


def test_a_version_that_newer_ones_vouch_for_needs_no_list_that_reaches_it(place):
    create_table(place.process(), METADATA)
    for name in "abc":
        append(place.process(), [add(name)])
    checkpoint(place, commit__tokenWindow=1)
    contents = place.process().read_versions(range(4))
    assert [content.version for content in contents] == [0, 1, 2, 3]


def test_a_log_of_older_writers_is_read_beside_a_checkpoint_that_is_damaged(place):
    create_table(place.process(), METADATA)
    for name in "abc":
        append(place.process(), [add(name)])
    older_files(place, 4)
    checkpoint(place)
    store = place.process().env.store
    key = place.process().states()[0].keys[0]
    store.put(key, b"not a checkpoint")
    assert place.paths() == ["a", "b", "c"]


def older_files(place: Place, count: int) -> None:
    """The first versions as writers wrote them that knew no links."""
    store = place.process().env.store
    for content in place.process().read_versions(range(count)):
        info = msgspec.structs.replace(content.commit_info, version=None, previous=None)
        more = [action for action in (content.protocol, content.metadata) if action is not None]
        store.put(version_key(content.version), encode_version([info, *more], adds=content.adds, compress=True))
        store.delete_many([crc_key(content.version)])
