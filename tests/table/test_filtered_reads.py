"""A filter is a matter of one call: whatever was asked with one, the process goes on seeing the whole table."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pyarrow as pa
import pytest

import indextables
from indextables import Table
from indextables.sql.local.session import LocalSession

SCHEMA = pa.schema([("d", pa.string()), ("x", pa.int64()), ("words", pa.string())])
FORMATS = ["avro", "parquet", "json"]
FILTER = "d = 'p0'"
NEW = pa.table({"d": ["p9"], "x": [50], "words": ["quick fifty"]}, schema=SCHEMA)

# Every verb of a table that takes a filter, so that a new one has to be named here.
VERBS: dict[str, Callable[[Table], object]] = {
    "files": lambda table: table.files(where=FILTER),
    "scan": lambda table: table.scan(where=FILTER).read_all(),
    "to_arrow": lambda table: table.to_arrow(where=FILTER),
    "count": lambda table: table.count(where=FILTER),
    "search": lambda table: table.search("quick", where=FILTER),
    "explain": lambda table: table.explain("quick", where=FILTER),
    "aggregate": lambda table: table.aggregate("quick", {"n": {"stats": {"field": "x"}}}, where=FILTER),
    "sql": lambda table: table.sql(f"SELECT count(*) FROM t WHERE {FILTER}"),
    "to_pandas": lambda table: table.to_pandas(where=FILTER),
    "changes": lambda table: table.changes(where=FILTER).read_all(),
    "search_batches": lambda table: table.search_batches("quick", where=FILTER).read_all(),
    "prewarm": lambda table: table.prewarm(where=FILTER),
    "reindex": lambda table: table.reindex(where=FILTER),
    "merge_splits": lambda table: table.merge_splits(where=FILTER, dry_run=True),
    "drop_partitions": lambda table: table.drop_partitions(FILTER, dry_run=True),
    "LocalSession": lambda table: LocalSession({"t": table.url}).run(f"SELECT x FROM t WHERE {FILTER}"),
}
# It replaces what the filter names: tests/table/test_overwrite_where.py.
CHANGES_ROWS = {"delete", "overwrite", "update"}


@pytest.fixture
def place(tmp_path) -> Callable[[str], str]:
    def make(state: str) -> str:
        path = str(tmp_path / state)
        table = indextables.create(
            path,
            SCHEMA,
            partition_by=["d"],
            indexing={"words": "text"},
            properties={"state.format": state},
            options={"state.entriesPerManifest": 16},
        )
        for k in range(4):
            table.append(pa.table({"d": [f"p{k}"], "x": [k], "words": [f"quick {k}"]}, schema=SCHEMA))
        table.checkpoint()
        indextables.invalidate_caches()
        return path

    return make


def xs(table: Table) -> list[int]:
    return sorted(table.to_arrow()["x"].to_pylist())


def test_every_verb_that_takes_a_filter_is_tested():
    with_filter = {
        name
        for name, verb in inspect.getmembers(Table, inspect.isfunction)
        if not name.startswith("_") and "where" in inspect.signature(verb).parameters
    }
    assert with_filter - CHANGES_ROWS <= set(VERBS)


@pytest.mark.slow
@pytest.mark.parametrize("state", FORMATS)
@pytest.mark.parametrize("verb", VERBS)
def test_after_a_verb_with_a_filter_the_whole_table_is_seen_and_kept(place, state, verb):
    path = place(state)
    asked = indextables.open(path)
    VERBS[verb](asked)
    for seen in (asked, indextables.open(path), indextables.open(path).at(version=4)):
        assert (xs(seen), seen.count(), seen.files().num_rows) == ([0, 1, 2, 3], 4, 4)
        assert seen.count("quick") == 4
        assert seen.sql("SELECT count(*) AS n FROM t")["n"].to_pylist() == [4]
    indextables.open(path).append(NEW)
    indextables.open(path).checkpoint()
    indextables.invalidate_caches()
    assert xs(indextables.open(path)) == [0, 1, 2, 3, 50]
    assert indextables.open(path).verify().ok


@pytest.mark.parametrize("state", FORMATS)
def test_a_checkpoint_right_after_a_read_with_a_filter_holds_the_whole_table(place, state):
    path = place(state)
    indextables.open(path).to_arrow(where=FILTER)
    indextables.open(path).append(NEW)
    indextables.open(path).checkpoint()
    indextables.invalidate_caches()
    assert xs(indextables.open(path)) == [0, 1, 2, 3, 50]


@pytest.mark.slow
@pytest.mark.parametrize("state", FORMATS)
@pytest.mark.parametrize(
    ("write", "left"),
    [
        (lambda table: table.overwrite(NEW), [50]),
        (lambda table: table.overwrite(NEW, where="d >= 'p1'"), [0, 50]),
        (lambda table: table.drop_partitions("d <> 'p3'"), [3]),
        (lambda table: table.merge_splits(), [0, 1, 2, 3]),
        (lambda table: table.restore(version=2), [0, 1]),
    ],
    ids=["overwrite", "overwrite where", "drop partitions", "merge", "restore"],
)
def test_what_is_written_after_a_read_with_a_filter_is_written_upon_the_whole_table(place, state, write, left):
    path = place(state)
    table = indextables.open(path)
    table.to_arrow(where=FILTER)
    write(indextables.open(path))
    indextables.invalidate_caches()
    assert xs(indextables.open(path)) == left
    assert indextables.open(path).verify().ok
