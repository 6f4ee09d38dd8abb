"""Threads that append through one handle may find their rows in one version; each is told the version of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import SchemaMismatch

SCHEMA = pa.schema([("n", pa.int64()), ("m", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> indextables.Table:
    options = {"storage.fsync": "false", "cache.directory": str(tmp_path / "cache")}
    return indextables.create(tmp_path / "t", SCHEMA, indexing={"m": "text"}, options=options)


def numbers(table: indextables.Table) -> list[int]:
    return sorted(table.to_arrow()["n"].to_pylist())


@pytest.mark.slow
def test_every_thread_is_told_the_version_that_holds_its_rows(table):
    table.append([{"n": -1, "m": "first"}])
    with ThreadPoolExecutor(6) as pool:
        versions = list(pool.map(lambda n: table.append([{"n": n, "m": "words"}]), range(18)))
    table.refresh()
    assert numbers(table) == list(range(-1, 18))
    assert set(range(2, table.version + 1)) == set(versions)
    for n, version in enumerate(versions):
        assert n in numbers(table.at(version))
        assert n not in numbers(table.at(version - 1))
    told = {entry["version"]: entry for entry in table.history().to_pylist()}
    for version in set(versions):
        assert dict(told[version]["operationMetrics"])["numOutputRows"] == str(versions.count(version))


def test_a_batch_and_a_note_have_a_version_of_their_own(table):
    table.append([{"n": -1, "m": "first"}])

    def write(n: int) -> int:
        if n % 3 == 0:
            return table.append([{"n": n, "m": "batch"}], txn=("app", n // 6))
        return table.append([{"n": n, "m": "note"}], user_metadata=f"note {n}" if n % 3 == 1 else None)

    with ThreadPoolExecutor(6) as pool:
        versions = list(pool.map(write, range(12)))
    table.refresh()
    notes = [entry["userMetadata"] for entry in table.history().to_pylist() if entry["userMetadata"] is not None]
    assert sorted(notes) == sorted(f"note {n}" for n in range(12) if n % 3 == 1)
    # Of the batches 0, 0, 1 and 1 each is in the table once at most: who finds a later one is a repetition.
    batches = [n for n in numbers(table) if n >= 0 and n % 3 == 0]
    assert len({n // 6 for n in batches}) == len(batches)
    assert max(n // 6 for n in batches) == 1
    alone = [versions[n] for n in range(12) if n % 3 == 1]
    assert len(set(alone)) == len(alone)


def test_rows_that_do_not_fit_are_an_error_of_their_own_thread(table):
    def write(n: int) -> str:
        try:
            table.append([{"n": n, "m": "x"}] if n % 2 else [{"n": "no number", "m": "x"}])
        except SchemaMismatch:
            return "refused"
        return "taken"

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(write, range(8)))
    assert answers == ["refused", "taken"] * 4
    assert numbers(table.refresh()) == [1, 3, 5, 7]
