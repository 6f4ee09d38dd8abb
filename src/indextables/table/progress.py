"""How far is it? Steps of a long verb as a line on a terminal or in a notebook: rows, bytes, splits and speed.

Shown where somebody looks (`progress` is `auto`): standard error is a terminal, or the process is the kernel of a
notebook. Nothing is shown for what ends at once.
"""

from __future__ import annotations

import html
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TextIO

from indextables import options as opt
from indextables.ambient import Ambient
from indextables.options import Options
from indextables.table.running import Progress, Step

__all__ = ["NotebookBar", "TerminalBar", "progress_of", "shown_as"]

_CELLS = 24
_FULL, _EMPTY = "█", "░"
_PATIENCE_S = 0.5
_EVERY_S = 0.1


def progress_of(options: Options, ambient: Ambient, stream: TextIO | None = None) -> Progress | None:
    """What to tell steps to, as the option `progress` asks; None where nobody looks."""
    wanted = options[opt.PROGRESS]
    if wanted == "never":
        return None
    display = notebook_display()
    if display is not None:
        return NotebookBar(display, ambient.monotonic)
    stream = sys.stderr if stream is None else stream
    if wanted == "always" or stream.isatty():
        return TerminalBar(stream, ambient.monotonic)
    return None


def shown_as(step: Step, seconds: float, cells: int = _CELLS, marks: str = _FULL + _EMPTY) -> str:
    """One line: what, a bar, how many of how many, rows, bytes, splits, and rows and bytes per second. Pure."""
    parts = [step.what]
    if step.total:
        full = min(cells, step.done * cells // step.total)
        parts.append(marks[0] * full + marks[1] * (cells - full))
        parts.append(f"{step.done}/{step.total}")
    else:
        parts.append(str(step.done))
    if step.rows:
        parts.append(f"{_short(step.rows)} rows")
    if step.bytes:
        parts.append(f"{_short(step.bytes, 1024)}B")
    if step.files:
        parts.append(f"{_short(step.files)} {'split' if step.files == 1 else 'splits'}")
    if seconds > 0 and (step.rows or step.bytes):
        speeds = [f"{_short(int(step.rows / seconds))} rows/s"] if step.rows else []
        speeds += [f"{_short(int(step.bytes / seconds), 1024)}B/s"] if step.bytes else []
        parts.append(", ".join(speeds))
    return "  ".join(parts)


class _Bar:
    """Calls `_show` for steps that come late enough to be of interest, and for the last one of what was shown."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._what: str | None = None
        self._began = clock()
        self._shown_at: float | None = None

    def __call__(self, step: Step) -> None:
        now = self._clock()
        if step.what != self._what:
            if self._shown_at is not None:
                self._end()
            self._what, self._began, self._shown_at = step.what, now, None
        is_last = step.total is not None and step.done >= step.total
        since = now - (self._began if self._shown_at is None else self._shown_at)
        if since >= (_PATIENCE_S if self._shown_at is None else _EVERY_S) or (is_last and self._shown_at is not None):
            self._show(step, now - self._began)
            self._shown_at = now
        if is_last and self._shown_at is not None:
            self._end()
            self._shown_at = None

    def _show(self, step: Step, seconds: float) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        """What was shown stays."""


class TerminalBar(_Bar):
    """One line that is written over until it is complete."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._stream = stream
        utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
        self._marks = _FULL + _EMPTY if utf8 else "#."

    def _show(self, step: Step, seconds: float) -> None:
        columns = shutil.get_terminal_size().columns
        self._stream.write("\r\x1b[K" + shown_as(step, seconds, marks=self._marks)[: columns - 1])
        self._stream.flush()

    def _end(self) -> None:
        self._stream.write("\n")
        self._stream.flush()


class NotebookBar(_Bar):
    """A line of HTML that is replaced until it is complete. `display` is IPython's."""

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._display = display
        self._handle: Any = None

    def _show(self, step: Step, seconds: float) -> None:
        shown = {"text/html": f"<code>{html.escape(shown_as(step, seconds))}</code>", "text/plain": step.what}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _end(self) -> None:
        self._handle = None


def notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` in the kernel of a notebook, None elsewhere. Imports nothing that is not there already."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    shell = ipython.get_ipython()
    if shell is None or type(shell).__name__ == "TerminalInteractiveShell":
        return None
    display: Callable[..., Any] = import_module("IPython.display").display
    return display


def _short(count: int, base: int = 1000) -> str:
    """`1234567` as `1.23 M`."""
    value, unit = float(count), ""
    for unit in ("", "k", "M", "G", "T", "P"):
        if value < base or unit == "P":
            break
        value /= base
    if not unit:
        return f"{count} " if base == 1024 else str(count)
    return f"{value:.3g} {unit}"
