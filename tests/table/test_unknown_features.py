"""Whoever does not understand a table leaves it alone: every verb of every surface.

A verb that a surface has and that no list below names fails a test. Each verb that writes is also tried on the same
table without the unknown feature, where it must change a file: else its case here would prove nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.world.commits import record_skip

import indextables
from indextables import Table, errors
from indextables.cli import main
from indextables.cli.app import COMMANDS
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import maybe_checkpoint
from indextables.log.wire.names import POINTER_KEY, version_key
from indextables.sql.command import statements
from indextables.sql.local.session import LocalSession
from indextables.table.environment import open_env
from indextables.table.requests import REQUESTS

SCHEMA = pa.schema([("d", pa.string()), ("x", pa.int64()), ("m", pa.string())])
KNOWN = ["avroState", "parquetSplit", "schemaDeduplication"]
SETTINGS = {
    "checkpoint.interval": "1000",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
    "state.gc.minManifestAgeHours": "0",
}


def protocol(reader=4, writer=4, more_readers=(), more_writers=()):
    return {
        "protocol": {
            "minReaderVersion": reader,
            "minWriterVersion": writer,
            "readerFeatures": [*KNOWN, *more_readers],
            "writerFeatures": [*KNOWN, *more_writers],
        }
    }


UNKNOWN = {
    "writer feature": protocol(more_writers=["zz"]),
    "reader feature": protocol(more_readers=["zz"], more_writers=["zz"]),
    "writer version": protocol(writer=9),
    "reader version": protocol(reader=9, writer=9),
}
READABLE = {"writer feature", "writer version"}


def rows(d, x):
    return pa.table({"d": [d], "x": [x], "m": [f"text {x}"]}, schema=SCHEMA)


FILES = Path(tempfile.gettempdir()) / f"indextables-unknown-{os.getpid()}"
"""Rows of which the table has taken some."""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A table in which every verb has something to do: splits to merge, a skip, old versions, an orphan, no pointer."""
    path = tmp_path_factory.mktemp("template") / "t"
    FILES.mkdir()
    pq.write_table(rows("b", 0), FILES / "0.parquet")
    known = {"constraints.known": "x IS NOT NULL"}
    indextables.convert(FILES, path, partition_by=["d"], indexing={"m": "text"}, properties=known, options=SETTINGS)
    pq.write_table(rows("a", 5), FILES / "1.parquet")
    table = indextables.open(path, options=SETTINGS)
    for x in range(1, 4):
        table.append(rows("a" if x % 2 else "b", x))
        if x in (1, 2):
            table.checkpoint()
    record_skip(open_log(open_env(path)), table.files()["path"][0].as_py(), "it is broken", "merge")
    table.refresh().checkpoint()
    orphan = next(path.rglob("*.split"))
    shutil.copy(orphan, orphan.with_name("orphan.split"))
    (path / POINTER_KEY).unlink()
    (path / ".indextables-tmp").rmdir()
    for file in path.rglob("*"):
        os.utime(file, (time.time() - 7200,) * 2)
    yield path
    shutil.rmtree(FILES)


@pytest.fixture
def at(template, tmp_path, monkeypatch):
    """A copy of the table. A call of it makes the newest version say what a client must know, and opens it."""
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))
    for key, value in SETTINGS.items():
        monkeypatch.setenv("INDEXTABLES_" + key.replace(".", "_").upper(), value)
    path = tmp_path / "world" / "t"
    shutil.copytree(template, path)
    return path


def require(path, line):
    newest = max(int(file.name[:20]) for file in (path / "_transaction_log").glob("0*.json"))
    (path / version_key(newest + 1)).write_text(json.dumps(line) + "\n")


def world(path):
    """Every file of the table and beside it, with its bytes."""
    return {
        str(file.relative_to(path.parent)): file.read_bytes()
        for file in sorted(path.parent.rglob("*"))
        if file.is_file()
    }


# What each surface can do. A verb of the left kind must refuse, one of the right kind must at least change nothing.

TABLE_WRITES = {
    "add_columns": lambda t: t.add_columns("y int"),
    "alter": lambda t: t.alter("RENAME COLUMN m TO n"),
    "add_constraint": lambda t: t.add_constraint("sane", "x >= 0"),
    "alter_column": lambda t: t.alter_column("x", comment="a number"),
    "drop_columns": lambda t: t.drop_columns(["m"]),
    "drop_constraint": lambda t: t.drop_constraint("known"),
    "enable_row_tracking": lambda t: t.enable_row_tracking(),
    "rename_column": lambda t: t.rename_column("m", "n"),
    "set_description": lambda t: t.set_description("texts"),
    "set_indexing": lambda t: t.set_indexing({"m": "string"}),
    "set_name": lambda t: t.set_name("texts"),
    "set_properties": lambda t: t.set_properties({"checkpoint.interval": "7"}),
    "skip": lambda t: t.skip(t.files()["path"].to_pylist()[-1:], "it is broken"),
    "unset_properties": lambda t: t.unset_properties("indexing.typemap.m"),
    "upgrade_protocol": lambda t: t.upgrade_protocol("columnMapping"),
    "append": lambda t: t.append(rows("a", 9)),
    "checkpoint": lambda t: t.checkpoint(),
    "clean_up": lambda t: t.clean_up(),
    "clear_skips": lambda t: t.clear_skips(),
    "compact": lambda t: t.compact(),
    "delete": lambda t: t.delete("d = 'a'"),
    "drop_partitions": lambda t: t.drop_partitions("d = 'a'"),
    "merge_splits": lambda t: t.merge_splits(),
    "mirror": lambda t: t.mirror(),
    "overwrite": lambda t: t.overwrite(rows("a", 9)),
    "protect": lambda t: t.protect(),
    "purge": lambda t: t.purge(older_than_hours=0, tx_log_retention_hours=0, force=True),
    "reindex": lambda t: t.reindex(force=True),
    "restore": lambda t: t.restore(4),
    "truncate_time_travel": lambda t: t.truncate_time_travel(),
    "merge": lambda t: t.merge([{"d": "a", "x": 1}], ["x"]).when_matched_delete().execute(),
    "update": lambda t: t.update({"d": "'b'"}, "d = 'a'"),
    "upsert": lambda t: t.upsert(rows("a", 9), ["x"]),
}
TABLE_READS = {
    "close": lambda t: t.close(),
    "aggregate": lambda t: t.aggregate(None, {"n": {"stats": {"field": "x"}}}),
    "at": lambda t: t.at(4),
    "changes": lambda t: t.changes(1).read_all(),
    "count": lambda t: t.count("text"),
    "detail": lambda t: t.detail(),
    "explain": lambda t: t.explain("text"),
    "files": lambda t: t.files("d = 'a'"),
    "flush_caches": lambda t: t.flush_caches(),
    "health": lambda t: t.health(),
    "history": lambda t: t.history(),
    "invalidate_cache": lambda t: t.invalidate_cache(),
    "log": lambda t: t.log(),
    "metadata": lambda t: t.metadata,
    "metrics": lambda t: t.metrics(),
    "partition_columns": lambda t: t.partition_columns,
    "prewarm": lambda t: t.prewarm(),
    "protocol": lambda t: t.protocol,
    "refresh": lambda t: t.refresh(),
    "resolve": lambda t: t.resolve("0" * 32, t.version),
    "scan": lambda t: t.scan().read_all(),
    "schema": lambda t: t.schema,
    "search": lambda t: t.search("text"),
    "search_batches": lambda t: t.search_batches("text").read_all(),
    "sizes": lambda t: t.sizes(),
    "skips": lambda t: t.skips(),
    "sql": lambda t: t.sql("SELECT count(*) FROM t"),
    "state": lambda t: t.state(),
    "to_arrow": lambda t: t.to_arrow(),
    "to_dataset": lambda t: t.to_dataset().count_rows(),
    "to_pandas": lambda t: t.to_pandas(),
    "to_polars": lambda t: t.to_polars().collect(),
    "txn_version": lambda t: t.txn_version("a"),
    "url": lambda t: t.url,
    "verify": lambda t: t.verify(),
    "version": lambda t: t.version,
}
MODULE_WRITES = {
    "convert": lambda p: indextables.convert(FILES, p),
    "rebuild": lambda p: indextables.rebuild(p, at=p.parent / "rebuilt"),
    "recreate_pointer": indextables.recreate_pointer,
    "repair": lambda p: indextables.repair(p, at=p.parent / "repaired"),
}
MODULE_READS = {
    "cache_stats": lambda p: indextables.cache_stats(),
    "create": lambda p: indextables.create(p, SCHEMA, partition_by=["d"]),
    "invalidate_caches": indextables.invalidate_caches,
    "open": lambda p: indextables.open(p, options={"reader.leaseHours": "1"}),
    "verify": indextables.verify,
}
MODULE_OTHERS = {"IdentityGenerator", "IndexTable", "IndexTablesError", "LocalSession", "Table", "errors", "functions"}
SPARKS = {"disable", "enable", "sql", "write"}
SQL_WRITES = {
    "AlterTable": "ALTER TABLE t RENAME COLUMN m TO n",
    "ConvertTable": f"CONVERT TO INDEXTABLES PARQUET '{FILES}' AT LOCATION '{{t}}'",
    "Checkpoint": "CHECKPOINT INDEXTABLES t",
    "ClearSkips": "CLEAR INDEXTABLES SKIPS FROM t",
    "DeleteRows": "DELETE FROM t WHERE d = 'a'",
    "DropPartitions": "DROP INDEXTABLES PARTITIONS FROM t WHERE d = 'a'",
    "DropTable": "DROP INDEXTABLE t",
    "MergeRows": "MERGE INTO t USING (SELECT 'a' AS d) AS s ON t.d = s.d WHEN MATCHED THEN DELETE",
    "MergeSplits": "MERGE SPLITS t",
    "Mirror": "MIRROR INDEXTABLES t",
    "Purge": "PURGE INDEXTABLE t OLDER THAN 0 HOURS TRANSACTION LOG RETENTION 0 HOURS FORCE",
    "Reindex": "REINDEX t FORCE",
    "Repair": "REPAIR INDEXFILES TRANSACTION LOG t AT LOCATION '{beside}'",
    "Restore": "RESTORE TABLE t TO VERSION AS OF 4",
    "TruncateTimeTravel": "TRUNCATE INDEXTABLES TIME TRAVEL t",
    "UpdateRows": "UPDATE t SET m = 'b' WHERE d = 'a'",
}
SQL_READS = {
    "CreateTable": "CREATE INDEXTABLE IF NOT EXISTS '{t}' (d string, x bigint, m string) PARTITIONED BY (d)",
    "DescribeDetail": "DESCRIBE INDEXTABLES DETAIL t",
    "DescribeHealth": "DESCRIBE INDEXTABLES HEALTH t",
    "DescribeHistory": "DESCRIBE INDEXTABLES HISTORY t",
    "DescribeLog": "DESCRIBE INDEXTABLES TRANSACTION LOG t",
    "DescribeSkips": "DESCRIBE INDEXTABLES SKIPS t",
    "DescribeState": "DESCRIBE INDEXTABLES STATE t",
    "Explain": "EXPLAIN DELETE FROM t WHERE d = 'a'",
    "FlushCache": "FLUSH INDEXTABLES CACHE FOR TABLE t",
    "InvalidateCache": "INVALIDATE TRANSACTION LOG CACHE FOR TABLE t",
    "Prewarm": "PREWARM INDEXTABLES CACHE t",
    "Verify": "VERIFY INDEXTABLES t",
}
SHELL_WRITES = {
    "alter": ["{t}", "RENAME COLUMN m TO n"],
    "convert": [str(FILES), "{t}"],
    "checkpoint": ["{t}"],
    "clean-up": ["{t}", "--yes"],
    "compact": ["{t}"],
    "delete": ["{t}", "--where", "d = 'a'"],
    "drop-partitions": ["{t}", "--where", "d = 'a'", "--yes"],
    "ingest": ["{t}", "{input}"],
    "merge-splits": ["{t}"],
    "mirror": ["{t}"],
    "purge": ["{t}", "--older-than-hours", "0", "--tx-log-retention-hours", "0", "--force", "--yes"],
    "rebuild": ["{t}", "--at", "{beside}"],
    "reindex": ["{t}", "--force"],
    "repair": ["{t}", "--at", "{beside}"],
    "repair --pointer": ["{t}", "--pointer"],
    "restore": ["{t}", "--version", "4"],
    "skips": ["{t}", "--clear"],
    "truncate": ["{t}", "--yes"],
    "update": ["{t}", "--set", "m = 'b'"],
    "upsert": ["{t}", "{input}", "--on", "d"],
}
SHELL_READS = {
    "changes": ["{t}", "--from", "4"],
    "count": ["{t}"],
    "create": ["{t}", "--schema", "d string, x bigint, m string", "--partition-by", "d"],
    "describe": ["{t}"],
    "doctor": [],
    "flush-caches": ["{t}"],
    "history": ["{t}"],
    "log": ["{t}"],
    "metrics": ["{t}"],
    "prewarm": ["{t}"],
    "schema": ["{t}"],
    "search": ["{t}", "text"],
    "sql": ["SELECT count(*) FROM t", "--table", "t={t}"],
    "verify": ["{t}"],
}


def shell(name, path):
    names = {"t": str(path), "beside": str(path.parent / "beside"), "input": str(path.parent.parent / "in.jsonl")}
    Path(names["input"]).write_text('{"d": "a", "x": 1, "m": "text"}\n')
    arguments = {**SHELL_WRITES, **SHELL_READS}[name]
    return main([name.split()[0], *(argument.format(**names) for argument in arguments)])


def command(name, path):
    text = {**SQL_WRITES, **SQL_READS}[name].format(t=path, beside=path.parent / "beside")
    return LocalSession({"t": str(path)}).run(text)


def test_every_verb_of_every_surface_is_known_here():
    assert {name for name in dir(Table) if not name.startswith("_")} == {*TABLE_WRITES, *TABLE_READS}
    assert set(indextables.__all__) == {*MODULE_WRITES, *MODULE_READS, *MODULE_OTHERS, *SPARKS}
    commands = {kind.__name__ for kind in (*statements._Command.__subclasses__(), *REQUESTS)} - {"Ask"}
    assert commands == {*SQL_WRITES, *SQL_READS}
    assert set(COMMANDS) == {name.split()[0] for name in {*SHELL_WRITES, *SHELL_READS}}


@pytest.mark.parametrize("verb", TABLE_WRITES)
def test_each_verb_of_a_table_would_change_files(at, verb):
    require(at, protocol())
    table, before = indextables.open(at), world(at)
    TABLE_WRITES[verb](table)
    assert world(at) != before


@pytest.mark.parametrize("verb", MODULE_WRITES)
def test_each_function_would_change_files(at, verb):
    require(at, protocol())
    before = world(at)
    MODULE_WRITES[verb](at)
    assert world(at) != before


@pytest.mark.parametrize("name", SQL_WRITES)
def test_each_command_of_sql_would_change_files(at, name):
    require(at, protocol())
    before = world(at)
    command(name, at)
    assert world(at) != before


@pytest.mark.parametrize("name", SHELL_WRITES)
def test_each_command_of_the_shell_would_change_files(at, name):
    require(at, protocol())
    before = world(at)
    assert shell(name, at) == 0
    assert world(at) != before


@pytest.mark.parametrize("caches", ["cold", "warm"])
@pytest.mark.parametrize("kind", UNKNOWN)
def test_no_verb_of_a_table_writes_what_it_does_not_understand(at, kind, caches):
    old = indextables.open(at)
    old.append(rows("b", 7))
    require(at, UNKNOWN[kind])
    if caches == "cold":
        indextables.invalidate_caches()
    before = world(at)
    handles = [old, *([indextables.open(at)] if kind in READABLE else [])]
    wrong = {}
    for table in handles:
        for verb, call in TABLE_WRITES.items():
            try:
                call(table)
                wrong[verb] = "it went through"
            except errors.ProtocolUnsupported:
                pass
            except Exception as error:  # noqa: BLE001 - every other answer is wrong
                wrong[verb] = repr(error)
            if world(at) != before:
                wrong[verb] = f"it changed {set(world(at).items()) ^ set(before.items())}"[:300]
                break
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNKNOWN)
def test_no_verb_that_reads_changes_a_file(at, kind):
    old = indextables.open(at)
    require(at, UNKNOWN[kind])
    indextables.invalidate_caches()
    before = world(at)
    for verb, call in TABLE_READS.items():
        for table in [old, *([indextables.open(at)] if kind in READABLE else [])]:
            try:
                call(table)
            except errors.IndexTablesError:
                assert kind not in READABLE, verb
            assert world(at) == before, verb


@pytest.mark.parametrize("kind", UNKNOWN)
@pytest.mark.parametrize("verb", MODULE_WRITES)
def test_no_function_writes_what_it_does_not_understand(at, kind, verb):
    require(at, UNKNOWN[kind])
    before = world(at)
    with pytest.raises(errors.ProtocolUnsupported):
        MODULE_WRITES[verb](at)
    assert world(at) == before


@pytest.mark.parametrize("kind", UNKNOWN)
@pytest.mark.parametrize("verb", MODULE_READS)
def test_no_function_that_reads_changes_a_file(at, kind, verb):
    require(at, UNKNOWN[kind])
    before = world(at)
    try:
        MODULE_READS[verb](at)
    except errors.ProtocolUnsupported:
        assert kind not in READABLE
    assert world(at) == before


@pytest.mark.parametrize("kind", UNKNOWN)
def test_no_command_of_sql_writes_what_it_does_not_understand(at, kind):
    require(at, UNKNOWN[kind])
    before = world(at)
    for name in SQL_WRITES:
        with pytest.raises(errors.ProtocolUnsupported):
            command(name, at)
        assert world(at) == before, name
    for name in SQL_READS:
        try:
            command(name, at)
        except errors.ProtocolUnsupported:
            # The plan of a change is refused as the change is.
            assert kind not in READABLE or name == "Explain", name
        assert world(at) == before, name


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNKNOWN)
def test_no_command_of_the_shell_writes_what_it_does_not_understand(at, kind, capsys):
    require(at, UNKNOWN[kind])
    before = world(at)
    for name in SHELL_WRITES:
        assert shell(name, at) != 0, name
        assert "upgrade the library" in capsys.readouterr().err, name
        assert world(at) == before, name
    for name in SHELL_READS:
        shell(name, at)
        assert world(at) == before, name


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_follows_a_commit_by_itself_asks_too(at, kind):
    """Another writer may raise the protocol between a commit and the checkpoint that is due after it."""
    require(at, UNKNOWN[kind])
    before = world(at)
    env = open_env(at, {"checkpoint.interval": "1", "checkpoint.async": "false"})
    newest = open_log(env).metadata_at().version
    for version in (newest - 1, newest):
        maybe_checkpoint(env, version)
        assert world(at) == before


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_repair_leaves_alone_a_place_that_it_does_not_understand(at, template, kind):
    """Its version 0 was cleaned up long ago: the slot is free, and still not ours."""
    other = at.parent / "other"
    shutil.copytree(at, other)
    require(other, UNKNOWN[kind])
    (other / version_key(0)).unlink()
    before = world(at)
    for call in (indextables.repair, indextables.rebuild):
        with pytest.raises((errors.ProtocolUnsupported, errors.InvalidArgument)):
            call(at, at=other)
        assert world(at) == before
