"""What a process remembers of the newest version helps its next commit and never stands in its way."""

from __future__ import annotations

import msgspec
import pytest
from tests.log.commits import METADATA, add
from tests.log.test_commit import Place, place
from tests.world.commits import append, change_metadata

from indextables.errors import CommitConflict
from indextables.log.commit.create import create_table
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Protocol

__all__ = ["place"]


def other_properties(place: Place) -> None:
    other = place.process()
    change_metadata(other, msgspec.structs.replace(other.snapshot().metadata, configuration={"k": "v"}))


def another_protocol(place: Place) -> None:
    raised = Protocol(4, 4, ["parquetSplit", "typeWidening"], ["parquetSplit", "typeWidening"])
    Transaction(place.process(), operation="UPGRADE").set_protocol(raised).commit_or_raise()


CHANGES = pytest.mark.parametrize("change", [other_properties, another_protocol])
CACHED = pytest.mark.parametrize("cached", [True, False], ids=["cached", "without cache"])


@CHANGES
@CACHED
def test_a_process_that_met_a_conflict_moves_on(place, change, cached):
    create_table(place.process(), METADATA)
    log = place.process(transaction__cache__enabled=cached)
    append(log, [add("a")])
    change(place)
    with pytest.raises(CommitConflict):
        append(log, [add("b")])
    assert append(log, [add("c")]).version == 3
    assert place.paths() == ["a", "c"]


@CHANGES
@CACHED
def test_a_change_that_a_process_has_read_is_no_conflict_for_what_it_writes_afterwards(place, change, cached):
    create_table(place.process(), METADATA)
    log = place.process(transaction__cache__enabled=cached)
    append(log, [add("a")])
    change(place)
    log.snapshot()
    assert append(log, [add("b")]).version == 3
    assert place.paths() == ["a", "b"]


def test_a_process_remembers_the_batches_that_it_committed_itself(place):
    create_table(place.process(), METADATA)
    log = place.process()
    append(log, [add("a")], txn=("job", 7))
    append(log, [add("b")])
    for batch in (7, 6):
        again = append(log, [add("again")], txn=("job", batch))
        assert again.repeated
    assert not append(log, [add("c")], txn=("job", 8)).repeated
    assert append(log, [add("again")], txn=("job", 8)).repeated
    assert place.paths() == ["a", "b", "c"]


def test_a_process_remembers_the_batches_of_those_that_it_lost_against(place):
    create_table(place.process(), METADATA)
    log = place.process()
    append(log, [add("a")], txn=("mine", 1))
    append(place.process(), [add("b")], txn=("theirs", 5))
    assert append(log, [add("c")], txn=("mine", 2)).attempts == 2
    assert append(log, [add("again")], txn=("theirs", 5)).repeated
    assert place.paths() == ["a", "b", "c"]
