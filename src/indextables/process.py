"""This process remembers things beyond one call: every such memory is declared here, with its key, bound and fork rule.

A module that keeps something in a module-level variable declares it with `declare`. What has to reach all memories
(`invalidate_caches`, `cache_stats`, a forked child, tests) goes through `memories()`, and `docs/ARCHITECTURE.md` shows
them as a table.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

__all__ = ["WANT", "Lock", "Memory", "NativeThreads", "declare", "forget", "forget_all", "memories", "stats"]


WANT = (OSError, MemoryError, RuntimeError)
"""What Python raises where this process runs out of disk, open files, memory or threads."""

_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock of an object. A forked child finds it open, whoever held it in the parent.

    It is held for as long as a `with` lasts, also where a Ctrl-C comes at any instruction; `again` lets the thread
    that holds it take it once more.
    """

    __slots__ = ("__weakref__", "_again", "_held")

    def __init__(self, *, again: bool = False) -> None:
        self._again = again
        self.open()
        _LOCKS.add(self)

    def open(self) -> None:
        """As new: nobody holds it."""
        self._held = threading.RLock() if self._again else threading.Lock()

    if TYPE_CHECKING:

        def __enter__(self) -> object: ...

        def __exit__(self, *_: object) -> None: ...

    else:
        # Those of the lock itself: a method of Python could be stopped between its call and the end of the `with`.
        __enter__ = property(attrgetter("_held.__enter__"))
        __exit__ = property(attrgetter("_held.__exit__"))


class Memory(msgspec.Struct, kw_only=True, eq=False):
    """One thing that this process remembers, in words for people and as calls for the process."""

    name: str
    where: str
    """The variable that keeps it, with its module."""
    key: str
    """What an entry is found by."""
    bound: str
    """Why it does not grow for ever."""
    fork: str
    """What a forked child does with it."""
    ends: str
    """When an entry is forgotten, or no longer believed."""
    clear: Callable[[], None] | None = None
    """Forget everything; results do not change. None where it is more than a memory: what runs, or the data itself."""
    forget: Callable[[str], int] | None = None
    """Forget the table at a URL and those in folders below it; the number of entries. None where nothing is to be
    forgotten because somebody asks for it."""
    stats: Callable[[], Mapping[str, Any]] | None = None
    """How often it was asked and what it holds, by region."""
    after_fork: Callable[[], None] | None = None
    """In a forked child, before it runs anything else, with every lock open already."""
    lock: Lock = msgspec.field(default_factory=Lock)
    """For who keeps it."""


class NativeThreads:
    """Whether native code that runs threads was used in this process, or before it was forked.

    Its threads do not survive fork(): a child that calls it would wait for them for ever.
    """

    def __init__(self, name: str, where: str) -> None:
        self.used = False
        self.inherited = False
        """True where a parent used it before the fork: it must not be called here."""
        declare(
            Memory(
                name=name,
                where=where,
                key="none",
                bound="one flag",
                fork="what the parent used is not used by the child",
                ends="never",
                after_fork=self._inherit,
            )
        )

    def _inherit(self) -> None:
        self.inherited = self.inherited or self.used


_MEMORIES: dict[str, Memory] = {}


def declare(memory: Memory) -> Memory:
    """Declare what a module remembers; the module that is loaded again takes its own place."""
    _MEMORIES[memory.name] = memory
    return memory


def memories() -> tuple[Memory, ...]:
    """Those of the modules that are loaded, in the order in which they were: lower layers first."""
    return tuple(_MEMORIES.values())


def forget_all() -> None:
    """Forget what anybody may ask to be forgotten, about all tables."""
    for memory in memories():
        if memory.clear is not None and memory.forget is not None:
            memory.clear()


def forget(url: str) -> int:
    """Forget the table at `url` and tables in folders below it; the number of entries."""
    return sum(memory.forget(url) for memory in memories() if memory.forget is not None)


def stats() -> dict[str, Any]:
    """What the memories that count say about their regions."""
    return {name: told for memory in memories() if memory.stats is not None for name, told in memory.stats().items()}


def _importing_elsewhere() -> bool:
    """True while another thread of this process loads a module."""
    locks = getattr(sys.modules["_frozen_importlib"], "_module_locks", {})
    ours = threading.get_ident()
    for name, module in tuple(sys.modules.items()):
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            lock = locks.get(name)
            held = None if lock is None else lock()
            if held is None or getattr(held, "owner", None) not in (None, ours):
                return True
    return False


def _before_fork() -> None:
    """Wait, not for ever, until no other thread loads a module: the child could never load it.

    The lock of a module that is being loaded stays locked in a child, whose interpreter opens only its own locks.
    """
    if threading.active_count() == 1:
        return
    until = time.monotonic() + _LONGEST_WAIT_S
    while _importing_elsewhere() and time.monotonic() < until:
        _pause(0.002)


_LONGEST_WAIT_S = 5.0
_pause = time.sleep


def _after_fork_in_child() -> None:
    """A thread of the parent that held a lock is not here to let go of it."""
    for lock in _LOCKS:
        lock.open()
    for memory in memories():
        if memory.after_fork is not None:
            memory.after_fork()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
