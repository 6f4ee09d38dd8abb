"""A log that is replaced under a living process: what was remembered belongs to the history that is gone.

However it was replaced, every read of every handle tells what one without memory tells, or says what to do.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import IndexTablesError, LogGap, VersionExpired
from indextables.log.wire.names import version_key

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
NO_MEMORY = {"transaction.cache.enabled": "false"}

READS: dict[str, Callable[[indextables.Table], object]] = {
    "version": lambda t: t.version,
    "to_arrow": lambda t: sorted(t.to_arrow()["id"].to_pylist()),
    "where": lambda t: sorted(t.to_arrow(where="id > 1")["id"].to_pylist()),
    "count": lambda t: t.count(),
    "count of matches": lambda t: t.count("text:word"),
    "search": lambda t: sorted(t.search("text:word", limit=100)["id"].to_pylist()),
    "sql": lambda t: t.sql("select sum(id) s, count(*) n from t").to_pylist(),
    "files": lambda t: sorted(t.files()["path"].to_pylist()),
    "at": lambda t: sorted(t.at(version=t.version).to_arrow()["id"].to_pylist()),
    "below": lambda t: sorted(t.at(version=t.version - 1).to_arrow()["id"].to_pylist()),
}


def rows(number: int) -> list[dict[str, object]]:
    return [{"id": number, "text": f"word {number}"}]


def told(table: indextables.Table) -> dict[str, object]:
    return {name: _answer(table, name) for name in READS}


def _answer(table: indextables.Table, name: str) -> object:
    try:
        return READS[name](table)
    except VersionExpired:
        if name != "below":
            raise
        return "expired"


def truth(path: Path) -> dict[str, object]:
    """What the files tell somebody who remembers nothing."""
    return told(indextables.open(path, options=NO_MEMORY))


def put_back(copy: Path, path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(copy, path)


def older_backup(path: Path, backups: dict[int, Path]) -> None:
    put_back(backups[3], path)


def newer_backup(path: Path, backups: dict[int, Path]) -> None:
    """Of a later moment than the one that was put back before, and was written to since."""
    put_back(backups[3], path)
    table = indextables.open(path)
    table.append(rows(41))
    told(table)
    put_back(backups[5], path)


def newest_lost(path: Path, backups: dict[int, Path]) -> None:
    (path / version_key(6)).unlink()


def two_newest_lost(path: Path, backups: dict[int, Path]) -> None:
    (path / version_key(6)).unlink()
    (path / version_key(5)).unlink()


def newest_lost_and_taken_anew(path: Path, backups: dict[int, Path]) -> None:
    newest_lost(path, backups)
    indextables.open(path, options=NO_MEMORY).append(rows(61))


def repaired(path: Path, backups: dict[int, Path]) -> None:
    """The repaired log of a table that lost a split, moved into its place."""
    (path / indextables.open(path, options=NO_MEMORY).files()["path"].to_pylist()[-1]).unlink()
    indextables.repair(path, at=path.with_name("repaired"))
    shutil.move(path / "_transaction_log", path.with_name("old-log"))
    shutil.move(path.with_name("repaired") / "_transaction_log", path / "_transaction_log")


def went_on_differently(appends: int) -> Callable[[Path, dict[int, Path]], None]:
    def swap(path: Path, backups: dict[int, Path]) -> None:
        copy = backups[3]
        for number in range(appends):
            indextables.open(copy).append(rows(70 + number))
        path.rename(path.with_name("swapped out"))
        copy.rename(path)

    return swap


REPLACED = {
    "older backup": older_backup,
    "newer backup": newer_backup,
    "newest lost": newest_lost,
    "two newest lost": two_newest_lost,
    "newest lost and taken anew": newest_lost_and_taken_anew,
    "repaired": repaired,
    "a copy that went on, shorter": went_on_differently(2),
    "a copy that went on, as long": went_on_differently(3),
    "a copy that went on, longer": went_on_differently(4),
}


def grown(folder: Path, appends: int, interval: int = 10) -> tuple[Path, indextables.Table, dict[int, Path]]:
    """A table with appends, a handle that has read each of its versions, and copies of its folder."""
    path = folder / "table"
    table = indextables.create(path, SCHEMA, properties={"checkpoint.interval": str(interval)})
    backups = {}
    for number in range(1, appends + 1):
        table.append(rows(number))
        table.to_arrow()
        backups[number] = folder / f"backup-{number}"
        if number in (3, 5):
            shutil.copytree(path, backups[number])
    return path, table, backups


@pytest.fixture
def living(request, tmp_path) -> tuple[Path, indextables.Table, dict[int, Path]]:
    found = grown(tmp_path, 6, getattr(request, "param", 10))
    told(found[1])
    return found


replaced = pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED.keys())


@pytest.mark.slow
@replaced
def test_a_handle_opened_since_tells_what_the_log_holds(living, replace):
    path, _, backups = living
    replace(path, backups)
    assert told(indextables.open(path)) == truth(path)


@pytest.mark.slow
@pytest.mark.parametrize("living", [2, 10], indirect=True, ids=lambda number: f"checkpoint every {number}")
@replaced
def test_a_process_sees_what_it_appended_since(living, replace):
    path, _, backups = living
    replace(path, backups)
    table = indextables.open(path)
    if not (path / version_key(table.version)).exists():
        before = truth(path)
        with pytest.raises(LogGap, match="stands alone"):
            table.append(rows(500))
        assert told(table) == told(indextables.open(path)) == truth(path) == before
        return
    for number in (500, 501):
        version = table.append(rows(number))
        now = truth(path)
        assert now["version"] == version
        assert number in now["to_arrow"]
        assert told(table) == now
        assert told(indextables.open(path)) == now


@pytest.mark.slow
@replaced
def test_an_older_handle_goes_on_after_a_refresh(living, replace):
    path, table, backups = living
    replace(path, backups)
    assert told(table.refresh()) == truth(path)
    assert table.append(rows(500)) == truth(path)["version"]
    assert 500 in truth(path)["to_arrow"]
    assert told(table) == truth(path)


@pytest.mark.slow
@replaced
def test_an_append_through_an_older_handle_is_seen_or_refused_once(living, replace):
    path, table, backups = living
    replace(path, backups)
    before = truth(path)
    refused = None
    try:
        table.append(rows(500))
    except IndexTablesError as error:
        refused = str(error)
    if refused is not None:
        assert "Nothing was committed" in refused
        assert "refresh()" in refused
        assert truth(path) == before
        table.refresh().append(rows(500))
    assert 500 in truth(path)["to_arrow"]
    assert told(table) == truth(path)


@pytest.mark.slow
@replaced
def test_an_append_through_an_older_handle_that_never_wrote_is_seen(living, replace):
    path, _, backups = living
    reader = indextables.open(path)
    told(reader)
    replace(path, backups)
    version = reader.append(rows(500))
    assert truth(path)["version"] == version
    assert told(reader) == truth(path)


@pytest.mark.slow
@replaced
def test_an_older_handle_reads_its_version_or_says_that_it_is_gone(living, replace):
    path, table, backups = living
    before = told(table)
    replace(path, backups)
    for name in READS.keys() - {"at", "below"}:
        try:
            answer = READS[name](table)
        except VersionExpired as error:
            answer = str(error)
        assert answer == before[name] or "open the table again" in str(answer) or "refresh()" in str(answer)


@pytest.mark.slow
@replaced
def test_what_a_handle_wrote_and_nobody_read_is_told_or_gone_and_refresh_goes_on(tmp_path, replace):
    path, _, backups = grown(tmp_path, 5)
    table = indextables.open(path)
    table.append(rows(6))
    before = truth(path)
    replace(path, backups)
    for name in READS.keys() - {"at", "below"}:
        try:
            answer = READS[name](table)
        except VersionExpired as error:
            answer = str(error)
        assert answer == before[name] or "refresh()" in str(answer)
    assert told(table.refresh()) == truth(path)


@pytest.mark.slow
@replaced
def test_refresh_goes_on_where_nobody_read_what_a_handle_wrote(tmp_path, replace):
    path, _, backups = grown(tmp_path, 5)
    table = indextables.open(path)
    table.append(rows(6))
    replace(path, backups)
    assert told(table.refresh()) == truth(path)
    assert table.append(rows(500)) == truth(path)["version"]
    assert told(table) == truth(path)


BATCH = ("job", 1)
ONCE: dict[str, Callable[[indextables.Table], object]] = {
    "append": lambda t: t.append(rows(7), txn=BATCH),
    "append, columns as they are": lambda t: t.append(rows(7), txn=BATCH, merge_schema=True),
    "append of more columns": lambda t: t.append([{**rows(7)[0], "more": 1}], txn=BATCH, merge_schema=True),
    "overwrite": lambda t: t.overwrite(rows(7), txn=BATCH),
    "delete": lambda t: t.delete("id = 2", txn=BATCH),
    "update": lambda t: t.update({"id": "7"}, "id = 2", txn=BATCH),
    "upsert": lambda t: t.upsert(rows(7), "id", txn=BATCH),
}


CASES = [
    *((name, {}) for name in REPLACED),
    *((name, {"maxStaleness": 3_600_000}) for name in ("older backup", "a copy that went on, as long")),
    *((name, NO_MEMORY) for name in ("older backup", "a copy that went on, longer")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("replace", "options"), CASES, ids=str)
@pytest.mark.parametrize("verb", ONCE)
def test_a_batch_that_is_acknowledged_is_in_the_log_that_is_there(tmp_path, replace, verb, options):
    path, _, backups = grown(tmp_path, 5)
    table = indextables.open(path, options=options)
    ONCE[verb](table)
    REPLACED[replace](path, backups)
    try:
        ONCE[verb](table)
    except IndexTablesError as error:
        assert "refresh()" in str(error) or "read the table again" in str(error)  # noqa: PT017 - it may be refused
        ONCE[verb](table.refresh())
    now = indextables.open(path, options=NO_MEMORY)
    assert now.txn_version("job") == 1
    if replace != "repaired":
        ids = now.to_arrow()["id"].to_pylist()
        assert ids.count(7) == (verb != "delete")
        assert (2 in ids) == (verb not in ("overwrite", "delete", "update"))


@pytest.mark.slow
def test_time_travel_after_a_purge_goes_as_far_as_the_log(tmp_path):
    path = tmp_path / "table"
    table = indextables.create(path, SCHEMA)
    for number in range(1, 13):
        table.append(rows(number))
        table.to_arrow()
    other = indextables.open(path)
    told(other)
    table.merge_splits()
    table.purge(older_than_hours=0, tx_log_retention_hours=0, force=True)
    oldest = table.health().oldest_version
    assert oldest > 3
    for handle in (table, other, indextables.open(path), indextables.open(path, options=NO_MEMORY)):
        with pytest.raises(VersionExpired):
            handle.at(version=3).count()
        assert handle.at(version=oldest).version == oldest


@pytest.mark.slow
def test_time_travel_after_the_purge_of_another_process_goes_as_far_as_the_log(tmp_path):
    path = tmp_path / "table"
    table = indextables.create(path, SCHEMA)
    for number in range(1, 13):
        table.append(rows(number))
        table.to_arrow()
    purger = indextables.open(path, options=NO_MEMORY)
    purger.purge(older_than_hours=0, tx_log_retention_hours=0, force=True)
    assert purger.health().oldest_version > 3
    for handle in (table, indextables.open(path)):
        with pytest.raises(VersionExpired):
            handle.at(version=3).count()
