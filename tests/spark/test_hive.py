"""A catalog of Hive: what holds for the one in memory holds there too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark_session import CATALOG, MODE

ROOT = Path(__file__).parent.parent.parent

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1800)]


def test_tables_of_a_hive_catalog_behave_as_those_of_the_one_in_memory(tmp_path):
    environment = {**os.environ, CATALOG: "hive", MODE: "classic"}
    modules = ["tests/spark/test_catalog.py", "tests/spark/test_named.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "spark", f"--basetemp={tmp_path / 'run'}", *modules],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_name_outlives_the_process_that_gave_it(tmp_path):
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    for what in ("make", "use"):
        command = [sys.executable, "-m", "tests.spark.hive_job", str(tmp_path), what]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "warehouse" / "logs").exists()
