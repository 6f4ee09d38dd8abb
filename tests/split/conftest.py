from __future__ import annotations

import tempfile

import pytest

from indextables.split.write import scratch as scratch_folders
from indextables.storage import open_store


@pytest.fixture
def store(tmp_path):
    """A local store of its own."""
    return open_store(tmp_path / "table")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder where scratch files go, also those of small splits; a test can see that nothing stays in it."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(scratch_folders, "SYSTEM", scratch_folders.Places(memory=lambda: None))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
