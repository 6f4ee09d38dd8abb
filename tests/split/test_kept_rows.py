"""Rows that come from decoded pages in memory are the rows of the file, whatever was asked for before."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.frames import OPTIONS, every_type
from tests.split.search_world import env_of
from tests.split.test_reader import ROWS, nested, options, same
from tests.world.store import CountingStore

from indextables.ambient import SystemAmbient
from indextables.options import Options
from indextables.split.file.kept import MOST_ROWS, KeptPages
from indextables.split.file.reader import SplitReader
from indextables.split.index.cache import IndexCache
from indextables.split.search.searcher import SearchMemory, SplitSearcher
from indextables.split.write.writer import write_splits
from indextables.storage import open_store


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    store = open_store(tmp_path_factory.mktemp("kept") / "table")
    table = nested(ROWS)
    (split,) = write_splits(store, [table], table.schema, options())
    return store, table, split


fetches = st.lists(
    st.tuples(st.lists(st.integers(0, ROWS - 1), max_size=40), st.sets(st.integers(0, 6), min_size=1)), max_size=8
)


@pytest.mark.slow
@settings(deadline=None)
@given(fetches, st.sampled_from([1, 20_000, 200_000, 1 << 30]))
def test_fetches_one_after_the_other_give_the_rows_asked_for(world, asked, limit):
    store, table, split = world
    kept = KeptPages(limit)
    reader = SplitReader(store, split.ref, kept=(kept, "it"))
    for rows, columns in asked:
        names = [table.column_names[c] for c in sorted(columns)]
        found = reader.fetch(rows, names)
        found.validate(full=True)
        assert same(found, table.take(pa.array(rows, pa.int64())).select(names))
        assert kept.size_bytes <= limit


def test_rows_of_every_type_come_from_memory_as_from_the_file(store):
    table = every_type()
    (split,) = write_splits(store, [table], table.schema, Options(OPTIONS, environ={}))
    reader = SplitReader(store, split.ref, kept=(KeptPages(1 << 30), "it"))
    for rows in ([0], [5, 0], [3, 3, 1], list(range(6)), [5]):
        assert same(reader.fetch(rows), table.take(rows))


def test_what_was_read_is_not_read_again_and_the_rest_in_one_call(world):
    store, _, split = world
    counting = CountingStore(store, is_local=False)
    reader = SplitReader(counting, split.ref, kept=(KeptPages(1 << 30), "it"))
    reader.fetch([5, 700], ["id", "level"])
    counting.calls.clear()
    reader.fetch([701, 4, 6], ["level", "id"])
    assert counting.reads == []
    reader.fetch([5, 1_500], ["id", "level", "half"])
    assert len(counting.reads) == 1


def test_a_fetch_of_many_rows_leaves_memory_alone(world):
    store, table, split = world
    kept = KeptPages(1 << 30)
    reader = SplitReader(store, split.ref, kept=(kept, "it"))
    assert same(reader.fetch(np.arange(MOST_ROWS + 1)), table.slice(0, MOST_ROWS + 1))
    assert kept.size_bytes == 0


def test_two_splits_do_not_share_pages(store):
    tables = [pa.table({"n": pa.array(range(start, start + 50))}) for start in (0, 1_000)]
    splits = [write_splits(store, [table], table.schema, options())[0] for table in tables]
    memory = SearchMemory(IndexCache(store.root / ".cache", 1 << 30, SystemAmbient(), 1 << 30))
    searcher = SplitSearcher(env_of(store), [s.ref for s in splits], memory=memory)
    hits = searcher.matches(None).hits
    for _ in range(2):
        assert searcher.rows(hits).column("n").to_pylist() == [*range(50), *range(1_000, 1_050)]
    assert searcher.cache.measure().rows_bytes > 0
    searcher.cache.flush()
    assert searcher.cache.measure().rows_bytes == 0


def test_threads_may_share_it(world):
    store, table, split = world
    kept = KeptPages(60_000)
    reader = SplitReader(store, split.ref, kept=(kept, "it"))
    wrong: list[object] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(40):
                rows = rng.integers(0, ROWS, 8)
                if reader.fetch(rows, ["id"]).column("id").to_pylist() != rows.tolist():
                    wrong.append(rows)
        except Exception as error:  # noqa: BLE001 - whatever a thread raises is the failure
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert table.num_rows == ROWS
