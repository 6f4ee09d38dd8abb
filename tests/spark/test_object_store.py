"""A real S3 gateway: Spark writes to it and reads from it by S3A, and the Python reader sees the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.servers.versitygw import BUCKET
from tests.spark.vectors import delete_rows

import indextables

pytestmark = [pytest.mark.spark, pytest.mark.soak]


def test_native_reads_by_s3a_and_the_python_reader_give_the_same_rows(versitygws, table_name):
    url, options = f"s3://{BUCKET}/{table_name} [odd] 50%", versitygws[0]
    rows = pa.table(
        {
            "id": list(range(50)),
            "message": [f"line {i}" for i in range(50)],
            "part": pa.array([i % 3 for i in range(50)], pa.int32()),
        }
    )
    table = indextables.create(url, rows.schema, partition_by=["part"], indexing={"message": "text"}, options=options)
    table.append(rows)
    delete_rows(url, lambda number, _: [1] if number == 0 else [], options)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.s3a_job"],
        input=json.dumps({"url": url, "options": options}).encode(),
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    seen = json.loads(done.stdout.splitlines()[-1])
    whole = sorted(map(list, zip(*table.refresh().to_arrow().to_pydict().values(), strict=True)))
    assert len(whole) == 79
    assert seen["native"] == seen["python"] == whole
    assert seen["files"]
    assert all(name.startswith("s3a://") for name in seen["files"])
    assert seen["where"] == [row for row in whole if row[2] == 1 and row[0] > 100]
    assert seen["search"] == [100 + i for i in range(30)]
    assert seen["count"] == 79
