"""Repair: a new log beside the broken one, a log from the splits, a pointer that points again."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables.env import Env
from indextables.errors import InvalidArgument, SchemaMismatch, SplitCorrupt, TableNotFound
from indextables.log.care.describe import describe_state
from indextables.log.care.opening import open_log
from indextables.log.care.rebuild import SplitFacts, rebuild_log
from indextables.log.care.repair import recreate_pointer, repair_log
from indextables.log.care.schedule import checkpoint
from indextables.log.checkpoint.pointer import read_pointer
from indextables.log.wire.actions import MergeSkip
from indextables.log.wire.names import POINTER_KEY, state_key
from indextables.options import Options
from indextables.storage.store import ObjectMeta
from tests.state.logs import RandomLog, environment, rows_of, same


def contents(env: Env) -> dict[str, bytes]:
    return {meta.key: env.store.get(meta.key) for meta in env.store.list_from("")}


def table_with_splits(missing: int = 0) -> tuple[Env, RandomLog]:
    env = environment()
    log = RandomLog(env, 1)
    log.append(20)
    checkpoint(env)
    log.step()
    files = log.state().files
    for number, (path, size) in enumerate(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True)):
        if number >= missing:
            env.store.put(path, bytes(size))
    return env, log


def test_a_repaired_log_holds_what_is_there_and_names_what_is_not():
    env, log = table_with_splits(missing=3)
    before = contents(env)
    target = environment()
    report = repair_log(env, target)
    assert contents(env) == before
    assert report.source_version == log.version
    paths = log.state().files["path"].to_pylist()
    assert sorted(report.missing) == sorted(paths[:3])
    assert report.wrong_size == ()
    snapshot = open_log(target).snapshot()
    assert sorted(snapshot.files["path"].to_pylist()) == sorted(paths[3:])
    assert snapshot.metadata == log.state().metadata
    assert (snapshot.txns, snapshot.domains, snapshot.skips) == (
        log.state().txns,
        log.state().domains,
        log.state().skips,
    )
    keep = [name for name in snapshot.files.column_names if not name.startswith("addedAt")]
    left = rows_of(snapshot.files.select(keep))
    assert left == [row for row in rows_of(log.state().files.select(keep)) if row["path"] not in report.missing]


def test_repairing_twice_changes_nothing_and_another_log_is_never_overwritten():
    env, _ = table_with_splits()
    target = environment()
    first = repair_log(env, target)
    before = contents(target)
    assert repair_log(env, target) == first
    assert contents(target) == before
    other, _ = table_with_splits()
    RandomLog(other, 2)
    occupied = environment()
    RandomLog(occupied, 9, table_id="other").append(1)
    with pytest.raises(InvalidArgument):
        repair_log(env, occupied)


def test_a_table_whose_splits_are_all_gone_is_repaired_to_an_empty_one():
    env, log = table_with_splits(missing=1000)
    target = environment()
    report = repair_log(env, target)
    assert (report.num_files, len(report.missing)) == (0, len(log.state().files))
    assert len(open_log(target).snapshot().files) == 0


def test_a_split_of_another_size_is_told_and_kept():
    env, log = table_with_splits()
    path = log.state().files["path"][0].as_py()
    env.store.put(path, b"short")
    report = repair_log(env, environment())
    assert report.wrong_size == (path,)
    assert report.missing == ()


def test_repair_reads_past_a_damaged_checkpoint():
    env, log = table_with_splits()
    env.store.put(state_key(1), b"broken")
    target = environment()
    repair_log(env, target)
    assert len(open_log(target).snapshot().files) == len(log.state().files)


def parquet_table(env: Env, key: str, rows: int, **columns: object) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(rows)), **columns}), out)
    env.store.put(key, out.getvalue())


def describer(env: Env):
    def describe(meta: ObjectMeta) -> SplitFacts:
        try:
            footer = pq.ParquetFile(io.BytesIO(env.store.get(meta.key)))
        except pa.ArrowInvalid as error:
            raise SplitCorrupt(f"{meta.key}: {error}", path=meta.key, part="footer") from error
        rows = footer.metadata.num_rows
        return SplitFacts(footer.schema_arrow, rows, {"id": "0"}, {"id": str(rows - 1)}, {"uncompressedSizeBytes": 7})

    return describe


def test_a_lost_log_is_rebuilt_from_the_splits():
    env = environment()
    for day in ("2024-01-01", "2024-01-02"):
        for number in range(3):
            parquet_table(env, f"day={day}/a%20b=x%2Fy/splits/split-{number}.split", 10)
    parquet_table(env, "day=2024-01-03/a%20b=__HIVE_DEFAULT_PARTITION__/splits/split-9.split", 5, note=["x"] * 5)
    env.store.put("day=2024-01-01/a%20b=x%2Fy/splits/broken.split", b"broken")
    env.store.put("_hidden/x.split", b"")
    report = rebuild_log(env, describer(env))
    assert report.num_files == 7
    assert list(report.unreadable) == ["day=2024-01-01/a%20b=x%2Fy/splits/broken.split"]
    assert report.warnings
    snapshot = open_log(env).snapshot()
    assert snapshot.partition_columns == ["day", "a b"]
    assert set(snapshot.schema.names) == {"id", "note", "day", "a b"}
    assert sum(snapshot.files["numRecords"].to_pylist()) == 65
    values = [dict(row) for row in snapshot.files["partitionValues"].to_pylist()]
    assert {"day": "2024-01-01", "a b": "x/y"} in values
    assert {(row["day"], row.get("a b")) for row in values} >= {("2024-01-03", None)}
    assert describe_state(env).num_files == 7


def test_rebuilding_overwrites_no_log_and_needs_splits_that_fit_together():
    env, _ = table_with_splits()
    with pytest.raises(InvalidArgument):
        rebuild_log(env, describer(env))
    with pytest.raises(TableNotFound):
        rebuild_log(environment(), describer(env))
    mixed = environment()
    parquet_table(mixed, "day=1/a.split", 2)
    parquet_table(mixed, "a.split", 2)
    with pytest.raises(SchemaMismatch):
        rebuild_log(mixed, describer(mixed))
    clash = environment()
    parquet_table(clash, "a.split", 2)
    parquet_table(clash, "b.split", 2, other=["x", "y"])
    out = io.BytesIO()
    pq.write_table(pa.table({"id": ["text"]}), out)
    clash.store.put("c.split", out.getvalue())
    with pytest.raises(SchemaMismatch):
        rebuild_log(clash, describer(clash))


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"version":999}', b'{"version":0,"format":"json"}'])
def test_a_lost_or_wrong_pointer_is_made_again(content):
    env = environment()
    log = RandomLog(env, 3)
    log.append(2)
    checkpoint(env)
    log.append(2)
    checkpoint(env)
    env.store.delete_many([POINTER_KEY])
    if content is not None:
        env.store.put(POINTER_KEY, content)
    ref = recreate_pointer(env)
    assert ref is not None
    assert ref.version == 2
    assert read_pointer(env).version == 2
    same(open_log(env).snapshot().state, log.state())


def test_the_pointer_is_made_to_the_newest_checkpoint_that_works():
    env = environment()
    log = RandomLog(env, 3)
    for _ in range(3):
        log.append(2)
        checkpoint(env)
    env.store.put(state_key(3), b"broken")
    assert recreate_pointer(env).version == 2
    assert recreate_pointer(environment()) is None


@pytest.mark.parametrize("kind", ["json", "parquet", "avro"])
def test_the_description_counts_what_is_there(kind):
    env = environment({"state.format": kind, "state.compaction.tombstoneThreshold": 1.0})
    log = RandomLog(env, 4)
    log.append(30)
    checkpoint(env)
    doomed = log.state().files["path"].to_pylist()[:6]
    log.commit([], [], [{"path": path, "dataChange": True} for path in doomed])
    checkpoint(env)
    found = describe_state(env)
    assert found.format == ("avro-state" if kind == "avro" else kind)
    assert (found.version, found.num_files) == (2, 24)
    assert found.total_bytes == sum(log.state().files["size"].to_pylist())
    assert found.checkpoints == 2
    assert found.pointer_version == 2
    assert found.tokens_from == 0
    if kind == "avro":
        assert (found.num_manifests, found.num_entries, found.num_tombstones) == (1, 30, 6)
        assert found.tombstone_ratio == pytest.approx(0.2)
        assert not found.needs_compaction
        assert describe_state(environment_like(env)).needs_compaction


def environment_like(env: Env) -> Env:
    return Env(env.store, env.ambient, Options(environ={}))


def test_skips_and_unusable_checkpoints_are_shown():
    env = environment()
    log = RandomLog(env, 4)
    log.append(3)
    path = log.state().files["path"][0].as_py()
    log.commit([MergeSkip(path=path, skipTimestamp=1, reason="broken", operation="merge", retryAfter=9)], [], [])
    checkpoint(env)
    env.store.put(state_key(7), b"broken")
    found = describe_state(env)
    assert [skip.reason for skip in found.skips] == ["broken"]
    assert list(found.unusable) == [state_key(7)]
    assert describe_state(environment()).format == "none"
