"""The folder of a table was deleted and another table was made there: an old handle does nothing to the new one.

Every public verb of `Table` is tried. One that no list below names fails a test, so that none is forgotten.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables import Table
from indextables.errors import LogError, TableNotFound, TableReplaced, VersionExpired
from indextables.log.wire.names import LOG_DIR, version_key

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("m", pa.string())])
SETTINGS = {
    "checkpoint.interval": "3",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
    "state.gc.minManifestAgeHours": "0",
    "cleanup.enabled": "false",
    "storage.fsync": "false",
}
ROW = [{"k": 1, "p": "a", "m": "x"}]

REFUSED: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(ROW),
    "append of a batch": lambda t: t.append(ROW, txn=("job", 1)),
    "append of more columns": lambda t: t.append([{**ROW[0], "more": 1}], merge_schema=True),
    "append of nothing": lambda t: t.append([]),
    "overwrite": lambda t: t.overwrite(ROW),
    "overwrite of a partition": lambda t: t.overwrite(ROW, where="p = 'a'"),
    "overwrite of partitions": lambda t: t.overwrite(ROW, partitions="dynamic"),
    "overwrite with a schema": lambda t: t.overwrite([{"z": 1}], overwrite_schema=True, partition_by=[]),
    "delete": lambda t: t.delete("k = 1"),
    "delete of everything": lambda t: t.delete(),
    "delete, dry": lambda t: t.delete(dry_run=True),
    "update": lambda t: t.update({"m": "'y'"}),
    "merge": lambda t: t.merge(ROW, ["k"]).when_matched_delete().execute(),
    "upsert": lambda t: t.upsert(ROW, "k"),
    "upsert of more columns": lambda t: t.upsert([{**ROW[0], "more": 1}], "k", merge_schema=True),
    "drop_partitions": lambda t: t.drop_partitions("p = 'a'"),
    "drop_partitions, dry": lambda t: t.drop_partitions("p = 'a'", dry_run=True),
    "restore": lambda t: t.restore(version=1),
    "restore to a time": lambda t: t.restore(timestamp=indextables.open(t.url).history()["timestamp"][1].as_py()),
    "truncate_time_travel": lambda t: t.truncate_time_travel(),
    "truncate_time_travel, dry": lambda t: t.truncate_time_travel(dry_run=True),
    "merge_splits": lambda t: t.merge_splits(),
    "merge_splits, dry": lambda t: t.merge_splits(dry_run=True),
    "purge": lambda t: t.purge(older_than_hours=0, force=True, tx_log_retention_hours=0),
    "purge, dry": lambda t: t.purge(older_than_hours=0, force=True, tx_log_retention_hours=0, dry_run=True),
    "reindex": lambda t: t.reindex(force=True),
    "add_columns": lambda t: t.add_columns("y int"),
    "add_constraint": lambda t: t.add_constraint("sane", "k >= 0"),
    "alter": lambda t: t.alter("RENAME COLUMN m TO n"),
    "alter_column": lambda t: t.alter_column("k", comment="a number"),
    "drop_columns": lambda t: t.drop_columns(["m"]),
    "drop_constraint": lambda t: t.drop_constraint("known", if_exists=True),
    "enable_row_tracking": lambda t: t.enable_row_tracking(),
    "rename_column": lambda t: t.rename_column("m", "n"),
    "set_description": lambda t: t.set_description("texts"),
    "set_indexing": lambda t: t.set_indexing({"m": "string"}),
    "set_name": lambda t: t.set_name("texts"),
    "set_properties": lambda t: t.set_properties({"checkpoint.interval": "7"}),
    "unset_properties": lambda t: t.unset_properties("indexing.typemap.m"),
    "upgrade_protocol": lambda t: t.upgrade_protocol("columnMapping"),
    "skip": lambda t: t.skip(t.files()["path"].to_pylist()[-1:], "it is broken"),
    "mirror": lambda t: t.mirror(),
    "changes": lambda t: t.changes(1).read_all(),
    "checkpoint": lambda t: t.checkpoint(),
    "compact": lambda t: t.compact(),
    "clean_up": lambda t: t.clean_up(),
    "clean_up, dry": lambda t: t.clean_up(dry_run=True),
    "protect": lambda t: t.protect(),
    "clear_skips": lambda t: t.clear_skips(),
    "skips": lambda t: t.skips(),
    "prewarm": lambda t: t.prewarm(),
    "health": lambda t: t.health(),
    "history": lambda t: t.history(),
    "log": lambda t: t.log(1),
    "log of this version": lambda t: t.log(),
    "at": lambda t: t.at(version=1),
    "at a time": lambda t: t.at(timestamp=indextables.open(t.url).history()["timestamp"][1].as_py()),
    "state": lambda t: t.state(),
    "verify": lambda t: t.verify(),
    "resolve": lambda t: t.resolve("0" * 32, 1),
}
"""What writes, deletes, or asks the log: nothing of the new table is told as if it were the old one's."""

OF_THIS_VERSION: dict[str, Callable[[Table], object]] = {
    "files": lambda t: t.files(),
    "detail": lambda t: t.detail(),
    "sizes": lambda t: t.sizes(),
    "scan": lambda t: t.scan().read_all(),
    "to_arrow": lambda t: t.to_arrow(),
    "to_pandas": lambda t: t.to_pandas().to_dict(),
    "to_dataset": lambda t: t.to_dataset().to_table(),
    "to_polars": lambda t: t.to_polars().collect().to_dicts(),
    "search": lambda t: t.search("m:word"),
    "search_batches": lambda t: t.search_batches("m:word").read_all(),
    "aggregate": lambda t: t.aggregate(None, {"n": {"stats": {"field": "k"}}}),
    "count": lambda t: t.count(),
    "count of matches": lambda t: t.count("m:word"),
    "sql": lambda t: t.sql("select sum(k) from t"),
    "explain": lambda t: t.explain("m:word")["conditions"],
    "txn_version": lambda t: t.txn_version("old job"),
}
"""What reads the version that the handle has: it answers as before, or says that this version is gone."""

TOLD_BY_MEMORY = {"url", "version", "schema", "partition_columns", "protocol", "metadata", "invalidate_cache"}
MOVES_ON = {"refresh"}
CACHES_ONLY = {"flush_caches", "close", "metrics"}


def made(path: Path, numbers: range, properties: dict[str, str] | None = None) -> Path:
    """A table in which every verb has something to do, with one version for each number."""
    table = indextables.create(
        path, SCHEMA, partition_by=["p"], indexing={"m": "text"}, options=SETTINGS, properties=properties
    )
    for k in numbers:
        table.append([{"k": k, "p": "ab"[k % 2], "m": "word"}], txn=("job of " + path.name, k))
    table.overwrite([{"k": numbers.stop, "p": "a", "m": "word"}], where="p = 'a'")
    return path


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    return {
        "old": made(folder / "old", range(6)),
        "as long": made(folder / "as-long", range(1000, 1006)),
        "longer": made(folder / "longer", range(1000, 1008)),
        "shorter": made(folder / "shorter", range(1000, 1004)),
    }


@pytest.fixture
def path(templates, tmp_path, monkeypatch):
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))
    return Path(shutil.copytree(templates["old"], tmp_path / "t"))


def replaced(path: Path, template: Path) -> dict[str, bytes]:
    """Another table in its place, which this process has not seen being made; its files."""
    shutil.rmtree(path)
    shutil.copytree(template, path)
    return contents(path)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_every_verb_of_a_table_is_tried_on_a_replaced_one():
    tried = {name.split()[0].rstrip(",") for name in (*REFUSED, *OF_THIS_VERSION)}
    known = tried | TOLD_BY_MEMORY | MOVES_ON | CACHES_ONLY
    assert {name for name in dir(Table) if not name.startswith("_")} == known


@pytest.mark.slow
@pytest.mark.parametrize("length", ["longer", "shorter"])
@pytest.mark.parametrize("verb", REFUSED)
def test_a_verb_of_an_old_handle_does_nothing_to_the_table_that_took_its_place(path, templates, verb, length):
    table = indextables.open(path, options=SETTINGS)
    table.to_arrow()
    new = replaced(path, templates[length])
    for _ in range(2):
        with pytest.raises(TableReplaced):
            REFUSED[verb](table)
    left = contents(path)
    assert {key: left.get(key) for key in new} == new
    assert [key for key in left if key not in new and ".indextables-tmp" not in key] == []


@pytest.mark.parametrize("verb", REFUSED)
def test_the_same_verb_works_where_the_table_is_the_one_that_was_opened(path, verb):
    REFUSED[verb](indextables.open(path, options=SETTINGS))


@pytest.mark.parametrize("memory", ["read before", "never read", "nothing remembered"])
@pytest.mark.parametrize("verb", OF_THIS_VERSION)
def test_what_reads_the_version_of_an_old_handle_never_answers_from_the_new_table(path, templates, verb, memory):
    read = OF_THIS_VERSION[verb]
    right = read(indextables.open(path, options=SETTINGS))
    if memory == "nothing remembered":
        indextables.invalidate_caches()
    table = indextables.open(path, options=SETTINGS)
    assert table.version == 7
    if memory == "read before":
        read(table)
    replaced(path, templates["longer"])
    try:
        answer = read(table)
    except (TableReplaced, VersionExpired):
        return
    assert answer == right


def mixed(path: Path, template: Path) -> dict[str, bytes]:
    """The version files of another table, and its data, between the checkpoints of the one that was there."""
    for file in (path / LOG_DIR).glob("0*"):
        file.unlink()
    shutil.copytree(
        template, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("state-v*", "manifests", "_last_checkpoint")
    )
    return contents(path)


HANDLES: dict[str, Callable[[Path], Table]] = {
    "unread": lambda path: indextables.open(path, options=SETTINGS),
    "pinned": lambda path: indextables.open(path, version=5, options=SETTINGS),
    "read": lambda path: _read(indextables.open(path, options=SETTINGS)),
    "written": lambda path: _written(indextables.open(path, options=SETTINGS)),
}


def _read(table: Table) -> Table:
    table.to_arrow()
    return table


def _written(table: Table) -> Table:
    table.append(ROW)
    table.checkpoint()
    return table


WRITES = [
    name
    for name in REFUSED
    if name.split()[0].rstrip(",") in {"append", "overwrite", "delete", "update", "merge", "upsert", "restore"}
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "length", "handle"),
    [
        *((verb, "as long", "unread") for verb in WRITES),
        *itertools.product(("append of a batch", "append of more columns"), ("longer", "as long", "shorter"), HANDLES),
    ],
)
def test_a_checkpoint_that_the_old_table_left_does_not_bring_it_back(path, templates, verb, length, handle):
    indextables.open(path, options=SETTINGS).checkpoint()
    table = HANDLES[handle](path)
    new = mixed(path, templates[length])
    rows = indextables.open(path).to_arrow()
    with pytest.raises(TableReplaced):
        REFUSED[verb](table)
    assert {key: data for key, data in contents(path).items() if ".indextables-tmp" not in key} == new
    indextables.invalidate_caches()
    assert indextables.open(path).to_arrow() == rows


@pytest.mark.parametrize("length", ["longer", "shorter"])
@pytest.mark.parametrize("verb", OF_THIS_VERSION)
def test_what_was_written_and_never_read_is_gone_with_its_table(path, templates, verb, length):
    table = indextables.open(path, options=SETTINGS)
    table.append(ROW)
    replaced(path, templates[length])
    with pytest.raises((TableReplaced, VersionExpired)):
        OF_THIS_VERSION[verb](table)


TWINS = (("old", 0), ("new", 1000))


@pytest.fixture(scope="module", params=["avro", "json", "parquet"])
def twins(request, tmp_path_factory):
    """Two tables with as many versions, each with a checkpoint of its newest version."""
    folder = tmp_path_factory.mktemp("twins")
    found = [made(folder / name, range(first, first + 6), {"state.format": request.param}) for name, first in TWINS]
    for path in found:
        indextables.open(path, options=SETTINGS).checkpoint()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "opened"),
    [
        *((verb, "alone") for verb in OF_THIS_VERSION),
        ("to_arrow", "beside a handle of the new table"),
        ("to_arrow", "after a filtered read"),
    ],
)
def test_a_version_with_a_checkpoint_of_its_own_is_never_answered_from_a_table_as_long(
    twins, tmp_path, monkeypatch, verb, opened
):
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))
    old, new = twins
    path = Path(shutil.copytree(old, tmp_path / "t"))
    read = OF_THIS_VERSION[verb]
    right = read(indextables.open(path, options=SETTINGS))
    indextables.invalidate_caches()
    table = indextables.open(path, options=SETTINGS)
    assert table.version == 7
    if opened == "after a filtered read":
        table.files("p = 'a'")
    replaced(path, new)
    if opened == "beside a handle of the new table":
        assert indextables.open(path).to_arrow(where="p = 'a'")["k"].to_pylist() == [1006]
    try:
        answer = read(table)
    except (TableReplaced, VersionExpired):
        return
    assert answer == right


@pytest.mark.slow
@pytest.mark.parametrize("length", ["longer", "shorter"])
def test_refresh_goes_on_with_the_new_table_and_every_verb_works_on_it(path, templates, length):
    table = indextables.open(path, options=SETTINGS)
    earlier = table.at(version=3)
    table.append(ROW)
    new = replaced(path, templates[length])
    assert table.refresh() is table
    truth = indextables.open(path).to_arrow()
    assert table.to_arrow() == truth
    assert table.append(ROW) == table.version
    assert table.at(version=1).count() == 1
    table.merge_splits()
    assert table.count() == truth.num_rows + 1
    assert set(new) <= set(contents(path))
    # A handle that was made from it before stays with the old table.
    with pytest.raises(TableReplaced):
        earlier.restore(version=1)


WRITES = [verb for verb in REFUSED if verb.startswith(("append", "overwrite"))]


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_of_a_handle_that_has_read_nothing_leaves_nothing_in_the_table_that_took_its_place(
    path, templates, verb
):
    indextables.invalidate_caches()
    table = indextables.open(path, options=SETTINGS)
    new = replaced(path, templates["longer"])
    for _ in range(2):
        with pytest.raises(TableReplaced):
            REFUSED[verb](table)
    assert contents(path) == new


@pytest.mark.parametrize("is_warm", [True, False], ids=["has written", "was opened"])
@pytest.mark.parametrize("verb", [*WRITES, "restore", "history", "checkpoint", "at", "merge_splits", "drop_partitions"])
def test_a_dropped_table_without_another_in_its_place_is_not_found_and_nothing_is_left_there(path, verb, is_warm):
    table = indextables.open(path, options=SETTINGS)
    if is_warm:
        table.append(ROW)
    shutil.rmtree(path)
    for _ in range(2):
        with pytest.raises(TableNotFound):
            REFUSED[verb](table)
        assert not path.exists()


@pytest.mark.parametrize("verb", [verb for verb in WRITES if verb != "append of nothing"])
def test_a_write_on_top_of_a_damaged_version_leaves_no_file(path, verb):
    table = indextables.open(path, options=SETTINGS)
    table.to_arrow()
    (path / version_key(7)).write_bytes(b"{")
    left = contents(path)
    with pytest.raises(LogError):
        REFUSED[verb](table)
    assert contents(path) == left


@pytest.mark.slow
@pytest.mark.parametrize("state", ["avro", "json", "parquet"])
def test_a_handle_that_nobody_has_looked_at_does_not_show_the_table_that_came_later(tmp_path, state):
    schema = pa.schema([("id", pa.int64())])

    def made(first):
        table = indextables.create(
            tmp_path / "t", schema, properties={"checkpoint.interval": "3", "state.format": state}
        )
        for number in range(2):
            table.append([{"id": first + number}])
        return table

    made(0)
    indextables.invalidate_caches()
    unseen = indextables.open(tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    indextables.invalidate_caches()
    made(100)
    indextables.invalidate_caches()
    with pytest.raises((VersionExpired, TableReplaced)):
        unseen.to_arrow()
    assert unseen.refresh().to_arrow()["id"].to_pylist() == [100, 101]
