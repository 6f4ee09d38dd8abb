"""A job on a cluster with speculation: one task is slow, a second copy of it is started, both write all their files."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.spark.faulty_jobs import FaultySource, rows, write

CONF = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "10ms",
}


def main(spark: SparkSession, folder: str) -> None:
    spark.dataSource.register(FaultySource)
    write(rows(spark), folder, "slow")
