"""What is made of very many files part by part is what all of them at once would give."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

import indextables
from indextables.errors import CheckpointError, LogCorrupt
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint
from indextables.log.checkpoint.avro.read import read_list
from indextables.log.checkpoint.avro.write import list_of, publish_list, write_manifests
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import read_pruned, read_state
from indextables.log.wire.crcfile import CrcFile
from indextables.log.wire.names import LOG_DIR, MANIFEST_DIR, crc_key, version_key
from indextables.log.wire.schema import schema_from_json
from indextables.log.wire.state import StateTotals
from indextables.query.parse import parse
from tests.state.logs import SCHEMA_JSON, RandomLog, environment, rows_of, with_options
from tests.state.spy import Spy

SCHEMA = schema_from_json(SCHEMA_JSON)
PARTS = {"state.filesInMemory": 1, "state.entriesPerManifest": 8, "transaction.cache.enabled": False}
"""Every table has very many files."""


def by_path(files: pa.Table) -> list[dict[str, object]]:
    return sorted(rows_of(files), key=lambda row: str(row["path"]))


class Parts:
    """What `make` was shown."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, files: pa.Table) -> pa.Table:
        self.sizes.append(files.num_rows)
        return files


@pytest.mark.parametrize("seed", range(6))
def test_what_is_made_of_parts_is_the_table_at_every_version(seed):
    env = environment(PARTS)
    log = RandomLog(env, seed, partitions=("day", "shard") if seed % 2 else ())
    log.append(60)
    checkpoint(env)
    for step in range(12):
        log.step()
        if step % 5 == 4:
            checkpoint(env)
        found = open_log(env).snapshot().gathered(Parts())
        assert by_path(found) == by_path(log.state().files), step


def test_what_is_in_memory_is_a_part_of_the_files():
    env = environment(PARTS)
    log = RandomLog(env, 9)
    for _ in range(4):
        log.append(30)
        checkpoint(env)
    log.append(3)
    shown = Parts()
    assert open_log(env).snapshot().gathered(shown).num_rows == 123
    assert max(shown.sizes) <= 8


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_checkpoints_of_other_forms_are_looked_at_whole(kind):
    env = environment({**PARTS, "state.format": kind})
    log = RandomLog(env, 3)
    log.append(30)
    checkpoint(env)
    log.step()
    assert by_path(open_log(env).snapshot().gathered(Parts())) == by_path(log.state().files)


def test_of_a_path_in_two_manifests_the_newest_entry_counts():
    env = environment(PARTS)
    log = RandomLog(env, 4)
    log.append(40)
    files = log.state().files
    newer = files.slice(7, 3).set_column(files.schema.get_field_index("addedAtVersion"), "addedAtVersion", [[9] * 3])
    newer = newer.set_column(files.schema.get_field_index("size"), "size", [[123_456] * 3]).cast(files.schema)
    infos = [info for part in (files, newer) for info in write_manifests(env, part, {}, compacted=False)]
    draft = list_of(log.state(), env.ambient.now_ms(), 8192)
    totals = StateTotals(num_files=43, total_bytes=1)
    ref, _ = publish_list(env, msgspec.structs.replace(draft, manifests=tuple(infos), totals=totals))
    found = open_log(env).snapshot().gathered(Parts())
    assert by_path(found) == by_path(read_state(env, ref).files)
    assert sorted(found["size"].to_pylist())[-3:] == [123_456] * 3
    some = read_pruned(env, ref, lambda _: parse("shard >= 0 OR shard IS NULL", SCHEMA)).files
    assert by_path(some) == by_path(found)


@pytest.mark.parametrize("text", ["shard < 5", "id = 30", "shard < 9 AND note = 'b'", "day > DATE '2024-01-09'"])
def test_a_pruned_state_is_the_same_part_by_part(text):
    env = environment(PARTS)
    log = RandomLog(env, 5)
    log.append(80)
    for _ in range(4):
        log.step()
        checkpoint(env)
    (ref, *_) = find_states(env.store.list_from(LOG_DIR))
    some = read_pruned(env, ref, lambda _: parse(text, SCHEMA)).files
    whole = with_options(env, state_entriesPerManifest=8)
    assert by_path(some) == by_path(read_pruned(whole, ref, lambda _: parse(text, SCHEMA)).files)


def test_a_damaged_manifest_costs_no_file():
    env = environment(PARTS)
    log = RandomLog(env, 6)
    log.append(40)
    checkpoint(env)
    (old, *_) = find_states(env.store.list_from(LOG_DIR))
    kept = {info.path for info in read_list(env, old).manifests}
    log.append(20)
    checkpoint(env)
    (new, *_) = find_states(env.store.list_from(LOG_DIR))
    (fresh, *_) = [info.path for info in read_list(env, new).manifests if info.path not in kept]
    data = env.store.get(LOG_DIR + fresh)
    env.store.put(LOG_DIR + fresh, data[:-1] + bytes([data[-1] ^ 1]))
    assert by_path(open_log(env).snapshot().gathered(Parts())) == by_path(log.state().files)
    for key in [meta.key for meta in env.store.list_from(MANIFEST_DIR)]:
        env.store.put(key, b"Obj\x01 and no more")
    for number in range(log.version):
        env.store.delete_many([version_key(number)])
    with pytest.raises(CheckpointError):
        open_log(env).snapshot().gathered(Parts())


def test_a_check_file_that_tells_other_numbers_is_noticed():
    env = environment(PARTS)
    log = RandomLog(env, 7)
    log.append(40)
    checkpoint(env)
    newest = log.append(1)
    told = CrcFile(crc32c=newest.crc32c, tableSizeBytes=1, numFiles=7, token=newest.token)
    env.store.put(crc_key(log.version), msgspec.json.encode(told))
    with pytest.raises(LogCorrupt, match="7 files"):
        open_log(env).snapshot().gathered(Parts())


def test_only_what_is_kept_is_read_twice():
    env = environment({**PARTS, "state.filesInMemory": 1000})
    log = RandomLog(env, 8)
    log.append(40)
    checkpoint(env)
    spy = Spy(env)
    snapshot = open_log(spy.env).snapshot()
    first = snapshot.gathered(Parts())
    before = len(spy.read)
    assert snapshot.gathered(Parts()) == first == snapshot.files
    assert len(spy.read) == before


@pytest.mark.slow
def test_every_verb_says_the_same_of_a_table_of_very_many_files(tmp_path):
    rows = pa.table({"id": list(range(40)), "day": [n % 4 for n in range(40)], "note": ["a word"] * 40})
    properties = {"mergeOnWrite.enabled": "false", "state.entriesPerManifest": "3"}
    table = indextables.create(tmp_path / "t", rows.schema, partition_by=["day"], properties=properties)
    for start in range(0, 40, 8):
        table.append(rows.slice(start, 8))
    table.delete("id % 7 = 3")
    table.checkpoint()
    table.delete("id = 5")
    table.append(rows.slice(0, 4))

    def told(**options: str) -> list[object]:
        seen = indextables.open(tmp_path / "t", options={"transaction.cache.enabled": "false", **options})
        return [
            seen.detail(),
            seen.count(),
            seen.count(where="id > 20"),
            seen.files("id = 20")["path"].to_pylist(),
            seen.files("day = 1 AND id > 9")["path"].to_pylist(),
            seen.to_arrow(where="id < 30").to_pylist(),
            seen.merge_splits("day = 1", dry_run=True).groups,
            seen.purge(dry_run=True).kept,
            seen.sql("SELECT count(*) AS n FROM t").to_pylist(),
            seen.skips().to_pylist(),
        ]

    assert told(**{"state.filesInMemory": "1"}) == told()
