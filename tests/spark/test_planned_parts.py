"""Searches and marks in Spark say the same of a table whose entries are read part by part."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.spark.vectors import delete_rows

import indextables
from indextables import IndexTable

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

TASKS = {"search.driver.maxSplits": "0", "transaction.cache.enabled": "false"}
PARTS = {**TASKS, "state.filesInMemory": "1"}
STATEMENTS = [
    "SELECT id FROM {t} WHERE TEXTSEARCH(note, 'even') AND id > 33 AND part = 1 ORDER BY id",
    "SELECT id, TEXTSEARCH(note, 'third') AS found FROM {t} WHERE part = 2 AND id < 60 ORDER BY id",
    "SELECT id, _score FROM {t} WHERE TEXTSEARCH(note, 'third OR even') ORDER BY id",
    "SELECT count(*) FROM {t} WHERE TEXTSEARCH(note, 'even')",
    "SELECT id, part FROM {t} WHERE id % 3 = 1 ORDER BY id",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A checkpoint of eight splits in three manifests, two of them with deleted rows, then one more and one less."""
    path = tmp_path_factory.mktemp("parts") / "t"
    notes = ["even " * (n % 2 == 0) + "third " * (n % 3 == 0) + "word" for n in range(90)]
    rows = pa.table({"id": list(range(90)), "note": notes, "part": [n // 10 % 3 for n in range(90)]})
    properties = {"mergeOnWrite.enabled": "false", "state.entriesPerManifest": "3"}
    table = indextables.create(
        path, rows.schema, indexing={"note": "text"}, partition_by=["part"], properties=properties
    )
    for start in range(0, 80, 10):
        table.append(rows.slice(start, 10))
    delete_rows(path, lambda number, _: {2: range(0, 8, 3), 5: [1, 2]}.get(number, ()))
    table.refresh().checkpoint()
    table.append(rows.slice(80))
    table.delete("id BETWEEN 10 AND 19")
    return path


def answers(session, path, options):
    given = {f"spark.indextables.{key}": value for key, value in options.items()}
    for key, value in given.items():
        session.conf.set(key, value)
    try:
        return [session.sql(text.format(t=f"indextables.`{path}`")).collect() for text in STATEMENTS]
    finally:
        for key in given:
            session.conf.unset(key)


def test_statements_have_the_rows_of_a_table_that_is_read_at_once(spark, path):
    session = indextables.enable(spark)
    try:
        found = answers(session, path, PARTS)
        assert found == answers(session, path, TASKS)
        assert all(found)
    finally:
        indextables.disable(spark)


@pytest.mark.parametrize("where", [None, "part = 1", "id > 33"])
def test_searches_and_scans_have_them_too(spark, path, where):
    def told(options):
        handle = IndexTable.forPath(spark, path, options)
        found = handle.search("third OR even", columns=["id"], where=where, limit=15).collect()
        return found, handle.count("even", where=where), handle.toDF(where=where).orderBy("id").collect()

    assert told(PARTS) == told(TASKS)
    reader = spark.read.format("indextables").options(**PARTS)
    ids = sorted(
        row.id for row in (reader if where is None else reader.option("where", where)).load(str(path)).collect()
    )
    assert ids == [row.id for row in told(TASKS)[2]]
    assert ids
