from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch, tmp_path_factory):
    """What survives a power loss is tested with the store; here it only costs time. Indexes are cached per run."""
    monkeypatch.setenv("INDEXTABLES_STORAGE_FSYNC", "false")
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path_factory.getbasetemp() / "cache"))
