"""A child that is forked while a thread of its parent searches can search too."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from tests.log.test_fork import forked_while

import indextables
from indextables.split.search import SplitSearcher
from indextables.table.read import prune_files, refs_of, searcher_over, shared

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


@pytest.mark.slow
def test_a_child_searches_whatever_a_thread_of_its_parent_was_doing(tmp_path):
    options = {"cache.directory": str(tmp_path / "cache"), "storage.fsync": "false"}
    table = indextables.create(tmp_path / "t", pa.schema([("m", pa.string())]), indexing={"m": "text"}, options=options)
    table.append([{"m": "foo bar"}, {"m": "bar"}])
    assert table.search("foo").num_rows == 1
    searcher = table._searchers.of(table._snapshot)
    cache, known = searcher.cache, shared._SHARED
    own = [known.lock, known.place(table._log.env).lock, known.states._lock, known.opened._lock]
    held = [*own, searcher._lock, shared._CACHES_MEMORY.lock, cache._lock, cache.rows._lock]
    for lock in held:
        assert forked_while(lock, lambda: _expect(table.search("bar").num_rows == 2)) == 0
    assert table.search("bar").num_rows == 2


@pytest.mark.slow
def test_a_child_searches_without_a_handle_whatever_a_thread_of_its_parent_was_doing(tmp_path):
    options = {"cache.directory": str(tmp_path / "cache"), "storage.fsync": "false"}
    table = indextables.create(tmp_path / "t", pa.schema([("m", pa.string())]), indexing={"m": "text"}, options=options)
    table.append([{"m": "foo bar"}, {"m": "bar"}])
    env, snapshot = table._log.env, table._snapshot
    refs = refs_of(env, prune_files(snapshot, None), snapshot.schema)

    def found() -> SplitSearcher:
        searcher = searcher_over(env, snapshot.metadata, refs)
        assert searcher.count("bar") == 2
        return searcher

    kept = found()
    assert found() is kept
    known = shared._SHARED
    own = [known.lock, known.place(env).lock, known.states._lock]
    for lock in (*own, kept._lock, kept.opened._lock, kept.cache._lock):
        assert forked_while(lock, lambda: _expect(found() is not kept)) == 0
    assert found() is kept


def _expect(holds: bool) -> None:
    assert holds
