"""A reader between its listing and its reads, and a sleeper that fills the slot which cleanup has emptied."""

from __future__ import annotations

import pytest
from tests.log.commits import METADATA, add
from tests.log.test_commit import Place, checkpoint, clean, place

from indextables.errors import LogError
from indextables.log.actions import CommitInfo
from indextables.log.codec import encode_version
from indextables.log.create import create_table
from indextables.log.names import version_key
from indextables.log.write import append

__all__ = ["place"]


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
        upto = checkpoint(place)
        clean(place, upto)
        refill(place, 2)
        return call()

    reader.env.store.play("get", version_key(2), overtaken)
    snapshot = reader.snapshot()
    assert snapshot.version == 3
    assert sorted(snapshot.files["path"].to_pylist()) == ["a", "b", "c"]


def test_metadata_is_not_read_from_a_refilled_slot(place):
    create_table(place.process(), METADATA)
    append(place.process(), [add("a")])
    reader = place.process()

    def overtaken(call):
        clean(place, checkpoint(place))
        refill(place, 1)
        return call()

    reader.env.store.play("get", version_key(1), overtaken)
    version, _, metadata = reader.metadata_at()
    assert (version, metadata.id) == (1, METADATA.id)


def test_a_version_that_expired_while_it_was_read_is_said_to_be_gone(place):
    create_table(place.process(), METADATA)
    for name in "abc":
        append(place.process(), [add(name)])
    reader = place.process()

    def overtaken(call):
        clean(place, checkpoint(place))
        refill(place, 1)
        return call()

    reader.env.store.play("get", version_key(1), overtaken)
    with pytest.raises(LogError):
        _ = reader.snapshot(1).files
