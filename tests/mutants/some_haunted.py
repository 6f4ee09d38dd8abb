"""Enough schedules of `tests/sim/haunted.py` to catch a planted bug, few enough to be run for each one."""

from __future__ import annotations

import logging

from tests.sim import haunted


def test_some_schedules_keep_the_invariants(caplog):
    caplog.set_level(logging.CRITICAL, logger="indextables")
    for seed in range(120):
        haunted.run(seed)
