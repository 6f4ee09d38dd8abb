"""Every commit says who made it, with what, and how; a table says who it is."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import uuid

import pyarrow as pa
import pytest

import indextables as it
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Protocol
from indextables.log.wire.protocol import joined

SCHEMA = pa.schema([("day", pa.string()), ("x", pa.int64())])


def rows(*xs):
    return pa.table({"day": [f"d{x}" for x in xs], "x": pa.array(xs, pa.int64())})


def infos(table):
    found = []
    for version in range(table.version + 1):
        for row in table.log(version).to_pylist():
            if row["action"] == "commitInfo":
                value = json.loads(row["value"])
                found.append(value.get("commitInfo", value))
    return found


def me():
    return pwd.getpwuid(os.geteuid()).pw_name


def test_every_verb_that_writes_says_who_and_with_what(tmp_path):
    table = it.create(tmp_path / "t", SCHEMA, partition_by=["day"], properties={"owner": "platform"}, description="d")
    table.append(rows(0))
    table.append(rows(0))
    table.overwrite(rows(1))
    table.restore(version=2)
    table.merge_splits(target_size=1 << 30)
    table.drop_partitions("day = 'd0'")
    table.append(rows(2).append_column("more", pa.array([1])), merge_schema=True)
    table.truncate_time_travel(dry_run=True)
    told = infos(table.refresh())
    assert len(told) == table.version + 1
    assert {info["user"] for info in told} == {me()}
    assert all(info["engineInfo"].startswith("indextables/") for info in told)
    assert {info["isolationLevel"] for info in told} <= {"WriteSerializable", "Serializable"}
    assert set(table.history()["user"].to_pylist()) == {me()}


def test_version_0_tells_what_the_table_was_made_with(tmp_path):
    properties = {"owner": "platform", "isolationLevel": "serializable"}
    table = it.create(tmp_path / "t", SCHEMA, partition_by=["day"], properties=properties, description="for people")
    (info,) = infos(table)
    parameters = info["operationParameters"]
    assert info["isolationLevel"] == "Serializable"
    assert json.loads(parameters["partitionBy"]) == ["day"]
    assert json.loads(parameters["properties"]) == properties
    assert parameters["description"] == "for people"


def test_a_repaired_and_a_rebuilt_log_say_who_wrote_them(tmp_path):
    it.create(tmp_path / "t", SCHEMA).append(rows(1))
    it.repair(tmp_path / "t", at=tmp_path / "repaired")
    assert {info["user"] for info in infos(it.open(tmp_path / "repaired"))} == {me()}
    shutil.rmtree(tmp_path / "t" / "_transaction_log")
    it.invalidate_caches()
    it.rebuild(tmp_path / "t")
    told = infos(it.open(tmp_path / "t"))
    assert {info["user"] for info in told} == {me()}
    assert all(info["engineInfo"] and info["isolationLevel"] for info in told)


def test_who_works_for_others_may_say_for_whom(tmp_path, monkeypatch):
    table = it.create(tmp_path / "t", SCHEMA, options={"commit.user": "alice"})
    table.append(rows(1))
    monkeypatch.setenv("INDEXTABLES_COMMIT_USER", "bob")
    it.open(tmp_path / "t").append(rows(2))
    assert table.refresh().history()["user"].to_pylist() == ["bob", "alice", "alice"]


def test_tables_have_ids_as_rfc_4122_lays_them_out(tmp_path):
    ids = [it.create(tmp_path / str(number), SCHEMA).metadata.id for number in range(32)]
    assert len(set(ids)) == len(ids)
    for text in ids:
        known = uuid.UUID(text)
        assert (str(known), known.version, known.variant) == (text, 4, uuid.RFC_4122)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["avro", "parquet", "json"])
@pytest.mark.parametrize("parts", [False, True], ids=["whole", "in parts"])
def test_a_recreated_pointer_says_what_its_writer_said(tmp_path, form, parts):
    small = {"checkpoint.maxFileSize": "1k"} if parts else {}
    table = it.create(tmp_path / "t", SCHEMA, partition_by=["day"], properties={"state.format": form, **small})
    for number in range(12):
        table.append(rows(number))
    table.overwrite(rows(1), "day = 'd1'")
    version = table.checkpoint()
    pointer = tmp_path / "t" / "_transaction_log" / "_last_checkpoint"
    written = json.loads(pointer.read_bytes())
    for content in (None, b"", json.dumps({"version": version}).encode()):
        pointer.unlink() if content is None else pointer.write_bytes(content)
        assert it.recreate_pointer(tmp_path / "t") == version
        again = json.loads(pointer.read_bytes())
        assert {**again, "createdTime": 0} == {**written, "createdTime": 0}


@pytest.mark.parametrize(
    "asked",
    [
        Protocol(1, 1),
        Protocol(4, 4, [], []),
        Protocol(4, 4, ["avroState"], None),
        Protocol(2, 4, ["parquetSplit"], ["parquetSplit"]),
    ],
)
def test_no_commit_lowers_the_protocol(tmp_path, asked):
    table = it.create(tmp_path / "t", SCHEMA)
    before = table.protocol
    Transaction(table._log, table._log.snapshot(), operation="X").set_protocol(asked).commit_or_raise()
    it.invalidate_caches()
    after = it.open(tmp_path / "t").protocol
    assert (after.minReaderVersion, after.minWriterVersion) == (before.minReaderVersion, before.minWriterVersion)
    assert set(after.readerFeatures) == set(before.readerFeatures)
    assert set(after.writerFeatures) == set(before.writerFeatures)


def test_protocols_are_joined_by_what_either_asks_for():
    assert joined(Protocol(1, 2), Protocol(2, 1)) == Protocol(2, 2)
    assert joined(Protocol(1, 2), Protocol(4, 4, ["b"], ["b"])) == Protocol(4, 4, ["b"], ["b"])
    assert joined(Protocol(4, 4, ["a"], ["a"]), Protocol(4, 4, ["b"], None)) == Protocol(4, 4, ["a", "b"], ["a"])
