"""A mirrored table is a Delta table for everybody else: the same rows at every version, and nobody writes it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import shutil
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError

import indextables
from indextables.errors import InvalidArgument, MirrorConflict, NotSupported
from indextables.log.mirror.actions import GUARD
from indextables.sql.local.session import LocalSession

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("message", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("ratio", pa.float64()),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("inside", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("more", pa.map_(pa.string(), pa.int64())),
    ]
)
PARTS = [None, "a", "b", "x"]
ODD = [None, "a", "b/c ü%", "x=y", "2026-01-01 12:00"]


def rows(first, last):
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return [
        {
            "id": i,
            "part": PARTS[i % 4],
            "at": start + dt.timedelta(microseconds=500_000 * (i % 2)),
            "message": f"row {i} ü" if i % 5 else None,
            "price": decimal.Decimal(i) / 4,
            "ratio": float("nan") if i % 7 == 3 else i / 8,
            "day": dt.date(2026, 1, 1 + i % 28),
            "ok": bool(i % 3),
            "raw": bytes([i % 256]),
            "tags": [f"t{i}", None] if i % 2 else [],
            "inside": {"x": i, "y": None},
            "more": [("k", i)],
        }
        for i in range(first, last)
    ]


def build(path):
    """A history with every kind of commit, mirrored from version 3 on."""
    table = indextables.create(path, SCHEMA, partition_by=["part"], indexing={"message": "text"})
    table.append(rows(0, 40))
    table.delete("id = 7")
    table.mirror()
    table.append(rows(40, 80), txn=("app", 1))
    table.update({"message": "'changed'"}, "id < 20")
    table.delete("id % 3 = 1")
    table.merge_splits()
    table.append(rows(100, 4100))
    table.delete("id % 2 = 1 and id > 100")
    table.upsert(rows(60, 90), ["id"])
    table.drop_partitions("part = 'a'")
    table.restore(4)
    table.overwrite(rows(0, 9))
    table.append([{"id": 999, "part": "a", "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "new": 1}], merge_schema=True)
    return table


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    return build(tmp_path_factory.mktemp("mirrored") / "table")


@pytest.fixture
def small(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("m", pa.string())]))
    table.append([{"id": 1, "m": "one"}])
    table.mirror()
    return table


def place(table):
    return table.url.removeprefix("file://")


def log_of(table):
    folder = Path(place(table)) / "_delta_log"
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())} if folder.exists() else {}


def spelled(table):
    return sorted(map(repr, table.to_pylist()))


def by_deltalake(path, schema, version=None):
    names = ", ".join(f'"{name}"' for name in schema.names)
    found = QueryBuilder().register("t", DeltaTable(path, version=version)).execute(f"SELECT {names} FROM t")
    return pa.table(found).cast(schema)


@pytest.mark.slow
def test_every_version_has_the_same_rows_for_every_reader(mirrored):
    path = place(mirrored)
    versions = sorted(int(name[:20]) for name in log_of(mirrored) if name.endswith(".json"))
    assert versions == list(range(3, mirrored.version + 1))
    for version in versions:
        ours = mirrored.at(version).to_arrow()
        delta = DeltaTable(path, version=version)
        assert delta.version() == version
        assert spelled(by_deltalake(path, ours.schema, version)) == spelled(ours)
        lazy = pl.scan_delta(path, version=version).select(ours.column_names).collect()
        assert lazy.sort("id", "message").equals(pl.from_arrow(ours).sort("id", "message"))
        assert delta.metadata().partition_columns == ["part"]
        shown = by_deltalake(path, ours.schema, version)  # noqa: F841 - DuckDB finds it by its name
        assert duckdb.sql("SELECT count(*), sum(id) FROM shown").fetchall() == [
            (ours.num_rows, sum(ours["id"].to_pylist()))
        ]
    assert indextables.open(path).to_arrow().num_rows == mirrored.count()


def test_readers_prune_by_statistics_and_partitions(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    path = tmp_path / "a table"
    table = indextables.create(path, schema, partition_by=["part", "at"], properties={"mirror.delta": "true"})
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    half = dt.timedelta(milliseconds=500)
    for first in (0, 100):
        table.append([{"id": first + i, "part": ODD[i % 5], "at": start + i % 2 * half} for i in range(20)])
    table.delete("id = 3 or id = 104")
    for where in ("id > 3 AND id < 105", "part = 'b/c ü%'", "part IS NULL", "at = TIMESTAMP '2026-01-01 00:00:00.5Z'"):
        found = QueryBuilder().register("t", DeltaTable(path)).execute(f"SELECT id FROM t WHERE {where}")
        wanted = table.to_arrow(["id"], where)["id"].to_pylist()
        assert sorted(pa.table(found)["id"].to_pylist()) == sorted(wanted) != []
    assert spelled(by_deltalake(path, table.schema)) == spelled(table.to_arrow())


@pytest.mark.slow
def test_the_same_bytes_whoever_writes_them_and_when(mirrored, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(place(mirrored), copy)
    files = sorted(file for file in (copy / "_delta_log").iterdir() if file.suffix == ".json")
    wanted = {file.name: file.read_bytes() for file in files}
    for file in files[4:]:
        file.unlink()
    table = indextables.open(copy)
    assert DeltaTable(copy).version() == 6
    assert table.health().mirror.behind == mirrored.version - 6
    report = table.mirror()
    assert (report.mirrored, report.written) == (mirrored.version, len(files) - 4)
    assert {name: data for name, data in log_of(table).items() if name.endswith(".json")} == wanted


def test_a_commit_that_finds_the_mirror_behind_catches_up(small):
    small.append([{"id": 2, "m": "two"}])
    small.append([{"id": 3, "m": "three"}])
    for version in (3, 4):
        (Path(place(small)) / "_delta_log" / f"{version:020d}.json").unlink()
    assert DeltaTable(place(small)).version() == 2
    advice = [entry for entry in small.health().advice if entry.code == "mirror-behind"]
    assert "version 2, the table has version 4" in advice[0].problem
    assert advice[0].command.startswith("MIRROR INDEXTABLES")
    other = indextables.open(place(small))
    other.append([{"id": 4, "m": "four"}])
    assert DeltaTable(place(small)).version() == other.version == 5
    assert spelled(by_deltalake(place(small), other.schema)) == spelled(other.to_arrow())
    assert not [entry for entry in other.health().advice if entry.code.startswith("mirror")]


@pytest.mark.parametrize("there", ["ours", "somebody else's"])
def test_catching_up_passes_over_what_another_process_wrote_and_stops_at_what_is_not_ours(small, there, monkeypatch):
    for number in range(2, 8):
        small.append([{"id": number, "m": str(number)}])
    wanted = log_of(small)
    folder = Path(place(small)) / "_delta_log"
    for version in range(4, 9):
        (folder / f"{version:020d}.json").unlink()
    other = folder / f"{6:020d}.json"

    def meanwhile(source, target, link=os.link, **folders):
        # After the listing and before its turn comes, as another process would.
        if target == f"{5:020d}.json":
            other.write_bytes(wanted[other.name] if there == "ours" else b"{}\n")
        link(source, target, **folders)

    monkeypatch.setattr(os, "link", meanwhile)
    if there == "ours":
        assert small.mirror().mirrored == small.version
        assert log_of(small) == wanted
    else:
        with pytest.raises(MirrorConflict):
            small.mirror()
        assert sorted(log_of(small).keys() & {f"{version:020d}.json" for version in range(4, 9)}) == [
            f"{version:020d}.json" for version in (4, 5, 6)
        ]
        assert other.read_bytes() == b"{}\n"


def test_a_version_that_delta_cannot_show_leaves_those_before_it(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"])
    table.mirror()
    for number, part in enumerate(["a", "b", "c", "", "d"]):
        table.append([{"id": number, "p": part}])
    assert DeltaTable(tmp_path / "t").version() == 4
    for version in range(2, 5):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(NotSupported, match="empty text"):
        table.mirror()
    assert DeltaTable(tmp_path / "t").version() == 4
    assert spelled(by_deltalake(tmp_path / "t", table.schema)) == spelled(table.at(4).to_arrow())


def test_a_mirror_that_lost_a_file_is_begun_anew(small):
    small.append([{"id": 2, "m": "two"}])
    small.append([{"id": 3, "m": "three"}])
    (Path(place(small)) / "_delta_log" / f"{3:020d}.json").unlink()
    assert [entry.code for entry in small.health().advice if entry.code.startswith("mirror")] == ["mirror-behind"]
    small.mirror()
    assert spelled(by_deltalake(place(small), small.schema)) == spelled(small.to_arrow())
    assert small.health().mirror.behind == 0


def test_writers_of_delta_refuse_it_and_lose_nothing(small):
    small.append([{"id": 2, "m": "two"}])
    small.delete("id = 1")
    path, before = place(small), log_of(small)
    rows = small.to_arrow()
    for write in (
        lambda: write_deltalake(path, rows, mode="append"),
        lambda: write_deltalake(path, rows, mode="overwrite"),
        lambda: DeltaTable(path).delete("id = 2"),
        DeltaTable(path).optimize.compact,
        lambda: DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False),
        lambda: pl.DataFrame({"id": [5], "m": ["x"]}).write_delta(path, mode="append"),
    ):
        with pytest.raises(DeltaError, match=GUARD):
            write()
    assert log_of(small) == before
    assert small.verify().ok
    assert small.refresh().to_arrow()["id"].to_pylist() == [2]


def test_who_does_not_know_mirrors_may_not_write_the_table(small):
    assert "deltaMirror" in small.protocol.writerFeatures
    assert "deltaMirror" not in small.protocol.readerFeatures
    assert small.metadata.configuration["mirror.delta"] == "true"
    with pytest.raises(InvalidArgument, match="MIRROR INDEXTABLES"):
        small.set_properties({"mirror.delta": "false"})
    assert small.refresh().version == 2


def test_a_new_table_is_mirrored_from_its_first_version(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("a b", pa.int64())]), properties={"mirror.delta": "true"})
    table.append(pa.table({"a b": [1, 2]}))
    assert sorted(log_of(table)) == [f"{0:020d}.json", f"{1:020d}.json"]
    assert spelled(by_deltalake(tmp_path / "t", table.schema)) == spelled(table.to_arrow())
    assert DeltaTable(tmp_path / "t", version=0).version() == 0


def test_what_somebody_else_wrote_is_left_alone(small):
    foreign = Path(place(small)) / "_delta_log" / f"{3:020d}.json"
    foreign.write_text('{"commitInfo":{}}\n')
    small.append([{"id": 2, "m": "two"}])
    assert small.version == 3
    assert foreign.read_text() == '{"commitInfo":{}}\n'
    small.append([{"id": 3, "m": "three"}])
    assert f"{4:020d}.json" not in log_of(small)
    with pytest.raises(MirrorConflict, match="Move the folder"):
        small.mirror()
    with pytest.raises(MirrorConflict):
        small.mirror(stop=True)
    assert [entry.code for entry in small.health().advice if entry.code.startswith("mirror")] == ["mirror-stopped"]
    shutil.rmtree(foreign.parent)
    assert small.mirror().mirrored == small.version
    assert spelled(by_deltalake(place(small), small.schema)) == spelled(small.to_arrow())


def test_the_end_of_a_mirror_deletes_it_and_a_new_one_begins_anew(small):
    assert small.mirror(stop=True).deleted == 3
    assert log_of(small) == {}
    assert not (Path(place(small)) / "_delta_log").exists()
    small.append([{"id": 2, "m": "two"}])
    assert log_of(small) == {}
    assert small.health().mirror is None
    session = LocalSession({"t": place(small)})
    told = session.run("MIRROR INDEXTABLES t").to_pylist()[0]
    assert told["mirrored"] == told["version"] == small.refresh().version
    assert spelled(by_deltalake(place(small), small.schema)) == spelled(small.to_arrow())
    assert session.run("MIRROR INDEXTABLES t STOP").to_pylist()[0]["mirrored"] is None


def test_what_other_tools_may_do_to_a_mirror_changes_no_row_and_goes_with_it(small):
    small.append([{"id": 3, "m": "three"}])
    theirs = DeltaTable(place(small))
    theirs.create_checkpoint()
    theirs.compact_logs(2, 3)
    for path in log_of(small):
        os.utime(Path(place(small)) / "_delta_log" / path, (1e9, 1e9))
    DeltaTable(place(small)).cleanup_metadata()
    assert f"{2:020d}.json" not in log_of(small)
    small.append([{"id": 2, "m": "two"}])
    assert small.health().mirror.behind == 0
    assert spelled(by_deltalake(place(small), small.schema)) == spelled(small.to_arrow())
    DeltaTable(place(small)).compact_logs(small.version - 1, small.version)
    assert any(name.endswith(".compacted.json") for name in log_of(small))
    small.mirror(stop=True)
    assert not (Path(place(small)) / "_delta_log").exists()
    small.mirror()
    assert spelled(by_deltalake(place(small), small.schema)) == spelled(small.to_arrow())


def test_a_file_of_others_stays_where_a_mirror_ends(small):
    note = Path(place(small)) / "_delta_log" / "note.txt"
    note.write_text("mine")
    small.mirror(stop=True)
    assert list(note.parent.iterdir()) == [note]


def test_a_restore_changes_rows_and_not_whether_there_is_a_mirror(small):
    small.restore(0)
    assert spelled(by_deltalake(place(small), small.schema)) == []
    assert small.metadata.configuration["mirror.delta"] == "true"


@pytest.mark.parametrize("verb", ["clean_up", "purge", "truncate"])
def test_the_mirror_is_cut_together_with_the_log(small, verb):
    for number in range(2, 9):
        small.append([{"id": number, "m": str(number)}])
    small.overwrite([{"id": 100, "m": "new"}])
    small.checkpoint()
    options = {"logRetention.duration": "0", "checkpointRetention.duration": "0", "state.retention.versions": "1"}
    table = indextables.open(place(small), options={**options, "state.retention.hours": "0"})
    if verb == "clean_up":
        table.clean_up()
    elif verb == "purge":
        table.purge(older_than_hours=0, tx_log_retention_hours=0, force=True)
    else:
        table.truncate_time_travel()
    oldest = table.health().oldest_version
    assert oldest > 3
    if verb == "purge":
        assert len(list(Path(place(small)).rglob("*.split"))) == 1
    shown = sorted(int(name[:20]) for name in log_of(table) if name.endswith(".json"))
    assert shown[0] >= oldest
    for version in shown:
        ours = indextables.open(place(small), version=version)
        assert spelled(by_deltalake(place(small), ours.schema, version)) == spelled(ours.to_arrow())
    assert DeltaTable(place(small)).version() == table.refresh().version


@pytest.mark.parametrize("options", [{}, {"mirror.delta": "false"}], ids=["as the table says", "without the option"])
def test_versions_between_the_cut_and_a_newer_checkpoint_keep_their_rows(tmp_path, options):
    properties = {"mirror.delta": "true", "mirror.checkpointInterval": "10", "checkpoint.interval": "4"}
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]), properties=properties)
    for number in range(1, 6):
        table.append([{"id": number}])
    table.set_description("metadata stands among the versions that stay")
    for number in range(6, 11):
        table.append([{"id": number}])
    table = indextables.open(tmp_path / "t", options=options)
    cut = table.purge(older_than_hours=0, tx_log_retention_hours=0, force=True).cut
    assert 0 < cut < 10
    shown = sorted(int(name[:20]) for name in log_of(table) if name.endswith(".json"))
    assert shown == list(range(cut, table.refresh().version + 1))
    for version in shown:
        ours = indextables.open(tmp_path / "t", version=version)
        assert spelled(by_deltalake(tmp_path / "t", ours.schema, version)) == spelled(ours.to_arrow())
    assert json.loads(log_of(table)["_last_checkpoint"])["version"] == 10


def test_a_mirror_that_shows_nothing_holds_up_no_cleanup(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("at", pa.time64("us"))])
    table = indextables.create(tmp_path / "t", schema, properties={"mirror.delta": "true"})
    for number in range(12):
        table.append([{"id": number, "at": dt.time(1)}])
    table.checkpoint()
    table.truncate_time_travel()
    assert table.health().oldest_version > 0
    assert log_of(table) == {}


def test_checkpoints_are_written_and_readers_need_nothing_below(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us")), ("part", pa.string())])
    table = indextables.create(
        tmp_path / "t",
        schema,
        partition_by=["part", "at"],
        properties={"mirror.delta": "true", "mirror.checkpointInterval": "4"},
    )
    when = dt.datetime(2026, 1, 1, 12, 30, 0, 250_000)  # noqa: DTZ001
    for number in range(6):
        table.append(pa.table({"id": [number, -number], "at": [when] * 2, "part": [None, "p"]}), txn=("a", number))
    table.delete("id = 3")
    table.append(pa.table({"id": [7], "at": [when], "part": ["q"]}))
    assert json.loads(log_of(table)["_last_checkpoint"])["version"] == 8
    for name in list(log_of(table)):
        if name.endswith(".json") and int(name[:20]) < 8:
            (tmp_path / "t" / "_delta_log" / name).unlink()
    assert spelled(by_deltalake(tmp_path / "t", table.schema)) == spelled(table.to_arrow())
    assert DeltaTable(tmp_path / "t").transaction_version("a") == 5


@pytest.mark.parametrize("what", ["a time", "an empty partition", "an older default"])
def test_what_delta_cannot_show_stops_the_mirror_and_is_told(tmp_path, what):
    kind = pa.time64("us") if what == "a time" else pa.int32()
    schema = pa.schema([("id", kind), ("part", pa.string())])
    table = indextables.create(tmp_path / "t", schema, partition_by=["part"])
    if what == "a time":
        with pytest.raises(NotSupported, match=r"type time"):
            table.mirror()
        assert table.refresh().version == 0
        assert log_of(table) == {}
        return
    table.append(pa.table({"id": pa.array([1], pa.int32()), "part": ["a"]}))
    table.mirror()
    before = log_of(table)
    if what == "an empty partition":
        table.append(pa.table({"id": pa.array([2], pa.int32()), "part": [""]}))
    else:
        table.add_columns("note string DEFAULT 'none'")
    assert log_of(table) == before
    assert DeltaTable(tmp_path / "t").version() == 2
    told = [entry for entry in table.health().advice if entry.code == "mirror-stopped"]
    assert told[0].command.endswith("STOP")
    with pytest.raises(NotSupported, match="cannot be mirrored"):
        table.mirror()
    # Nothing that the mirror shows goes, until somebody ends it.
    table.checkpoint()
    options = {"logRetention.duration": "0", "checkpointRetention.duration": "0", "state.retention.hours": "0"}
    cut = indextables.open(tmp_path / "t", options={**options, "state.retention.versions": "1"}).clean_up()
    assert "cannot follow" in cut.reason
    files = set((tmp_path / "t").rglob("*.split"))
    assert not table.purge(older_than_hours=0, tx_log_retention_hours=0, force=True).deleted
    assert set((tmp_path / "t").rglob("*.split")) == files
    assert spelled(by_deltalake(tmp_path / "t", schema)) == spelled(table.at(2).to_arrow())
    assert table.mirror(stop=True).mirrored is None
    assert log_of(table) == {}


def test_columns_that_were_renamed_dropped_and_named_anew_are_the_same_for_every_reader(tmp_path):
    schema = pa.schema(
        [("id", pa.int64()), ("m", pa.string()), ("n", pa.int64()), ("s", pa.struct([("x", pa.int32())]))]
    )
    table = indextables.create(tmp_path / "t", schema, properties={"mirror.checkpointInterval": "4"})
    table.append([{"id": 1, "m": "one", "n": 10, "s": {"x": 1}}, {"id": 2, "m": "two", "n": 20, "s": None}])
    table.mirror()
    table.rename_column("m", "text")
    table.append([{"id": 3, "text": "three", "n": 30}])
    table.drop_columns(["n"])
    table.add_columns("n string, m bigint DEFAULT NULL")
    table.alter_column("n", default="'later'")
    table.append([{"id": 4, "text": "four", "n": "new", "m": 4}])
    table.rename_column("text", "m w")
    table.delete("`m w` = 'two' OR n = 'new'")
    table.rename_column("m w", "text")
    table.restore(4)
    table.append([{"id": 5, "text": "five"}])
    table.mirror()
    for version in range(2, table.version + 1):
        ours = table.at(version).to_arrow()
        assert spelled(by_deltalake(tmp_path / "t", ours.schema, version)) == spelled(ours)
    numbers = [field.metadata["delta.columnMapping.id"] for field in DeltaTable(tmp_path / "t").schema().fields]
    assert numbers == [1, 2, 3, 4]
    # A reader that knows no mapped names must refuse them: the same names may mean other columns in files.
    with pytest.raises(DeltaError, match="columnMapping"):
        DeltaTable(tmp_path / "t").to_pyarrow_table()


def test_widened_columns_are_shown_to_readers_that_know_them_and_to_no_others(tmp_path):
    schema = pa.schema([("a", pa.int8()), ("b", pa.float32()), ("c", pa.decimal128(5, 2)), ("d", pa.int32())])
    table = indextables.create(tmp_path / "t", schema)
    table.append(pa.Table.from_pylist([{"a": 1, "b": 0.5, "c": decimal.Decimal("1.25"), "d": 7}], schema))
    table.mirror()
    table.alter_column("a", type="bigint")
    table.alter_column("b", type="double")
    table.alter_column("c", type="decimal(20,2)")
    table.alter_column("d", type="double")
    table.append([{"a": 2**40, "b": 1e300, "c": decimal.Decimal("123456789.25"), "d": 0.1}])
    table.delete("a = 1")
    for read in (lambda at: by_deltalake(at, table.schema), lambda at: pl.scan_delta(at).collect()):
        with pytest.raises(Exception, match=r"(?i)typeWidening"):
            read(str(tmp_path / "t"))
    shutil.copytree(tmp_path / "t", tmp_path / "delta", ignore=shutil.ignore_patterns("_transaction_log"))
    for version in range(2, table.version + 1):
        theirs = indextables.open(tmp_path / "delta", version=version)
        ours = table.at(version)
        assert theirs.detail()["system"] == "Delta"
        assert theirs.to_arrow().equals(ours.to_arrow())
        assert theirs.count(where="d < 1") == ours.count(where="d < 1")
