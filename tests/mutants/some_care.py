"""Enough schedules of care to catch a planted bug, few enough to be run for each one."""

from __future__ import annotations

import logging

from tests.sim import caring


def test_some_schedules_of_care_delete_nothing_that_is_needed(caplog):
    caplog.set_level(logging.CRITICAL, logger="indextables")
    for seed in range(60):
        caring.run(seed)
