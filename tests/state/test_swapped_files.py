"""A file of the log in another's place: a checkpoint that holds a version file, or leaves out a file of the table."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import indextables
from indextables.errors import LogCorrupt, LogError
from indextables.log.care.opening import open_log
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.wire.names import LOG_DIR, version_key
from indextables.table.environment import open_env

SCHEMA = pa.schema([("k", pa.int64())])
OPTIONS = {"storage.fsync": "false"}
NEWEST = 9


def made(path: Path, state_format: str) -> indextables.Table:
    """Versions 1 to 9 with a row each, checkpoints of 3 and 7; version 6 brings metadata and a file."""
    properties = {"state.format": state_format, "checkpoint.interval": "4"}
    table = indextables.create(path, SCHEMA, options=OPTIONS, properties=properties)
    for k in range(NEWEST):
        table.append([{"k": k, "more": k}] if k == 5 else [{"k": k}], merge_schema=k == 5)
    return table


def rows_at(path: Path, version: int) -> list[int]:
    indextables.invalidate_caches()
    return indextables.open(path, version=version).to_arrow()["k"].to_pylist()


def checkpoints(path: Path) -> list[Path]:
    found = sorted([*path.glob(LOG_DIR + "*.checkpoint.*"), *path.glob(LOG_DIR + "state-v*/_manifest.avro")])
    assert len(found) == 2
    return found


@pytest.mark.parametrize("what", ["as it is", "without its commit"])
@pytest.mark.parametrize("state_format", ["json", "parquet", "avro"])
def test_a_checkpoint_that_holds_a_version_file_is_passed_over(tmp_path, state_format, what):
    path = tmp_path / "t"
    made(path, state_format)
    for checkpoint in checkpoints(path):
        right = checkpoint.read_bytes()
        for version in (0, 1, 6) if what == "as it is" else (0, 1):
            stored = (path / version_key(version)).read_bytes()
            if what == "without its commit":
                lines = gzip.decompress(stored).splitlines(keepends=True)
                stored = b"".join(line for line in lines if b'"commitInfo"' not in line)
            checkpoint.write_bytes(stored)
            assert [rows_at(path, number) for number in (3, 4, 7, 8, 9)] == [list(range(n)) for n in (3, 4, 7, 8, 9)]
            assert indextables.open(path).count() == NEWEST
        checkpoint.write_bytes(right)


@pytest.mark.parametrize("state_format", ["json", "parquet", "avro"])
def test_without_older_files_such_a_checkpoint_is_an_error_and_no_shorter_table(tmp_path, state_format):
    path = tmp_path / "t"
    made(path, state_format)
    first, newest = checkpoints(path)
    newest.write_bytes((path / version_key(0)).read_bytes())
    first.unlink()
    for version in range(8):
        (path / version_key(version)).unlink()
    with pytest.raises(LogError):
        rows_at(path, NEWEST)


@pytest.mark.parametrize("state_format", ["json", "parquet", "avro"])
def test_a_checkpoint_that_leaves_out_a_file_does_not_agree_with_the_check_file_of_the_newest_version(
    tmp_path, state_format
):
    """It agrees with itself, as one that was computed wrongly does."""
    path = tmp_path / "t"
    made(path, state_format)
    log = open_log(open_env(path, {**OPTIONS, "state.format": state_format}))
    state = log.snapshot(8).state
    write_checkpoint(log.env, msgspec.structs.replace(state, files=state.files.slice(1)))
    with pytest.raises(LogCorrupt, match="check file"):
        rows_at(path, NEWEST)
    # The check file is advisory: without one there is nothing to compare with.
    (path / version_key(NEWEST)).with_suffix(".crc").unlink()
    assert rows_at(path, NEWEST) == list(range(1, NEWEST))
