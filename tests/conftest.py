"""What every test may ask for by name."""

from __future__ import annotations

from tests.servers.fixtures import (
    azurite,
    fake_gcs,
    ministack,
    s3,
    s3_of_the_run,
    spark_cluster,
    table_name,
    versitygws,
)
from tests.spark_session import spark

__all__ = [
    "azurite",
    "fake_gcs",
    "ministack",
    "s3",
    "s3_of_the_run",
    "spark",
    "spark_cluster",
    "table_name",
    "versitygws",
]
