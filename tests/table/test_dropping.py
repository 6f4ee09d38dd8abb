"""Dropping a table: nothing is left, and an interruption shows nobody an older version."""

from __future__ import annotations

import contextlib
import json

import pyarrow as pa
import pytest

import indextables
from indextables.env import Env
from indextables.errors import (
    IndexTablesError,
    NotSupported,
    ProtocolUnsupported,
    StoreError,
    TableNotFound,
)
from indextables.log.care import open_log
from indextables.table.environment import open_env
from indextables.table.maintenance import drop_table

ROWS = pa.schema([("id", pa.int64()), ("part", pa.int64())])


def made(path):
    """Six versions, of which the third has a checkpoint."""
    table = indextables.create(path, ROWS, partition_by=["part"])
    for number in range(5):
        table.append([{"id": number, "part": number % 2}])
        if number == 2:
            table.checkpoint()
    return table


def test_a_dropped_table_leaves_nothing_behind(tmp_path):
    path = tmp_path / "t"
    made(path)
    (tmp_path / "beside").write_text("another's")
    assert drop_table(open_log(open_env(path, {}))) > 6
    assert not path.exists()
    assert (tmp_path / "beside").exists()
    with pytest.raises(TableNotFound):
        indextables.open(path)
    with pytest.raises(TableNotFound):
        drop_table(open_log(open_env(path, {})))
    assert indextables.create(path, ROWS).version == 0


def test_files_of_others_in_the_folder_stay(tmp_path):
    path = tmp_path / "t"
    made(path).delete(where="id = 1")
    (path / "notes.txt").write_text("another's")
    (path / "part=0" / "rows.parquet").write_bytes(b"another's")
    drop_table(open_log(open_env(path, {})))
    left = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    assert left == ["notes.txt", "part=0/rows.parquet"]


@pytest.mark.parametrize("folder", ["_transaction_log", "_delta_log"])
def test_a_table_with_another_one_inside_is_not_dropped(tmp_path, folder):
    path = tmp_path / "t"
    made(path)
    inside = path / "inner" / folder / "00000000000000000000.json"
    inside.parent.mkdir(parents=True)
    inside.write_text("{}")
    with pytest.raises(NotSupported, match=r"another table inside, in inner/.*Nothing was deleted"):
        drop_table(open_log(open_env(path, {})))
    assert indextables.open(path).count() == 5


def test_a_table_with_a_feature_that_is_not_known_is_not_dropped(tmp_path):
    path = tmp_path / "t"
    version = made(path).version + 1
    asked = {"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": [], "writerFeatures": ["somethingNew"]}
    lines = [{"commitInfo": {"timestamp": 1, "operation": "UPGRADE"}}, {"protocol": asked}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "_transaction_log" / f"{version:020d}.json").write_text(text)
    with pytest.raises(ProtocolUnsupported, match="somethingNew"):
        drop_table(open_log(open_env(path, {})))
    assert (path / "_transaction_log").exists()


def test_a_mirror_goes_with_its_table(tmp_path):
    path = tmp_path / "t"
    made(path).mirror()
    drop_table(open_log(open_env(path, {})))
    assert not path.exists()


class Stopping:
    """A store that stops deleting after so many keys."""

    def __init__(self, store, most):
        self._store = store
        self._left = most

    def __getattr__(self, name):
        return getattr(self._store, name)

    def delete_many(self, keys, **how):
        keys = list(keys)
        some, self._left = keys[: self._left], max(0, self._left - len(keys))
        left = self._store.delete_many(some, **how)
        return {**left, **dict.fromkeys(keys[len(some) :], "the machine stopped")}


@pytest.mark.parametrize("most", [0, 6, 8, 9, 10, 12, 14])
def test_an_interrupted_drop_never_shows_an_older_version(tmp_path, most, forget_everything):
    path = tmp_path / "t"
    made(path)
    env = open_env(path, {})
    with pytest.raises(StoreError, match="could not be deleted"):
        drop_table(open_log(Env(Stopping(env.store, most), env.ambient, env.options)))
    forget_everything()
    # Broken, and says so, or no table any more.
    with contextlib.suppress(IndexTablesError):
        assert indextables.open(path).count() == 5
