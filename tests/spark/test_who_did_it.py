"""Commits of Spark say who made them, whatever door they came by."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables
from indextables.spark.tasks.runner import session_options
from indextables.table.environment import process_user

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]


def test_every_door_of_spark_says_who(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = spark.range(3)
    indextables.write(rows, path)
    rows.write.format("indextables").mode("append").save(path)
    table = indextables.IndexTable.forPath(spark, path)
    table.mergeSplits()
    query = (
        spark.readStream.format("indextables")
        .option("startingVersion", "0")
        .load(path)
        .writeStream.format("indextables")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "u"))
    )
    query.awaitTermination()
    # A client of Connect that gives no name leaves it to the account of its process.
    of_session = session_options(spark).get("spark.indextables.commit.user", process_user())
    for place in (path, str(tmp_path / "u")):
        told = indextables.open(place).history()["user"].to_pylist()
        assert set(told) <= {of_session, process_user()}
        assert len(told) > 1
    assert indextables.open(path).history()["user"].to_pylist()[0] == of_session


def test_a_session_may_say_for_whom_it_works(spark, tmp_path):
    indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    spark.conf.set("spark.indextables.commit.user", "alice")
    try:
        indextables.write(spark.range(2), str(tmp_path / "t"), mode="append")
        assert indextables.open(tmp_path / "t").history()["user"].to_pylist()[0] == "alice"
    finally:
        spark.conf.unset("spark.indextables.commit.user")
