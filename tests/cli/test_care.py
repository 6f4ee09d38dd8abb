"""repair, rebuild, compact and clean-up."""

import shutil

import pytest


@pytest.mark.slow
def test_repair_writes_a_log_without_what_is_lost(command, logs, log_file, tmp_path):
    command("ingest", logs, log_file)
    lost, *_ = logs.rglob("*.split")
    lost.unlink()
    ran = command("repair", logs, "--at", tmp_path / "repaired")
    assert (ran.code, ran.err) == (0, "")
    assert lost.name in ran.out
    shutil.rmtree(logs / "_transaction_log")
    shutil.move(tmp_path / "repaired" / "_transaction_log", logs)
    assert command("count", logs).out.strip() == "50"
    assert command("verify", logs).code == 0


def test_repair_in_place_overwrites_no_log(command, logs, tmp_path):
    assert command("repair", logs).code == 2
    assert command("repair", logs, "--pointer", "--at", tmp_path / "x").code == 2


def test_the_pointer_alone_is_mended_in_place(command, logs):
    command("checkpoint", logs)
    (logs / "_transaction_log" / "_last_checkpoint").unlink()
    assert "checkpoint of 1" in command("repair", logs, "--pointer").out
    assert (logs / "_transaction_log" / "_last_checkpoint").exists()


def test_rebuild_finds_the_rows_and_their_index_again(command, logs):
    assert command("rebuild", logs).code == 2
    shutil.rmtree(logs / "_transaction_log")
    assert command("rebuild", logs, "--json").lines[0]["num_files"] == 1
    assert command("count", logs, "message:timeout").out.strip() == "10"
    shutil.rmtree(logs)
    assert command("rebuild", logs).code == 3


def test_compact_writes_a_checkpoint(command, logs):
    assert "version 1" in command("compact", logs).out
    assert command("describe", logs, "--json").lines[0]["state"]["version"] == 1


@pytest.mark.parametrize("dry", [True, False])
def test_clean_up_lists_what_goes(command, logs, log_file, dry):
    command("checkpoint", logs)
    command("ingest", logs, log_file)
    first = logs / "_transaction_log" / "00000000000000000000.json"
    ran = command("clean-up", logs, "-o", "logRetention.duration=0", "--dry-run" if dry else "--yes")
    assert ran.code == 0
    assert first.name in ran.out
    assert ("would go" in ran.out) == dry
    assert first.exists() == dry
    assert command("count", logs).out.strip() == "100"
