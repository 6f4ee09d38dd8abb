"""What cleanup asks of an old checkpoint is read once per process: a checkpoint that is there stays as it is.

Cleanup looks at every checkpoint that retention keeps, and each lists up to `commit.tokenWindow` tokens: reading them
all again after every tenth commit or so would cost more than the commits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import cachetools
import msgspec

from indextables import process
from indextables.ambient import Ambient
from indextables.env import Env
from indextables.errors import CheckpointError, LimitExceeded, ObjectNotFound, PathEscape
from indextables.log.checkpoint.read import inspect_state
from indextables.log.wire import StateRef, TokenWindow

__all__ = ["Glance", "glance", "glances"]

_MAX_BYTES = 16 << 20
_ENTRY_BYTES = 1_500

_SETTLED_MS = 10_000
"""A file that is younger is not remembered: on a disk whose clock ticks slowly another may come that looks the same."""


class Glance(msgspec.Struct, frozen=True):
    """What a checkpoint says of itself; nothing of one that cannot be read.

    `tokens` are all that it lists, or where `is_cut` that of its own version.
    """

    table_id: str | None = None
    tokens: TokenWindow | None = None
    manifests: frozenset[str] = frozenset()
    is_cut: bool = False


_Key = tuple[type, Hashable, int, str, tuple[str, ...], str, int, int]
_Kept = tuple[Glance, str, Ambient]
"""A glance without manifests, their keys as one text, and the ambient that the key of the entry names by its address,
so that no other one gets that."""


def _size(kept: _Kept) -> int:
    return _ENTRY_BYTES + len(kept[1])


_GLANCES: cachetools.LRUCache[_Key, _Kept] = cachetools.LRUCache(_MAX_BYTES, getsizeof=_size)


def glance(env: Env, ref: StateRef) -> Glance:
    """What the checkpoint says. Raises as `inspect_state`; one that was read before is not looked at again."""
    if ref.etag is None:
        return _read(env, ref)
    place = (type(env.store), env.store.identity, id(env.ambient), env.store.url)
    key = (*place, ref.keys, ref.etag, ref.size, ref.modified_ms)
    with _MEMORY.lock:
        known = _GLANCES.get(key)
    if known is not None:
        return msgspec.structs.replace(known[0], manifests=frozenset(known[1].split("\0")) - {""})
    found = _read(env, ref)
    tokens = None if found.tokens is None else found.tokens.last(1)
    kept = Glance(found.table_id, tokens, is_cut=True), "\0".join(found.manifests), env.ambient
    if env.ambient.now_ms() - ref.modified_ms >= _SETTLED_MS and _size(kept) <= _MAX_BYTES:
        with _MEMORY.lock:
            _GLANCES[key] = kept
    return found


def glances(env: Env, refs: Iterable[StateRef]) -> dict[StateRef, Glance]:
    """A glance at each, nothing at those that cannot be read; from an object store several at a time.

    Raises StoreError.
    """
    ordered = list(refs)
    if env.store.is_local:
        return {ref: _glanced(env, ref) for ref in ordered}
    found = env.ambient.map("manifests", lambda ref: _glanced(env, ref), ordered)
    return dict(zip(ordered, found, strict=True))


def _glanced(env: Env, ref: StateRef) -> Glance:
    try:
        return glance(env, ref)
    except (CheckpointError, LimitExceeded, ObjectNotFound, PathEscape):
        return Glance()


def _read(env: Env, ref: StateRef) -> Glance:
    found = inspect_state(env, ref)
    return Glance(found.table_id, found.tokens, frozenset(found.manifests))


def _forget(url: str) -> int:
    folder = url.rstrip("/") + "/"
    with _MEMORY.lock:
        gone = [key for key in _GLANCES if f"{key[3]}/".startswith(folder)]
        for key in gone:
            del _GLANCES[key]
    return len(gone)


def _clear() -> None:
    with _MEMORY.lock:
        _GLANCES.clear()


_MEMORY = process.declare(
    process.Memory(
        name="glanced checkpoints",
        where=f"{__name__}._GLANCES",
        key="store with its credentials, URL of the table; keys, etag, size and time of the checkpoint",
        bound="16 MiB, by the manifests that they name",
        fork="the child keeps them: they are about files that do not change",
        ends="never wrong: a file that was replaced has another etag; dropped by `invalidate_caches`",
        clear=_clear,
        forget=_forget,
    )
)
