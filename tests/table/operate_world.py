"""Tables for the tests of care: a clock that is moved by hand, orphans, and stores with a fault."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from tests.world.clock import Clock
from tests.world.commits import overwrite

import indextables
from indextables.env import Env
from indextables.errors import StoreUnavailable
from indextables.log.care.opening import open_log
from indextables.log.read.cache import LogCache
from indextables.log.wire.actions import Add
from indextables.storage.store import ObjectMeta
from indextables.table.maintenance.purge.verb import PurgeReport, purge
from indextables.table.requests import Purge
from indextables.table.running import Threads

SCHEMA = pa.schema([("id", pa.int64()), ("d", pa.string())])
_NAMES = itertools.count()


def rows(*numbers: int, d: str = "x") -> pa.Table:
    return pa.table({"id": list(numbers), "d": [d] * len(numbers)}, schema=SCHEMA)


def new_table(*, partitioned: bool = False, options: dict[str, object] | None = None, **properties: str):
    """An empty table in memory, and its clock."""
    clock = Clock(seed=0)
    table = indextables.create(
        f"memory://operate-{next(_NAMES)}/table",
        SCHEMA,
        partition_by=["d"] if partitioned else [],
        properties=properties or None,
        options=options,
        ambient=clock,
    )
    return table, clock


def grown(table, clock: Clock, commits: int, *, days: float = 0, every: int | None = None) -> None:
    """Overwrites by files that hold no rows, so that every version has another one; a checkpoint after every so many.

    What care does to files does not depend on what is in them.
    """
    log = table._log
    for number in range(commits):
        path = f"splits/split-{log.env.ambient.token()}.split"
        log.env.store.put(path, b"rows")
        overwrite(log, [Add(path, {}, 4, 1, dataChange=True, numRecords=1)])
        clock.advance(days=days)
        if every is not None and number % every == every - 1:
            table.checkpoint()
    table.refresh()


def orphan(table, number: int, folder: str = "") -> str:
    key = f"{folder}splits/split-{0xDEAD << 96 | number:032x}.split"
    table._log.env.store.put(key, b"nobody")
    return key


def keys(table) -> set[str]:
    return {meta.key for meta in table._log.env.store.list_from("")}


def splits(table) -> set[str]:
    return {key for key in keys(table) if key.endswith(".split")}


def contents(table, versions: Iterable[int]) -> dict[int, list[str]]:
    """The files of versions, read from the store anew; each is there."""
    log = open_log(table._log.env, cache=LogCache())
    found = {version: log.snapshot(version).files["path"].to_pylist() for version in versions}
    assert {path for paths in found.values() for path in paths} <= keys(table)
    return found


def purge_of(env: Env, **more: Any) -> PurgeReport:
    return purge(open_log(env), Purge(**more), runner=Threads(env))


class Faulty:
    """A store that fails, or does something else, at calls that `when` picks by method and key."""

    def __init__(self, env: Env, when: Callable[[str, str], object]) -> None:
        self.inner: Any = env.store
        self.when = when
        self.deleted: list[str] = []
        self.env = Env(self, env.ambient, env.options)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.inner, name)
        if name not in {"get", "put", "put_if_absent", "head", "exists"}:
            return real

        def call(key: str, *args: Any, **more: Any) -> Any:
            self._maybe(name, key)
            return real(key, *args, **more)

        return call

    def list_from(self, prefix: str, after: str | None = None, **more: Any) -> Iterator[ObjectMeta]:
        self._maybe("list", prefix)
        for meta in self.inner.list_from(prefix, after, **more):
            self._maybe("page", meta.key)
            yield meta

    def delete_many(self, keys: Iterable[str], **more: Any) -> dict[str, str]:
        left, gone = {}, []
        for key in keys:
            if self.when("delete", key):
                left[key] = "injected"
            else:
                gone.append(key)
        self.deleted += gone
        return left | self.inner.delete_many(gone, **more)

    def _maybe(self, method: str, key: str) -> None:
        if self.when(method, key):
            raise StoreUnavailable(f"injected fault at {method} {key}", key=key)
