"""Enough schedules of threads that share commits to catch a planted bug, few enough to be run for each one."""

from __future__ import annotations

import logging

from tests.sim import sharing


def test_some_schedules_of_shared_commits_tell_the_truth(caplog):
    caplog.set_level(logging.CRITICAL, logger="indextables")
    for seed in range(100):
        sharing.run(seed)
