"""Files that look like others, in inode, size and time of their content, are not taken for them.

Archives that are made reproducible (`tar --mtime`) give every state of a table one time, and a file system uses the
inodes of what was removed again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.log.wire.names import LOG_DIR, version_key

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
NO_MEMORY = {"transaction.cache.enabled": "false"}
TIME_NS = 1_700_000_000 * 10**9
TRIES = 200

pytestmark = pytest.mark.slow


def rows(number: int) -> list[dict[str, object]]:
    return [{"id": number, "text": f"word {number}"}]


def ids(table: indextables.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def restored(copy: Path, path: Path) -> None:
    """The files of a copy in the inodes of those that are there, all of one time."""
    for file in [file for file in path.rglob("*") if file.is_file() and not (copy / file.relative_to(path)).exists()]:
        file.unlink()
    for source in [file for file in copy.rglob("*") if file.is_file()]:
        target = path / source.relative_to(copy)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("r+b" if target.exists() else "wb") as file:
            file.write(source.read_bytes())
            file.truncate()
        os.utime(target, ns=(TIME_NS, TIME_NS))


def looks(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def of_one_size(folder: Path, *makes: Callable[[Path], Path]) -> tuple[Path, Path]:
    """Copies of a table, one by each of two functions, in which the files that they tell have the same size."""
    made: tuple[dict[int, Path], dict[int, Path]] = ({}, {})
    for number in range(TRIES):
        for own, other, make, name in zip(made, reversed(made), makes, ("first", "second"), strict=True):
            copy = folder / f"{name}{number}"
            size = make(copy).stat().st_size
            own[size] = copy
            if size in other:
                return made[0][size], made[1][size]
    return pytest.fail(f"no files of one size in {TRIES} tries")


def test_a_version_file_that_looks_like_the_known_one_is_read_and_gone_on_from(tmp_path):
    path, base = tmp_path / "t", tmp_path / "base"
    table = indextables.create(path, SCHEMA, properties={"transaction.compression.enabled": "false"})
    for number in (1, 2, 3):
        table.append(rows(number))
    shutil.copytree(path, base)

    def grown(copy: Path, number: int) -> Path:
        shutil.copytree(base, copy)
        indextables.open(copy).append(rows(number))
        return copy / version_key(4)

    first, second = of_one_size(tmp_path, partial(grown, number=4), partial(grown, number=5))
    restored(first, path)
    before = looks(path / version_key(4))
    assert ids(indextables.open(path)) == [1, 2, 3, 4]
    restored(second, path)
    assert looks(path / version_key(4)) == before
    reopened = indextables.open(path)
    assert ids(reopened) == [1, 2, 3, 5]
    reopened.append(rows(6))
    assert ids(indextables.open(path, options=NO_MEMORY)) == [1, 2, 3, 5, 6]


def test_cleanup_deletes_no_manifest_for_a_checkpoint_that_looked_the_same(tmp_path):
    path, base = tmp_path / "t", tmp_path / "base"
    table = indextables.create(path, SCHEMA, properties={"state.gc.minManifestAgeHours": "1"})
    for number in (1, 2, 3):
        table.append(rows(number))
    shutil.copytree(path, base)

    def grown(copy: Path, number: int) -> Path:
        shutil.copytree(base, copy)
        table = indextables.open(copy)
        table.append(rows(number))
        table.truncate_time_travel()
        table.compact()
        (state,) = (copy / LOG_DIR).glob("state-v*/_manifest.avro")
        return state

    first, second = of_one_size(tmp_path, partial(grown, number=4), partial(grown, number=5))
    restored(first, path)
    (state,) = (path / LOG_DIR).glob("state-v*/_manifest.avro")
    before = looks(state)
    indextables.open(path).clean_up()
    restored(second, path)
    assert looks(state) == before
    indextables.open(path).clean_up()
    assert ids(indextables.open(path, options=NO_MEMORY)) == [1, 2, 3, 5]


def test_a_backup_of_hard_links_and_another_mode_refuse_nothing(tmp_path):
    path = tmp_path / "t"
    table = indextables.create(path, SCHEMA, properties={"checkpoint.interval": "3"})
    others = indextables.open(path)
    for number in range(1, 9):
        table.append(rows(number))
        if number % 2:
            shutil.copytree(path, tmp_path / f"backup{number}", copy_function=os.link)
        else:
            for file in (path / LOG_DIR).iterdir():
                file.chmod(0o640 if file.is_file() else 0o755)
        assert ids(others.refresh()) == list(range(1, number + 1))
        others.append(rows(number + 100))
        assert others.delete(f"id = {number + 100}").deleted == 1
        table.clean_up()


def test_the_past_is_cut_off_while_somebody_backs_the_table_up_by_hard_links(tmp_path):
    path = tmp_path / "t"
    table = indextables.create(path, SCHEMA)
    for number in (1, 2, 3):
        table.append(rows(number))

    def back_up(step: object) -> None:
        if not (tmp_path / "backup").exists():
            shutil.copytree(path, tmp_path / "backup", copy_function=os.link)

    assert not table.truncate_time_travel(progress=back_up).failed
    assert ids(indextables.open(path, options=NO_MEMORY)) == [1, 2, 3]
