"""A task of a Spark write as a worker runs it, without a session: it evaluates the rules of a table on every batch."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import indextables
from indextables.errors import ConstraintViolation
from indextables.spark.session.settings import WriteOptions
from indextables.spark.source.writer import TableWriter

ROWS = pa.schema([("id", pa.int64())])
SCHEMA = StructType([StructField("id", LongType())])


def batch(*ids):
    return pa.record_batch([pa.array(ids, pa.int64())], schema=ROWS)


@pytest.mark.parametrize("bad", [500, None])
def test_a_task_refuses_a_bad_row_of_any_batch_and_leaves_no_file(tmp_path, bad):
    path = tmp_path / "t"
    indextables.create(path, ROWS, constraints={"sane": "id < 100"})
    writer = pickle.loads(pickle.dumps(TableWriter(str(path), WriteOptions(), SCHEMA, overwrite=False)))  # noqa: S301
    with pytest.raises(ConstraintViolation, match=r"sane \(id < 100\)"):
        writer.write(iter([batch(1, 2), batch(3, bad)]))
    assert not list(path.rglob("*.split"))
    assert not writer.write(iter([batch(1, 2)])).is_empty
