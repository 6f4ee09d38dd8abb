"""Stores for tests: one writes down what is asked of it, another lets something happen before one of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from indextables.env import Env
from indextables.storage import Store
from indextables.storage.store import ObjectMeta

__all__ = ["Call", "CountingStore", "InterruptedStore", "counted"]


class Call(NamedTuple):
    """What was asked of which key; a listing has the key that it begins after. `size` is in bytes, of reads only."""

    verb: str
    key: str
    size: int = 0


class CountingStore:
    """Passes everything on to a real store and lists each call. `is_local` says what it is taken for."""

    def __init__(self, store: Store, *, is_local: bool | None = None) -> None:
        self._store = store
        self.calls: list[Call] = []
        if is_local is not None:
            self.is_local = is_local

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._store, name)
        if name not in {"head", "exists", "put"}:
            return inner

        def call(key: str, *rest: object, **more: object) -> object:
            self.calls.append(Call(name, key))
            return inner(key, *rest, **more)

        return call

    def get(self, key: str, **more: Any) -> bytes:
        # Listed before it is asked: what is not there was read too.
        self.calls.append(Call("get", key))
        data = self._store.get(key, **more)
        self.calls[-1] = Call("get", key, len(data))
        return data

    def get_range(self, key: str, start: int, end: int, **more: Any) -> bytes:
        self.calls.append(Call("get_range", key, end - start))
        return self._store.get_range(key, start, end, **more)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], **more: Any) -> list[bytes]:
        self.calls.append(Call("get_ranges", key, sum(end - start for start, end in ranges)))
        return self._store.get_ranges(key, ranges, **more)

    def list_from(self, prefix: str, after: str | None = None, **more: Any) -> Iterator[ObjectMeta]:
        self.calls.append(Call("list", after or prefix))
        return self._store.list_from(prefix, after, **more)

    @property
    def reads(self) -> list[Call]:
        """The calls that asked for bytes."""
        return [call for call in self.calls if call.verb.startswith("get")]

    def count(self, verb: str) -> int:
        return sum(call.verb == verb for call in self.calls)


def counted(env: Env) -> tuple[Env, CountingStore]:
    """The same table, seen through a store that counts."""
    store = CountingStore(env.store)
    return Env(store, env.ambient, env.options), store


class InterruptedStore:
    """Passes everything on to a real store, and does something once: `meanwhile`, before call number `at`."""

    def __init__(self, store: Store, at: int, meanwhile: Callable[[], object]) -> None:
        self.store, self.at, self.meanwhile = store, at, meanwhile
        self.calls = 0

    @property
    def left(self) -> int:
        """How many calls are missing until then; none or less afterwards."""
        return self.at - self.calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **more: Any) -> object:
            self.calls += 1
            self.heard(name, arguments)
            return found(*arguments, **more)

        return call

    def heard(self, _verb: str, _arguments: Sequence[Any]) -> None:
        """Called with every call, before the store is."""
        if self.left == 0:
            self.meanwhile()
