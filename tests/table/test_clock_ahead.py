"""One commit that was made while its writer's clock was far ahead: what it holds up of what care does, and what not."""

from __future__ import annotations

import pytest
from tests.table.operate_world import new_table, rows
from tests.world.store import counted

from indextables.embedded.table import Table
from indextables.log.care.opening import open_log
from indextables.log.checkpoint.find import find_states
from indextables.log.read.cache import LogCache
from indextables.log.wire.names import LOG_DIR, parse_key

HOUR = {
    "logRetention.duration": "3600000",
    "state.retention.hours": "1",
    "checkpoint.interval": "5",
    "mergeOnWrite.enabled": "false",
}


def slots(table) -> list[int]:
    found = [parse_key(meta.key) for meta in table._log.env.store.list_from(LOG_DIR)]
    return [file.version for file in found if file is not None and file.kind == "version"]


def checkpoints(table) -> int:
    return len(find_states(table._log.env.store.list_from(LOG_DIR)))


def appended(table, clock, count: int, *, hours: float) -> None:
    for number in range(count):
        clock.advance(hours=hours)
        table.append(rows(number))


@pytest.mark.parametrize("days", [2, 365])
def test_the_log_is_cut_while_a_commit_tells_a_time_that_is_still_to_come(days):
    table, clock = new_table(**HOUR)
    appended(table, clock, 6, hours=0)
    clock.advance(days=days)
    table.append(rows(100))
    clock.advance(days=-days)
    appended(table, clock, 20, hours=2)
    assert min(slots(table)) > 7
    assert checkpoints(table) <= 3
    assert table.to_arrow().num_rows == 27
    report = table.purge(older_than_hours=24)
    assert report.cut is not None


def test_a_log_of_which_nothing_may_be_cut_since_a_clock_was_ahead_is_not_looked_through_for_each_checkpoint():
    table, clock = new_table(**HOUR | {"logRetention.duration": "36000000"})
    clock.advance(days=2)
    table.append(rows(100))
    clock.advance(days=-2)
    appended(table, clock, 18, hours=0)
    clock.advance(days=2, hours=1)
    # What was to come has come, and retention counts from there: only now is anything kept that need not be.
    env, store = counted(table._log.env)
    log = open_log(env, cache=LogCache())
    again = Table(log, log.snapshot())
    counts = []
    for _ in range(3):
        store.calls.clear()
        appended(again, clock, 5, hours=0)
        counts.append((store.count("list"), len(store.reads)))
    assert counts[1] == counts[2]
    report = again.purge(older_than_hours=24, tx_log_retention_hours=24)
    assert report.cut is None
    assert report.reason.startswith("by its file version 1 is of 2027-01-17T08:00:00Z, although")
    assert report.reason.endswith("it is kept until 2027-01-18T08:00:00Z")
    clock.advance(days=1)
    assert again.purge(older_than_hours=24, tx_log_retention_hours=24).cut is not None
