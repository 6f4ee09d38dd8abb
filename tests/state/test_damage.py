"""Damaged, hostile and incomplete checkpoints: a typed error, an older one or the log, never a shorter table."""

from __future__ import annotations

import functools
import io
import json
import random
import struct
import zlib

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables.env import Env
from indextables.errors import CheckpointCorrupt, CheckpointError, CheckpointInvalid, IndexTablesError, LimitExceeded
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint
from indextables.log.care.verifying import verify
from indextables.log.checkpoint.avro import frame as avro_frame
from indextables.log.checkpoint.avro.frame import read_container
from indextables.log.checkpoint.avro.schema import ENTRY, LIST
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import read_state
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.read.folding import replay
from indextables.log.read.log import Log
from indextables.log.wire.names import (
    LOG_DIR,
    MANIFEST_DIR,
    POINTER_KEY,
    json_checkpoint_key,
    parquet_checkpoint_key,
    state_key,
    version_key,
)
from tests.log.scripted import Scripted
from tests.state.logs import TABLE_ID, RandomLog, environment, same, with_options
from tests.state.spy import Spy

FORMATS = {
    "json": {"state.format": "json"},
    "json in parts": {"state.format": "json", "checkpoint.maxFileSize": 3000},
    "parquet": {"state.format": "parquet"},
    "parquet in parts": {"state.format": "parquet", "checkpoint.maxFileSize": 12000},
    "avro": {"state.format": "avro", "state.entriesPerManifest": 10},
}


def checkpointed(name: str, seed: int = 1, table_id: str = TABLE_ID) -> tuple[Env, RandomLog, list[str]]:
    """A log with checkpoints of versions 10 and 20, four versions after that, and the keys of the newest checkpoint."""
    made, keys = _made(name, seed, table_id)
    env = environment(FORMATS[name])
    return env, made.onto(env), keys


@functools.lru_cache
def _made(name: str, seed: int, table_id: str) -> tuple[RandomLog, list[str]]:
    env = environment(FORMATS[name])
    log = RandomLog(env, seed, table_id=table_id)
    before: set[str] = set()
    for _ in range(12):
        log.append(3)
        log.step()
        if log.version in {10, 20}:
            before = {meta.key for meta in env.store.list_from(LOG_DIR)}
            write_checkpoint(env, log.state())
    fresh = [m.key for m in env.store.list_from(LOG_DIR) if m.key not in before]
    return log, [key for key in fresh if ".checkpoint." in key or "manifest" in key]


def snapshot(env: Env) -> Log:
    return open_log(with_options(env, transaction_cache_enabled="false"))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "flipped", "garbage", "another table's"])
def test_any_damaged_file_of_the_newest_checkpoint_leads_to_an_older_one(name, damage):
    env, log, keys = checkpointed(name)
    other = checkpointed(name, seed=2, table_id="another")[0]
    other_keys = [m.key for m in other.store.list_from(LOG_DIR)]
    chance = random.Random(damage + name)
    for key in chance.sample(keys, min(4, len(keys))):
        good = env.store.get(key)
        if damage == "gone":
            env.store.delete_many([key])
        elif damage == "empty":
            env.store.put(key, b"")
        elif damage == "cut":
            env.store.put(key, good[: chance.randrange(1, len(good))])
        elif damage == "flipped":
            at = chance.randrange(len(good))
            env.store.put(key, good[:at] + bytes([good[at] ^ (1 << chance.randrange(8))]) + good[at + 1 :])
        elif damage == "garbage":
            env.store.put(key, chance.randbytes(len(good)))
        else:
            swap = key if key in other_keys else next(k for k in other_keys if k.split("/")[-2] == key.split("/")[-2])
            env.store.put(key, other.store.get(swap))
        same(snapshot(env).snapshot().state, log.state())
        env.store.put(key, good)
    same(snapshot(env).snapshot().state, log.state())


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_checkpoint_is_replaced_by_the_next_one(name):
    env, log, keys = checkpointed(name)
    env.store.put(keys[-1], b"broken")
    log.append(1)
    ref = checkpoint(env)
    assert ref.version == log.version
    same(read_state(env, ref), log.state())


@pytest.mark.parametrize("name", FORMATS)
def test_without_older_checkpoint_and_history_a_damaged_one_is_an_error_and_no_shorter_table(name):
    env, log, keys = checkpointed(name)
    for ref in find_states(env.store.list_from(LOG_DIR)):
        if ref.version < 20:
            env.store.delete_many(ref.keys)
    env.store.delete_many([version_key(v) for v in range(21)])
    same(snapshot(env).snapshot().state, log.state())
    for key in keys:
        good = env.store.get(key)
        env.store.put(key, good[:-1])
        with pytest.raises(IndexTablesError):
            _ = snapshot(env).snapshot().state
        env.store.put(key, good)


@pytest.mark.parametrize("name", FORMATS)
def test_flipping_any_byte_of_a_checkpoint_is_noticed_or_harmless(name):
    env, log, keys = checkpointed(name)
    ref = find_states(env.store.list_from(LOG_DIR))[0]
    expected = replay(None, log.history[:21])
    chance = random.Random(7)
    for key in keys:
        good = env.store.get(key)
        for at in chance.sample(range(len(good)), min(6, len(good))):
            env.store.put(key, good[:at] + bytes([good[at] ^ (1 << chance.randrange(8))]) + good[at + 1 :])
            try:
                found = read_state(env, ref)
            except IndexTablesError:
                continue
            paths = sorted(found.files.column("path").to_pylist())
            assert paths == sorted(expected.files.column("path").to_pylist())
        env.store.put(key, good)


def test_a_multi_part_checkpoint_counts_only_when_all_parts_are_there():
    env, _, keys = checkpointed("parquet in parts")
    assert len(keys) > 2
    env.store.delete_many([keys[1]])
    assert [ref.version for ref in find_states(env.store.list_from(LOG_DIR))] == [10]


def test_a_state_of_another_version_under_this_name_is_refused():
    env, _, _ = checkpointed("avro")
    env.store.put(state_key(24), env.store.get(state_key(20)))
    ref = find_states(env.store.list_from(LOG_DIR))[0]
    with pytest.raises(CheckpointCorrupt):
        read_state(env, ref)


@pytest.mark.parametrize(
    "path",
    [
        "../manifest-x.avro",
        "manifests/../../x.avro",
        "/etc/passwd.avro",
        "manifests/a/b.avro",
        "other/x.avro",
        "manifests/x.json",
        "..\\x.avro",
        "file:///x.avro",
        "manifests/.avro\x00.avro",
        "",
    ],
)
def test_a_manifest_path_cannot_leave_the_log(path):
    env, _, _ = checkpointed("avro")
    key = state_key(20)
    record = next(iter(fastavro.reader(io.BytesIO(_uncompressed(env.store.get(key))))))
    record["manifests"][0]["path"] = path
    out = io.BytesIO()
    fastavro.writer(out, LIST.schema, [record])
    env.store.put(key, out.getvalue())
    with pytest.raises(CheckpointError):
        read_state(env, find_states(env.store.list_from(LOG_DIR))[0])


def test_the_three_forms_of_a_manifest_path_are_found():
    env, log, _ = checkpointed("avro")
    expected = replay(None, log.history[:21])
    key = state_key(20)
    record = next(iter(fastavro.reader(io.BytesIO(_uncompressed(env.store.get(key))))))
    folder = key.split("/")[1]
    for number, info in enumerate(record["manifests"]):
        data = env.store.get(LOG_DIR + info["path"])
        name = f"part-{number}.avro"
        if number % 3 == 0:
            env.store.put(f"{LOG_DIR}{folder}/{name}", data)
            info["path"] = f"{folder}/{name}"
        elif number % 3 == 1:
            env.store.put(f"{LOG_DIR}{folder}/{name}", data)
            info["path"] = name
    out = io.BytesIO()
    fastavro.writer(out, LIST.schema, [record])
    env.store.put(key, out.getvalue())
    same(read_state(env, find_states(env.store.list_from(LOG_DIR))[0]), expected)


def test_a_manifest_of_another_size_is_refused_where_the_state_tells_nothing_but_sizes():
    env, log, _ = checkpointed("avro")
    key = state_key(20)
    record = next(iter(fastavro.reader(io.BytesIO(_uncompressed(env.store.get(key))))))
    for info in record["manifests"]:
        info |= {"crc32c": None, "setHash": None}
    out = io.BytesIO()
    fastavro.writer(out, LIST.schema, [record])
    env.store.put(key, out.getvalue())
    newest = find_states(env.store.list_from(LOG_DIR))[0]
    same(read_state(env, newest), replay(None, log.history[:21]))
    changed = LOG_DIR + record["manifests"][0]["path"]
    entries = list(fastavro.reader(io.BytesIO(_uncompressed(env.store.get(changed)))))
    entries[0]["numRecords"] = 10**9
    out = io.BytesIO()
    fastavro.writer(out, ENTRY.schema, entries)
    env.store.put(changed, out.getvalue())
    with pytest.raises(CheckpointInvalid, match="bytes"):
        read_state(env, newest)
    same(open_log(env).snapshot().state, log.state())


# Avro, by hand


def _uncompressed(data: bytes) -> bytes:
    """The same container with the null codec, which fastavro reads without further libraries."""
    shape = LIST if b"StateManifest" in data[:200] else ENTRY
    frame = avro_frame._Cursor(memoryview(data), "x")
    codec, _ = avro_frame._header(frame)
    sync = frame.take(16)
    out = [avro_frame._head(shape, "null", sync)]
    for count, block in avro_frame._blocks(frame, sync, codec, "x"):
        out += [avro_frame._long(count), avro_frame._long(len(block)), block, sync]
    return b"".join(out)


def manifest_bytes() -> bytes:
    env, _, _ = checkpointed("avro")
    return env.store.get(next(m.key for m in env.store.list_from(MANIFEST_DIR)))


def container(blocks: list[tuple[int, bytes]], schema: object = None, codec: bytes = b"null") -> bytes:
    text = json.dumps(ENTRY.schema if schema is None else schema).encode() if not isinstance(schema, bytes) else schema
    sync = b"s" * 16
    out = [b"Obj\x01", avro_frame._map({"avro.schema": text, "avro.codec": codec}), sync]
    for count, block in blocks:
        out += [avro_frame._long(count), avro_frame._long(len(block)), block, sync]
    return b"".join(out)


def test_fastavro_reads_what_we_write_and_we_read_what_it_writes():
    env, _, _ = checkpointed("avro")
    ref = find_states(env.store.list_from(LOG_DIR))[0]
    by_path = {row["path"]: row for row in read_state(env, ref).files.to_pylist()}
    seen = 0
    for meta in env.store.list_from(MANIFEST_DIR):
        for row in fastavro.reader(io.BytesIO(_uncompressed(env.store.get(meta.key)))):
            mine = by_path.get(row["path"])
            if mine is None or mine["addedAtLine"] != row["addedAtLine"]:
                continue
            seen += 1
            assert row["size"] == mine["size"]
            assert row["partitionValues"] == {k: v for k, v in mine["partitionValues"] if v is not None}
            assert row["deletionVector"] == mine["deletionVector"]
    assert seen >= len(by_path)
    for codec in ("null", "deflate"):
        out = io.BytesIO()
        rows = list(fastavro.reader(io.BytesIO(_uncompressed(manifest_bytes()))))
        fastavro.writer(out, ENTRY.schema, rows, codec=codec, sync_interval=500)
        table = read_container(out.getvalue(), ENTRY, name="x")
        assert table.column("path").to_pylist() == [row["path"] for row in rows]


@pytest.mark.parametrize("cut", [0, 3, 4, 10, 200, -1, -5, -17])
def test_a_cut_container_is_corrupt(cut):
    with pytest.raises(CheckpointCorrupt):
        read_container(manifest_bytes()[:cut] if cut else b"", ENTRY, name="x")


def test_bytes_after_the_end_are_corrupt():
    with pytest.raises(CheckpointCorrupt):
        read_container(manifest_bytes() + b"\x00", ENTRY, name="x")


@pytest.mark.parametrize("count", [-1, 2**60, -(2**60), 1000])
def test_a_block_that_lies_about_its_count_is_corrupt(count):
    with pytest.raises(CheckpointCorrupt):
        read_container(container([(count, b"\x02a" * 10)]), ENTRY, name="x")


@pytest.mark.parametrize("block", [b"\xff" * 9 + b"\x01", b"\x02", b"\x80" * 50, struct.pack("<q", 2**60) * 3])
def test_a_block_of_nonsense_is_corrupt(block):
    with pytest.raises(CheckpointCorrupt):
        read_container(container([(1, block)]), ENTRY, name="x")


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'"string"',
        {"type": "record", "name": "R", "fields": []},
        {"type": "record", "name": "R", "fields": [{"name": "path", "type": "R"}]},
        {"type": "record", "name": "R", "fields": [{"name": "path", "type": "bytes"}]},
        {"type": "record", "name": "R"},
        {"type": "enum", "name": "E", "symbols": []},
        {**ENTRY.schema, "fields": [*ENTRY.schema["fields"], {"name": "more", "type": "string"}]},
        {**ENTRY.schema, "fields": ENTRY.schema["fields"][1:]},
    ],
)
def test_a_foreign_schema_is_corrupt(schema):
    with pytest.raises(CheckpointCorrupt):
        read_container(container([], schema), ENTRY, name="x")


def test_a_deep_schema_is_corrupt():
    kind: object = "string"
    for _ in range(200):
        kind = {"type": "array", "items": kind}
    fields = [{"name": "path", "type": kind}, *ENTRY.schema["fields"][1:]]
    with pytest.raises(CheckpointCorrupt):
        read_container(container([], {**ENTRY.schema, "fields": fields}), ENTRY, name="x")


def test_an_unknown_codec_and_a_wrong_sync_marker_are_corrupt():
    with pytest.raises(CheckpointCorrupt):
        read_container(container([], codec=b"bzip2"), ENTRY, name="x")
    good = manifest_bytes()
    with pytest.raises(CheckpointCorrupt):
        read_container(good[:-1] + bytes([good[-1] ^ 1]), ENTRY, name="x")


@pytest.mark.parametrize("codec", [b"zstandard", b"deflate", b"snappy"])
def test_a_bomb_is_stopped(codec):
    zeros = bytes(avro_frame.MAX_BLOCK + (1 << 20))
    packed = avro_frame._compress(memoryview(zeros), codec.decode(), 3)
    del zeros
    with pytest.raises(LimitExceeded):
        read_container(container([(1, packed)], codec=codec), ENTRY, name="x")


def test_a_container_of_too_many_records_is_refused_before_they_are_decoded():
    out = bytearray()
    avro_frame._put(ENTRY.schema, {**dict.fromkeys(_names(ENTRY), None), **_LEAST_ENTRY}, out)
    count = avro_frame.MAX_ROWS + 1
    packed = avro_frame._compress(memoryview(bytes(out) * count), "zstandard", 3)
    assert len(packed) < 100_000
    with pytest.raises(LimitExceeded):
        read_container(container([(count, packed)], codec=b"zstandard"), ENTRY, name="x")


def test_a_list_of_too_many_manifests_is_refused():
    info = {
        "path": "",
        "numEntries": 0,
        "minAddedAtVersion": 0,
        "maxAddedAtVersion": 0,
        "tombstoneCount": 0,
        "liveEntryCount": 0,
    }
    names = [field["name"] for field in LIST.schema["fields"][5]["type"]["items"]["fields"]]
    record = {
        **dict.fromkeys(_names(LIST), None),
        "formatVersion": 1,
        "stateVersion": 1,
        "createdAt": 1,
        "numFiles": 0,
        "totalBytes": 0,
        "manifests": [{**dict.fromkeys(names, None), **info}] * 300_000,
        "tombstones": [],
        "schemaRegistry": {},
        "protocolVersion": 4,
    }
    data = avro_frame.write_record(record, LIST, codec="zstandard", level=3, sync=b"s" * 16)
    assert len(data) < 100_000
    env = environment()
    env.store.put(state_key(1), data)
    with pytest.raises(LimitExceeded):
        read_state(env, find_states(env.store.list_from(LOG_DIR))[0])


_LEAST_ENTRY = {
    "path": "",
    "partitionValues": {},
    "size": 0,
    "modificationTime": 0,
    "dataChange": False,
    "hasFooterOffsets": False,
    "addedAtVersion": 0,
    "addedAtTimestamp": 0,
}


def _names(shape) -> list[str]:
    return [field["name"] for field in shape.schema["fields"]]


def test_random_damage_to_a_container_is_a_typed_error_or_the_same_rows():
    good = manifest_bytes()
    plain = _uncompressed(good)
    chance = random.Random(3)
    rows = read_container(good, ENTRY, name="x").num_rows
    for data in (good, plain):
        for _ in range(150):
            bad = bytearray(data)
            for _ in range(chance.randrange(1, 4)):
                bad[chance.randrange(len(bad))] = chance.randrange(256)
            try:
                found = read_container(bytes(bad), ENTRY, name="x")
            except (CheckpointCorrupt, LimitExceeded):
                continue
            assert found.num_rows == rows


# JSON and Parquet


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"null",
        b"[]",
        b"{",
        b'{"protocol":{}}',
        b'{"metaData":{"id":"x","schemaString":"{}"},"add":[{"path":1}]}',
        b'{"metaData":{"id":"x","schemaString":"{}"},"add":[{"path":"a"}]}',
        b'{"metaData":{"id":"x","schemaString":"{}"},"add":[{"path":"a","size":-1}]}',
        b'{"metaData":{"id":"x","schemaString":"{}"},"add":{"path":"","size":1}}',
        b'{"metaData":{"id":"x","schemaString":"{}"},"add":[1]}',
        b'{"metaData":{"id":"x","schemaString":"{}"},"txn":[{"appId":1}]}',
        b'{"parts":["../x.json"]}',
        b'{"parts":["00000000000000000001.checkpoint.abcdef012345.00001.json"]}',
        b"\x1f\x8b\x08\x00",
        b"\x01\x01\x1f\x8b",
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_broken_json_checkpoint_is_corrupt(content):
    env = environment()
    env.store.put(json_checkpoint_key(1), content)
    with pytest.raises(CheckpointError):
        read_state(env, find_states(env.store.list_from(LOG_DIR))[0])


def test_both_json_forms_are_read_plain_and_compressed():
    head = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}
    meta = {"metaData": {"id": "x", "schemaString": "{}", "format": {"provider": "indextables", "options": {}}}}
    add = {"path": "a.split", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}
    whole = json.dumps({**head, **meta, "add": [add, {**add, "path": "b.split"}]}).encode()
    lines = b"".join(
        json.dumps(line).encode() + b"\n" for line in (head, meta, {"add": add}, {"add": {**add, "path": "b.split"}})
    )
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(lines) + packer.flush()
    for content in (whole, lines, packed, b"\x01\x01" + packed):
        env = environment()
        env.store.put(json_checkpoint_key(4), content)
        state = read_state(env, find_states(env.store.list_from(LOG_DIR))[0])
        assert state.files.column("path").to_pylist() == ["a.split", "b.split"]
        assert state.protocol.minReaderVersion == 2
        assert state.tokens is None


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 3, b"PAR1\x00\x00\xff\xff\xff\x7fPAR1", b"x" * 1000])
def test_a_broken_parquet_checkpoint_is_corrupt(content):
    env = environment()
    env.store.put(parquet_checkpoint_key(1), content)
    with pytest.raises(CheckpointError):
        read_state(env, find_states(env.store.list_from(LOG_DIR))[0])


def test_the_flat_parquet_form_is_read():
    env = environment()
    strings = pa.map_(pa.string(), pa.string())
    table = pa.table(
        {
            "path": ["a.split", "b.split", None],
            "partitionValues": pa.array([[("d", "1")], [("d", "2")], None], strings),
            "size": pa.array([10, 20, None], pa.int64()),
            "numRecords": pa.array([1, 2, None], pa.int64()),
            "minValues": pa.array([[("x", "1")], None, None], strings),
            "maxValues": pa.array([[("x", "2")], None, None], strings),
            "metadataId": [None, None, "id"],
            "schemaString": [None, None, '{"type":"struct","fields":[]}'],
            "partitionColumns": pa.array([None, None, ["d"]], pa.list_(pa.string())),
            "format": pa.array([None, None, [("provider", "indextables")]], strings),
            "actionType": ["add", "add", "metadata"],
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    env.store.put(f"{LOG_DIR}_checkpoints/{3:020d}.checkpoint.parquet", out.getvalue())
    env.store.put(f"{LOG_DIR}_checkpoints/{3:020d}.checkpoint.json", b'{"version":3,"size":2}')
    refs = find_states(env.store.list_from(LOG_DIR))
    assert [ref.version for ref in refs] == [3]
    state = read_state(env, refs[0])
    assert state.files.column("size").to_pylist() == [10, 20]
    assert state.metadata.partitionColumns == ["d"]


def test_a_delta_reader_sees_our_parquet_checkpoint_as_its_own_shape():
    env, log, keys = checkpointed("parquet")
    table = pq.read_table(io.BytesIO(env.store.get(keys[0])))
    assert {"protocol", "metaData", "add", "txn", "domainMetadata"} == set(table.column_names)
    paths = [row["path"] for row in table.column("add").drop_null().to_pylist()]
    assert sorted(paths) == sorted(replay(None, log.history[:21]).files.column("path").to_pylist())


def test_totals_that_do_not_agree_are_invalid():
    env, _, keys = checkpointed("json")
    content = msgspec.json.decode(zlib.decompress(env.store.get(keys[0]), 31))
    content["add"] = content["add"][1:]
    del content["seal"]
    env.store.put(keys[0], msgspec.json.encode(content))
    with pytest.raises(CheckpointError) as caught:
        read_state(env, find_states(env.store.list_from(LOG_DIR))[0])
    assert caught.value.reason == "files"


@pytest.mark.parametrize("name", FORMATS)
def test_racing_checkpoints_of_one_version_leave_one_valid_state(name):
    env, log, _ = checkpointed(name)
    log.append(40)
    log.step()
    first = write_checkpoint(env, log.state())
    second = write_checkpoint(env, log.state())
    assert first.version == second.version == log.version
    same(read_state(env, second), log.state())
    newest = find_states(env.store.list_from(LOG_DIR))[0]
    same(read_state(env, newest), log.state())
    assert env.store.exists(POINTER_KEY)


def damaged_at_head(name: str, damage: str) -> tuple[Env, RandomLog]:
    """A log whose newest version has a checkpoint with one damaged file, and all version files."""
    env = environment(FORMATS[name])
    log = RandomLog(env, 5)
    for _ in range(6):
        log.append(4)
        log.step()
    before = {meta.key for meta in env.store.list_from(LOG_DIR)}
    write_checkpoint(env, log.state())
    made = sorted(m.key for m in env.store.list_from(LOG_DIR) if m.key not in before and m.key != POINTER_KEY)
    chosen = random.Random(name + damage).choice(made)
    good = env.store.get(chosen)
    at = len(good) // 2
    bad = {"cut": good[:20], "flipped": good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :], "empty": b""}
    env.store.put(chosen, bad[damage])
    return env, log


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
@pytest.mark.parametrize("compact", ["auto", "full"])
def test_a_damaged_checkpoint_of_the_newest_version_is_written_anew(name, damage, compact):
    env, log = damaged_at_head(name, damage)
    ref = checkpoint(env, compact=compact)
    same(read_state(env, ref), log.state())
    assert ref.version == log.version
    for found in find_states(env.store.list_from(LOG_DIR)):
        same(read_state(env, found), log.state())
    assert [finding for finding in verify(env).findings if finding.kind == "checkpoint"] == []


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damage_to_a_manifest_that_no_later_commit_touches_is_seen_by_a_checkpoint_on_demand(damage):
    env = environment(FORMATS["avro"])
    log = RandomLog(env, 5)
    log.append(40)
    checkpoint(env)
    key = next(iter(env.store.list_from(MANIFEST_DIR))).key
    good = env.store.get(key)
    env.store.put(key, good[:20] if damage == "cut" else good[:-20] + bytes(20))
    log.append(2)
    same(read_state(env, checkpoint(env)), log.state())


def test_damage_to_the_newest_state_is_seen_where_the_pointer_names_an_older_one():
    env = environment(FORMATS["avro"])
    log = RandomLog(env, 5)
    log.append(15)
    checkpoint(env)
    pointer = env.store.get(POINTER_KEY)
    before = {meta.key for meta in env.store.list_from(MANIFEST_DIR)}
    log.append(15)
    checkpoint(env)
    env.store.put(POINTER_KEY, pointer)
    key = next(meta.key for meta in env.store.list_from(MANIFEST_DIR) if meta.key not in before)
    env.store.put(key, env.store.get(key)[:-20] + bytes(20))
    same(read_state(env, checkpoint(env)), log.state())


def test_a_damaged_checkpoint_of_another_format_goes_once_the_new_one_stands():
    env, log = damaged_at_head("json", "cut")
    checkpoint(with_options(env, state_format="avro"))
    assert [ref.format for ref in find_states(env.store.list_from(LOG_DIR))] == ["avro-state"]
    same(open_log(env).snapshot().state, log.state())


def test_a_damaged_checkpoint_that_somebody_wrote_anew_meanwhile_stays():
    """Another writer mends the file of the other format between our look at it and our delete."""
    env, log = damaged_at_head("json", "cut")
    store = Scripted(env.store)

    def mended(call):
        checkpoint(env)
        return call()

    store.play("delete", "checkpoint", mended)
    ours = msgspec.structs.replace(with_options(env, state_format="avro"), store=store)
    checkpoint(ours)
    assert store.count("delete", "checkpoint") == 1
    assert sorted(ref.format for ref in find_states(env.store.list_from(LOG_DIR))) == ["avro-state", "json"]
    for ref in find_states(env.store.list_from(LOG_DIR)):
        same(read_state(env, ref), log.state())


@pytest.mark.parametrize("name", FORMATS)
def test_the_only_copy_is_never_replaced_and_no_success_is_told(name):
    env, log = damaged_at_head(name, "cut")
    gone = [version_key(version) for version in range(log.version)]
    env.store.delete_many(gone)
    before = {meta.key: env.store.get(meta.key) for meta in env.store.list_from(LOG_DIR)}
    with pytest.raises(IndexTablesError):
        checkpoint(env)
    assert {meta.key: env.store.get(meta.key) for meta in env.store.list_from(LOG_DIR)} == before


def test_a_head_that_names_a_part_many_times_does_not_have_it_read_many_times():
    env = environment({"state.format": "json", "checkpoint.maxFileSize": 2000})
    log = RandomLog(env, 3)
    log.append(30)
    ref = write_checkpoint(env, log.state())
    assert len(ref.keys) > 2
    head = msgspec.json.decode(env.store.get(ref.keys[0]))
    del head["seal"]
    env.store.put(ref.keys[0], msgspec.json.encode({**head, "parts": head["parts"] + head["parts"][:1] * 1000}))
    spy = Spy(env)
    with pytest.raises(CheckpointCorrupt, match="twice"):
        read_state(spy.env, ref)
    assert spy.read == [ref.keys[0]]
