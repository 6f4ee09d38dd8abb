"""An overwrite counts from the beginning of its job: what others did while its tasks ran is seen by its commit."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import indextables
from indextables.errors import CommitConflict

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int64())])


def rows(*numbers: int, part: int = 1) -> pa.Table:
    return pa.table({"id": list(numbers), "part": [part] * len(numbers)}, schema=SCHEMA)


def other_overwrites(path: str) -> None:
    indextables.open(path).overwrite(rows(50), where="part = 1")


def other_appends(path: str) -> None:
    indextables.open(path).append(rows(60))


def other_appends_elsewhere(path: str) -> None:
    indextables.open(path).append(rows(70, part=3))


@pytest.fixture
def path(tmp_path) -> str:
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["part"])
    table.append(rows(1))
    table.append(rows(2, part=2))
    return str(tmp_path / "t")


def slowly(spark, path: str, meanwhile: Callable[[str], None]):
    """Row 10 of partition 1, made by a task while which somebody else does something to the table."""

    def made(batches):
        for batch in batches:
            meanwhile(path)
            yield batch

    return spark.range(10, 11, 1, 1).selectExpr("id", "1L as part").mapInArrow(made, "id long, part long")


def ids(path: str) -> list[int]:
    return sorted(indextables.open(path).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("settings", [{}, {"replaceWhere": "part = 1"}, {"partitionOverwriteMode": "dynamic"}])
def test_an_overwrite_during_the_job_refuses_it_and_an_append_is_taken_in(spark, path, settings):
    with pytest.raises(CommitConflict, match="range"):
        indextables.write(slowly(spark, path, other_overwrites), path, mode="overwrite", **settings)
    assert ids(path) == [2, 50]
    indextables.write(slowly(spark, path, other_appends), path, mode="overwrite", **settings)
    assert ids(path) == ([2, 10] if settings else [10])


def test_a_plain_save_counts_from_its_job_too(spark, path):
    frame = slowly(spark, path, other_overwrites)
    with pytest.raises(Exception, match=r"rows (in|to) the range"):
        frame.write.format("indextables").mode("overwrite").save(path)
    assert ids(path) == [2, 50]


def test_a_serializable_table_refuses_an_append_during_the_job(spark, tmp_path):
    path = str(tmp_path / "t")
    table = indextables.create(path, SCHEMA, partition_by=["part"], properties={"isolationLevel": "Serializable"})
    table.append(rows(1))
    with pytest.raises(CommitConflict, match="range"):
        indextables.write(slowly(spark, path, other_appends), path, mode="overwrite", replaceWhere="part = 1")
    assert ids(path) == [1, 60]
    frame = slowly(spark, path, other_appends_elsewhere)
    indextables.write(frame, path, mode="overwrite", replaceWhere="part = 1")
    assert ids(path) == [10, 70]


def test_a_table_that_somebody_makes_and_fills_during_the_job_is_not_emptied(spark, tmp_path):
    path = str(tmp_path / "new")

    def meanwhile(place: str) -> None:
        made = indextables.create(place, SCHEMA)
        made.overwrite(rows(50))

    with pytest.raises(CommitConflict, match="range"):
        indextables.write(slowly(spark, path, meanwhile), path, mode="overwrite")
    assert ids(path) == [50]
