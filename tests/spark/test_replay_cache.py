"""What a worker remembers of the version files that it has read."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

import indextables
from indextables.errors import LogCorrupt
from indextables.log.names import version_key
from indextables.spark.replay import Run, VersionFile, read_run
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
