"""What the check file of a version says of it is heeded: changed bytes are refused, and wrong totals not made true."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.world.tables import filled

import indextables
from indextables.errors import CheckpointError, LogCorrupt

ROWS = pa.table({"id": [1, 2, 3, 4]})


def table_at(path: Path, **options: object) -> indextables.Table:
    return filled(path, [ROWS], options=options)


def edit(file: Path, **changes: object) -> None:
    """Other values in the `add` of a version file, or in a check file."""
    packed = file.suffix == ".json"
    data = file.read_bytes()
    lines = [msgspec.json.decode(line) for line in (gzip.decompress(data) if packed else data).splitlines()]
    for line in lines:
        if not packed or "add" in line:
            (line["add"] if packed else line).update(changes)
    text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    file.write_bytes(gzip.compress(text) if packed else text)


def log_file(path: Path, version: int, ending: str) -> Path:
    return path / "_transaction_log" / f"{version:020d}.{ending}"


@pytest.mark.parametrize("verb", ["count", "to_arrow", "files", "checkpoint"])
def test_a_newest_version_whose_bytes_were_changed_under_its_token_is_refused(tmp_path, verb):
    table_at(tmp_path / "t")
    edit(log_file(tmp_path / "t", 1, "json"), numRecords=10)
    indextables.invalidate_caches()
    with pytest.raises(LogCorrupt, match="check file"):
        getattr(indextables.open(tmp_path / "t"), verb)()


@pytest.mark.parametrize("verb", ["count", "files", "checkpoint"])
def test_changed_bytes_above_a_checkpoint_are_refused_each_time_they_are_read(tmp_path, verb):
    table = table_at(tmp_path / "t")
    table.checkpoint()
    table.append(ROWS)
    edit(log_file(tmp_path / "t", 2, "json"), numRecords=10)
    indextables.invalidate_caches()
    for _ in range(3):
        with pytest.raises(LogCorrupt, match="check file"):
            getattr(indextables.open(tmp_path / "t"), verb)()


def test_a_version_in_the_past_is_held_against_its_check_file_too(tmp_path):
    table_at(tmp_path / "t").append(ROWS)
    edit(log_file(tmp_path / "t", 1, "json"), numRecords=10)
    indextables.invalidate_caches()
    with pytest.raises(LogCorrupt, match="check file"):
        indextables.open(tmp_path / "t", version=1).count()


def test_without_a_check_file_or_with_that_of_another_commit_a_version_is_read(tmp_path):
    table_at(tmp_path / "t")
    edit(log_file(tmp_path / "t", 1, "crc"), crc32c=7, token="0" * 32)
    assert indextables.open(tmp_path / "t").count() == 4
    log_file(tmp_path / "t", 1, "crc").unlink()
    indextables.invalidate_caches()
    assert indextables.open(tmp_path / "t").count() == 4


@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
@pytest.mark.parametrize("builds_on_another", [True, False])
def test_a_checkpoint_whose_totals_are_not_those_of_the_check_file_is_not_published(tmp_path, form, builds_on_another):
    table = table_at(tmp_path / "t", **{"state.format": form})
    if builds_on_another:
        table.checkpoint()
    table.append(ROWS)
    edit(log_file(tmp_path / "t", 2, "crc"), numFiles=7)
    before = checkpoints(tmp_path / "t")
    with pytest.raises(CheckpointError, match="no checkpoint is written"):
        table.checkpoint()
    assert checkpoints(tmp_path / "t") == before
    assert table.count() == 8
    log_file(tmp_path / "t", 2, "crc").unlink()
    table.checkpoint()
    assert checkpoints(tmp_path / "t") > before


def test_a_commit_stands_though_its_checkpoint_is_not_published(tmp_path):
    table = table_at(tmp_path / "t", **{"checkpoint.interval": 3})
    edit(log_file(tmp_path / "t", 1, "crc"), tableSizeBytes=1)
    other = indextables.open(tmp_path / "t", options={"checkpoint.interval": 3})
    other.append(ROWS)
    assert not checkpoints(tmp_path / "t")
    assert indextables.open(tmp_path / "t").count() == 8 == other.count()
    assert table.count() == 4


def checkpoints(path: Path) -> set[str]:
    log = path / "_transaction_log"
    return {str(p.relative_to(log)) for p in [*log.glob("state-v*/_manifest.avro"), *log.glob("*.checkpoint.*")]}
