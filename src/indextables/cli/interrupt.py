"""Ctrl-C ends a command: at once where Python runs, after a moment where a library is in the middle of something.

A signal reaches Python code only between two of its steps, and a query can stay in native code for minutes. So a thread
of its own hears of the signal through a pipe, and ends the process if nobody else has. A table is not harmed by that:
what is not committed is not there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType

from indextables.cli import outcome

__all__ = ["LINE", "WATCH", "Watch"]

LINE = "indextables: interrupted\n"
_PATIENCE_S = 2.0


class Watch:
    """Waits for Ctrl-C from `start` on; `answered` says that somebody dealt with it and the process goes on."""

    def __init__(self) -> None:
        self._answered = threading.Event()
        self._pressed = False

    def start(self) -> None:
        """For the main thread of a process that runs one command."""
        hears, tells = os.pipe()
        os.set_blocking(tells, False)
        signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._on_signal)
        self._before = sys.excepthook
        sys.excepthook = self._on_exception
        threading.Thread(target=self._wait, args=(hears,), daemon=True, name="indextables-interrupt").start()

    def answered(self) -> None:
        """The process goes on."""
        self._pressed = False
        self._answered.set()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._pressed = True
        raise KeyboardInterrupt

    def _on_exception(self, kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        """A library that is interrupted while it is imported fails in ways of its own."""
        if self._pressed:
            _leave()
        self._before(kind, value, trace)

    def _wait(self, hears: int) -> None:
        while number := os.read(hears, 1):
            if number[0] != signal.SIGINT:
                continue
            if not self._answered.wait(_PATIENCE_S):
                _leave()
            self._answered.clear()


def _leave() -> None:
    os.write(2, LINE.encode())
    os._exit(outcome.INTERRUPTED)


WATCH = Watch()
"""That of this process."""
