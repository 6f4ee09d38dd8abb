"""What an append by a handle that knows nothing yet reads of the table: not its files, however many there are."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables
from indextables.storage.local import LocalStore

COLUMNS = pa.schema([("day", pa.int64()), ("n", pa.int64())])


@pytest.fixture
def read(monkeypatch):
    """The keys that are read of local stores."""
    keys: list[str] = []
    real = LocalStore.get
    monkeypatch.setattr(
        LocalStore, "get", lambda store, key, *more, **named: keys.append(key) or real(store, key, *more, **named)
    )
    return keys


@pytest.mark.parametrize("txn", [None, ("app", 1)], ids=["plain", "with a batch number"])
@pytest.mark.parametrize("last", ["append", "property"])
def test_a_cold_append_reads_no_file_entries(tmp_path, read, txn, last):
    table = indextables.create(tmp_path / "t", COLUMNS, properties={"checkpoint.interval": "4"})
    for n in range(9):
        table.append([{"day": n, "n": n}], txn=("app", 0) if n == 3 else None)
    if last == "property":
        # A commit that gives no row an id: the next id is in an earlier version, or in a checkpoint.
        table.set_properties({"description": "changed"})
    assert list((tmp_path / "t" / "_transaction_log" / "manifests").iterdir())
    table.invalidate_cache()
    read.clear()
    other = indextables.open(tmp_path / "t")
    other.append([{"day": 9, "n": 9}], txn=txn)
    assert not [key for key in read if "/manifests/" in key]
    assert other.txn_version("app") == (0 if txn is None else 1)
    assert sorted(other.to_arrow()["n"].to_pylist()) == list(range(10))


def test_ids_of_rows_go_on_after_a_commit_that_gave_none(tmp_path):
    table = indextables.create(tmp_path / "t", COLUMNS, properties={"checkpoint.interval": "4"})
    for n in range(9):
        table.append([{"day": n, "n": n}])
    table.set_properties({"description": "changed"})
    table.invalidate_cache()
    indextables.open(tmp_path / "t").append([{"day": 9, "n": 9}])
    files = indextables.open(tmp_path / "t").files()
    assert sorted(files["baseRowId"].to_pylist()) == list(range(10))
