"""Ctrl-C ends a command: at once where Python runs, after a moment where a library is in the middle of something.

A signal reaches Python code only between two of its steps, and a query can stay in native code for minutes. So a thread
of its own hears of the signal through a pipe, and ends the process if nobody else has. A table is not harmed by that:
what is not committed is not there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import NoReturn

from indextables.cli import outcome

__all__ = ["LINE", "WATCH", "Watch"]

LINE = "indextables: interrupted\n"
_PATIENCE_S = 2.0
_NUDGE_S = 0.1
# DataFusion calls these, and panics at an exception from them: an interrupt waits until they are left.
_CALLED_BY_NATIVE_CODE = frozenset({"indextables.sql.local.provider"})


class Watch:
    """Waits for Ctrl-C from `start` on; `answered` says that somebody dealt with it and the process goes on."""

    def __init__(self) -> None:
        self._answered = threading.Event()
        self._telling = threading.Lock()
        self._started = self._told = False
        self._lost = False
        self.pressed = False
        """True from Ctrl-C until somebody answers it: what fails then may have failed for that."""
        self._at_prompt = False

    def start(self) -> None:
        """For the main thread of a process that runs one command."""
        self._started = True
        hears, tells = os.pipe()
        os.set_blocking(tells, False)
        signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGUSR1, self._on_nudge)
        self._before = sys.excepthook
        sys.excepthook = self._on_exception
        sys.unraisablehook = self._on_unraisable
        threading.Thread(target=self._wait, args=(hears,), daemon=True, name="indextables-interrupt").start()

    def answered(self) -> None:
        """The process goes on."""
        self.pressed = self._lost = False
        self._answered.set()

    def ask(self, prompt: str) -> str:
        """One line of the terminal: while the process waits for it, nothing is cut off, but the wait is.

        Raises KeyboardInterrupt, EOFError.
        """
        self._at_prompt = True
        try:
            return input(prompt)
        except SystemError as error:
            # `input` looks for signals once more after an interrupt. If a nudge came with it, Python takes the
            # interrupt, which is there already, for a fault of the handler of the nudge.
            if not self.pressed:
                raise
            raise KeyboardInterrupt from error
        finally:
            self._at_prompt = False

    def tell(self) -> None:
        """Write the line: once, although the last steps of a process may take longer than this has patience."""
        with self._telling, contextlib.suppress(OSError):
            if not self._told:
                os.write(2, LINE.encode())
            self._told = self._started

    def leave(self) -> NoReturn:
        """End the process here."""
        self.tell()
        os._exit(outcome.INTERRUPTED)

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        self.pressed = True
        self._lost = _called_by_native_code(frame)
        if not self._lost:
            raise KeyboardInterrupt

    def _on_nudge(self, _number: int, frame: FrameType | None) -> None:
        if self._lost and not _called_by_native_code(frame):
            self._lost = False
            raise KeyboardInterrupt

    def _on_exception(self, kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        """A library that is interrupted while it is imported fails in ways of its own."""
        if self.pressed:
            self.leave()
        self._before(kind, value, trace)

    def _on_unraisable(self, told: sys.UnraisableHookArgs) -> None:
        """An interrupt that came up in a callback, where nothing can be raised: it is raised once more."""
        if self.pressed and isinstance(told.exc_value, KeyboardInterrupt):
            self._lost = True
        else:
            sys.__unraisablehook__(told)

    def _wait(self, hears: int) -> None:
        while number := os.read(hears, 1):
            if number[0] != signal.SIGINT:
                continue
            patience = _PATIENCE_S
            while not self._answered.wait(_NUDGE_S):
                if self._at_prompt or self._lost:
                    # A signal that comes just before readline waits is not seen by it until another one comes.
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                if not self._at_prompt and (patience := patience - _NUDGE_S) <= 0:
                    self.leave()
            self._answered.clear()


WATCH = Watch()
"""That of this process."""


def _called_by_native_code(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") in _CALLED_BY_NATIVE_CODE:
            return True
        frame = frame.f_back
    return False
