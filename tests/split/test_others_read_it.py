"""A split is a Parquet file: other engines read its rows and never notice the index."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.split.frames import OPTIONS, every_type

from indextables.options import Options
from indextables.split.write.writer import write_splits
from indextables.storage import open_store


def plain_rows() -> pa.Table:
    """Every type but null, which Delta has not, and without the values that Python compares badly."""
    return every_type().drop_columns(["nothing", "f64", "counts", "at", "at_ntz", "day"])


def large_rows() -> pa.Table:
    """Three row groups."""
    count = 300_000
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "id": np.arange(count),
            "message": pa.array([f"line {i} {v}" for i, v in enumerate(rng.integers(0, 10**9, count))]),
            "tags": pa.array([["a", "b"][: i % 3] for i in range(count)], pa.list_(pa.string())),
        }
    )


@pytest.fixture(scope="module", params=["every type", "large"])
def world(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("others") / "table"
    table = plain_rows() if request.param == "every type" else large_rows()
    opts = Options(OPTIONS | {"indexing.typemap.message": "text"}, environ={})
    (split,) = write_splits(open_store(root), [table], table.schema, opts)
    return root, root / split.key, table, split


@pytest.mark.slow
def test_pyarrow_reads_it_file_and_dataset(world):
    root, path, table, _ = world
    assert pq.read_table(path).equals(table)
    assert ds.dataset(root, format="parquet").to_table().equals(table)


@pytest.mark.slow
def test_pandas_reads_it(world):
    _, path, table, _ = world
    found = pd.read_parquet(path)
    assert len(found) == table.num_rows
    assert list(found.columns) == table.column_names
    first = table.column_names[0]
    assert found[first].tolist()[-1] == table[first].to_pylist()[-1]


@pytest.mark.slow
def test_polars_reads_it(world):
    _, path, table, _ = world
    names = [n for n in table.column_names if n not in ("raw", "props", "price")]
    found = pl.read_parquet(path, columns=names)
    assert found.to_dicts() == table.select(names).to_pylist()
    lazy = pl.scan_parquet(path).select(pl.len()).collect()
    assert lazy.item() == table.num_rows


@pytest.mark.slow
def test_duckdb_reads_it_and_filters_by_its_statistics(world):
    _, path, table, _ = world
    source = f"read_parquet('{path}', file_row_number=true)"
    with duckdb.connect() as connection:
        counts = connection.execute(f"select count(*), max(file_row_number) from {source}").fetchall()
        assert counts == [(table.num_rows, table.num_rows - 1)]
        column = "name" if "name" in table.column_names else "id"
        value = table[column][0].as_py()
        query = f"select count(*) from {source} where {column} = ?"
        assert connection.execute(query, [value]).fetchall() == [(table[column].to_pylist().count(value),)]
        names = [n for n in table.column_names if n not in {"props", "person"}]
        rows = connection.execute(f"select {', '.join(names)} from {source}").fetchall()
        assert [dict(zip(names, row, strict=True)) for row in rows] == table.select(names).to_pylist()


@pytest.mark.slow
def test_delta_rs_reads_it_through_a_delta_log(world):
    root, _, table, split = world
    names = [n for n in table.column_names if n != "addr"]
    kinds = {
        "string": "string", "large_string": "string", "int8": "byte", "int16": "short", "int32": "integer",
        "int64": "long", "float": "float", "bool": "boolean", "binary": "binary", "decimal128(20, 4)": "decimal(20,4)",
    }  # fmt: skip

    def kind(arrow):
        if pa.types.is_list(arrow):
            return {"type": "array", "elementType": kind(arrow.value_type), "containsNull": True}
        if pa.types.is_struct(arrow):
            return {"type": "struct", "fields": [field(f) for f in arrow]}
        if pa.types.is_map(arrow):
            ends = {"keyType": kind(arrow.key_type), "valueType": kind(arrow.item_type)}
            return {"type": "map", **ends, "valueContainsNull": True}
        return "date" if pa.types.is_date(arrow) else kinds[str(arrow)]

    def field(f):
        return {"name": f.name, "type": kind(f.type), "nullable": True, "metadata": {}}

    schema = {"type": "struct", "fields": [field(table.schema.field(n)) for n in names]}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "5e2e2d5e-6d63-4b4c-8b5f-1f4f7f1f2f3f", "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema), "partitionColumns": [], "configuration": {}, "createdTime": 0,
            }
        },
        {
            "add": {
                "path": split.key, "partitionValues": {}, "size": split.size, "modificationTime": 0,
                "dataChange": True, "stats": split.statistics.json,
            }
        },
    ]  # fmt: skip
    log = root / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{0:020d}.json").write_text("\n".join(json.dumps(a) for a in actions))
    found = DeltaTable(str(root)).to_pyarrow_table(columns=names)
    for f in log.iterdir():
        f.unlink()
    log.rmdir()
    assert found.num_rows == table.num_rows
    assert found.to_pylist() == table.select(names).to_pylist()


@pytest.mark.spark
def test_spark_reads_it_vectorised_and_in_parts(world):
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as fn

    _, path, table, _ = world
    # The session may be that of other tests in the same process: it is left as it was found.
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1000000")
    try:
        frame = spark.read.parquet(str(path))
        assert frame.count() == table.num_rows
        assert frame.columns == table.column_names
        if "id" in table.column_names:
            assert frame.select(fn.spark_partition_id()).distinct().count() > 1
            total = frame.agg(fn.sum("id"), fn.sum(fn.size("tags")), fn.count_distinct("message")).first()
            assert tuple(total) == (sum(range(300_000)), 300_000, 300_000)
            assert frame.where("id = 150000").select("message").first()[0] == table["message"][150_000].as_py()
        else:
            rows = [r.asDict(recursive=True) for r in frame.select("text", "i64", "tags", "people", "matrix").collect()]
            assert rows == table.select(["text", "i64", "tags", "people", "matrix"]).to_pylist()
            assert frame.select("props").first()[0] == dict(table["props"][0].as_py())
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
