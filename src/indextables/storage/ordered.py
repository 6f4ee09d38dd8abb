"""Puts many small objects of one folder, each after those before it."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.storage.store import PutAnswer, Store

__all__ = ["put_in_order"]


def put_in_order(store: Store, objects: Sequence[tuple[str, bytes]]) -> int:
    """Create keys that are not there; how many were created before the first that was not, or not for certain.

    None is there before those ahead of it. What a crash of the machine leaves is whole, but the last ones may be
    missing, whatever this returned: for what its writer looks for again. Local files wait for the disk together.
    Raises StoreError.
    """
    from indextables.storage.local import LocalStore

    if isinstance(store, LocalStore) and objects:
        return store.put_in_order(objects)
    for done, (key, data) in enumerate(objects):
        if store.put_if_absent(key, data) is not PutAnswer.CREATED:
            return done
    return len(objects)
