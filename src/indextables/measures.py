"""Counts what this process did with each table, and how long it took: commits, loads of the state, checkpoints.

Each is one line of the log at INFO too, and a point of OpenTelemetry in a process that uses its metrics.
`Table.metrics()` tells the numbers.
"""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

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


_INSTRUMENTS: dict[str, Any] = {}


_EXPORTED = process.declare(
    process.Memory(
        name="instruments of OpenTelemetry",
        where=f"{__name__}._INSTRUMENTS",
        key="name",
        bound="one per number that is counted",
        fork="the child keeps them, as it keeps the provider of the application",
        ends="with the process",
    )
)


def note(url: str, what: str, seconds: float, *, told: Mapping[str, float] | None = None, **numbers: float) -> None:
    """Count one more of `what`: how long it took, and other numbers, which are added up; `told` are only logged."""
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
        others = "".join(f", {name} {number:.12g}" for name, number in {**(told or {}), **numbers}.items())
        _LOGGER.info("%s of %s: %.3f s%s", what, url, seconds, others)
    api = sys.modules.get("opentelemetry.metrics")
    if api is not None:
        _export(api, url, what, seconds, numbers)


def _export(api: Any, url: str, what: str, seconds: float, numbers: Mapping[str, float]) -> None:
    """Give the numbers to the application's OpenTelemetry, which it has loaded; no failure there is one of ours."""
    name = f"indextables.{what.replace(' ', '_')}"
    attributes = {"indextables.table": url}
    try:
        _instrument(api, "create_histogram", f"{name}.duration", "s").record(seconds, attributes)
        for number, amount in numbers.items():
            _instrument(api, "create_counter", f"{name}.{number}", "1").add(amount, attributes)
    except Exception:
        _LOGGER.debug("OpenTelemetry took no point of %s", what, exc_info=True)


def _instrument(api: Any, make: str, name: str, unit: str) -> Any:
    with _EXPORTED.lock:
        if name not in _INSTRUMENTS:
            _INSTRUMENTS[name] = getattr(api.get_meter("indextables"), make)(name, unit=unit)
        return _INSTRUMENTS[name]


def told(url: str) -> dict[str, dict[str, float]]:
    """What was counted for a table: for each kind how often, how long in all, at most and last, and its sums."""
    with _MEMORY.lock:
        return {what: dict(known) for what, known in _TABLES.get(url, {}).items()}
