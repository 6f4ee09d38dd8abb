"""What a worker reads of the version files, and what it remembers of them."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from tests.state.logs import SCHEMA_JSON, environment

import indextables
from indextables.errors import LogCorrupt
from indextables.log.read.folding import replay
from indextables.log.read.log import Log
from indextables.log.read.reduce import load_run
from indextables.log.wire.actions import Add, CommitInfo, Metadata, Protocol, Remove
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import version_key
from indextables.log.wire.protocol import new_table_protocol, path_rule
from indextables.spark.tasks.replay import Run, VersionFile, read_run
from indextables.table.environment import open_env


def test_a_file_of_the_same_size_and_time_is_remembered_only_with_the_same_tag(tmp_path):
    indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    env = open_env(tmp_path / "t")
    place = tmp_path / "t" / version_key(1)
    size = place.stat().st_size

    def read(etag):
        return read_run(env, msgspec.msgpack.encode(Run([VersionFile(1, version_key(1), size, 0, etag)])))

    first = read("a")
    place.chmod(0o600)
    place.write_bytes(b"x" * size)
    assert msgspec.msgpack.decode(read("a"))["run"] == msgspec.msgpack.decode(first)["run"]
    with pytest.raises(LogCorrupt):
        read("b")


@pytest.mark.parametrize("protocol", [Protocol(2, 2), new_table_protocol()], ids=["names on disk", "encoded"])
def test_a_task_reads_names_by_the_rule_of_the_table(protocol):
    """Versions that carry our tokens, in a table that is or is not of IndexTables4Spark."""
    env = environment()
    names = ["p=a%2Fb/x.split", "a%41.split", "aA.split", "a b.split"]
    metadata = Metadata(id="t", schemaString=SCHEMA_JSON)
    adds = [Add(name, {}, 4, 1, dataChange=True) for name in names]
    removes = [Remove(name, dataChange=True, deletionTimestamp=1) for name in ("a%41.split", "a b.split")]
    for version, actions in enumerate([[protocol, metadata], adds, removes]):
        info = CommitInfo(timestamp=version + 1, token=f"{version:032x}", tableId="t")
        env.store.put(version_key(version), encode_version([info, *actions], compress=False))
    files = [VersionFile(v, version_key(v), len(env.store.get(version_key(v))), 0) for v in range(3)]
    answer = read_run(env, msgspec.msgpack.encode(Run(files, rule=path_rule(protocol))))
    state = replay(None, load_run(msgspec.msgpack.decode(answer)["run"]))
    assert state.files.equals(Log(env).snapshot().files)
