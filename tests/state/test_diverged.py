"""A checkpoint of a copy of the table that went on by itself, beside the log: every version that files prove reads.

The copy has the table's id and its versions up to the one where the two part. Somebody who puts a backup back, or
copies one folder over the other, mixes them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import LogCorrupt
from tests.state.test_left_over import NOTHING_KEPT, QUIET, log_of, opened, plant, rows, values
from tests.world.tables import filled

SCHEMA = pa.schema([("x", pa.int64())])
FORMATS = ("avro", "json", "parquet")
COMMON = [0, 1]
PARTED = len(COMMON)
"""The newest version that both have."""

# The newest version of the table, and the version of the copy's checkpoint: at it, below it, above it.
PLACES = [(3, 3), (5, 3), (3, 4)]


class Two(NamedTuple):
    """Folders that hold the table and its copy, at each of their versions."""

    table: dict[int, Path]
    copy: dict[int, Path]


def own_rows(version: int) -> list[int]:
    return [*COMMON[: min(version, PARTED)], *(200 + later for later in range(PARTED + 1, version + 1))]


@pytest.fixture(scope="module", params=FORMATS)
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Two:
    root = tmp_path_factory.mktemp("diverged")
    properties = {"state.format": request.param}
    filled(root / "t", [rows(x) for x in COMMON], schema=SCHEMA, options=QUIET, properties=properties)
    shutil.copytree(root / "t", root / "c")
    found = Two({}, {})
    for version in range(PARTED + 1, 6):
        for folder, kept, start in ((root / "t", found.table, 200), (root / "c", found.copy, 300)):
            opened(folder).append(rows(start + version))
            kept[version] = Path(shutil.copytree(folder, root / f"{folder.name}{version}"))
    for folder in found.copy.values():
        opened(folder).checkpoint()
    return found


@pytest.fixture(params=PLACES, ids=lambda place: f"newest {place[0]}, checkpoint {place[1]}")
def place(request: pytest.FixtureRequest, two: Two, tmp_path: Path) -> Path:
    newest, checkpoint = request.param
    path = Path(shutil.copytree(two.table[newest], tmp_path / "t"))
    plant(two.copy[checkpoint], path)
    shutil.copy(log_of(two.copy[checkpoint]) / "_last_checkpoint", log_of(path))
    return path


@pytest.fixture
def newest(place: Path) -> int:
    return max(int(path.stem) for path in log_of(place).glob("0*.json") if "checkpoint" not in path.name)


def check_every_version(place: Path, upto: int, oldest: int = 0) -> None:
    assert values(opened(place)) == own_rows(upto)
    for version in range(oldest, upto + 1):
        it.invalidate_caches()
        table = it.open(str(place), version=version, options=QUIET)
        assert values(table) == own_rows(version)
        assert table.count(where="x >= 0") == len(own_rows(version))
    table = opened(place)
    assert table.version == upto
    assert table.history()["version"].to_pylist() == list(range(upto, oldest - 1, -1))


@pytest.mark.slow
def test_every_version_reads_as_its_files_say_and_nothing_cuts_at_the_checkpoint(place: Path, newest: int) -> None:
    check_every_version(place, newest)
    found = opened(place).verify().findings
    assert [(one.kind, one.severity) for one in found] == [("table", "error"), ("pointer", "warning")]
    assert "another history of this table" in found[0].message
    for path in log_of(place).glob("*.crc"):
        path.unlink()
    check_every_version(place, newest)
    opened(place, NOTHING_KEPT).clean_up()
    check_every_version(place, newest)


def test_a_cleanup_after_another_one_knows_the_checkpoint_of_the_copy_too(place: Path, newest: int) -> None:
    for path in log_of(place).rglob("*"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600))
    table = opened(place, NOTHING_KEPT)
    for _ in range(3):
        table.clean_up()
    check_every_version(place, newest)


@pytest.mark.slow
def test_writers_and_checkpoints_go_on_from_the_table_itself(place: Path, newest: int) -> None:
    opened(place).checkpoint()
    assert not [found for found in opened(place).verify().findings if found.version == newest]
    check_every_version(place, newest)
    for version in range(newest + 1, newest + 4):
        assert opened(place).append(rows(200 + version)) == version
    check_every_version(place, newest + 3)
    opened(place).checkpoint()
    opened(place, NOTHING_KEPT).clean_up()
    assert values(opened(place)) == own_rows(newest + 3)
    assert opened(place).verify().ok


@pytest.mark.slow
@pytest.mark.parametrize(("newest", "checkpoint"), [(5, 5), (4, 5), (5, 4)])
def test_an_older_checkpoint_of_the_table_is_read_where_its_first_versions_are_gone(
    two: Two, newest: int, checkpoint: int, tmp_path: Path
) -> None:
    older = PARTED + 1
    own = Path(shutil.copytree(two.table[older], tmp_path / "own"))
    opened(own).checkpoint()
    path = Path(shutil.copytree(two.table[newest], tmp_path / "t"))
    plant(own, path)
    for version in range(older):
        (log_of(path) / f"{version:020}.json").unlink()
    plant(two.copy[checkpoint], path)
    check_every_version(path, newest, oldest=older)


@pytest.mark.parametrize("verb", ["scan", "count", "changes"])
@pytest.mark.parametrize("with_check_file", [True, False])
def test_a_version_file_of_the_copy_is_never_taken_for_the_version(
    two: Two, tmp_path: Path, with_check_file: bool, verb: str
) -> None:
    """It knows its number, follows a version that both have, and its rows are there: only the version above tells."""
    place = Path(shutil.copytree(two.table[5], tmp_path / "t"))
    shutil.copytree(two.copy[5] / "splits", place / "splits", dirs_exist_ok=True)
    swapped = PARTED + 1
    for ending in ("json", "crc") if with_check_file else ("json",):
        name = f"{swapped:020d}.{ending}"
        shutil.copy(log_of(two.copy[5]) / name, log_of(place) / name)
    it.invalidate_caches()
    ask = {
        "scan": lambda: it.open(str(place), version=swapped, options=QUIET).to_arrow(),
        "count": lambda: it.open(str(place), version=swapped, options=QUIET).count(),
        "changes": lambda: it.open(str(place), version=PARTED, options=QUIET).changes(0, swapped).read_all(),
    }[verb]
    with pytest.raises(LogCorrupt, match=f"not the version that version {swapped + 1} follows"):
        ask()
    # The versions around it are as they were.
    it.invalidate_caches()
    assert values(it.open(str(place), version=PARTED, options=QUIET)) == own_rows(PARTED)


def test_a_version_reads_though_the_one_above_it_is_that_of_the_copy(two: Two, tmp_path: Path) -> None:
    place = Path(shutil.copytree(two.table[5], tmp_path / "t"))
    name = f"{PARTED + 2:020d}.json"
    shutil.copy(log_of(two.copy[5]) / name, log_of(place) / name)
    it.invalidate_caches()
    assert values(it.open(str(place), version=PARTED + 1, options=QUIET)) == own_rows(PARTED + 1)
