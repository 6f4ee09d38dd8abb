"""delta-spark as a peer: a process of its own, with its own Spark, that runs statements which come as lines of JSON.

`Delta` starts it; the other half of this file is what it runs, which needs neither this library nor Arrow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PYSPARK, DELTA = "4.2.0", "4.4.0"
PACKAGE = f"io.delta:delta-spark_2.13:{DELTA}"


def python_with_delta(folder: Path) -> Path:
    """A Python with pyspark 4.2 and delta-spark 4.4, made in `folder` if it is not there. Java is the machine's."""
    python = folder / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    if not (folder / "complete").exists():
        subprocess.run([*uv, "venv", "--quiet", "--clear", folder], check=True)
        wanted = [f"pyspark=={PYSPARK}", f"delta-spark=={DELTA}"]
        subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, *wanted], check=True)
        (folder / "complete").touch()
    return python


def plain_environment() -> dict[str, str]:
    """What a process of that Python may know of ours."""
    return {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}


class Delta:
    """A session of delta-spark, `local[2]`."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [python_with_delta(Path(".venv") / "delta-spark").absolute(), Path(__file__).absolute()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "delta.log").open("w"),
            text=True,
            env=plain_environment(),
        )

    def sql(self, text: str) -> list[list[Any]]:
        """The rows of the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer "):
                return list(json.loads(line.removeprefix("answer ")))
        raise RuntimeError(f"delta-spark ended at: {text}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _serve() -> None:
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars.packages": PACKAGE,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        # As few as there are cores: the defaults are for clusters and make Delta slower here.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        rows = [list(row) for row in spark.sql(json.loads(line)).collect()]
        print("answer", json.dumps(rows, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    _serve()
