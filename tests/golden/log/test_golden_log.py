"""One log per protocol version, as committed: it must open as it always did."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.log.logs import local_env, memory_env, open_log, paths

from indextables.env import Env
from indextables.errors import NotSupported
from indextables.log.care.verifying import verify
from indextables.log.read.histories import history
from indextables.log.wire.actions import Add, Protocol
from indextables.log.wire.codec import encode_version, raw_lines
from indextables.log.wire.names import version_key
from indextables.log.wire.protocol import V1, check_writable
from indextables.log.wire.sethash import set_hash

HERE = Path(__file__).parent
LIVE = {
    "v1": [
        [],
        ["day=2024-01-01/part-00000-a.split", "day=2024-01-02/b.split"],
        ["day=2024-01-02/b.split", "day=__HIVE_DEFAULT_PARTITION__/c.split"],
    ],
    "v2": [[], ["day=2024-01-01/a.split", "day=2024-01-02/b.split"], ["day=2024-01-02/b.split"]],
    "v3": [
        [],
        ["day=2024-01-01/splits/split-a.split"],
        ["day=2024-01-01/splits/split-a.split", "day=2024-01-02/splits/split-b.split"],
    ],
    "v4": [
        [],
        ["day=2024-01-01/splits/split-a.split", "day=2024-01-02/splits/split-b%20c.split"],
        ["day=2024-01-01/splits/split-a.split", "day=2024-01-02/splits/split-b%20c.split"],
        [
            "day=2024-01-01/splits/split-a.split",
            "day=2024-01-02/splits/split-b%20c.split",
            "day=2024-01-03/splits/split-d.split",
        ],
    ],
}
HASHES = {"v1": "fd7a0266113ec708", "v2": "44e12a5b7e74dc12", "v3": "e49329bc1a26bd62", "v4": "43bc0e42ab130d9e"}


@pytest.fixture(params=sorted(LIVE))
def name(request):
    return request.param


@pytest.fixture
def env(name, tmp_path):
    """A copy, so that no test can change the original."""
    shutil.copytree(HERE / name, tmp_path / name)
    return local_env(tmp_path / name)


def test_every_version_reads_as_it_always_did(env, name):
    log = open_log(env)
    assert [paths(log.snapshot(version)) for version in log.versions()] == LIVE[name]
    assert log.snapshot().schema.names == ["id", "message", "day"]
    assert log.snapshot().partition_columns == ["day"]
    assert not log.snapshot().schema.field("id").nullable


def test_the_set_hash_stays_what_it_was(env, name):
    assert set_hash(open_log(env).snapshot().files) == HASHES[name]


def test_nothing_is_wrong_with_it(env):
    assert verify(env).ok


def test_its_history_can_be_told(env, name):
    assert history(open_log(env)).column("version").to_pylist() == list(range(len(LIVE[name])))[::-1]


def test_it_may_be_written(env):
    check_writable(open_log(env).snapshot().protocol)


@pytest.mark.parametrize("prefix", [b"", b"\x01\x01"])
def test_it_reads_the_same_when_compressed(env, name, prefix):
    for version in open_log(env).versions():
        data = env.store.get(version_key(version))
        env.store.put(version_key(version), prefix + gzip.compress(data))
    assert paths(open_log(env).snapshot()) == LIVE[name][-1]


def golden(name, tmp_path):
    shutil.copytree(HERE / name, tmp_path / "copy")
    return open_log(local_env(tmp_path / "copy"))


def test_v1_has_no_protocol_and_counts_as_the_first(tmp_path):
    snapshot = golden("v1", tmp_path).snapshot()
    assert snapshot.protocol == V1
    values = dict(
        zip(
            snapshot.files.column("path").to_pylist(), snapshot.files.column("partitionValues").to_pylist(), strict=True
        )
    )
    assert values["day=__HIVE_DEFAULT_PARTITION__/c.split"] == [("day", None)]


def test_v2_carries_skips_and_every_extended_field(tmp_path):
    log = golden("v2", tmp_path)
    assert log.snapshot().skips["day=2024-01-02/b.split"].skipCount == 2
    row = log.snapshot(1).files.slice(0, 1).to_pylist(maps_as_pydicts="strict")[0]
    file = msgspec.convert({key: row[key] for key in Add.__struct_fields__ if row[key] is not None}, Add)
    assert (file.numRecords, file.tags, file.splitTags, file.numMergeOps) == (
        5,
        {"source": "batch-job-123"},
        ["a", "b"],
        1,
    )
    assert (file.footerStartOffset, file.hasFooterOffsets, file.docMappingJson) == (90, True, '{"fields":[]}')


def test_v3_keeps_what_is_not_known_when_its_lines_are_copied(tmp_path):
    log = golden("v3", tmp_path)
    lines = raw_lines(log.env.store.get(version_key(2)))
    assert b'"futureField":{"z":1}' in lines[1]
    assert lines[0].startswith(b'{"futureAction"')
    assert log.snapshot().metadata.configuration == {"docMappingSchema.RBNvo1WzZ4oRRq0W": "{}"}


def test_v4_carries_vectors_batches_and_domains(tmp_path):
    snapshot = golden("v4", tmp_path).snapshot()
    assert snapshot.txns["stream-1"].version == 17
    assert snapshot.domains["owner"].configuration == '{"team":"x"}'
    vectors = [row for row in snapshot.files.column("deletionVector").to_pylist() if row is not None]
    assert [(v["storageType"], v["cardinality"], v["offset"]) for v in vectors] == [("u", 2, 4)]
    assert snapshot.tokens.token_at(3) == f"{4:032x}"


def test_a_table_of_another_system_reads_but_is_not_written():
    env: Env = memory_env()
    data = (HERE / "v4" / version_key(0)).read_bytes()
    lines = [line for line in data.split(b"\n") if b'"protocol"' not in line and line]
    foreign = encode_version([Protocol(4, 4)], compress=False) + b"\n".join(lines) + b"\n"
    env.store.put(version_key(0), b"\x01\x01" + gzip.compress(foreign))
    snapshot = open_log(env).snapshot()
    assert paths(snapshot) == []
    with pytest.raises(NotSupported):
        check_writable(snapshot.protocol)
