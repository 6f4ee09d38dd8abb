"""The servers as fixtures: one of each kind of process per run, started by the first test that asks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.servers import azurite as azurite_server
from tests.servers import fakegcs as fakegcs_server
from tests.servers import ministack as ministack_server
from tests.servers import spark_cluster as cluster_server
from tests.servers import versitygw as versitygw_server
from tests.servers.s3 import S3Server


@pytest.fixture(scope="session")
def s3_of_the_run() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def s3() -> Iterator[S3Server]:
    """Our own S3 server, for one test: a request that a client of another test gave up on may come late."""
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def ministack() -> Iterator[dict[str, str]]:
    """The options that reach ministack."""
    with ministack_server.ministack() as settings:
        yield settings


@pytest.fixture(scope="session")
def azurite() -> Iterator[dict[str, str]]:
    """The options that reach azurite."""
    with azurite_server.azurite() as settings:
        yield settings


@pytest.fixture(scope="session")
def versitygws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """The options that reach two gateways to one folder."""
    folder = tmp_path_factory.mktemp("versitygw")
    with versitygw_server.gateway(folder) as (first, _), versitygw_server.gateway(folder) as (second, _):
        yield first, second


@pytest.fixture(scope="session")
def fake_gcs() -> Iterator[dict[str, str]]:
    """The options that reach fake-gcs-server."""
    with fakegcs_server.fake_gcs() as settings:
        yield settings


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[cluster_server.Cluster]:
    """A Spark standalone cluster of two workers."""
    with cluster_server.cluster() as started:
        yield started


@pytest.fixture
def table_name() -> str:
    """A name that no other test uses, so that tests share servers but no objects."""
    return f"table-{uuid.uuid4().hex}"
