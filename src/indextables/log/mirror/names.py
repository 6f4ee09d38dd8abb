"""Tells which file of the mirror is what. Pure, but for one listing."""

from __future__ import annotations

import re
from typing import NamedTuple

from indextables.storage.store import Store

__all__ = ["MIRROR_DIR", "POINTER", "Found", "checkpoint_key", "found_in", "json_key"]

MIRROR_DIR = "_delta_log/"
POINTER = MIRROR_DIR + "_last_checkpoint"

_JSON = re.compile(re.escape(MIRROR_DIR) + r"(\d{20})\.json")
_CHECKPOINT = re.compile(re.escape(MIRROR_DIR) + r"(\d{20})\.checkpoint.*\.parquet")
_COMPACTED = re.compile(re.escape(MIRROR_DIR) + r"\d{20}\.\d{20}\.compacted\.json")


class Found(NamedTuple):
    """The versions and checkpoints that lie there, ascending, with their keys, and all other keys."""

    versions: dict[int, str]
    checkpoints: dict[int, list[str]]
    others: list[str]

    @property
    def newest(self) -> int | None:
        """The newest version; None if there is none."""
        return max(self.versions, default=None)

    @property
    def extras(self) -> list[str]:
        """The pointer to a checkpoint, and what others joined out of versions: nothing without those."""
        return [key for key in self.others if key == POINTER or _COMPACTED.fullmatch(key)]

    @property
    def is_whole(self) -> bool:
        """True if a reader finds all that the newest version needs: a checkpoint or the first version, and no gap."""
        newest = self.newest
        if newest is None:
            return False
        base = max((number for number in self.checkpoints if number <= newest), default=-1)
        return all(number in self.versions for number in range(base + 1, newest + 1))


def json_key(version: int) -> str:
    """Where a version of the mirror is."""
    return f"{MIRROR_DIR}{version:020d}.json"


def checkpoint_key(version: int) -> str:
    """Where a checkpoint of the mirror is."""
    return f"{MIRROR_DIR}{version:020d}.checkpoint.parquet"


def found_in(store: Store) -> Found:
    """What lies there now. Raises StoreError."""
    found = Found({}, {}, [])
    for meta in store.list_from(MIRROR_DIR):
        if (match := _JSON.fullmatch(meta.key)) is not None:
            found.versions[int(match[1])] = meta.key
        elif (match := _CHECKPOINT.fullmatch(meta.key)) is not None:
            found.checkpoints.setdefault(int(match[1]), []).append(meta.key)
        else:
            found.others.append(meta.key)
    return found
