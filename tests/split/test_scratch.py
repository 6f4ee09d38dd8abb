"""Small splits are built in a memory file system: the same splits, and nothing stays there, whoever fails or dies."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.split.frames import lines
from tests.world.clock import Clock

from indextables import process
from indextables.errors import SplitError, StoreUnavailable
from indextables.options import Options
from indextables.split.file.reader import SplitReader
from indextables.split.file.scanning import scan
from indextables.split.write import scratch as scratch_folders
from indextables.split.write.index import SegmentBuilder
from indextables.split.write.scratch import MOST_BYTES, MOST_HELD, Places
from indextables.split.write.writer import SplitWriter

OPTIONS = Options({"indexing.typemap.message": "text"}, environ={})
PLENTY = 1 << 40


@pytest.fixture
def memory(tmp_path):
    """A folder that stands for a memory file system."""
    folder = tmp_path / "memory"
    folder.mkdir()
    yield folder
    for known in process.memories():
        if known.name == "swept scratch":
            known.clear()


class Watching:
    """A store that tells from which folder each object came; `fail` makes a put go wrong."""

    def __init__(self, store, fail: Exception | None = None):
        self._store, self._fail = store, fail
        self.places: list[Path] = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_file(self, key, source, *, policy=None):
        self.places.append(source.parent.parent)
        assert source.parent.stat().st_mode & 0o777 == 0o700
        if self._fail is not None:
            raise self._fail
        self._store.put_file(key, source)


def write(store, rows, memory, *, free=PLENTY, options=OPTIONS, batches=1, ambient=None):
    """Write the rows; the splits."""
    places = Places(memory=lambda: memory, free_bytes=lambda _: free)
    step = -(-rows.num_rows // batches)
    with SplitWriter(store, rows.schema, options, places=places, ambient=ambient) as writer:
        for start in range(0, rows.num_rows, step):
            writer.write(rows.slice(start, step))
        return writer.finish()


def rows_of(store, splits):
    return pa.concat_tables([pa.Table.from_batches(scan(SplitReader(store, split.ref))) for split in splits])


def large(bytes_wanted: int) -> pa.Table:
    some = lines(2_000)
    return pa.concat_tables([some] * (bytes_wanted // some.nbytes + 1))


@pytest.mark.parametrize("batches", [1, 7])
def test_small_rows_are_built_in_memory_and_nothing_stays_there(store, scratch, memory, batches):
    watching = Watching(store)
    splits = write(watching, lines(100), memory, batches=batches)
    assert watching.places == [memory]
    assert rows_of(store, splits).equals(lines(100))
    assert (list(memory.iterdir()), list(scratch.iterdir())) == ([], [])


@pytest.mark.parametrize(
    "how",
    [
        {"free": 2 * MOST_BYTES - 1},
        {"memory": None},
        {"memory": Path("nowhere/at/all")},
        {"options": Options({"indexing.typemap.message": "text", "split.memoryScratch": "false"}, environ={})},
    ],
    ids=["too little room", "no such file system", "it is gone", "turned off"],
)
def test_small_rows_are_built_on_disk_where_memory_cannot_be_had(store, scratch, memory, how):
    watching = Watching(store)
    given = {"memory": memory, **how}
    splits = write(watching, lines(100), **given)
    assert watching.places == [scratch]
    assert rows_of(store, splits).equals(lines(100))
    assert (list(memory.iterdir()), list(scratch.iterdir())) == ([], [])


@pytest.mark.slow
def test_more_rows_than_are_kept_back_are_built_on_disk_in_their_order(store, scratch, memory):
    watching, rows = Watching(store), large(MOST_HELD)
    splits = write(watching, rows, memory, batches=9)
    assert set(watching.places) == {scratch}
    assert rows_of(store, splits).equals(rows)
    assert (list(memory.iterdir()), list(scratch.iterdir())) == ([], [])


@pytest.mark.slow
def test_few_rows_with_a_large_index_are_built_on_disk(store, scratch, memory):
    # A truth value is a bit of the rows, and 20 bytes of the index while it is made.
    rows = pa.table({f"c{n}": pa.array([True] * 8_000) for n in range(120)})
    assert rows.nbytes < MOST_HELD
    watching = Watching(store)
    options = Options({}, environ={})
    splits = write(watching, rows, memory, options=options)
    assert watching.places == [scratch]
    assert rows_of(store, splits).equals(rows)
    assert (list(memory.iterdir()), list(scratch.iterdir())) == ([], [])


def test_a_small_target_size_cuts_small_splits_as_well(store, scratch, memory):
    options = Options({"indexing.typemap.message": "text", "split.targetSize": "300000"}, environ={})
    rows = lines(20_000)
    splits = write(store, rows, memory, options=options)
    assert len(splits) > 1
    assert rows_of(store, splits).equals(rows)
    assert (list(memory.iterdir()), list(scratch.iterdir())) == ([], [])


def test_memory_that_fills_up_meanwhile_sends_the_split_to_the_disk(store, scratch, memory, monkeypatch):
    inner = pq.ParquetWriter.write_table

    def full(self, table, *args, **more):
        if any(memory.iterdir()):
            raise OSError(errno.ENOSPC, "No space left on device")
        return inner(self, table, *args, **more)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    watching = Watching(store)
    splits = write(watching, lines(100), memory)
    assert watching.places == [scratch]
    assert rows_of(store, splits).equals(lines(100))
    assert (list(memory.iterdir()), list(scratch.iterdir())) == ([], [])


def test_a_put_that_fails_leaves_nothing_in_memory_and_is_not_tried_from_the_disk(store, scratch, memory):
    watching = Watching(store, StoreUnavailable("no answer"))
    with pytest.raises(StoreUnavailable):
        write(watching, lines(100), memory)
    assert watching.places == [memory]
    assert (list(memory.iterdir()), list(scratch.iterdir()), list(store.list_from(""))) == ([], [], [])


def test_what_is_wrong_with_the_rows_is_told_as_on_disk(store, scratch, memory, monkeypatch):
    def refuse(self, batch):
        raise SplitError("a row cannot be indexed")

    monkeypatch.setattr(SegmentBuilder, "add", refuse)
    with pytest.raises(SplitError, match="cannot be indexed"):
        write(store, lines(3), memory)
    assert (list(memory.iterdir()), list(scratch.iterdir()), list(store.list_from(""))) == ([], [], [])


def test_a_writer_that_is_given_up_has_made_nothing(store, scratch, memory):
    with SplitWriter(store, lines(1).schema, OPTIONS, places=Places(memory=lambda: memory)) as writer:
        writer.write(lines(10))
    assert (list(memory.iterdir()), list(scratch.iterdir()), list(store.list_from(""))) == ([], [], [])


_VICTIM = """
import os, signal, sys
from pathlib import Path
from tests.split.frames import lines
from indextables.options import Options
from indextables.split.write.scratch import Places
from indextables.split.write.writer import SplitWriter
from indextables.storage import open_store

store, memory = open_store(sys.argv[1]), Path(sys.argv[2])
class Deadly:
    def __getattr__(self, name):
        return getattr(store, name)
    def put_file(self, key, source, *, policy=None):
        print("building", flush=True)
        sys.stdin.readline()
        os.kill(os.getpid(), signal.SIGKILL)
places = Places(memory=lambda: memory if memory.name == "memory" else None)
writer = SplitWriter(Deadly(), lines(1).schema, Options({}, environ={}), places=places)
writer.write(lines(10))
writer.finish()
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_what_a_killed_process_left_is_taken_away_and_what_a_living_one_has_is_not(
    store, scratch, memory, tmp_path, where
):
    folder = memory if where == "memory" else scratch
    (folder / "somebody-elses").mkdir()
    command = [sys.executable, "-c", _VICTIM, str(tmp_path / "table"), str(folder)]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as victim:
        assert victim.stdout.readline() == "building\n"
        (left,) = folder.glob("indextables-*")
        later = Clock(seed=1)
        later.advance(seconds=left.stat().st_mtime - later.now_ms() / 1000 + 3_600)
        write(store, lines(1), folder if where == "memory" else None, ambient=later)
        assert left in folder.iterdir()
        victim.communicate("go on\n")
    assert victim.returncode == -signal.SIGKILL
    # A process looks once, at its first split: this is another one's first.
    next(known for known in process.memories() if known.name == "swept scratch").clear()
    write(store, lines(1), folder if where == "memory" else None, ambient=later)
    assert [path.name for path in folder.iterdir()] == ["somebody-elses"]


def test_a_folder_that_was_just_made_and_what_is_not_ours_stay(store, scratch, memory):
    (memory / "indextables-young").mkdir()
    (memory / "somebody-elses").mkdir()
    os.utime(memory / "somebody-elses", (0, 0))
    (memory / "indextables-link").symlink_to(memory / "somebody-elses")
    write(store, lines(1), memory)
    assert sorted(path.name for path in memory.iterdir()) == ["indextables-link", "indextables-young", "somebody-elses"]


def test_a_forked_child_builds_in_memory_beside_its_parent(store, scratch, memory):
    write(store, lines(1), memory)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            watching = Watching(store)
            write(watching, lines(5), memory)
            code = 0 if watching.places == [memory] else 2
        finally:
            os._exit(code)
    splits = write(store, lines(3), memory)
    assert os.waitpid(child, 0)[1] == 0
    assert rows_of(store, splits).equals(lines(3))
    assert list(memory.iterdir()) == []


def test_the_memory_of_this_machine_is_a_memory_file_system_or_none():
    found = scratch_folders.system_memory()
    assert found is None or (found.is_dir() and scratch_folders.SYSTEM.free_bytes(found) >= 0)
