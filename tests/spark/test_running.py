"""Units of work as tasks: answers in order, typed errors as they were, options and session on the other side."""

from __future__ import annotations

import pytest
from tests.spark import jobs

from indextables.errors import IndexTablesError, InvalidArgument, LogGap, SplitCorrupt, TableNotFound
from indextables.spark.session import registry
from indextables.spark.tasks.handle import SparkHandle
from indextables.spark.tasks.runner import (
    SparkRunner,
    default_parallelism,
    dump_error,
    load_error,
    session_options,
)
from indextables.table.running import Threads

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]


def test_answers_come_in_the_order_of_the_units_and_errors_in_their_place(spark, tmp_path):
    runner = SparkHandle(spark, tmp_path / "t").runner()
    answers = runner.run(jobs.shout, [b"a", b"bad", b"", b"gap", b"e"])
    assert [answers[0], answers[2], answers[4]] == [b"A", b"", b"E"]
    bad, gap = answers[1], answers[3]
    assert type(bad) is SplitCorrupt
    assert (str(bad), bad.path, bad.rows) == ("x.split is damaged", "x.split", 7)
    assert type(gap) is LogGap
    assert gap.version == 3


def test_no_units_are_no_job(spark, tmp_path):
    assert SparkHandle(spark, tmp_path / "t").runner().run(jobs.shout, []) == []


def test_options_and_the_zone_of_the_session_reach_the_tasks(spark, tmp_path):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.indextables.indexing.typemap.a", "text")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        handle = SparkHandle(spark, tmp_path / "t")
        here = f"{handle.url} text Asia/Tokyo".encode()
        assert handle.runner().run(jobs.told, [b""]) == [here]
        other = SparkHandle(spark, tmp_path / "t", {"indexing.typemap.a": "raw", "timeZone": "UTC"})
        assert other.runner().run(jobs.told, [b""]) == [f"{handle.url} raw UTC".encode()]
        assert jobs.told(other.log().env, b"").decode().endswith("raw UTC")
    finally:
        spark.conf.unset("spark.indextables.indexing.typemap.a")
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_what_is_no_typed_error_is_raised(spark, tmp_path):
    with pytest.raises(Exception, match="KeyError"):
        SparkHandle(spark, tmp_path / "t").runner().run(jobs.bug, [b"a"])


def test_a_closure_is_refused(spark, tmp_path):
    runner = SparkRunner(spark, str(tmp_path))
    with pytest.raises(InvalidArgument, match="function of a module"):
        runner.run(lambda env, unit: unit, [b"a"])


def test_the_width_is_that_of_the_cluster(spark, tmp_path):
    assert SparkHandle(spark, tmp_path / "t").runner().width == 2
    assert default_parallelism(spark) == 2


def test_a_table_in_memory_is_worked_on_by_threads(spark):
    assert isinstance(SparkHandle(spark, "memory://here/t").runner(), Threads)


def test_every_error_survives_the_way():
    error = SplitCorrupt("m", path="p", rows=[1, 2], what={"a": None}, odd=object)
    back = load_error(dump_error(error))
    assert type(back) is SplitCorrupt
    assert back.details["rows"] == [1, 2]
    assert back.details["what"] == {"a": None}
    assert back.details["odd"] == str(object)
    assert type(load_error(dump_error(type("Odd", (IndexTablesError,), {})("m")))) is IndexTablesError


def test_names_mean_what_they_were_given(spark, tmp_path):
    url = registry.register(spark, "Logs", tmp_path / "a b")
    try:
        for name in ("logs", "LOGS", "`logs`", "default.logs", "spark_catalog.default.Logs"):
            assert registry.resolve(spark, name) == url
        assert registry.names(spark)["logs"] == url
    finally:
        assert registry.forget(spark, "logs")
    assert not registry.forget(spark, "logs")
    with pytest.raises(TableNotFound, match=r"spark\.indextables\.tables\.logs"):
        registry.resolve(spark, "logs")


@pytest.mark.parametrize("name", ["", "a..b", "s3://b/c", "a b", ".", "default."])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InvalidArgument):
        registry.key_of_name(name)


@pytest.mark.parametrize(
    "value", ["", "a -> b", "a, b -> c", "two\nlines\r\\n", "é\U0001f600", "a\x1f\x1eb", "a\x1f\x1ek -> v", " x "]
)
def test_the_session_is_told_as_it_is_set(spark, value):
    key = "spark.indextables.note"
    spark.conf.set(key, value)
    try:
        assert session_options(spark)[key] == value
    finally:
        spark.conf.unset(key)
    assert key not in session_options(spark)
