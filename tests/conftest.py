"""What every test may ask for by name."""

from __future__ import annotations

from tests.servers.fixtures import azurite, fake_gcs, ministack, s3, s3_of_the_run, table_name, versitygws
from tests.spark_session import spark

__all__ = ["azurite", "fake_gcs", "ministack", "s3", "s3_of_the_run", "spark", "table_name", "versitygws"]
