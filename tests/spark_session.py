"""One Spark session for all tests that ask for it: classic, or Connect where `TEST_SPARK_MODE=connect`.

A process runs one of the two. A test that is marked `connect` beside `spark` is run in both (`tests.parts` starts a
second process for it), so it uses the fixture `spark` and neither `sparkContext` nor anything private of the JVM.
`TEST_SPARK_CATALOG=hive` gives a classic session the catalog of Hive, over Derby, in the place of the one in memory.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import pytest

from tests.servers.process import free_port

MODE = "TEST_SPARK_MODE"
CATALOG = "TEST_SPARK_CATALOG"

JVM_FLAGS = "-XX:TieredStopAtLevel=1"
"""Tests run each query once or twice: making the best machine code of it takes half of the time, and never pays."""


def is_connect() -> bool:
    """True if the session of this process is one of Spark Connect."""
    return os.environ.get(MODE, "classic") == "connect"


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One local session for all tests; workers run this interpreter."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Tasks import what tests send them by name.
    root = str(Path(__file__).parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = _connect_builder() if is_connect() else SparkSession.builder.master("local[2]")
        flags = [JVM_FLAGS]
        if os.environ.get(CATALOG) == "hive":
            folder = tmp_path_factory.mktemp("metastore")
            builder = _hive_builder(builder, folder)
            flags.append(f"-Dderby.system.home={folder}")
        session = (
            builder.appName("indextables-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .config("spark.driver.extraJavaOptions", " ".join(flags))
            .getOrCreate()
        )
        if os.environ.get(CATALOG) == "hive":
            assert session.conf.get("spark.sql.catalogImplementation") == "hive"
        if not is_connect():
            session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def _connect_builder():
    """A server of this process on a port of its own, so that several processes can have one each."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    port = free_port()
    # The client of a local server takes 15002, whatever port the server was told.
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    return SparkSession.builder.remote("local[2]").config("spark.connect.grpc.binding.port", str(port))


def _hive_builder(builder, folder):
    url = f"jdbc:derby:;databaseName={folder}/db;create=true"
    return builder.enableHiveSupport().config("spark.hadoop.javax.jdo.option.ConnectionURL", url)
