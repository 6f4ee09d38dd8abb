"""schema, history, describe, verify, checkpoint, log, doctor and the command itself."""

import json
import sys

import pytest


def test_history_is_newest_first(command, logs):
    ran = command("history", logs, "--json")
    assert [line["version"] for line in ran.lines] == [1, 0]
    assert ran.lines[0]["operationMetrics"]["numOutputRows"] == "50"
    assert command("history", logs, "--limit", "1", "--json").out.count("\n") == 1
    assert "WRITE" in command("history", logs).out


def test_describe_tells_sizes_and_state(command, logs):
    assert command("describe", logs, "--json").lines[0]["numRows"] == 50
    assert "no checkpoint yet" in command("describe", logs).out
    assert command("checkpoint", logs).code == 0
    assert "checkpoint of version 1" in command("describe", logs).out
    columns = command("describe", logs, "--columns", "--json").lines
    assert sum(row["bytes"] for row in columns) == command("describe", logs, "--json").lines[0]["sizeInBytes"]
    (file,) = command("describe", logs, "--files", "--json").lines
    assert file["numRecords"] == 50


def test_verify_is_silent_about_a_sound_table_and_names_what_is_lost(command, logs):
    assert command("verify", logs).code == 0
    (split,) = logs.rglob("*.split")
    split.unlink()
    ran = command("verify", logs)
    assert ran.code == 1
    assert split.name in ran.out
    assert command("verify", logs, "--json").lines[0]["kind"] == "data-file-missing"
    assert command("verify", logs, "--no-data-files").code == 0
    assert command("verify", logs, "--data-files").code == 1


def test_verify_explains_a_log_that_does_not_open(command, logs):
    version = next(logs.rglob("00000000000000000001.json"))
    version.write_bytes(b"not a log")
    assert command("count", logs).code == 4
    ran = command("verify", logs)
    assert ran.code == 1
    assert "error" in ran.out


def test_log_shows_the_actions_of_a_version(command, logs):
    names = [next(iter(line)) for line in command("log", logs, "0").lines]
    assert {"protocol", "metaData"} <= set(names)
    newest = command("log", logs).lines
    assert [line["add"]["numRecords"] for line in newest if "add" in line] == [50]


def test_schema_shows_partitioning(command, log_file, tmp_path):
    command("ingest", tmp_path / "p", log_file, "--partition-by", "day")
    found = {line["column"]: line["partition"] for line in command("schema", tmp_path / "p", "--json").lines}
    assert found["day"] == 1
    assert found["level"] is None


def test_doctor_looks_at_java_spark_and_the_store(command, tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    ran = command("doctor", tmp_path / "new", "--json")
    found = {line["what"]: line for line in ran.lines}
    assert found["Python"]["ok"]
    assert found["PYSPARK_PYTHON"]["ok"]
    assert "no table yet" in found["read"]["found"]
    assert "put-if-absent holds" in found["write"]["found"]
    assert list((tmp_path / "new").rglob("*probe*")) == []


def test_doctor_says_what_to_do_about_a_python_without_the_package(command, monkeypatch, tmp_path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    ran = command("doctor")
    assert ran.code == 1
    assert f"set it to {sys.executable}" in ran.out


def test_doctor_says_what_to_do_without_java(command, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    ran = command("doctor")
    assert ran.code == 1
    assert "Spark needs Java" in ran.out


COMMANDS = [
    "create",
    "ingest",
    "delete",
    "update",
    "upsert",
    "convert",
    "mirror",
    "search",
    "sql",
    "count",
    "changes",
    "schema",
    "history",
    "describe",
    "metrics",
    "verify",
    "checkpoint",
    "log",
    "doctor",
]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(command, name):
    ran = command(name, "--help")
    assert ran.code == 0
    assert f"  indextables {name}" in ran.out


def test_the_command_lists_its_exit_codes_and_completion(command):
    ran = command("--help")
    assert "Exit codes:" in ran.out
    assert "--install-completion" in ran.out
    assert all(name in ran.out for name in COMMANDS)


def test_the_version_is_that_of_the_package(command):
    from importlib.metadata import version

    assert command("--version").out == f"indextables {version('indextables')}\n"


def test_completion_completes_commands(command, monkeypatch):
    monkeypatch.setenv("_INDEXTABLES_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "indextables se")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "search" in command().out.split()


def test_json_lines_stay_json_whatever_the_values(command, tmp_path):
    rows = '{"a": 1.5, "b": "zeile\\n\\u0000", "c": [1, 2], "d": {"e": "f"}}\n'
    (tmp_path / "odd.jsonl").write_text(rows)
    assert command("ingest", tmp_path / "t", tmp_path / "odd.jsonl").code == 0
    out = command("sql", tmp_path / "t", "SELECT *, CAST('NaN' AS DOUBLE) AS n FROM t", "--json").out
    assert json.loads(out) == {"a": 1.5, "b": "zeile\n\x00", "c": [1, 2], "d": {"e": "f"}, "n": None}


def test_metrics_are_numbers_for_dashboards(command, logs):
    import json

    (told,) = [json.loads(line) for line in command("metrics", logs, "--json").out.splitlines()]
    assert told["state load"]["count"] >= 0
    assert told["newest checkpoint"].keys() >= {"version", "size_bytes", "bytes_per_file", "tombstone_ratio"}
    assert "commit: attempts" in command("metrics", logs).out
