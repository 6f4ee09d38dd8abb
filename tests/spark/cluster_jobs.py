"""What one driver does on a cluster whose executors die: writes, merges and purges, each in a folder of its own."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.spark import faulty_jobs, merge_job, purge_job


def main(spark: SparkSession, folder: str) -> None:
    faulty_jobs.main(spark, f"{folder}/writes")
    merge_job.main(spark, f"{folder}/merges")
    purge_job.main(spark, f"{folder}/purges")
