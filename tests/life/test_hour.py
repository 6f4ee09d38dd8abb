"""An hour in which everything happens to one table at once: nothing is lost, and nothing grows."""

from __future__ import annotations

import os

import pytest

from tests.life import hour
from tests.servers.s3 import S3Server

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0), pytest.mark.usefixtures("with_upkeep")]

SECONDS = float(os.environ.get("INDEXTABLES_HOUR_SECONDS", "3600"))


def test_an_hour_on_local_files(tmp_path):
    print("\n".join(hour.live(str(tmp_path / "table"), SECONDS, tmp_path / "told", {})))


def test_an_hour_on_an_s3_server(tmp_path):
    with S3Server() as server:
        told = hour.live(server.table_url("hour"), SECONDS, tmp_path / "told", server.settings())
    print("\n".join(told))
