"""The commands that change rows: what they do, what they say, and when they ask."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

LINE = [sys.executable, "-m", "indextables"]


def rows(command, logs):
    lines = command("sql", logs, "SELECT * FROM t", "--json").lines
    return sorted(lines, key=lambda row: row["ts"])


def count(command, logs):
    return int(command("count", logs).out)


def test_rows_are_deleted_by_a_predicate_and_by_a_search(command, logs):
    before = command("history", logs, "--json").lines[0]["version"]
    dry = command("delete", logs, "--where", "day = '2024-01-01' AND status = 500", "--dry-run")
    assert dry.out == "5 rows would be deleted\n"
    assert count(command, logs) == 50
    done = command("delete", logs, "--where", "day = '2024-01-01'", "--search", "message:timeout")
    assert done.out == f"5 rows deleted, version {before + 1}\n"
    (told,) = command("delete", logs, "--where", "TEXTSEARCH(message, 'req10 OR req20 OR req30')", "--json").lines
    assert (told["deleted"], told["metrics"]["numDeletedRows"], told["dry_run"]) == (1, 1, False)
    assert count(command, logs) == 44
    assert command("delete", logs, "--where", "status = 404").out == "no row is concerned, nothing was written\n"
    noted = command("delete", logs, "--where", "status = 500", "--user-metadata", "by hand", "--txn", "night:1")
    assert "4 rows deleted" in noted.out
    again = command("delete", logs, "--where", "status = 200", "--txn", "night:1")
    assert "has this batch" in again.out
    newest = command("history", logs, "--json").lines[0]
    assert (newest["operation"], newest["userMetadata"]) == ("DELETE", "by hand")
    assert newest["operationMetrics"]["numDeletedRows"] == "4"


def test_columns_are_set_to_what_sql_computes(command, logs):
    ran = command(
        *("update", logs, "--set", "status = status + 1", "--set", "level=lower(level)"),
        *("--where", "ts < '2024-01-01T00:00:10Z'"),
    )
    assert ran.out.startswith("10 rows updated, version ")
    found = [(row["status"], row["level"]) for row in rows(command, logs)[:11:5]]
    assert found == [(501, "error"), (501, "error"), (500, "ERROR")]
    assert command("update", logs, "--set", "status = 1", "--dry-run").out == "50 rows would be updated\n"


def test_rows_of_a_file_replace_those_of_their_key(command, logs, tmp_path):
    old = rows(command, logs)
    file = tmp_path / "new.jsonl"
    new = [{**old[3], "level": "WARN"}, {**old[4], "ts": "2025-01-01T00:00:00Z", "status": 1}]
    file.write_text("".join(json.dumps(row) + "\n" for row in new))
    assert command("upsert", logs, file, "--on", "ts", "--dry-run").out == "1 row would be updated and 1 added\n"
    assert command("upsert", logs, file, "--on", "ts,day").out.startswith("1 row updated and 1 added, version ")
    found = rows(command, logs)
    assert len(found) == 51
    assert found[3] == {**old[3], "level": "WARN"}
    assert (found[50]["message"], found[50]["status"]) == (old[4]["message"], 1)


def test_a_column_that_a_file_lacks_is_kept_if_that_is_asked_for(command, logs, tmp_path):
    old = rows(command, logs)
    file = tmp_path / "some.csv"
    file.write_text(f"TS,status\n{old[0]['ts']},7\n")
    refused = command("upsert", logs, file, "--on", "ts")
    assert (refused.code, "--merge-schema" in refused.err) == (2, True)
    assert rows(command, logs) == old
    assert command("upsert", logs, file, "--on", "ts", "--merge-schema").code == 0
    assert rows(command, logs) == [{**old[0], "status": 7}, *old[1:]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["delete"], "--yes"),
        (["delete", "--where", "nope = 1"], "nope"),
        (["delete", "--where", ""], "empty"),
        (["delete", "--where", "stats = 1"], "did you mean status"),
        (["delete", "--where", "status = 1", "--txn", "night"], "nightly:7"),
        (["delete", "--where", "status = 1", "--expect-version", "99"], "99"),
        (["update", "--set", "status"], "COLUMN=SQL"),
        (["update", "--set", "stats = 1"], "did you mean status"),
        (["update", "--set", "status = 1", "--set", "STATUS = 2"], "twice"),
        (["update", "--set", "status = 'many'"], "CAST"),
        (["upsert", "{file}"], "--on"),
        (["upsert", "{file}", "--on", "nope"], "nope"),
        (["upsert", "{file}", "--on", "level"], "same key"),
        (["upsert", "none.jsonl", "--on", "ts"], "none.jsonl"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(command, logs, log_file, arguments, words):
    before = command("history", logs, "--json").out
    name, *rest = arguments
    ran = command(name, logs, *(word.format(file=log_file) for word in rest))
    assert ran.code in (2, 3)
    assert words in ran.err
    assert ran.err.count("\n") == 1 or "Usage" in ran.err
    assert command("history", logs, "--json").out == before


@pytest.mark.slow
@pytest.mark.parametrize("line", [["delete", "{logs}"], ["sql", "{logs}", "DELETE FROM t"]], ids=lambda one: one[0])
def test_whoever_deletes_every_row_is_asked(command, logs, tmp_path, line):
    environment = {**os.environ, "INDEXTABLES_CACHE_DIRECTORY": str(tmp_path / "cache")}
    arguments = [*LINE, *(word.format(logs=logs) for word in line)]
    for answer, code, left in (("n", 1, 50), ("y", 0, 0)):
        main, side = pty.openpty()
        with subprocess.Popen(arguments, stdin=side, stderr=side, stdout=subprocess.PIPE, env=environment) as process:
            os.close(side)
            asked = b""
            while b"[y/N]" not in asked:
                asked += os.read(main, 1000)
            os.write(main, answer.encode() + b"\n")
            process.communicate(timeout=300)
        os.close(main)
        assert b"Delete all 50 rows of " in asked
        assert (process.returncode, count(command, logs)) == (code, left)
    assert command("delete", logs).out == "no row is concerned, nothing was written\n"
