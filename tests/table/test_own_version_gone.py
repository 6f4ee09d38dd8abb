"""What a handle wrote is gone before anybody read it: cleaned up, or replaced by another history of the table.

It is in the newest version where cleanup took it, so that the handle goes on from there. Where a copy of the table was
put back, it is not: then the handle says so, and never shows another version of that number.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables import Table
from indextables.errors import TableReplaced, VersionExpired
from indextables.storage.local import LocalStore

SCHEMA = pa.schema([("id", pa.int64())])
OPTIONS = {"storage.fsync": "false"}


def row(number: int) -> list[dict[str, int]]:
    return [{"id": number}]


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def made(path: Path) -> Table:
    table = indextables.create(path, SCHEMA, options=OPTIONS)
    table.append(row(1))
    return table


def cleaned(path: Path) -> None:
    """Somebody else writes, and deletes every older version."""
    other = indextables.open(path, options=OPTIONS)
    other.append(row(99))
    other.truncate_time_travel()


@pytest.fixture
def after_commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Calls something once, when the next commit has been verified: right after its check file was put."""
    waiting: list[Callable[[], object]] = []

    def put(store: LocalStore, key: str, *given: object, **named: object) -> object:
        made = real(store, key, *given, **named)
        if key.endswith(".crc") and waiting:
            waiting.pop()()
        return made

    real = LocalStore.put_if_absent
    monkeypatch.setattr(LocalStore, "put_if_absent", put)
    yield waiting.append
    assert not waiting


VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(row(3)),
    "append of a batch": lambda t: t.append(row(3), txn=("job", 1)),
    "append of more columns": lambda t: t.append([{"id": 3, "more": 1}], merge_schema=True),
    "overwrite": lambda t: t.overwrite(row(3)),
    "overwrite with a schema": lambda t: t.overwrite([{"id": 3, "other": "x"}], overwrite_schema=True),
    "overwrite with more columns": lambda t: t.overwrite([{"id": 3, "more": 1}], merge_schema=True),
    "count": lambda t: t.count(),
    "to_arrow": lambda t: t.to_arrow(),
    "filtered": lambda t: t.to_arrow(where="id = 2"),
    "merge_splits": lambda t: t.merge_splits(),
    "files": lambda t: t.files(),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("moment", ["before the handle looks", "before anybody reads"])
def test_a_handle_goes_on_with_the_newest_version_where_cleanup_took_what_it_wrote(
    tmp_path, after_commit, verb, moment
):
    path = tmp_path / "t"
    table = made(path)
    if moment == "before the handle looks":
        after_commit(lambda: cleaned(path))
    assert table.append(row(2)) == 2
    if moment == "before anybody reads":
        cleaned(path)
    VERBS[verb](table)
    assert table.append(row(4)) == table.version
    assert ids(table) == ids(indextables.open(path))
    assert table.version == indextables.open(path).version


def test_a_version_that_was_read_stays(tmp_path):
    path = tmp_path / "t"
    table = made(path)
    table.append(row(2))
    assert ids(table) == [1, 2]
    cleaned(path)
    assert (ids(table), table.version) == ([1, 2], 2)


@pytest.mark.parametrize("verb", [name for name in VERBS if name.startswith(("append", "overwrite"))])
def test_a_write_is_not_refused_because_the_version_that_was_read_is_gone(tmp_path, verb):
    path = tmp_path / "t"
    made(path)
    table = indextables.open(path, options=OPTIONS)
    assert table.version == 1
    cleaned(path)
    indextables.invalidate_caches()
    assert VERBS[verb](table) == table.version
    assert ids(table) == ids(indextables.open(path))


READS: dict[str, Callable[[Table], object]] = {
    name: VERBS[name] for name in ("count", "to_arrow", "filtered", "files")
} | {"sql": lambda t: t.sql("select id from t"), "detail": lambda t: t.detail()}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("further", [0, 1])
def test_a_handle_never_shows_another_version_of_the_number_that_it_wrote(tmp_path, read, further):
    path, copy = tmp_path / "t", tmp_path / "copy"
    table = made(path)
    shutil.copytree(path, copy)
    assert table.append(row(2)) == 2
    shutil.rmtree(path)
    copy.rename(path)
    elsewhere = indextables.open(path, options={**OPTIONS, "transaction.cache.enabled": "false"})
    for number in range(1 + further):
        assert elsewhere.append(row(100 + number)) == 2 + number
    for _ in range(2):
        with pytest.raises(VersionExpired, match="is not the one that this handle has read or written"):
            READS[read](table)
    table.refresh()
    assert ids(table) == ids(indextables.open(path))


def test_what_was_written_to_a_table_that_is_gone_is_not_looked_for_in_another(tmp_path):
    path = tmp_path / "t"
    table = made(path)
    table.append(row(2))
    shutil.rmtree(path)
    other = made(path)
    other.append(row(3))
    other.append(row(4))
    for read in READS.values():
        with pytest.raises((VersionExpired, TableReplaced)):
            read(table)
