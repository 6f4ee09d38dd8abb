"""`make demo`, smaller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.soak
@pytest.mark.spark
def test_the_demo_runs_and_draws_what_it_shows(tmp_path):
    picture = tmp_path / "demo.svg"
    command = [sys.executable, ROOT / "examples" / "demo.py", "--rows", "20000", "--picture", picture]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same table without Spark" in done.stdout
    assert picture.read_text().startswith("<svg")
