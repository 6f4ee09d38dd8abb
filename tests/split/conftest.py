from __future__ import annotations

import tempfile

import pytest

from indextables.storage import open_store


@pytest.fixture
def store(tmp_path):
    """A local store of its own."""
    return open_store(tmp_path / "table")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder where scratch files go; a test can see that nothing stays in it."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
