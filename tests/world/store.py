"""A store that writes down what is asked of it, for tests that say what a read may cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from indextables.env import Env
from indextables.storage import Store
from indextables.storage.store import ObjectMeta

__all__ = ["Call", "CountingStore", "counted"]


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
