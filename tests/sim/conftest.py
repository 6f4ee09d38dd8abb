"""What holds for every simulation."""

from __future__ import annotations

import logging

import pytest

from tests.sim.recall import share_decoding


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Faults are logged by the thousand here."""
    caplog.set_level(logging.CRITICAL, logger="indextables")


@pytest.fixture(scope="package", autouse=True)
def _decoded_once():
    with pytest.MonkeyPatch.context() as patch:
        share_decoding(patch)
        yield
