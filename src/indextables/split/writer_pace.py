"""When may the next rows be handed to Tantivy's indexing thread? When it has nothing left to do.

Rows go to that thread through a queue of bounded length, one at a time. A sender that finds the queue full sleeps, is
woken for one free place and sleeps again: both threads then spend more on waking each other than on the rows. So the
queue is never filled: rows are handed over in runs that fit into it, and before each run the thread is given the time
to come to rest, which Linux tells. Elsewhere rows are handed over as they come.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["Pace"]

_QUEUE = 9_000
"""Rows that are sent without a look at the thread; Tantivy's queue holds 10,000."""

_LOOK_S, _LOOKS = 0.001, 2_000
"""How often the thread is looked at; after so many looks rows are sent all the same."""

_THREAD = "thrd-tantivy-in"
"""What Linux keeps of the name of an indexing thread."""

_STARTING = threading.Lock()


class Pace:
    """Of one index writer with one indexing thread, which is started inside of `starting`. For one thread at a time.

    `threads` is the folder in which Linux tells about the threads of this process. What is waited for is one of them,
    so that the waiting takes real time, whatever clock the caller has.
    """

    def __init__(self, threads: Path = Path("/proc/self/task"), sleep: Callable[[float], None] = time.sleep) -> None:
        self._threads = threads
        self._sleep = sleep
        self._new: list[Path] = []
        self._sent = 0
        self.thread: Path | None = None

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Learns which thread it is; one writer at a time, so that it is not another's."""
        with _STARTING:
            before = self._listed()
            yield
            self._new = sorted(self._listed() - before)

    def before(self, rows: int) -> None:
        """Returns when so many rows fit into the queue, as far as that can be known. Never raises."""
        if self._sent + rows > _QUEUE:
            self._wait()
            self._sent = 0
        self._sent += rows

    def _wait(self) -> None:
        if self.thread is None:
            # A thread takes its name when it runs first, which it has done by now.
            self.thread = next((thread for thread in self._new if _read(thread / "comm").startswith(_THREAD)), None)
            self._new = []
        if self.thread is None:
            return
        for _ in range(_LOOKS):
            if not _is_busy(self.thread):
                return
            self._sleep(_LOOK_S)

    def _listed(self) -> set[Path]:
        try:
            return set(self._threads.iterdir())
        except OSError:
            return set()


def _is_busy(thread: Path) -> bool:
    """True while it runs or wants to; False also if there is no such thread any more."""
    return _read(thread / "stat").rpartition(") ")[2][:1] == "R"


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
