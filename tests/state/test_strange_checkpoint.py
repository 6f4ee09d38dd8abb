"""A checkpoint that does not belong to the version files beside it is never read, built upon or cut at.

It is another table's, or another history's of the same table, and it lies where the table's own was; what the table's
own would tell has been cleaned up. Nobody reads a row of the other one, nothing is committed on top of it or deleted.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import CommitError, LogError
from indextables.log.care.verifying import verify
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import read_state
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.wire.names import LOG_DIR, crc_key
from tests.log.logs import local_env
from tests.state.test_left_over import NOTHING_KEPT, QUIET, log_of, opened, plant, rows, values
from tests.world.tables import filled

SCHEMA = pa.schema([("x", pa.int64())])
FORMATS = ("avro", "json", "parquet")
VERBS: dict[str, Callable[[Path], object]] = {
    "to_arrow": lambda p: opened(p).to_arrow(),
    "filtered": lambda p: opened(p).to_arrow(where="x > 0"),
    "count": lambda p: opened(p).count(),
    "files": lambda p: opened(p).files("x > 0"),
    "sql": lambda p: opened(p).sql("select count(*) from t"),
    "append": lambda p: opened(p).append(rows(1)),
    "overwrite": lambda p: opened(p).overwrite(rows(1)),
    "checkpoint": lambda p: opened(p).checkpoint(),
    "purge": lambda p: opened(p).purge(older_than_hours=0, tx_log_retention_hours=0, force=True),
    "clean_up": lambda p: opened(p, NOTHING_KEPT).clean_up(),
    "at": lambda p: opened(p).at(version=opened(p).version).to_arrow(),
}


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(path: Path, start: int, form: str) -> it.Table:
    batches = [rows(start + number) for number in range(3)]
    return filled(path, batches, schema=SCHEMA, options=QUIET, properties={"state.format": form})


def cut(path: Path, *, appended: int) -> Path:
    """The table with one more row, at its newest version: that and its checkpoint are all that is left of the log."""
    table = opened(path)
    table.append(rows(appended))
    table.truncate_time_travel()
    return path


def another_table(tmp_path: Path, form: str) -> Path:
    made(tmp_path / "other", 500, form)
    return cut(tmp_path / "other", appended=503)


def another_history(tmp_path: Path, form: str) -> Path:
    """A copy of the table that went on by itself."""
    return cut(Path(shutil.copytree(tmp_path / "t", tmp_path / "other")), appended=503)


@pytest.fixture(params=[another_table, another_history], ids=["another table", "another history"])
def place(request: pytest.FixtureRequest, tmp_path: Path, form: str) -> Path:
    made(tmp_path / "t", 100, form)
    other = request.param(tmp_path, form)
    own = cut(tmp_path / "t", appended=103)
    for folder in log_of(own).glob("state-v*"):
        shutil.rmtree(folder)
    plant(other, own)
    return own


def files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and "_intents" not in str(path)}


def test_nothing_is_read_from_it_built_on_it_or_deleted(place: Path) -> None:
    before = files(place)
    for verb in VERBS.values():
        with pytest.raises(LogError, match="does not belong to"):
            verb(place)
        assert files(place) == before


def test_an_older_checkpoint_of_the_table_is_read_instead(form: str, tmp_path: Path) -> None:
    made(tmp_path / "t", 100, form)
    other = another_table(tmp_path, form)
    own = cut(tmp_path / "t", appended=103)
    table = opened(own)
    while table.version < opened(other).version + 1:
        table.append(rows(104))
    right = values(opened(own))
    cut(other, appended=9)
    plant(other, own)
    assert values(opened(own)) == right
    assert opened(own).append(rows(1)) == table.version + 1
    assert values(opened(own)) == sorted([1, *right])


def test_a_writer_that_was_there_before_loses_nothing(form: str, tmp_path: Path) -> None:
    """It works from what it remembers, or refuses; once the table's own checkpoint is back, every row is there."""
    made(tmp_path / "t", 100, form)
    other = another_table(tmp_path, form)
    own = cut(tmp_path / "t", appended=103)
    backup = Path(shutil.copytree(own, tmp_path / "backup"))
    table = opened(own, NOTHING_KEPT)
    right = values(table)
    for folder in log_of(own).glob("state-v*"):
        shutil.rmtree(folder)
    plant(other, own)
    for verb in (lambda: right.append(7) if table.append(rows(7)) else 0, table.clean_up, table.checkpoint) * 2:
        with contextlib.suppress(LogError, CommitError):
            verb()
    with contextlib.suppress(LogError):
        assert values(opened(own)) == sorted(right)
    plant(backup, own)
    assert values(opened(own)) == sorted(right)


def test_a_checkpoint_that_holds_other_files_than_the_check_file_counts_is_refused(form: str, tmp_path: Path) -> None:
    made(tmp_path / "t", 100, form)
    own = cut(tmp_path / "t", appended=103)
    assert values(opened(own)) == [100, 101, 102, 103]
    env = local_env(own, **{"state.format": form})
    ref = find_states(env.store.list_from(LOG_DIR))[0]
    state = read_state(env, ref)
    env.store.delete_many(ref.keys)
    write_checkpoint(env, msgspec.structs.replace(state, files=state.files.slice(1)))
    with pytest.raises(LogError, match=crc_key(state.version)):
        opened(own).to_arrow()
    (own / crc_key(state.version)).unlink()
    assert values(opened(own)) == [101, 102, 103]


def test_verify_is_not_ok_where_no_read_can_open_the_table(place: Path) -> None:
    it.invalidate_caches()
    assert not verify(local_env(place)).ok


def test_verify_is_not_ok_where_the_only_checkpoint_is_damaged(form: str, tmp_path: Path) -> None:
    made(tmp_path / "t", 100, form)
    own = cut(tmp_path / "t", appended=103)
    table = opened(own)
    assert table.verify().ok
    env = local_env(own)
    for key in find_states(env.store.list_from(LOG_DIR))[0].keys:
        (own / key).write_bytes((own / key).read_bytes()[:-40])
    report = table.verify()
    assert not report.ok
    assert "nothing else is left" in next(found.message for found in report.findings if found.severity == "error")
    with pytest.raises(LogError, match="nothing else is left"):
        opened(own).to_arrow()
