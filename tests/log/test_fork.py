"""A child that is forked while a thread of its parent is at work must not wait for that thread."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from tests.log.commits import add, new_table
from tests.world.commits import append

from indextables.ambient import SystemAmbient
from indextables.log.care.opening import open_log
from indextables.log.commit import head
from indextables.log.read.cache import shared_cache

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


def forked_while(held: AbstractContextManager[object], work: Callable[[], object]) -> int:
    """The exit code of a child that does the work, forked while somebody in the parent holds a lock."""
    with held:
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(300)
                work()
                os._exit(0)
            finally:
                os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_the_shared_cache_can_be_used(tmp_path):
    cache = shared_cache()
    assert forked_while(cache._lock, cache.stats) == 0
    log = open_log(new_table(tmp_path / "t").env, cache=cache)
    assert forked_while(cache._lock, log.snapshot) == 0


def test_a_snapshot_that_is_being_loaded_can_be_loaded(tmp_path):
    log = new_table(tmp_path / "t")
    append(log, [add("a")])
    snapshot = new_table(tmp_path / "t").snapshot()
    assert forked_while(snapshot._lock, lambda: snapshot.files) == 0
    assert snapshot.files.num_rows == 1


def test_commits_can_be_made(tmp_path):
    log = new_table(tmp_path / "t")
    assert forked_while(head._MEMORY.lock, lambda: append(log, [add("child")])) == 0
    append(log, [add("parent")])
    assert sorted(log.snapshot().files["path"].to_pylist()) == ["child", "parent"]


def test_threads_can_be_started():
    ambient = SystemAmbient()
    assert forked_while(ambient._lock, lambda: list(ambient.map("versions", str, range(3)))) == 0
