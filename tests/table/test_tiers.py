"""What a table merges by itself: small splits stay few after any appends, and a row is rewritten few times."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indextables.log.wire.files import FILES_SCHEMA
from indextables.table.merge.plan import CLUSTERED, FULL
from indextables.table.merge.tiers import Due, Tiers, crowd_of, plan_due, within
from indextables.table.read.order import in_order, position_tag

MIB = 1 << 20
EIGHT = Tiers(fan_in=8, small_bytes=64 * MIB, target_bytes=1024 * MIB, memory_bytes=1 << 30)
BYTES_OF_ONE = 4_000


class Model:
    """A table of files without files: what appends and merges make of the log, and how many rows were rewritten."""

    def __init__(self, tiers: Tiers = EIGHT) -> None:
        self.tiers = tiers
        self.files: list[dict] = []
        self.version = 0
        self.appended = self.rewritten = self.merges = 0

    def append(self, rows: int, row_bytes: int = 100, partition: str = "a", **more) -> None:
        size = BYTES_OF_ONE + rows * row_bytes
        self._add({"numRecords": rows, "size": size, "partitionValues": [("p", partition)], **more})
        self.appended += rows

    def _add(self, file: dict) -> None:
        self.version += 1
        place = {"addedAtVersion": self.version, "addedAtLine": 1, "path": f"f{self.version}", "dataChange": True}
        self.files.append({**place, **file})

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.files, FILES_SCHEMA)

    def due(self, cooling=()) -> Due:
        return plan_due(self.table(), ["p"], cooling, self.tiers)

    def keep(self, *, times: int = 1) -> Due:
        """Merge what is due, again and again up to `times`; what is due then."""
        due = self.due()
        for _ in range(times):
            if not due.plan.groups:
                break
            for group in due.plan.groups:
                self._merge(due.plan.files.take(pa.array(group)).to_pylist())
            due = self.due()
        return due

    def _merge(self, sources: list[dict]) -> None:
        check_group(self.files, sources, self.tiers)
        paths = {source["path"] for source in sources}
        first = sources[0]
        tags = dict(first["tags"] or {})
        place = tags.get("indextables.position")
        at = place.split(".") if place else (first["addedAtVersion"], first["addedAtLine"])
        self.files = [file for file in self.files if file["path"] not in paths]
        rows = sum(source["numRecords"] for source in sources)
        body = sum(source["size"] - BYTES_OF_ONE for source in sources)
        self._add(
            {
                "numRecords": rows,
                "size": BYTES_OF_ONE + body,
                "partitionValues": first["partitionValues"],
                "tags": list(position_tag(int(at[0]), int(at[1])).items()),
            }
        )
        self.rewritten += rows
        self.merges += 1

    def small(self, partition: str = "a") -> int:
        values = [("p", partition)]
        return sum(f["size"] < self.tiers.small_bytes and f["partitionValues"] == values for f in self.files)


def check_group(files: list[dict], sources: list[dict], tiers: Tiers) -> None:
    """Neighbours of one partition, in order, small, at least two, not larger together than allowed."""
    partition = sources[0]["partitionValues"]
    ordered = in_order(pa.Table.from_pylist(files, FILES_SCHEMA)).to_pylist()
    neighbours = [file["path"] for file in ordered if file["partitionValues"] == partition]
    paths = [source["path"] for source in sources]
    start = neighbours.index(paths[0])
    assert neighbours[start : start + len(paths)] == paths
    assert len(paths) > 1
    assert all(source["size"] < tiers.small_bytes for source in sources)
    assert sum(source["size"] for source in sources) <= tiers.target_bytes


APPENDS = st.lists(
    st.tuples(
        st.one_of(st.just(1), st.integers(1, 300), st.sampled_from([3_000, 20_000, 150_000, 400_000, 900_000])),
        st.sampled_from(["a", "a", "a", "b"]),
    ),
    max_size=90,
)
RULER = [(8 ** ((n & -n).bit_length() - 1), "a") for n in range(1, 64)]


@pytest.mark.slow
@settings(max_examples=20)
@example(RULER)
@example([(n % 2 * 150_000 + 1, "a") for n in range(80)])
@example([(400_000, "a"), *[(1, "a")] * 30, (400_000, "a"), (1, "a"), (1, "a"), (900_000, "a")] * 3)
@given(APPENDS)
def test_small_splits_are_bounded_after_any_appends_and_rows_are_rewritten_few_times(appends):
    model = Model()
    for rows, partition in appends:
        model.append(rows, partition=partition)
        due = model.keep(times=9)
        assert not due.plan.groups
    large = sum(file["size"] >= EIGHT.small_bytes for file in model.files)
    for partition in ("a", "b"):
        # Fewer than eight per tier; and one that stands alone between two that are too large to be merged with.
        assert model.small(partition) <= 7 * 5 + large + 7
    tiers = 2 + math.log(max(8, model.appended), 8)
    assert model.rewritten <= 4 * tiers * model.appended + 40 * 256 * len(appends)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_200, pytest.param(10_000, marks=pytest.mark.soak)])
def test_many_appends_of_one_row_are_few_splits_for_little_work(count):
    model = Model()
    most = 0
    for number in range(1, count + 1):
        model.append(1)
        most = max(most, model.small())
        # As after a write: only every eighth version is looked at.
        if number % 8 == 0:
            model.keep()
    assert most <= 50
    assert model.small() <= 35
    # A merge for every seven appends at most, and a row is rewritten a few times beyond the lowest tier.
    assert model.merges <= count / 7 * 1.15
    assert model.rewritten <= 25 * model.appended
    assert max(file["numRecords"] for file in model.files) > count / 10


def test_what_was_merged_is_not_due_again():
    model = Model()
    for rows in (1, 5, 20_000, 1, 1, 1, 1, 1, 1, 1, 1, 1):
        model.append(rows)
    assert not model.keep(times=3).plan.groups
    before = list(model.files)
    assert not model.keep(times=3).plan.groups
    assert model.files == before


def test_small_files_behind_a_larger_one_are_merged_among_themselves():
    model = Model()
    model.append(100_000)
    for _ in range(8):
        model.append(1)
    due = model.due()
    assert [len(group) for group in due.plan.groups] == [8]
    assert due.plan.files["numRecords"].to_pylist() == [1] * 8


def test_small_files_between_two_larger_ones_become_one_without_them():
    model = Model()
    for rows in (100_000, *[1] * 6, 100_000):
        model.append(rows)
    due = model.due()
    assert [due.plan.files["numRecords"].take(pa.array(group)).to_pylist() for group in due.plan.groups] == [[1] * 6]


def test_partitions_do_not_mix():
    model = Model()
    for number in range(16):
        model.append(1, partition="ab"[number % 2])
    due = model.due()
    values = due.plan.files["partitionValues"].to_pylist()
    assert [{values[place][0][1] for place in group} for group in due.plan.groups] == [{"a"}, {"b"}]
    model = Model()
    for number in range(16):
        model.append(1, partition=str(number))
    assert not model.due().plan.groups


@pytest.mark.parametrize(
    "kept", [{"tags": [(FULL, str(1 << 30))]}, {"tags": [(CLUSTERED, "zorder(x)")]}, {"size": 64 * MIB}]
)
def test_a_file_that_is_full_sorted_or_large_is_never_a_source(kept):
    model = Model()
    for number in range(20):
        model.append(1, **(kept if number == 9 else {}))
    paths = model.due().plan.files["path"].to_pylist()
    assert len(paths) > 8
    assert "f10" not in paths


def test_a_file_in_its_cooldown_parts_its_neighbours():
    model = Model()
    for _ in range(20):
        model.append(1)
    due = model.due(cooling={"f10"})
    assert due.plan.cooling == 1
    assert [len(group) for group in due.plan.groups] == [9, 10]


def test_a_backlog_is_merged_in_groups_that_are_no_larger_than_one_may_be():
    model = Model()
    for _ in range(200):
        model.append(1)
    due = model.due()
    assert [len(group) for group in due.plan.groups] == [64, 64, 64, 8]
    assert all(due.crowded)
    assert not model.keep(times=3).plan.groups


def chosen(due: Due, seconds: float, **more) -> list[int]:
    plan, _ = within(due, seconds, **{"most": 4, "crowded": 1, **more})
    return [len(group) for group in plan.groups]


def test_whoever_has_little_time_does_a_piece_of_the_lowest_tier_and_no_more():
    model = Model()
    for _ in range(8):
        model.append(200_000)
    for _ in range(8):
        model.append(1)
    due = model.due()
    assert [len(group) for group in due.plan.groups] == [8, 8]
    assert due.plan.files["numRecords"].to_pylist()[:8] == [1] * 8
    assert chosen(due, 0.0) == [8]
    assert chosen(due, 0.0, piece=False) == []
    assert chosen(due, 3600.0) == [8, 8]
    assert chosen(due, 3600.0, most=1) == [8]


def test_large_pieces_wait_until_a_partition_is_crowded():
    model = Model()
    for _ in range(8):
        model.append(200_000)
    assert chosen(model.due(), 0.0) == []
    for number in range(42):
        model.append([200, 2_000, 16_000][number // 14])
    due = model.due()
    assert all(due.crowded)
    assert len(chosen(due, 0.0, crowded=1)) == 1
    assert len(chosen(due, 0.0, crowded=4)) > 1


def test_the_crowd_is_told_by_partition_and_tier():
    model = Model()
    for rows in (1, 1, 300, 3_000, 900_000):
        model.append(rows)
    model.append(1, partition="b")
    crowd = crowd_of(model.table(), ["p"], EIGHT)
    assert (crowd.small, crowd.most, crowd.tiers) == (5, 4, [3, 1, 1])
    assert crowd_of(Model().table(), ["p"], EIGHT).tiers == []
    assert not np.any(Model().due().plan.groups)


def test_a_file_that_lost_many_rows_is_due_alone_whatever_its_size_unless_it_is_merged_anyway():
    model = Model(Tiers(fan_in=3, small_bytes=64 * MIB, target_bytes=1024 * MIB, memory_bytes=1 << 30, fold_above=0.3))

    def lost(gone: int, **more) -> dict:
        vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": gone}
        return {"deletionVector": vector, **more}

    def groups(cooling=()) -> list[list[str]]:
        due = model.due(cooling)
        return [due.plan.files.take(pa.array(group))["path"].to_pylist() for group in due.plan.groups]

    model.append(1_000_000, **lost(300_001))
    model.append(1_000_000, **lost(300_000))
    model.append(100, **lost(40, tags=[(CLUSTERED, "zorder(x)")]))
    assert groups() == [["f1"], ["f3"]]
    assert groups(cooling={"f1"}) == [["f3"]]
    for _ in range(3):
        model.append(10, **lost(5))
    assert groups() == [["f4", "f5", "f6"], ["f1"], ["f3"]]
    plan, _ = within(model.due(), 0.0, most=4, crowded=0)
    assert len(plan.groups) == 1, "what is left for somebody who lives longer"
