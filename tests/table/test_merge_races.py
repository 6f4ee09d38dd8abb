"""Merges and upserts beside others: nothing is lost, nothing comes twice, and a kill leaves nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.table.test_delete import meanwhile

import indextables

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("word", pa.string())])


def rows(*ids, n=0, word="w"):
    return [{"id": one, "n": n, "word": word} for one in ids]


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA)
    made.append(rows(*range(10)))
    made.append(rows(*range(10, 20)))
    return made


def held(table):
    return sorted(indextables.open(table.url).to_arrow().to_pylist(), key=lambda row: (row["id"], row["n"]))


def ids(table):
    return [row["id"] for row in held(table)]


def test_two_upserts_of_one_new_key_leave_one_row(table):
    other = indextables.open(table.url)
    report = table.upsert(rows(100, n=1), "id", progress=meanwhile(lambda: other.upsert(rows(100, n=2), "id")))
    assert (report.reruns, report.inserted, report.updated) == (1, 0, 1)
    assert [row for row in held(table) if row["id"] == 100] == rows(100, n=1)


def test_two_upserts_of_one_new_key_leave_one_row_in_a_table_that_was_changed_before(table):
    """Then an upsert that only adds rows stages what an append does: all that tells them apart is that it looked."""
    table.delete("id = 0")
    other = indextables.open(table.url)
    table.upsert(rows(100, n=1), "id", progress=meanwhile(lambda: other.upsert(rows(100, n=2), "id")))
    assert table.history()["isBlindAppend"].to_pylist()[:2] == [False, False]
    assert ids(table) == [*range(1, 20), 100]


def test_two_merges_that_only_insert_leave_one_row(table):
    other = indextables.open(table.url)

    def insert(handle, n, **more):
        return handle.merge(rows(100, 101, n=n), ["id"]).when_not_matched_insert_all().execute(**more)

    report = insert(table, 1, progress=meanwhile(lambda: insert(other, 2)))
    assert (report.inserted, report.version) == (0, None)
    assert ids(table) == [*range(20), 100, 101]


def test_upserts_of_other_keys_go_by_each_other(table):
    other = indextables.open(table.url)
    report = table.upsert(rows(1, 100, n=1), "id", progress=meanwhile(lambda: other.upsert(rows(2, 3, 101, n=2), "id")))
    assert (report.repairs, report.reruns) == (1, 0)
    assert [row["n"] for row in held(table)] == [0, 1, 2, 2, *[0] * 16, 1, 2]


def test_rows_appended_meanwhile_survive_and_are_looked_at_where_the_table_is_serializable(table, tmp_path):
    other = indextables.open(table.url)
    report = table.upsert(rows(1, 100, n=1), "id", progress=meanwhile(lambda: other.append(rows(100, 101, n=2))))
    assert report.reruns == 0
    assert [(row["id"], row["n"]) for row in held(table)[-3:]] == [(100, 1), (100, 2), (101, 2)]
    strict = indextables.create(tmp_path / "s", SCHEMA, properties={"isolationLevel": "Serializable"})
    strict.append(rows(1))
    second = indextables.open(strict.url)
    report = strict.upsert(rows(100, n=1), "id", progress=meanwhile(lambda: second.append(rows(100, 101, n=2))))
    assert (report.reruns, report.updated) == (1, 1)
    assert [(row["id"], row["n"]) for row in held(strict)] == [(1, 0), (100, 1), (101, 2)]


def test_a_row_that_was_deleted_meanwhile_comes_anew(table):
    other = indextables.open(table.url)
    report = table.upsert(rows(3, n=1), "id", progress=meanwhile(lambda: other.delete("id = 3")))
    assert (report.reruns, report.inserted) == (1, 1)
    assert ids(table) == list(range(20))


def test_a_row_that_only_kept_another_from_coming_counts_too(table):
    other = indextables.open(table.url)
    merged = table.merge(rows(3, n=1), ["id"]).when_not_matched_insert_all()
    report = merged.execute(progress=meanwhile(lambda: other.delete("id = 3")))
    assert report.version is None, "there was nothing to do when it looked"
    both = table.merge(rows(5, 200, n=1), ["id"]).when_not_matched_insert_all()
    report = both.execute(progress=meanwhile(lambda: other.delete("id = 5")))
    assert (report.reruns, report.inserted) == (1, 2)
    assert ids(table) == [n for n in range(20) if n != 3] + [200]


def test_rows_that_merge_splits_moved_are_merged_once(table):
    other = indextables.open(table.url)
    table.upsert(rows(1, 15, 100, n=1), "id", progress=meanwhile(other.merge_splits))
    assert [row["id"] for row in held(table) if row["n"] == 1] == [1, 15, 100]
    assert ids(table) == [*range(20), 100]


def test_new_columns_of_two_upserts_both_come(table):
    other = indextables.open(table.url)

    def grow(handle, column, **more):
        data = pa.table({"id": [1, 50], column: ["x", "y"]})
        return handle.upsert(data, "id", merge_schema=True, **more)

    report = grow(table, "red", progress=meanwhile(lambda: grow(other, "blue")))
    assert (report.reruns, report.updated) == (1, 2)
    now = indextables.open(table.url)
    assert now.schema.names == ["id", "n", "word", "blue", "red"]
    (row,) = [row for row in held(now) if row["id"] == 50]
    assert (row["red"], row["blue"]) == ("y", "y")


def test_a_restore_meanwhile_brings_rows_that_are_looked_at(table):
    start = table.version
    table.delete("id >= 15")
    other = indextables.open(table.url)
    report = table.upsert(rows(16, n=1), "id", progress=meanwhile(lambda: other.restore(version=start)))
    assert (report.reruns, report.updated) == (1, 1)
    assert ids(table) == list(range(20))


@pytest.mark.slow
def test_upserts_of_many_threads_leave_each_key_once(table):
    done, failed = [], []

    def work(me):
        handle = indextables.open(table.url)
        try:
            for turn in range(4):
                handle.upsert(rows(5, 100 + turn, 200 + me, n=me), "id")
                done.append((me, turn))
        except indextables.IndexTablesError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(done) == 12
    assert ids(table) == [*range(20), *range(100, 104), *range(200, 203)]


WORK = """
import sys
import indextables
table, me = indextables.open(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(4):
    come = [{"id": one, "n": me, "word": "w"} for one in (5, 100 + turn, 200 + me)]
    table.upsert(come, "id")
"""


@pytest.mark.slow
def test_upserts_of_processes_leave_each_key_once(table):
    others = [
        subprocess.Popen(
            [sys.executable, "-c", WORK, table.url, str(me)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for me in range(2)
    ]
    for other in others:
        assert other.stdout.readline() == "ready\n"
    for other in others:
        other.stdin.write("go\n")
        other.stdin.flush()
    for other in others:
        other.communicate()
        assert other.returncode == 0
    assert ids(table) == [*range(20), *range(100, 104), 200, 201]


KILLED = """
import os, sys
import indextables
url, when = sys.argv[1:]
def progress(step):
    if step.what == when:
        os._exit(9)
come = [{"id": one, "n": 1, "word": "w"} for one in (3, 100)]
indextables.open(url).upsert(come, "id", txn=("job", 1), progress=progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["located", "written", "committed"])
def test_a_kill_leaves_all_of_an_upsert_or_nothing(table, when):
    before = held(table)
    killed = subprocess.run([sys.executable, "-c", KILLED, table.url, when], check=False)
    assert killed.returncode == 9
    landed = when == "committed"
    assert (held(table) == before) is not landed
    report = table.upsert(rows(3, 100, n=1), "id", txn=("job", 1))
    assert (report.updated, report.inserted) == ((0, 0) if landed else (1, 1))
    assert ids(table) == [*range(20), 100]
    table.purge(older_than_hours=0, tx_log_retention_hours=0, force=True)
    splits = {path.name for path in Path(urlsplit(table.url).path).rglob("*.split")}
    named = {path.rsplit("/", 1)[-1] for path in indextables.open(table.url).files()["path"].to_pylist()}
    assert splits == named
