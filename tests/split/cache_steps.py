"""What happens if somebody else acts between any two steps of ours? Every file operation of Python is such a step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVENTS = frozenset({"open", "os.link", "os.listdir", "os.mkdir", "os.rename", "os.scandir", "os.utime", "os.remove"})


class Steps:
    """Counts the file operations on paths with `part` in them, and calls `act` before those that `chosen` picks."""

    def __init__(self, part: str, chosen: Callable[[int, str], bool], act: Callable[[], None]) -> None:
        self.part = part
        self.chosen = chosen
        self.act = act
        self.seen = 0
        self.busy = False

    def step(self, event: str, args: tuple[object, ...]) -> None:
        """One event of the interpreter."""
        if self.busy or event not in _EVENTS or not args or self.part not in str(args[0]):
            return
        self.seen += 1
        if self.chosen(self.seen, event):
            self.busy = True
            try:
                self.act()
            finally:
                self.busy = False


@contextmanager
def interfering(part: str, chosen: Callable[[int, str], bool], act: Callable[[], None]) -> Iterator[Steps]:
    """`act` runs before each step that `chosen` picks by its number, from 1, and its name, in all threads."""
    _install()
    steps = Steps(part, chosen, act)
    _now.append(steps)
    try:
        yield steps
    finally:
        _now.remove(steps)


_now: list[Steps] = []
_installed: list[bool] = []


def _install() -> None:
    # An audit hook cannot be taken away again: there is one, which does nothing outside of `interfering`.
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_hook)


def _hook(event: str, args: tuple[object, ...]) -> None:
    for steps in _now:
        steps.step(event, args)
