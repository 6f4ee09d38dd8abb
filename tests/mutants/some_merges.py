"""Enough schedules of merges to catch a planted bug, few enough to be run for each one."""

from __future__ import annotations

import logging

from tests.sim import merging


def test_some_schedules_of_merges_keep_every_row(caplog):
    caplog.set_level(logging.CRITICAL, logger="indextables")
    for seed in range(60):
        merging.run(seed)
