"""Finds the checkpoints next to a version, however many there are: by name on local files, else by short listings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from indextables.env import Env
from indextables.log.checkpoint import find_states
from indextables.log.read.newest import Known
from indextables.log.wire import (
    LOG_DIR,
    StateFormat,
    StateRef,
    json_checkpoint_key,
    parquet_checkpoint_key,
    parse_key,
    state_dir,
    state_key,
    version_key,
)
from indextables.storage.store import ObjectMeta

__all__ = ["Around", "around", "oldest_version", "window"]

# How far from a version its neighbours are looked for: writers leave a checkpoint every ten versions.
_FAR = 64

_KEYS: dict[StateFormat, Callable[[int], str]] = {
    "avro-state": state_key,
    "parquet": parquet_checkpoint_key,
    "json": json_checkpoint_key,
}


class Around(NamedTuple):
    """The nearest checkpoint at or below a version, and the nearest one at or above it, of those that were found."""

    below: StateRef | None
    above: StateRef | None


def around(env: Env, version: int, likely: StateFormat = "avro-state") -> Around:
    """The neighbours of a version; `likely` is the format that is looked for first. Raises StoreError.

    Whether they can be read and whose they are is for others to ask. One that is not found may be there all the same.
    """
    low, high = max(0, version - _FAR), version + _FAR
    if env.store.is_local:
        below = _by_name(env, range(version, low - 1, -1), likely)
        above = below if below is not None and below.version == version else None
        return Around(below, above or _by_name(env, range(version + 1, high + 1), likely))
    refs = find_states([*_numbered(env, low, high), *_states(env, low, high)])
    lower = max((ref for ref in refs if ref.version <= version), key=lambda ref: ref.version, default=None)
    upper = min((ref for ref in refs if ref.version >= version), key=lambda ref: ref.version, default=None)
    return Around(lower, upper)


def window(env: Env, known: Known, version: int) -> Known | None:
    """What has to be known of the log to read a version far below; None where only a full listing can tell.

    The file of the version is there. Those between its checkpoint and it have not been looked at: who reads them
    finds out. Raises StoreError.
    """
    likely = known.states[0].format if known.states else "avro-state"
    below, above = around(env, version, likely)
    if below is None and version > _FAR:
        return None
    first = 0 if below is None else below.version + 1
    # What tells the token of the version: the checkpoint next to it, else the one that is known, far above.
    upper = (above,) if above is not None else known.states[:1]
    states = tuple(dict.fromkeys((*upper, *(() if below is None else (below,)))))
    return Known(known.head, known.head_identity, first, states, known.history, floor=max(0, first - 1))


def oldest_version(env: Env, upto: int) -> int:
    """The oldest version file that is there, if `upto` is and none is missing above the oldest. Raises StoreError.

    Where files are missing all the same it is one of those that begin a run.
    """
    if not env.store.is_local:
        found = (parse_key(meta.key) for meta in env.store.list_from(LOG_DIR))
        oldest = next((file.version for file in found if file is not None and file.kind == "version"), upto)
        # A listing may lag behind: the slot below is looked at by name.
        while oldest > 0 and env.store.exists(version_key(oldest - 1)):
            oldest -= 1
        return oldest
    low, high = 0, upto
    while low < high:
        middle = (low + high) // 2
        if env.store.exists(version_key(middle)):
            high = middle
        else:
            low = middle + 1
    return high


def _by_name(env: Env, versions: Iterable[int], likely: StateFormat) -> StateRef | None:
    numbers = list(versions)
    for form in sorted(_KEYS, key=lambda form: form != likely):
        for number in numbers:
            key = _KEYS[form](number)
            if env.store.exists(key):
                return StateRef(number, form, (key,))
    return None


def _numbered(env: Env, low: int, high: int) -> Iterator[ObjectMeta]:
    listing = env.store.list_from(LOG_DIR, version_key(low).removesuffix("json"))
    return itertools.takewhile(lambda meta: meta.key < version_key(high + 1).removesuffix("json"), listing)


def _states(env: Env, low: int, high: int) -> Iterator[ObjectMeta]:
    listing = env.store.list_from(LOG_DIR, state_dir(low).removesuffix("/"))
    return itertools.takewhile(lambda meta: meta.key < state_dir(high + 1), listing)
