"""A store that remembers which keys were read, written, listed and deleted."""

from __future__ import annotations

from typing import Any

from indextables.env import Env


class Spy:
    """Wraps the store of `env`; `env` of the spy is the same table, seen through it."""

    def __init__(self, env: Env) -> None:
        self.inner: Any = env.store
        self.read: list[str] = []
        self.written: list[str] = []
        self.deleted: list[str] = []
        self.listed: list[str] = []
        self.env = Env(store=self, ambient=env.ambient, options=env.options)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def get(self, key: str, **more: Any) -> bytes:
        self.read.append(key)
        return self.inner.get(key, **more)

    def put(self, key: str, data: bytes, **more: Any) -> None:
        self.written.append(key)
        self.inner.put(key, data, **more)

    def put_if_absent(self, key: str, data: bytes, **more: Any) -> Any:
        self.written.append(key)
        return self.inner.put_if_absent(key, data, **more)

    def list_from(self, prefix: str, after: str | None = None, **more: Any) -> Any:
        self.listed.append(prefix)
        return self.inner.list_from(prefix, after, **more)

    def delete_many(self, keys: Any, **more: Any) -> Any:
        keys = list(keys)
        self.deleted += keys
        return self.inner.delete_many(keys, **more)
