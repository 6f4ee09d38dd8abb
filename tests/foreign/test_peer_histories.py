"""Histories that delta-rs writes in any order read the same here and there, at every version."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import indextables

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.float64())])
PARTS = [None, "a", "b/c", "ü %", "x=y"]

STEPS = st.one_of(
    st.tuples(
        st.just("append"), st.lists(st.tuples(st.integers(0, 20), st.sampled_from(PARTS)), min_size=1, max_size=6)
    ),
    st.tuples(st.just("overwrite"), st.lists(st.tuples(st.integers(0, 20), st.sampled_from(PARTS)), max_size=4)),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("update"), st.integers(0, 20)),
    st.tuples(st.just("optimize"), st.none()),
    st.tuples(st.just("checkpoint"), st.none()),
)


def table_of(pairs):
    ids, parts = [i for i, _ in pairs], [p for _, p in pairs]
    return pa.table([ids, parts, [i / 4 for i in ids]], schema=SCHEMA)


def step(path, kind, what, partition_by):
    if kind in ("append", "overwrite"):
        write_deltalake(path, table_of(what), mode=kind, partition_by=partition_by)
    elif kind == "delete":
        DeltaTable(path).delete(f"id < {what}")
    elif kind == "update":
        DeltaTable(path).update(updates={"value": "value + 1"}, predicate=f"id > {what}")
    elif kind == "optimize":
        DeltaTable(path).optimize.compact()
    else:
        DeltaTable(path).create_checkpoint()


def spelled(table):
    return sorted(map(repr, table.select(SCHEMA.names).cast(SCHEMA).to_pylist()))


@pytest.mark.slow
@settings(max_examples=12)
@given(steps=st.lists(STEPS, min_size=1, max_size=8), is_partitioned=st.booleans())
def test_every_version_reads_as_delta_rs_reads_it(steps, is_partitioned):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        partition_by = ["part"] if is_partitioned else None
        write_deltalake(path, table_of([(1, "a")]), partition_by=partition_by)
        for kind, what in steps:
            step(path, kind, what, partition_by)
        newest = DeltaTable(path).version()
        ours = indextables.open(path)
        assert ours.version == newest
        for version in range(newest + 1):
            theirs = QueryBuilder().register("t", DeltaTable(path, version=version)).execute("SELECT * FROM t")
            older = ours.at(version=version)
            wanted = spelled(pa.table(theirs.read_all()))
            assert spelled(older.to_arrow()) == wanted
            assert older.count() == len(wanted)
