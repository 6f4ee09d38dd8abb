"""What travels to the tasks of a search: a task is sent its own splits, however many others there are."""

from __future__ import annotations

import random
from functools import partial

import msgspec
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from tests.spark import jobs

from indextables.spark.search.question import Splits, shares
from indextables.spark.search.tasks import task_rows
from indextables.spark.tasks.handle import SparkHandle
from indextables.spark.tasks.units import packed, task_of, unpacked
from indextables.split.file import SplitRef

MOST_BYTES = 80 << 10


def units_of(splits):
    refs = [SplitRef(f"{number:032x}.split", 10_000, 100, 1, 2, 3, 4, f"{number:032x}") for number in range(splits)]
    return [msgspec.msgpack.encode(Splits([*range(a, b)], refs[a:b])) for a, b in shares(splits, 4)]


@pytest.mark.parametrize("splits", [1, 100, 10_000, 100_000])
def test_what_every_task_is_sent_does_not_grow_with_the_table(splits):
    units = units_of(splits)
    task, count, rows = task_of(partial(task_rows, b"place", b"shared", "schema"), iter(units))
    assert count == len(units)
    assert len(cloudpickle.dumps(task)) <= MOST_BYTES
    if rows is not None:
        assert [unpacked(row) for row in rows["unit"].to_pylist()] == units
        assert rows["place"].to_pylist() == list(range(len(units)))
        assert max(map(len, units)) < 512 * 200


@pytest.mark.parametrize("unit", [b"", b"a", bytes(range(256)) * 3, b"word " * 100_000])
def test_a_unit_comes_out_of_its_row_as_it_went_in(unit):
    assert unpacked(packed(unit)) == unit


def test_splits_with_names_by_chance_take_a_third_in_rows():
    chance = random.Random(0)
    named = [f"day=2026-01-01/{chance.randbytes(16).hex()}.split" for _ in range(200)]
    refs = [SplitRef(name, chance.randrange(10**9), 100, 1, 2, 3, 4, chance.randbytes(16).hex()) for name in named]
    unit = msgspec.msgpack.encode(Splits([], refs))
    assert len(packed(unit)) * 3 < len(unit)


def test_tasks_see_the_units_that_they_are_given():
    seen = []

    def work(number, unit):
        seen.append((number, unit))
        return iter(())

    for units in ([b"a", b"", b"c"], [b"a" * 50_000, b"", b"c" * 50_000]):
        seen.clear()
        task, count, rows = task_of(work, units)
        assert count == 3
        numbers = pa.table({"id": [2, 0, 1]})
        batches = numbers if rows is None else numbers.append_column("unit", rows["unit"].take(numbers["id"]))
        assert list(task(iter(batches.to_batches()))) == []
        assert seen == [(2, units[2]), (0, units[0]), (1, units[1])]


@pytest.mark.spark
@pytest.mark.connect
@pytest.mark.filterwarnings("ignore")
def test_large_units_reach_their_tasks(spark, tmp_path):
    runner = SparkHandle(spark, tmp_path / "t").runner()
    units = [bytes([97 + number]) * 20_000 for number in range(6)]
    assert runner.run(jobs.shout, units) == [unit.upper() for unit in units]
