"""What a table says about itself is heeded by whoever opens it, from version 0 on."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest

import indextables as it
from indextables.log.read.cache import shared_cache

SCHEMA = pa.schema([("x", pa.int64())])


def rows(*xs):
    return pa.table({"x": pa.array(xs, pa.int64())})


def is_gzip(path, version):
    return (path / "_transaction_log" / f"{version:020d}.json").read_bytes()[:2] == b"\x1f\x8b"


@pytest.mark.parametrize("compressed", [True, False])
def test_version_files_are_compressed_as_the_table_says_from_version_0_on(tmp_path, compressed):
    path = tmp_path / "t"
    table = it.create(path, SCHEMA, properties={"transaction.compression.enabled": compressed})
    table.append(rows(1))
    it.open(path).overwrite(rows(2))
    assert [is_gzip(path, version) for version in range(3)] == [compressed] * 3
    # Who asks otherwise is served.
    other = {"transaction.compression.enabled": not compressed}
    it.open(path, options=other).append(rows(3))
    assert is_gzip(path, 3) is not compressed


@pytest.mark.parametrize("compressed", [True, False])
def test_a_repaired_log_is_compressed_as_the_table_says(tmp_path, compressed):
    path, target = tmp_path / "t", tmp_path / "repaired"
    table = it.create(path, SCHEMA, properties={"transaction.compression.enabled": compressed})
    table.append(rows(1))
    it.repair(path, at=target)
    assert [is_gzip(target, version) for version in range(2)] == [compressed] * 2


@pytest.mark.parametrize("compressed", [True, False])
def test_a_json_checkpoint_is_compressed_as_the_table_says(tmp_path, compressed):
    path = tmp_path / "t"
    properties = {"transaction.compression.enabled": compressed, "state.format": "json"}
    table = it.create(path, SCHEMA, properties=properties)
    table.append(rows(1))
    it.open(path).checkpoint()
    (checkpoint,) = (path / "_transaction_log").glob("*.checkpoint*.json")
    assert (checkpoint.read_bytes()[:2] == b"\x1f\x8b") is compressed
    assert b"metaData" in (gzip.decompress(checkpoint.read_bytes()) if compressed else checkpoint.read_bytes())


@pytest.mark.parametrize("codec", ["zstd", "deflate", "none"])
def test_manifests_are_compressed_as_the_table_says(tmp_path, codec):
    path = tmp_path / "t"
    table = it.create(path, SCHEMA, properties={"state.compression": codec})
    table.append(rows(1))
    it.open(path).checkpoint()
    (manifest,) = (path / "_transaction_log" / "manifests").glob("*.avro")
    name = {"zstd": b"zstandard", "deflate": b"deflate", "none": b"null"}[codec]
    head = manifest.read_bytes()[:4000]
    assert name in head[head.index(b"avro.codec") :]


def test_nothing_of_a_table_that_says_so_stays_in_memory(tmp_path):
    kept, not_kept = tmp_path / "kept", tmp_path / "not"
    for path, enabled in ((kept, True), (not_kept, False)):
        table = it.create(path, SCHEMA, properties={"transaction.cache.enabled": enabled})
        table.append(rows(1))
        it.invalidate_caches()
        assert it.open(path).count() == 1
        found = shared_cache().invalidate(path.as_uri())
        assert (found > 0) is enabled
