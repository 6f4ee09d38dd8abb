"""Volume: searches in SQL over a million splits are planned in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COUNT = int(os.environ.get("INDEXTABLES_PLANNED_FILES", "1000000"))

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(0)]

_PLAN = """
import resource, sys, time
import indextables
from pyspark.sql import SparkSession
path, count = sys.argv[1], int(sys.argv[2])
builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
indextables.enable(spark)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
began = time.perf_counter()
frames = [
    spark.sql(f"SELECT id FROM indextables.`{path}` WHERE TEXTSEARCH(note, 'word')"),
    spark.sql(f"SELECT id, TEXTSEARCH(note, 'word') AS found FROM indextables.`{path}`"),
]
assert [len(frame.schema) for frame in frames] == [1, 2]
seconds = time.perf_counter() - began
tasks = [frame.rdd.getNumPartitions() for frame in frames]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print("PLANNED", *tasks, round(seconds, 1), before, peak)
"""


def test_a_search_over_a_million_splits_is_planned_in_bounded_memory(tmp_path):
    script = f"from tests.state.test_soak import generate; generate({str(tmp_path / 't')!r}, {COUNT})"
    subprocess.run([sys.executable, "-c", script], check=True)
    command = [sys.executable, "-c", _PLAN, str(tmp_path / "t"), str(COUNT)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    line = next(line for line in told.splitlines() if line.startswith("PLANNED"))
    print(line)
    required, marked, _, _, peak = line.split()[1:]
    assert int(required) == int(marked) > COUNT // 1000
    assert int(peak) < 1024
