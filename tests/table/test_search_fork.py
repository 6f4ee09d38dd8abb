"""A child that is forked while a thread of its parent searches can search too."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from tests.log.test_fork import forked_while

import indextables
from indextables.table.read import searching as search

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
    cache = table._searchers.of(table._snapshot).cache
    held = [table._searchers._lock, search._CACHES_LOCK, cache._lock, cache.rows._lock, table._searchers._opened._lock]
    for lock in held:
        assert forked_while(lock, lambda: _expect(table.search("bar").num_rows == 2)) == 0
    assert table.search("bar").num_rows == 2


def _expect(holds: bool) -> None:
    assert holds
