"""Declares what travels to the tasks of a search: the question, what all tasks share, and the splits of each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec
import numpy as np

from indextables.log.wire import Metadata
from indextables.split.file import SplitRef
from indextables.split.search import TermStats
from indextables.table.read import MarkedRows

__all__ = ["PLACE", "ROW", "Question", "Shared", "Splits", "Unit", "each_with", "shares"]

PLACE, ROW = "_it_place", "_it_row"
"""Columns behind those of a search with a limit: which split of all, and which row of it."""

_FEW_SPLITS, _MOST_SPLITS = 32, 512
"""Splits of a task: more tasks than run at once above the first, never more splits than the second."""


class Question(msgspec.Struct, frozen=True, tag="question"):
    """The rows that match a query, with their scores. All is text, so that it can travel."""

    query: str
    where: str | None = None
    columns: tuple[str, ...] = ()
    highlight: tuple[str, ...] = ()
    limit: int | None = None


class Shared(msgspec.Struct, frozen=True):
    """What all tasks of a search have in common. `stats` are those of the whole table, for the scores."""

    metadata: Metadata
    version: int
    asked: Question | MarkedRows
    stats: TermStats | None = None


class Splits(msgspec.Struct, frozen=True):
    """The splits of one task, and where each stands among all."""

    places: list[int]
    refs: list[SplitRef]


class Unit(msgspec.Struct, frozen=True):
    """All that a job must know for the splits of one task."""

    shared: Shared
    splits: Splits


def shares(count: int, width: int) -> list[tuple[int, int]]:
    """Where the splits of each task begin and end, neighbours together.

    There are about as many groups as tasks run at once, more where a task would have too much. Pure.
    """
    if not count:
        return []
    groups = min(count, max(width, min(4 * width, -(-count // _FEW_SPLITS)), -(-count // _MOST_SPLITS)))
    return list(pairwise(np.linspace(0, count, groups + 1).astype(int).tolist()))


def each_with(shared: Shared, parts: Iterable[Splits]) -> list[bytes]:
    """The units of a job."""
    return [msgspec.msgpack.encode(Unit(shared, part)) for part in parts]
