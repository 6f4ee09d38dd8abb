"""Tells which file in `_delta_log` is what: versions, checkpoints of every kind. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from indextables.storage.store import ObjectMeta

__all__ = ["DELTA_DIR", "SIDECAR_DIR", "Checkpoint", "LogListing", "commit_key", "read_names"]

DELTA_DIR = "_delta_log/"
SIDECAR_DIR = DELTA_DIR + "_sidecars/"
POINTER_KEY = DELTA_DIR + "_last_checkpoint"
MAX_VERSION = 2**63 - 1

_NAME = re.compile(
    r"([0-9]{20})\.(?:(json)|checkpoint\.(?:(parquet)|([0-9]{10})\.([0-9]{10})\.parquet|([0-9A-Za-z-]{1,64})\.(json|parquet)))"
)


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint all of whose files are there: one file, or its parts in order."""

    version: int
    files: tuple[ObjectMeta, ...]

    @property
    def name(self) -> str:
        return self.files[0].key


class LogListing(NamedTuple):
    """What a listing of the log shows: the version files by number, and complete checkpoints, newest first."""

    commits: dict[int, ObjectMeta]
    checkpoints: list[Checkpoint]

    @property
    def newest(self) -> int | None:
        """The newest version; None for a log without any."""
        numbers = [max(self.commits, default=-1), *(found.version for found in self.checkpoints[:1])]
        return max(numbers) if max(numbers) >= 0 else None


def commit_key(version: int) -> str:
    """The version file of a version."""
    return f"{DELTA_DIR}{version:020d}.json"


def read_names(listing: Iterable[ObjectMeta]) -> LogListing:
    """What the files of a listing are; files of other names, and checkpoints that lack a part, are left out.

    The listing is in order, and is not read further than the last name that begins with a digit.
    """
    commits: dict[int, ObjectMeta] = {}
    whole: list[tuple[int, int, Checkpoint]] = []
    parts: dict[tuple[int, int], dict[int, ObjectMeta]] = {}
    for meta in listing:
        name = meta.key.removeprefix(DELTA_DIR)
        if name[:1] > "9":
            break
        match = _NAME.fullmatch(name)
        if match is None or int(match[1]) > MAX_VERSION:
            continue
        version = int(match[1])
        if match[2]:
            commits[version] = meta
        elif match[4]:
            parts.setdefault((version, int(match[5])), {})[int(match[4])] = meta
        else:
            # Of several of one version the one in one file is asked first: it needs the fewest reads.
            whole.append((version, 2 if match[3] else 1, Checkpoint(version, (meta,))))
    for (version, count), found in parts.items():
        if count and set(found) == set(range(1, count + 1)):
            files = tuple(found[number] for number in range(1, count + 1))
            whole.append((version, 0, Checkpoint(version, files)))
    whole.sort(key=lambda entry: (entry[0], entry[1], entry[2].name), reverse=True)
    return LogListing(commits, [entry[2] for entry in whole])
