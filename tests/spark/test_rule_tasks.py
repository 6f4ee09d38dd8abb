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
from indextables.sql.spark import showing
from indextables.table.rows import schema_from_ddl

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


def test_show_create_table_tells_the_rules_in_words_that_make_such_a_table(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("twice", pa.int64())])
    rules = {"constraints": {"sane": "id < 100"}, "generated": {"twice": "id * 2"}}
    table = indextables.create(tmp_path / "t", schema, **rules)
    words = showing._statement("t", table.url, table._snapshot, None)
    assert "'constraints.sane' = 'id < 100'" in words
    listed = words[words.index("(") + 1 : words.index(")\nUSING")]
    assert schema_from_ddl(listed).field("twice").metadata == table.schema.field("twice").metadata
