"""What one driver does on a cluster whose executors die: writes, merges, purges, changes, each in its own folder."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.spark import change_job, faulty_jobs, merge_job, purge_job


def main(spark: SparkSession, folder: str) -> None:
    faulty_jobs.main(spark, f"{folder}/writes")
    merge_job.main(spark, f"{folder}/merges")
    purge_job.main(spark, f"{folder}/purges")
    change_job.main(spark, f"{folder}/changes")
