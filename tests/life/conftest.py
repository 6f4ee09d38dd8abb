from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")  # noqa: S108 - folders below it are made by tempfile


@pytest.fixture(scope="session")
def quick_folder():
    """A folder of this run; in memory where the system has such: what survives a power loss is not asked here."""
    parent = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="it-life-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def scratch(quick_folder, monkeypatch):
    """A folder for tables, beside the library's own temporary files and caches."""
    for name in ("temporary", "cache", "tables"):
        (quick_folder / name).mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(quick_folder / "temporary"))
    monkeypatch.setenv("TMPDIR", str(quick_folder / "temporary"))
    monkeypatch.setenv("INDEXTABLES_STORAGE_FSYNC", "false")
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(quick_folder / "cache"))
    return quick_folder / "tables"
