"""Rows are handed to the indexing thread when it has come to rest, wherever that can be seen."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from indextables.options import Options
from indextables.split.fields import plan_fields
from indextables.split.writer_index import HEAP_CEILING, SegmentBuilder
from indextables.split.writer_pace import Pace

MOST = 9_000


class Threads:
    """The folder of a process's threads, of which each is at work for so many looks; -1 for ever."""

    def __init__(self, folder):
        self.folder = folder
        self.slept = 0
        self._left = {}

    def start(self, number, name, looks):
        (self.folder / number).mkdir()
        (self.folder / number / "comm").write_text(name + "\n")
        self._left[number] = looks
        self._tell()

    def end(self, number):
        for file in ("comm", "stat"):
            (self.folder / number / file).unlink()
        del self._left[number]

    def sleep(self, _seconds):
        self.slept += 1
        self._left = {number: left - 1 if left > 0 else left for number, left in self._left.items()}
        self._tell()

    def _tell(self):
        for number, left in self._left.items():
            state = "S" if left == 0 else "R"
            (self.folder / number / "stat").write_text(f"{number} (a ) name) {state} 1 2 3")


@pytest.fixture
def threads(tmp_path):
    return Threads(tmp_path)


def paced(threads, name="thrd-tantivy-in", looks=5):
    pace = Pace(threads.folder, threads.sleep)
    with pace.starting():
        threads.start("7", name, looks)
    return pace


def test_what_does_not_fit_into_the_queue_waits_until_the_thread_rests(threads):
    pace = paced(threads)
    pace.before(MOST)
    assert threads.slept == 0
    pace.before(1)
    assert threads.slept == 5


def test_what_fits_into_the_queue_does_not_wait(threads):
    pace = paced(threads)
    for _ in range(MOST):
        pace.before(1)
    assert threads.slept == 0


def test_threads_of_others_are_not_waited_for(threads):
    threads.start("1", "thrd-tantivy-in", -1)
    pace = paced(threads, name="python", looks=-1)
    pace.before(MOST + 1)
    assert threads.slept == 0


def test_a_thread_that_is_gone_is_not_waited_for(threads):
    pace = paced(threads, looks=2)
    pace.before(MOST + 1)
    threads.end("7")
    pace.before(MOST + 1)
    assert threads.slept == 2


def test_a_thread_that_never_rests_is_not_waited_for_for_ever(threads):
    pace = paced(threads, looks=-1)
    pace.before(MOST + 1)
    assert threads.slept == 2_000


def test_a_system_that_does_not_tell_is_not_asked(tmp_path):
    pace = Pace(tmp_path / "nothing")
    with pace.starting():
        pass
    pace.before(MOST + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a thread does")
def test_the_thread_of_a_real_index_is_found(tmp_path):
    schema = pa.schema([("message", pa.string())])
    builder = SegmentBuilder(
        tmp_path / "index",
        plan_fields(schema, Options({"indexing.typemap.message": "text"}, environ={})),
        schema,
        HEAP_CEILING,
    )
    rows = pa.record_batch([["some words"] * 8_192], schema=schema)
    builder.add(rows)
    builder.add(rows)
    assert builder._pace.thread is not None
    assert builder.finish().in_order
