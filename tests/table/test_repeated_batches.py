"""A call with a batch that the table holds is a repetition, whatever has become of the table since."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import indextables

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("word", pa.string())])
ROWS = [{"id": 1, "n": 1_000_000, "word": "5"}, {"id": 2, "n": 2_000_000, "word": "6"}]
TWICE = [{"id": 7, "n": 1, "word": "a"}, {"id": 7, "n": 2, "word": "b"}]
BATCH = ("job", 1)


def merge_a_key_twice(table):
    merge = table.merge(TWICE, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(txn=BATCH)


CHANGES = {
    "a delete": lambda table: table.delete("id = 1", txn=BATCH),
    "a delete by a cast": lambda table: table.delete("cast(word as int) = 5", txn=BATCH),
    "an update": lambda table: table.update({"word": "'x'"}, "word = '5'", txn=BATCH),
    "an update that overflows the second time": lambda table: table.update({"n": "n * 1000"}, "id > 0", txn=BATCH),
    "an update that is none the second time": lambda table: table.update(
        {"word": "concat('n', word)", "n": "cast(word as int)"}, txn=BATCH
    ),
    "an upsert": lambda table: table.upsert(ROWS[:1], "id", txn=BATCH),
    "an upsert of new columns": lambda table: table.upsert([{**ROWS[0], "new": 1}], "id", merge_schema=True, txn=BATCH),
    "a merge that adds a key twice": merge_a_key_twice,
    "a change of an expected version": lambda table: table.update(
        {"n": "n + 1"}, "id = 1", txn=BATCH, expect_version=1
    ),
}
WRITES = {
    "an append": lambda table: table.append([{"id": 9}], txn=BATCH),
    "an append of new columns": lambda table: table.append([{"id": 9, "new": 1}], merge_schema=True, txn=BATCH),
    "an overwrite": lambda table: table.overwrite([{"id": 9}], txn=BATCH),
    "an overwrite of the schema": lambda table: table.overwrite(
        pa.table({"id": [1], "n": ["text"]}), overwrite_schema=True, txn=BATCH
    ),
}


def version_of(done):
    return done if isinstance(done, int) else done.version


def files(table):
    return sorted(Path(urlsplit(table.url).path).rglob("*"))


def handles(table):
    return [table, indextables.open(table.url), indextables.open(table.url, version=1)]


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA, properties={"mergeOnWrite.enabled": "false"})
    made.append(ROWS)
    return made


@pytest.mark.parametrize("name", [*CHANGES, *WRITES])
@pytest.mark.parametrize("later", [False, True], ids=["at once", "after others"])
def test_a_repetition_is_told_as_such_by_every_verb_and_handle(table, name, later):
    do = {**CHANGES, **WRITES}[name]
    version = version_of(do(table))
    if later:
        table.append([{"id": 50}])
    rows, newest, there = indextables.open(table.url).to_arrow(), indextables.open(table.url).version, files(table)
    for handle in handles(table):
        again = do(handle)
        assert version_of(again) == version
        if name in CHANGES:
            told = (again.deleted, again.updated, again.inserted, again.added_files, again.removed_files, again.vectors)
            assert told == (0, 0, 0, 0, 0, 0)
            assert again.metrics == {}
    assert indextables.open(table.url).version == newest
    assert indextables.open(table.url).to_arrow().equals(rows)
    assert files(table) == there


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_change_is_a_repetition_after_the_table_has_another_schema(table, name):
    version = CHANGES[name](table).version
    table.overwrite(pa.table({"other": ["x"]}), overwrite_schema=True)
    assert CHANGES[name](indextables.open(table.url, version=1)).version == version
    assert indextables.open(table.url).to_arrow().to_pylist() == [{"other": "x"}]


@pytest.mark.parametrize("name", list(WRITES))
def test_a_write_is_a_repetition_where_the_schema_changed_before_its_batch(table, name):
    old = indextables.open(table.url, version=1)
    table.append([{"id": 3, "between": 1}], merge_schema=True)
    version = version_of(WRITES[name](table))
    rows = indextables.open(table.url).to_arrow()
    assert version_of(WRITES[name](old)) == version
    assert indextables.open(table.url).to_arrow().equals(rows)


def test_a_dry_run_of_a_repetition_tells_that_nothing_would_be_done(table):
    table.update({"n": "n + 1"}, txn=BATCH)
    told = table.update({"n": "n + 1"}, txn=BATCH, dry_run=True)
    assert (told.updated, told.version, told.dry_run) == (0, None, True)
