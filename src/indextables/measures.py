"""Counts what this process did with each table, and how long it took: commits, loads of the state, checkpoints.

Each is one line of the log at INFO too. `Table.metrics()` tells the numbers.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from indextables import process

__all__ = ["note", "told"]

_LOGGER = logging.getLogger("indextables")

_MOST_TABLES = 1_000
_TABLES: OrderedDict[str, dict[str, dict[str, float]]] = OrderedDict()


_MEMORY = process.declare(
    process.Memory(
        name="measures",
        where=f"{__name__}._TABLES",
        key="URL of the table, and what was done",
        bound=f"{_MOST_TABLES:,} tables, some numbers each",
        fork="the child starts anew: it has done nothing yet",
        ends="with the process",
        after_fork=_TABLES.clear,
    )
)


def note(url: str, what: str, seconds: float, **numbers: float) -> None:
    """Count one more of `what`: how long it took, and other numbers, which are added up."""
    with _MEMORY.lock:
        kinds = _TABLES.setdefault(url, {})
        _TABLES.move_to_end(url)
        while len(_TABLES) > _MOST_TABLES:
            _TABLES.popitem(last=False)
        known = kinds.setdefault(what, {"count": 0, "seconds": 0.0, "longest_seconds": 0.0})
        known["count"] += 1
        known["seconds"] += seconds
        known["longest_seconds"] = max(known["longest_seconds"], seconds)
        known["last_seconds"] = seconds
        for name, number in numbers.items():
            known[name] = known.get(name, 0) + number
    if _LOGGER.isEnabledFor(logging.INFO):
        others = "".join(f", {name} {number:g}" for name, number in numbers.items())
        _LOGGER.info("%s of %s: %.3f s%s", what, url, seconds, others)


def told(url: str) -> dict[str, dict[str, float]]:
    """What was counted for a table: for each kind how often, how long in all, at most and last, and its sums."""
    with _MEMORY.lock:
        return {what: dict(known) for what, known in _TABLES.get(url, {}).items()}
