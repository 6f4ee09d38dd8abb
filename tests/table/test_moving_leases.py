"""A handle that protects what it reads, and threads that move it: one version is protected, the one that is read."""

from __future__ import annotations

import pytest
from tests.table.operate_world import new_table, rows

from indextables.embedded import Table
from indextables.env import Env
from indextables.errors import StoreUnavailable
from indextables.log.care.opening import open_log
from indextables.options import Options


class Meanwhile:
    """A store in which something happens when the next lease is written, before its put is answered."""

    def __init__(self, inner) -> None:
        self._inner = inner
        self.happens = None

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put(self, key, data, **more):
        if "/_intents/" in key and self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        return self._inner.put(key, data, **more)


@pytest.fixture
def world():
    """A writer, a reader that protects what it reads, and the store of the reader."""
    writer, _ = new_table()
    env = writer._log.env
    store = Meanwhile(env.store)
    log = open_log(Env(store, env.ambient, Options({"reader.leaseHours": 2})))
    return writer, Table(log, log.snapshot()), store


def protected(store):
    held = [meta.key for meta in store.list_from("_transaction_log/", "") if "/_intents/" in meta.key]
    return [store.get(key) for key in held]


def test_a_thread_that_moves_a_handle_while_another_does_leaves_one_lease(world):
    writer, reader, store = world
    writer.append(rows(1))

    def another_thread_is_faster():
        writer.append(rows(2))
        reader.refresh()

    store.happens = another_thread_is_faster
    reader.refresh()
    assert reader.version == 2
    (lease,) = protected(store)
    assert b'"version":2' in lease


def test_a_lease_that_could_not_be_written_is_asked_for_again(world):
    writer, reader, store = world

    def fails():
        raise StoreUnavailable("no answer", key="lease")

    for number in (1, 2):
        writer.append(rows(number))
        store.happens = fails if number == 1 else None
        reader.refresh()
    (lease,) = protected(store)
    assert b'"version":2' in lease
