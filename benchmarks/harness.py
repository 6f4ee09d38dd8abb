"""How a benchmark reports: one `Bar` per claim, printed as a table with ratio, bar and verdict.

A module of this folder has `run(scale: str) -> list[Bar]`; `python -m benchmarks [MODULE ...]` runs them. Peers run in
the same process run as ours, on the same data, so that a ratio means something on a noisy machine.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Literal


@dataclass(frozen=True)
class Bar:
    """One claim: what was measured for us and for the peer, their ratio, and the bar it must stay under or over."""

    claim: str
    ours: float
    peer: float | None
    unit: str
    bar: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    peer_name: str = ""
    absolute: bool = False
    """Compare `ours` itself with the bar, not the ratio."""

    @property
    def value(self) -> float:
        if self.absolute or self.peer is None:
            return self.ours
        return self.ours / self.peer

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        met = self.value <= self.bar if self.sense == "at most" else self.value >= self.bar
        return "pass" if met else "short"


def machine() -> str:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    today = datetime.now(UTC).date().isoformat()
    python = platform.python_version()
    load = os.getloadavg()[2]
    return (
        f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, {platform.system()}, Python {python}, {today}, load {load:.0f}"
    )


def report(title: str, bars: list[Bar]) -> None:
    """Print the bars of one module as a Markdown table, ready for docs/PERFORMANCE.md."""
    print(f"\n### {title}\n\n{machine()}\n")
    print("| claim | ours | peer | ratio | bar | |\n|---|---|---|---|---|---|")
    for bar in bars:
        peer = "" if bar.peer is None else f"{bar.peer:.4g} {bar.unit} {bar.peer_name}".strip()
        ratio = "" if bar.peer is None else f"{bar.ours / bar.peer:.2f}"
        limit = "" if bar.bar is None else f"{bar.sense} {bar.bar:g}{'' if not bar.absolute else ' ' + bar.unit}"
        print(f"| {bar.claim} | {bar.ours:.4g} {bar.unit} | {peer} | {ratio} | {limit} | {bar.verdict} |")


def growth(
    claim: str,
    ours: tuple[float, float],
    peer: tuple[float, float] | None,
    peer_name: str = "",
    bar: float | None = None,
) -> Bar:
    """How many times as much the same takes on more data, ours beside the peer's: each is (on less, on more)."""
    theirs = None if peer is None else peer[1] / peer[0]
    return Bar(f"growth, {claim}", ours[1] / ours[0], theirs, "x", bar, peer_name=peer_name, absolute=True)


def best_of(times: int, call: Callable[[], object]) -> float:
    """The least wall-clock seconds of `times` calls."""
    return min(_timed(call) for _ in range(times))


def median_of(times: int, call: Callable[[], object]) -> float:
    """The median wall-clock seconds of `times` calls."""
    return median(_timed(call) for _ in range(times))


def cpu_of(call: Callable[[], object]) -> float:
    """User and system CPU seconds of one call, child threads included."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    call()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def peak_rss_mib() -> float:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
