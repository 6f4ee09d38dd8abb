"""What holds for every simulation."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Faults are logged by the thousand here."""
    caplog.set_level(logging.CRITICAL, logger="indextables")
