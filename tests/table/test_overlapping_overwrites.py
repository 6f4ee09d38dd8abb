"""Two that replace the same rows at the same time: one of them is refused, and no row leaves that nobody saw."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.world.tables import filled

import indextables
from indextables import Table
from indextables.errors import CommitConflict

SCHEMA = pa.schema([("d", pa.string()), ("x", pa.int64())])
PARTIAL = ["where", "dynamic"]


def rows(*xs: int, d: str = "a") -> pa.Table:
    return pa.table({"d": [d] * len(xs), "x": pa.array(xs, pa.int64())}, schema=SCHEMA)


def make(path, **properties: str) -> Table:
    """1 and 2 in partition a, 3 in partition b."""
    return filled(path, [rows(1), rows(2), rows(3, d="b")], partition_by=["d"], properties=properties)


def slowly(meanwhile: Callable[[], object], *xs: int) -> pa.RecordBatchReader:
    """Rows of partition a, while somebody else does something."""

    def batches():
        yield from rows(xs[0]).to_batches()
        meanwhile()
        yield from rows(*xs[1:]).to_batches()

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def replace(table: Table, door: str, data: object) -> int:
    if door == "where":
        return table.overwrite(data, where="d = 'a'")
    return table.overwrite(data, partitions="dynamic" if door == "dynamic" else "static")


def xs(path) -> list[int]:
    return sorted(indextables.open(path).to_arrow()["x"].to_pylist())


IN_RANGE: dict[str, Callable[[Table], object]] = {
    "overwrite": lambda table: table.overwrite(rows(50)),
    "overwrite where": lambda table: table.overwrite(rows(50), where="d = 'a'"),
    "dynamic overwrite": lambda table: table.overwrite(rows(50), partitions="dynamic"),
    "drop partitions": lambda table: table.drop_partitions("d = 'a'"),
    "restore": lambda table: table.restore(version=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("door", ["all", *PARTIAL])
@pytest.mark.parametrize("winner", IN_RANGE)
def test_an_overwrite_is_refused_where_somebody_changed_its_range_since_it_began(tmp_path, door, winner):
    path = tmp_path / "t"
    make(path)
    left = []

    def meanwhile() -> None:
        IN_RANGE[winner](indextables.open(path))
        left.extend(xs(path))

    with pytest.raises(CommitConflict, match="range"):
        replace(indextables.open(path), door, slowly(meanwhile, 10, 11))
    assert xs(path) == left


@pytest.mark.parametrize("door", ["all", *PARTIAL])
def test_what_was_appended_or_merged_meanwhile_is_taken_in(tmp_path, door):
    path = tmp_path / "t"
    make(path)

    def meanwhile() -> None:
        indextables.open(path).append(rows(7))
        indextables.open(path).merge_splits()
        indextables.open(path).append(rows(8))

    replace(indextables.open(path), door, slowly(meanwhile, 10, 11))
    assert xs(path) == ([10, 11] if door == "all" else [3, 10, 11])
    told = indextables.open(path).history(limit=1).to_pylist()[0]
    assert told["readVersion"] == 3


@pytest.mark.parametrize("door", PARTIAL)
def test_overwrites_of_different_partitions_do_not_conflict(tmp_path, door):
    path = tmp_path / "t"
    make(path, isolationLevel="Serializable")

    def meanwhile() -> None:
        indextables.open(path).overwrite(rows(30, d="b"), where="d = 'b'")
        indextables.open(path).append(rows(31, d="b"))

    replace(indextables.open(path), door, slowly(meanwhile, 10, 11))
    assert xs(path) == [10, 11, 30, 31]


@pytest.mark.parametrize("door", ["all", *PARTIAL])
def test_two_overwrites_of_what_is_empty_conflict_too(tmp_path, door):
    path = tmp_path / "t"
    indextables.create(path, SCHEMA, partition_by=["d"])
    with pytest.raises(CommitConflict, match="range"):
        replace(indextables.open(path), door, slowly(lambda: replace(indextables.open(path), door, rows(50)), 10, 11))
    assert xs(path) == [50]


@pytest.mark.parametrize("door", ["all", *PARTIAL])
def test_an_append_to_an_empty_table_meanwhile_is_taken_in(tmp_path, door):
    """The first append also registers how its columns are indexed: it is an append all the same."""
    path = tmp_path / "t"
    indextables.create(path, SCHEMA, partition_by=["d"])
    replace(indextables.open(path), door, slowly(lambda: indextables.open(path).append(rows(5)), 10, 11))
    assert xs(path) == [10, 11]


@pytest.mark.parametrize("door", ["all", *PARTIAL])
def test_overwrites_one_after_the_other_do_not_conflict_whatever_their_handles_show(tmp_path, door):
    path = tmp_path / "t"
    make(path)
    first, second = indextables.open(path), indextables.open(path, options={"maxStaleness": "60000"})
    second.count()
    replace(first, door, rows(10))
    replace(second, door, rows(20))
    replace(first, door, rows(30))
    assert xs(path) == ([30] if door == "all" else [3, 30])


@pytest.mark.parametrize("door", ["all", *PARTIAL, "drop"])
@pytest.mark.parametrize("winner", ["append", "overwrite"])
def test_a_serializable_table_counts_from_what_the_handle_shows(tmp_path, door, winner):
    path = tmp_path / "t"
    make(path, isolationLevel="Serializable")
    handle = indextables.open(path)
    if winner == "append":
        indextables.open(path).append(rows(7))
    else:
        indextables.open(path).overwrite(rows(7), where="d = 'a'")
    left = xs(path)

    def write() -> None:
        if door == "drop":
            handle.drop_partitions("d = 'a'")
        else:
            replace(handle, door, rows(10))

    with pytest.raises(CommitConflict):
        write()
    assert xs(path) == left
    handle.refresh()
    write()
    assert xs(path) == {"all": [10], "drop": [3]}.get(door, [3, 10])


def test_a_batch_that_a_serializable_table_holds_is_a_repetition_whatever_came_since(tmp_path):
    path = tmp_path / "t"
    make(path, isolationLevel="Serializable")
    stale = indextables.open(path)
    indextables.open(path).append(rows(7))
    other = indextables.open(path)
    other.overwrite(rows(10), txn=("nightly", 1))
    assert stale.overwrite(rows(10), txn=("nightly", 1)) == other.version
    assert xs(path) == [10]


def test_a_refused_overwrite_leaves_no_files(tmp_path):
    path = tmp_path / "t"
    make(path)
    seen = []

    def meanwhile() -> None:
        indextables.open(path).overwrite(rows(50))
        seen.extend(sorted(file.name for file in path.rglob("*.split")))

    with pytest.raises(CommitConflict):
        indextables.open(path).overwrite(slowly(meanwhile, 10, 11))
    assert {file.name for file in path.rglob("*.split")} <= set(seen)
