"""Care for tables that may not open: verify, repair, rebuild, a new pointer, cleanup, caches."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument, TableNotFound

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("message", pa.string()),
        ("score", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def rows(start, count=5):
    base = pa.array(range(start, start + count), pa.int64())
    return pa.table(
        [
            base,
            pa.array([start % 3] * count, pa.int32()).cast(pa.date32()),
            pa.array([f"connection timeout number{i}" for i in range(start, start + count)]),
            base.cast(pa.float64()),
            base.cast(pa.timestamp("us", "UTC")),
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def place(tmp_path):
    """A table of two partitions, four commits and a checkpoint."""
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["day"], indexing={"message": "text"})
    for start in (0, 10, 20):
        table.append(rows(start))
    table.checkpoint()
    table.append(rows(30))
    return tmp_path / "t"


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_place_of(place, repaired):
    shutil.rmtree(place / "_transaction_log")
    shutil.copytree(repaired / "_transaction_log", place / "_transaction_log")
    indextables.invalidate_caches()
    return indextables.open(place)


def ids(table):
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


def test_verify_explains_a_table_that_does_not_open(place):
    assert indextables.verify(place).ok
    (place / "_transaction_log" / "00000000000000000004.json").write_bytes(b"garbage")
    indextables.invalidate_caches(place)
    with pytest.raises(indextables.IndexTablesError):
        indextables.open(place).count()
    report = indextables.verify(place)
    assert not report.ok
    assert report.findings[0].version == 4
    with pytest.raises(TableNotFound):
        indextables.verify(place / "nothing")


def test_repair_leaves_out_what_is_lost_and_touches_nothing(place, tmp_path):
    lost, *_ = sorted(place.rglob("*.split"))
    before_loss = set(ids(indextables.open(place)))
    gone = set(indextables.open(place).files().column("path").to_pylist())
    lost.unlink()
    before = contents(place)
    report = indextables.repair(place, at=tmp_path / "repaired")
    assert contents(place) == before
    assert len(report.missing) == 1
    assert set(report.missing) < gone
    assert indextables.repair(place, at=tmp_path / "repaired").version == report.version
    table = in_place_of(place, tmp_path / "repaired")
    assert set(ids(table)) < before_loss
    assert table.count() == len(before_loss) - 5
    assert indextables.verify(place).ok
    assert table.append(rows(90)) == report.version + 1


def test_repair_never_writes_into_another_tables_log(place, tmp_path):
    indextables.create(tmp_path / "other", SCHEMA)
    before = contents(tmp_path / "other")
    with pytest.raises(InvalidArgument):
        indextables.repair(place, at=tmp_path / "other")
    assert contents(tmp_path / "other") == before


def test_a_lost_log_comes_back_from_the_splits(place):
    before = indextables.open(place)
    whole, files, hits = before.to_arrow().sort_by("id"), before.files(), before.search("message:number31")
    shutil.rmtree(place / "_transaction_log")
    indextables.invalidate_caches()
    report = indextables.rebuild(place)
    assert (report.num_files, report.unreadable) == (4, {})
    table = indextables.open(place)
    assert (table.schema, table.partition_columns) == (SCHEMA, ["day"])
    assert table.to_arrow().sort_by("id") == whole
    assert table.search("message:number31").drop_columns("_score") == hits.drop_columns("_score")
    same = ["path", "partitionValues", "size", "numRecords", "minValues", "maxValues", "stats", "docMappingRef"]
    same += ["footerStartOffset", "footerEndOffset", "hotcacheStartOffset", "hotcacheLength", "hasFooterOffsets"]
    assert table.files().select(same).sort_by("path") == files.select(same).sort_by("path")
    assert indextables.verify(place).ok
    table.append(rows(50))
    assert table.count("message:number52") == 1
    assert set(table.files()["docMappingRef"].to_pylist()) == set(files["docMappingRef"].to_pylist())


def test_rebuilding_lists_what_cannot_be_read_and_overwrites_no_log(place, tmp_path):
    with pytest.raises(InvalidArgument):
        indextables.rebuild(place)
    damaged, *_ = sorted(place.rglob("*.split"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    report = indextables.rebuild(place, at=tmp_path / "rebuilt")
    assert report.num_files == 3
    assert [key.rsplit("/", 1)[-1] for key in report.unreadable] == [damaged.name]
    assert len(ids(in_place_of(place, tmp_path / "rebuilt"))) == 15
    with pytest.raises(TableNotFound):
        indextables.rebuild(tmp_path / "nothing")


def test_a_lost_pointer_is_made_again(place):
    pointer = place / "_transaction_log" / "_last_checkpoint"
    pointer.unlink()
    assert indextables.recreate_pointer(place) == 3
    assert pointer.exists()
    assert indextables.verify(place).findings == ()


def test_a_damaged_checkpoint_is_reported_and_the_next_one_replaces_it(place):
    table = indextables.open(place)
    table.checkpoint()
    state = next(iter(sorted((place / "_transaction_log").glob("state-v*4/_manifest.avro"))))
    state.write_bytes(state.read_bytes()[:30])
    table.invalidate_cache()
    assert [finding.kind for finding in indextables.verify(place).findings] == ["checkpoint"]
    assert table.checkpoint() == 4
    assert indextables.verify(place).findings == ()
    assert table.state().unusable == {}


def test_cleanup_lists_first_and_deletes_then(place):
    options = {"logRetention.duration": 0, "state.retention.hours": 0, "state.retention.versions": 1}
    table = indextables.open(place, options={**options, "cleanup.enabled": False})
    table.checkpoint()
    before = contents(place)
    planned = table.clean_up(dry_run=True)
    assert contents(place) == before
    assert planned.versions
    done = table.clean_up()
    assert (done.versions, done.states) == (planned.versions, planned.states)
    assert set(before) - set(contents(place)) == {*done.versions, *done.states, *done.manifests}
    assert indextables.open(place).count() == 20
    assert indextables.verify(place).ok


def test_the_caches_tell_how_often_they_knew_and_can_be_emptied(place):
    indextables.invalidate_caches()
    table = indextables.open(place)
    assert table.count() == 20
    before = indextables.cache_stats()
    assert indextables.open(place).count() == 20
    after = indextables.cache_stats()
    assert sum(r.hits for r in after.regions.values()) > sum(r.hits for r in before.regions.values())
    names = {"protocolHitRate", "metadataHitRate", "versionHitRate", "filesHitRate", "versionsListHitRate"}
    assert names <= set(after.hit_rates())
    assert sum(r.entries for r in after.regions.values()) > 0
    table.invalidate_cache()
    assert sum(r.entries for r in indextables.cache_stats().regions.values()) == 0
    assert indextables.open(place).count() == 20
    indextables.invalidate_caches(place)
    assert sum(r.entries for r in indextables.cache_stats().regions.values()) == 0


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_table_that_begins_with_a_checkpoint_in_parts_is_verified(tmp_path, form):
    schema = pa.schema([("p", pa.string()), ("x", pa.int64())])
    properties = {"state.format": form, "checkpoint.maxFileSize": "1"}
    table = indextables.create(tmp_path / "t", schema, partition_by=["p"], properties=properties)
    for part in ("a", "b"):
        table.append([{"p": part, "x": 1}, {"p": part * 2, "x": 2}])
    table.truncate_time_travel()
    report = table.verify()
    assert report.ok, report.findings
    assert report.data_files_checked == 4
    (lost,) = (tmp_path / "t" / "p=aa").rglob("*.split")
    lost.unlink()
    assert [finding.kind for finding in table.verify().findings] == ["data-file-missing"]
