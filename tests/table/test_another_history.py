"""A version is that of the history in which it was opened: another one with its number never answers for it.

A folder is replaced by a copy of the same table that went on differently, and may be put back again. What a pinned
handle reads then is what it was, or an error that says so; and nothing of it is remembered for anybody else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import VersionExpired
from indextables.log.wire.names import LOG_DIR

SCHEMA = pa.schema([("p", pa.int64()), ("id", pa.int64()), ("text", pa.string())])
NO_MEMORY = {"transaction.cache.enabled": "false"}
STALE = {"maxStaleness": "3600000"}
NEWEST = 5

pytestmark = pytest.mark.slow


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"p": number % 2, "id": number, "text": f"word {number}"} for number in numbers]


def ids(table: indextables.Table, where: str | None = None) -> list[int]:
    return sorted(table.to_arrow(where=where)["id"].to_pylist())


READS: dict[str, Callable[[indextables.Table], object]] = {
    "rows": ids,
    "some rows": lambda t: ids(t, where="p = 1"),
    "count": lambda t: t.count(),
    "search": lambda t: sorted(t.search("text:word", limit=100)["id"].to_pylist()),
    "files": lambda t: sorted(t.files()["path"].to_pylist()),
    "sql": lambda t: t.sql("select count(*) n, sum(id) s from t").to_pylist(),
}


def told(table: indextables.Table) -> dict[str, object]:
    return {name: read(table) for name, read in READS.items()}


def told_or_expired(table: indextables.Table) -> dict[str, object]:
    """Those answers that are given."""
    found: dict[str, object] = {}
    for name, read in READS.items():
        try:
            found[name] = read(table)
        except VersionExpired as error:
            assert "refresh()" in str(error) or "was faster" in str(error)  # noqa: PT017 - what it says to do
    return found


class World:
    """A table at version 5, and a copy of it that went on differently after version 3; a process that knows neither."""

    def __init__(self, folder: Path, *, interval: int, partitioned: bool, form: str = "avro") -> None:
        self.path, self._copy, self._aside = folder / "t", folder / "copy", folder / "aside"
        self._older = folder / "older"
        properties = {"checkpoint.interval": str(interval)}
        if form != "avro":
            properties["state.format"] = form
        table = indextables.create(
            self.path,
            SCHEMA,
            partition_by=["p"] if partitioned else [],
            indexing={"text": "text"},
            properties=properties,
        )
        for number in (1, 2, 3):
            table.append(rows(number))
        shutil.copytree(self.path, self._copy)
        shutil.copytree(self.path / LOG_DIR, self._older)
        copy = indextables.open(self._copy)
        for number in (4, 5):
            table.append(rows(number))
            copy.append(rows(number + 70, number + 100))
        assert table.version == copy.version == NEWEST
        for files in (self._copy, self.path):
            # The data files of both are in both, as after a restore that deletes none.
            other = self.path if files is self._copy else self._copy
            for file in list(other.rglob("*.split")):
                target = files / file.relative_to(other)
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    shutil.copy2(file, target)
        indextables.invalidate_caches()

    def switch(self) -> None:
        """The log of the copy takes the place of the log that is there, which is kept for the next time."""
        (self.path / LOG_DIR).rename(self._aside)
        (self._copy / LOG_DIR).rename(self.path / LOG_DIR)
        self._aside.rename(self._copy / LOG_DIR)

    def put_back(self) -> None:
        """The log of version 3 is there again, as `rsync --delete` leaves it: what is the same stays as it is."""
        log = self.path / LOG_DIR
        for file in [file for file in log.rglob("*") if file.is_file()]:
            if not (self._older / file.relative_to(log)).exists():
                file.unlink()
        shutil.copy2(self._older / "_last_checkpoint", log / "_last_checkpoint")

    def truth(self, version: int = NEWEST) -> dict[str, object]:
        return told(indextables.open(self.path, options=NO_MEMORY).at(version=version))


@pytest.fixture(params=[(2, False), (3, True), (3, False), (10, True)], ids=lambda p: f"{p[0]}-{p[1]}")
def world(request, tmp_path) -> World:
    return World(tmp_path, interval=request.param[0], partitioned=request.param[1])


@pytest.mark.parametrize("before", ["nothing", "some rows", "count"])
@pytest.mark.parametrize("how", ["open", "at", "at below"])
def test_a_handle_that_told_its_version_never_answers_from_another_history(world, how, before):
    handle = indextables.open(world.path)
    handle = {"open": handle, "at": handle.at(version=NEWEST), "at below": handle.at(version=NEWEST - 1)}[how]
    version = handle.version
    truth = world.truth(version)
    if before != "nothing":
        READS[before](handle)
    world.switch()
    answers = told_or_expired(handle)
    assert answers == {name: truth[name] for name in answers}
    assert handle.version == version
    there = world.truth()
    assert told(indextables.open(world.path)) == there
    assert told(handle.refresh() if how == "open" else indextables.open(world.path)) == there


@pytest.mark.parametrize("before", ["nothing", "some rows", "count"])
@pytest.mark.parametrize("options", [{}, STALE], ids=["default", "stale"])
def test_what_is_read_while_another_history_is_there_is_not_remembered_of_the_first(world, options, before):
    handle = indextables.open(world.path, options=options)
    truths = {version: world.truth(version) for version in (NEWEST, NEWEST - 1)}
    _ = handle.version
    if before != "nothing":
        READS[before](handle)
    world.switch()
    told_or_expired(handle)
    for version in (NEWEST - 1, NEWEST):
        told_or_expired(handle.at(version=version))
    world.switch()
    for version, truth in truths.items():
        assert told(indextables.open(world.path).at(version=version)) == truth
    assert told(indextables.open(world.path)) == truths[NEWEST]
    table = indextables.open(world.path)
    assert table.delete("id <= 3").deleted == 3
    assert ids(indextables.open(world.path, options=NO_MEMORY)) == [4, 5]


@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
def test_a_handle_does_not_answer_from_what_others_committed_after_an_older_backup(tmp_path, form):
    world = World(tmp_path, interval=3, partitioned=True, form=form)
    handle = indextables.open(world.path)
    truth = world.truth(handle.version)
    ids(handle, where="p = 0")
    world.put_back()
    others = indextables.open(world.path, options=NO_MEMORY)
    for number in (74, 75):
        others.append(rows(number, number + 1))
    answers = told_or_expired(handle)
    assert answers == {name: truth[name] for name in answers}
    assert ids(handle.refresh()) == [1, 2, 3, 74, 75, 75, 76]
