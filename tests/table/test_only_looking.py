"""A verb that only looks writes nothing, not for a moment either: tables on read-only mounts can be looked at."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

import indextables as it
from indextables.cli import main
from indextables.log.care.intents import protect_version
from indextables.log.care.leasing import acquire
from indextables.sql.local.session import LocalSession
from indextables.table.environment import open_env

VERBS = {
    "health": lambda table: table.health(),
    "purge": lambda table: table.purge(dry_run=True),
    "purge, forced": lambda table: table.purge(older_than_hours=0, dry_run=True, force=True),
    "clean_up": lambda table: table.clean_up(dry_run=True),
    "truncate": lambda table: table.truncate_time_travel(dry_run=True),
    "merge_splits": lambda table: table.merge_splits(dry_run=True),
    "drop_partitions": lambda table: table.drop_partitions("day = 'd0'", dry_run=True),
    "verify": lambda table: table.verify(),
    "state": lambda table: table.state(),
    "history": lambda table: table.history(),
    "log": lambda table: table.log(),
    "files": lambda table: table.files(where="x = 1"),
    "detail": lambda table: table.detail(),
    "sizes": lambda table: table.sizes(),
    "skips": lambda table: table.skips(),
    "count": lambda table: table.count("row", where="x = 1"),
    "search": lambda table: table.search("row"),
    "aggregate": lambda table: table.aggregate(None, {"n": {"stats": {"field": "x"}}}),
    "to_arrow": lambda table: table.to_arrow(where="x = 1"),
    "at": lambda table: table.at(1).to_arrow(),
    "sql": lambda table: table.sql("SELECT count(*) FROM t"),
    "sql of health": lambda table: LocalSession({"t": table.url}).run("DESCRIBE INDEXTABLES HEALTH t"),
    "sql of a dry purge": lambda table: LocalSession({"t": table.url}).run("PURGE INDEXTABLE t DRY RUN"),
}
COMMANDS = [
    ("purge", "--dry-run"),
    ("clean-up", "--dry-run"),
    ("truncate", "--dry-run"),
    ("merge-splits", "--dry-run"),
    ("describe",),
    ("history",),
    ("verify",),
    ("search", "row"),
]


def rows(x):
    return pa.table({"day": [f"d{x}"], "x": pa.array([x], pa.int64()), "message": [f"row {x}"]})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("looking") / "made"
    table = it.create(path, rows(0).schema, partition_by=["day"], indexing={"message": "text"})
    for x in range(3):
        table.append(rows(x))
    table.overwrite(rows(4))
    env = open_env(str(path), {})
    acquire(env, "purge")
    protect_version(env, 1, ttl_ms=60_000)
    return path


@pytest.fixture
def table_path(made, tmp_path, monkeypatch):
    """A copy that this process has never written to, and so has not compared its clock with."""
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))
    path = tmp_path / "t"
    shutil.copytree(made, path)
    return path


def touched(path):
    """When something last came into each folder or went out of it, and the files."""
    return {str(one): (one.stat().st_mtime_ns, one.stat().st_size) for one in [path, *path.rglob("*")]}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_only_looks_writes_nothing(verb, table_path):
    before = touched(table_path)
    VERBS[verb](it.open(table_path))
    assert touched(table_path) == before


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: line[0])
def test_a_command_that_only_looks_writes_nothing(line, table_path, capfd):
    before = touched(table_path)
    assert main([line[0], str(table_path), *line[1:]]) == 0, capfd.readouterr().err
    assert touched(table_path) == before


def test_a_clock_that_was_not_compared_is_told_as_unknown(table_path):
    table = it.open(table_path)
    assert table.health().clock_skew_ms is None
    assert "clock" not in {advice.code for advice in table.health().advice}
    table.append(rows(5))
    assert table.health().clock_skew_ms == 0
