"""merge-splits, skips, purge, drop-partitions, truncate, restore, reindex, prewarm, flush-caches; the question."""

import json
import os
import pty
import subprocess
import sys

import pyarrow as pa
import pytest

import indextables

LINE = [sys.executable, "-c", "import sys; from indextables.cli import main; sys.exit(main())"]
AT_ONCE = ["--older-than-hours", "0", "--tx-log-retention-hours", "0", "--force"]


@pytest.fixture
def days(command, log_file, tmp_path):
    """Two commits of fifty lines each, partitioned by day: four splits."""
    place = tmp_path / "days"
    ran = command("ingest", place, log_file, log_file, "--text", "message", "--partition-by", "day")
    assert ran.code == 0, ran.err
    return place


def splits(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*.split"))


def test_merge_splits_makes_few_of_many_and_keeps_the_rows(command, days):
    found = command("search", days, "timeout", "--json", "-n", "100", "--order-by", "message").lines
    dry = command("merge-splits", days, "--dry-run")
    assert dry.out.endswith("4 files would become 2\n")
    assert indextables.open(days).version == 2
    ran = command("merge-splits", days)
    assert (ran.code, ran.out) == (0, "4 files merged into 2, 100 rows, version 3\n")
    assert indextables.open(days).files().num_rows == 2
    assert command("search", days, "timeout", "--json", "-n", "100", "--order-by", "message").lines == found
    assert "nothing to commit" in command("merge-splits", days).out


def test_merge_splits_takes_partitions_sizes_and_an_order(command, days):
    arguments = [
        "--where",
        "day = '2024-01-01'",
        "--target-size",
        "1G",
        "--cluster-by",
        "level,ts",
        "--curve",
        "hilbert",
    ]
    (report,) = command("merge-splits", days, *arguments, "--json").lines
    assert (report["source_splits"], report["new_splits"], report["rows"]) == (2, 1, 50)
    (planned,) = command("merge-splits", days, "--dry-run", "--json").lines
    assert len(planned["files"]) == 2


def test_a_source_that_cannot_be_read_is_named_and_shown_until_it_is_cleared(command, days):
    broken = days / splits(days)[0]
    broken.write_bytes(b"not a split at all" * 10)
    ran = command("merge-splits", days)
    assert ran.code == 1
    assert broken.name in ran.out
    (skip,) = command("skips", days, "--json").lines
    assert skip["path"].endswith(broken.name)
    assert broken.name in command("skips", days).out
    assert command("skips", days, "--clear").out == "1 file will be tried again\n"
    assert command("skips", days, "--json").lines == []
    assert command("skips", days, "--path", "x").code == 2
    assert command("skips", days, "--clear", "--path", "nope").code == 2


def test_purge_lists_then_deletes_what_no_version_needs(command, days):
    command("merge-splits", days)
    before = splits(days)
    dry = command("purge", days, "--dry-run", *AT_ONCE)
    assert (dry.code, splits(days)) == (0, before)
    assert dry.out.count("split day=") == 4
    assert "would go" in dry.out
    (report,) = command("purge", days, "--yes", *AT_ONCE, "--json").lines
    assert len([file for file in report["files"] if file["kind"] == "split"]) == 4
    assert len(splits(days)) == 2
    assert command("count", days, "timeout").out == "20\n"
    assert command("verify", days).code == 0


def test_purge_refuses_ages_that_are_not_safe(command, days):
    ran = command("purge", days, "--yes", "--older-than-hours", "0")
    assert ran.code == 2
    assert "safe age" in ran.err


def test_a_dropped_partition_comes_back_with_restore(command, days):
    where = ["--where", "day = '2024-01-01'"]
    assert "2 files with 50 rows would go" in command("drop-partitions", days, *where, "--dry-run").out
    assert "dropped, version 3" in command("drop-partitions", days, *where, "--yes").out
    assert command("count", days).out == "50\n"
    assert command("restore", days, "--version", "2").out == (
        "version 4 is version 2 again: 2 files back, 0 files out\n"
    )
    assert command("count", days).out == "100\n"
    assert command("restore", days, "--version", "1", "--json").lines[0]["removed_files"] == 2
    assert command("restore", days).code == 2
    assert command("restore", days, "--version", "99").code == 3
    assert command("drop-partitions", days, "--where", "level = 'INFO'", "--yes").code == 2


def test_truncate_forgets_older_versions(command, days):
    dry = command("truncate", days, "--dry-run")
    assert "would be the oldest version" in dry.out
    assert command("count", days, "--version", "1").out == "50\n"
    ran = command("truncate", days, "--yes")
    assert ran.code == 0, ran.err
    assert command("count", days).out == "100\n"
    assert command("count", days, "--version", "1").code == 3


def test_reindex_and_prewarm_say_what_they_did(command, days):
    assert command("reindex", days).out == "0 of 4 files reindexed\n"
    (report,) = command("reindex", days, "--force", "--where", "day = '2024-01-01'", "--json").lines
    assert report["reindexed"] == 2
    assert command("prewarm", days, "--columns", "message").out.startswith("4 files warm, ")
    assert command("prewarm", days, "--columns", "nope").code == 2
    assert "deleted" in command("flush-caches", days).out
    assert command("count", days, "timeout").out == "20\n"


def test_describe_tells_health_and_the_command_that_helps(command, days):
    several = ["-o", "mergeOnWrite.minSplits=3"]
    shown = command("describe", days, *several).out
    assert "small files" in shown
    assert "advice: 4 of 4 splits are small\n    MERGE SPLITS 'file://" in shown
    health = command("describe", days, *several, "--json").lines[0]["health"]
    assert any("MERGE SPLITS" in advice["command"] for advice in health["advice"])
    assert "health" not in command("describe", days, "--version", "1", "--json").lines[0]


IRREVERSIBLE = [
    ["purge", *AT_ONCE],
    ["truncate"],
    ["drop-partitions", "--where", "day = '2024-01-01'"],
    ["clean-up", "-o", "logRetention.duration=0"],
]


@pytest.mark.parametrize("arguments", IRREVERSIBLE, ids=lambda arguments: arguments[0])
def test_what_cannot_be_undone_is_not_done_where_nobody_can_be_asked(command, days, arguments):
    name, *rest = arguments
    before = sorted(days.rglob("*"))
    ran = command(name, days, *rest)
    assert (ran.code, ran.out) == (2, "")
    assert "--yes" in ran.err
    assert sorted(days.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["purge"], "nothing to delete"),
        (["drop-partitions", "--where", "day = 'x'"], "nothing to drop"),
        (["truncate"], "nothing to forget, 0 is the oldest version"),
    ],
    ids=lambda given: given[0],
)
def test_on_a_terminal_nothing_is_asked_where_nothing_would_go(tmp_path, arguments, words):
    place = tmp_path / "empty"
    indextables.create(place, pa.schema([("day", pa.string()), ("n", pa.int64())]), partition_by=["day"])
    main, side = pty.openpty()
    name, *rest = arguments
    for more, expected in (([], words), (["--json"], "dry_run")):
        line = [*LINE, name, str(place), *rest, *more]
        ran = subprocess.run(line, stdin=side, stderr=side, stdout=subprocess.PIPE, timeout=120, check=False)
        assert ran.returncode == 0
        assert expected in (json.loads(ran.stdout) if more else ran.stdout.decode())
    os.close(side)
    os.close(main)


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["n", "y"])
def test_on_a_terminal_the_answer_decides(command, days, tmp_path, answer):
    main, side = pty.openpty()
    environment = {**os.environ, "INDEXTABLES_CACHE_DIRECTORY": str(tmp_path / "cache")}
    line = [*LINE, "drop-partitions", str(days), "--where", "day = '2024-01-01'"]
    with subprocess.Popen(line, stdin=side, stderr=side, stdout=subprocess.PIPE, env=environment) as process:
        os.close(side)
        asked = b""
        while b"[y/N]" not in asked:
            asked += os.read(main, 1000)
        os.write(main, answer.encode() + b"\n")
        process.communicate(timeout=300)
    os.close(main)
    assert b"Drop 2 files with 50 rows of " in asked
    assert process.returncode == (0 if answer == "y" else 1)
    assert command("count", days).out == ("50\n" if answer == "y" else "100\n")
