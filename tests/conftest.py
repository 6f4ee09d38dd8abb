"""What every test may ask for by name."""

from __future__ import annotations

from tests.servers.fixtures import _s3_process, azurite, fake_gcs, ministack, s3, table_name, versitygws

__all__ = ["_s3_process", "azurite", "fake_gcs", "ministack", "s3", "table_name", "versitygws"]
