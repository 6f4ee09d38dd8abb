"""Merge on write: due after enough small splits, in the background, alone, and never in a write's way."""

from __future__ import annotations

import logging
import os
import sys
import threading

import pytest
from tests.table.merge_world import SCHEMA, damage, ids, log_of, row

import indextables
from indextables.ambient import SystemAmbient
from indextables.log.care.leasing import acquire
from indextables.log.care.opening import open_log
from indextables.table.environment import open_env
from indextables.table.upkeep import LEASE, Allowance, merge_if_due

NOW = {"mergeOnWrite.enabled": "true", "mergeOnWrite.async.enabled": "false", "mergeOnWrite.minSplits": "4"}
PLENTY = Allowance(seconds=60, crowded=4)


@pytest.fixture
def make(tmp_path):
    def made(properties=None, **more):
        return indextables.create(tmp_path / "t", SCHEMA, properties=properties or NOW, **more)

    return made


def test_nothing_is_merged_where_the_table_turns_it_off(make):
    table = make({**NOW, "mergeOnWrite.enabled": "false"})
    for n in range(5):
        table.append([row(n)])
    assert table.files().num_rows == 5


def test_small_splits_are_merged_when_they_are_too_many(make):
    table = make()
    for n in range(4):
        table.append([row(n)])
    table.refresh()
    assert (table.files().num_rows, ids(table.to_arrow())) == (1, [0, 1, 2, 3])
    (last, *_) = table.history().to_pylist()
    assert last["operation"] == "MERGE SPLITS"
    assert dict(last["operationParameters"])["auto"] == "mergeOnWrite"
    table.append([row(4)])
    assert table.refresh().files().num_rows == 2
    table.overwrite([row(9)])
    assert ids(table.to_arrow()) == [9]


def test_large_splits_do_not_count(make):
    table = make({**NOW, "mergeOnWrite.smallSize": "1"})
    for n in range(6):
        table.append([row(n)])
    assert table.refresh().files().num_rows == 6


def test_the_write_returns_before_the_merge_that_it_made_due(make):
    ambient = SystemAmbient()
    table = make({**NOW, "mergeOnWrite.async.enabled": "true"}, ambient=ambient)
    # One that finds nothing due may still be looking when the next write ends, which then leaves it to a later one.
    for n in range(3):
        table.append([row(n)])
        ambient.shutdown()
    assert table.append([row(3)]) == 4
    ambient.shutdown()
    assert table.refresh().files().num_rows == 1
    assert ids(table.to_arrow()) == [0, 1, 2, 3]


class _LateAmbient(SystemAmbient):
    """Begins nothing in the background before it is allowed to."""

    def __init__(self):
        super().__init__()
        self.allowed = threading.Event()

    def submit(self, pool, call):
        return super().submit(pool, lambda: (self.allowed.wait(), call())[1])


def test_a_handle_that_is_closed_waits_for_the_merge_that_its_writes_began(make):
    ambient = _LateAmbient()
    table = make({**NOW, "mergeOnWrite.async.enabled": "true"}, ambient=ambient)
    for n in range(4):
        table.append([row(n)])
    closing = threading.Thread(target=indextables.open(table.url).close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive(), "a merge has still to come"
    ambient.allowed.set()
    closing.join()
    assert table.refresh().files().num_rows == 1
    table.close()


def test_one_process_at_a_time_merges_unasked(make):
    table = make()
    env = open_env(table.url)
    lease = acquire(env, LEASE)
    for n in range(6):
        table.append([row(n)])
    assert table.refresh().files().num_rows == 6
    assert merge_if_due(open_log(env), PLENTY) == []
    lease.release()
    assert len(merge_if_due(open_log(env), PLENTY)) == 1
    assert table.refresh().files().num_rows == 1


def test_a_merge_that_fails_is_no_matter_of_the_write(make, caplog):
    table = make({**NOW, "mergeOnWrite.minSplits": "2"})
    table.append([row(0)])
    # The lease cannot be taken where a file has the name of its folder.
    store = log_of(table).env.store
    store.put("_transaction_log/_intents", b"")
    with caplog.at_level(logging.WARNING, "indextables"):
        assert table.append([row(1)]) == 2
    assert any("were not merged after a write" in record.message for record in caplog.records)
    store.delete_many(["_transaction_log/_intents"])
    table.append([row(2)])
    assert table.refresh().files().num_rows == 1


@pytest.mark.parametrize("lacking", [RuntimeError("can't start new thread"), OSError(28, "full"), MemoryError()])
def test_a_machine_that_has_too_little_for_a_merge_has_written_all_the_same(make, caplog, lacking):
    class Poor(SystemAmbient):
        def map(self, pool, function, items):
            if pool == "overdue":
                raise lacking
            return super().map(pool, function, items)

    table = make({**NOW, "mergeOnWrite.minSplits": "2"}, ambient=Poor())
    with caplog.at_level(logging.WARNING, "indextables"):
        assert [table.append([row(n)]) for n in range(2)] == [1, 2]
    assert any("were not merged after a write" in record.message for record in caplog.records)
    assert ids(table.to_arrow()) == [0, 1]


def test_a_write_whose_merge_was_interrupted_does_not_keep_later_ones_from_merging(make):
    class Impatient(SystemAmbient):
        interrupts = 1

        def map(self, pool, function, items):
            if pool == "overdue" and self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            return super().map(pool, function, items)

    table = make({**NOW, "mergeOnWrite.minSplits": "2"}, ambient=Impatient())
    table.append([row(0)])
    with pytest.raises(KeyboardInterrupt):
        table.append([row(1)])
    table.append([row(2)])
    table.refresh()
    assert (table.files().num_rows, ids(table.to_arrow())) == (1, [0, 1, 2])


def test_broken_splits_are_skipped_by_the_background_too(make):
    table = make()
    for n in range(3):
        table.append([row(n)])
    bad = table.files()["path"].to_pylist()[0]
    damage(table, bad)
    table.append([row(3)])
    assert table.skips()["path"].to_pylist() == [bad]
    assert table.refresh().files().num_rows == 2


@pytest.mark.skipif(sys.platform != "linux", reason="a priority per thread is Linux's")
def test_maintenance_stands_back_behind_everything_else():
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    ambient = SystemAmbient()
    before = priority()
    found = list(ambient.map("maintenance", lambda _: priority(), [0]))
    assert found == [min(19, max(before, 10))]
    assert ambient.submit("upkeep", priority).result() == max(before, 4)
    assert list(ambient.map("splits", lambda _: priority(), [0, 1])) == [before, before]
    assert ambient.submit("overdue", priority).result() == before
    assert priority() == before
    ambient.shutdown()
