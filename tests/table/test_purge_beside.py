"""A purge beside writers that clean up, too: it ends, and every version that is left can be read."""

from __future__ import annotations

import re

from tests.table.operate_world import contents, grown, keys, new_table, orphan

from indextables.log.care.opening import open_log
from indextables.table.maintenance.purge.reachable import read_versions
from indextables.table.maintenance.purge.verb import purge
from indextables.table.requests import Purge
from indextables.table.running import Threads

_HALF_A_MINUTE = 1 / 2880


class Busy(Threads):
    """Writers commit and clean up whenever versions are read; `cuts` are where their cleanups cut the log."""

    def __init__(self, table, write):
        super().__init__(table._log.env)
        self._table, self._write, self.cuts = table, write, []

    def run(self, job, units):
        if job is read_versions:
            self._write()
            self.cuts.append(self._table.clean_up().cut)
        return super().run(job, units)


def test_writers_that_clean_up_all_the_while_do_not_keep_a_purge_from_its_end():
    retention = {"logRetention.duration": "90000", "state.retention.hours": "0"}
    table, clock = new_table(**retention, **{"checkpointRetention.duration": "0"})
    grown(table, clock, 12, days=_HALF_A_MINUTE, every=1)
    lost, env = orphan(table, 1), table._log.env
    clock.advance(hours=2)
    busy = Busy(table, lambda: grown(table, clock, 6, days=_HALF_A_MINUTE, every=1))
    report = purge(open_log(env), Purge(older_than_hours=0.05, force=True), runner=busy)
    assert [cut is None for cut in busy.cuts] == [False, True]
    assert report.deleted
    assert lost not in keys(table)
    newest = table.refresh().version
    assert contents(table, range(newest - 2, newest + 1))
    # Nothing is kept for longer than the plan took.
    assert not [key for key in keys(table) if re.search(r"_intents/(?!lease)", key)]
    assert table.clean_up().cut is not None
