"""What would I fake in a simulation? Time, chance and threads, as one injected value.

Code below `table/` never calls `time`, `random`, `uuid` or a thread pool itself: it asks its `Ambient`. The
simulation in `tests/sim` supplies one whose clock, randomness and scheduling replay from a seed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Generic, Literal, Protocol, TypeVar

from indextables.errors import StoreUnavailable
from indextables.process import Lock, Memory, declare

_UNASKED: tuple[Pool, ...] = ("maintenance", "upkeep", "overdue")
"""What the caller of a write does not wait for: it is left to the next writer rather than done by this one."""

_GIVEN_UP = ("indextables-upkeep", "indextables-overdue")
"""The threads of what nobody asked for, which a process that ends does not wait for to its end."""

_SHARE, _LEAST_S = 0.1, 10.0
"""For how long it waits: of the time that it has lived, and at least.

What upkeep does in any case takes a second or less; where every process lived for one append, and waited for no more
than that on a busy machine, it would never be done.
"""

_REQUESTS = 32
"""Threads that wait for an object store: they cost it nothing, and a core hardly anything."""

_THREADS_ARE_OVER = ("after shutdown", "interpreter shutdown")
"""What Python says to who wants a thread once the main thread has ended: work is then done where it is asked for.

The first is what a pool says that had an idle thread by then, which ended it for everybody.
"""

_NO_THREAD = "can't start new thread"
"""What Python says where the system has no thread left for this process, or no memory for one: the same then."""

T = TypeVar("T")
R = TypeVar("R")

Pool = Literal[
    "listing", "versions", "manifests", "checkpoint", "splits", "requests", "maintenance", "upkeep", "overdue", "flush"
]

_NICE: dict[Pool, int] = {"maintenance": 10, "upkeep": 4}
"""How far a pool stands back behind writes, scans and searches of the same machine.

What an operator asks for can wait. Upkeep must not fall behind the writer that makes it due, however busy the machine:
at 4 Linux gives it two fifths of what that writer gets, and it needs a third. At 10 it would get a tenth.
"""


_ENDING: list[float] = []
"""When this process began to end: its main thread is through, and Python waits for the threads of pools."""

declare(
    Memory(
        name="end of the process",
        where=f"{__name__}._ENDING",
        key="none",
        bound="one number",
        fork="the child has an end of its own",
        ends="with the process",
        after_fork=_ENDING.clear,
    )
)

# What `concurrent.futures` waits for its threads by; it is called the other way round, so that this comes first. A
# Python without it waits for what has begun, as before.
if (_at_end := getattr(threading, "_register_atexit", None)) is not None:
    with contextlib.suppress(RuntimeError):
        _at_end(lambda: _ENDING.append(time.monotonic()))


class Ambient(Protocol):
    """Time, chance and threads.

    `now_ms` is wall-clock milliseconds since the epoch and may step; `monotonic` (seconds) never steps back.
    """

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    def age(self) -> float:
        """Seconds for which this process has been at work: what it does unasked stays small beside that."""
        ...

    def gives_up(self) -> bool:
        """True in a thread that does what nobody asked for, once the process has been ending for longer than it waits.

        It waits a tenth of the time that it has lived, or ten seconds. Stores ask before each attempt at a call.
        """
        ...

    def sleep(self, seconds: float) -> None: ...

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def token(self) -> str:
        """32 lower-case hexadecimal digits, never handed out before by any process."""
        ...

    def map(self, pool: Pool, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """The results of `call` in the order of `items`, computed at once as far as the pool allows.

        The first exception in that order is raised; what has not started by then is cancelled.
        """
        ...

    def submit(self, pool: Pool, call: Callable[[], R]) -> Future[R]:
        """Run `call` in the background, or here where no thread can be had. Unasked work is not: RuntimeError.

        The future's exception is the caller's to look at.
        """
        ...


class SystemAmbient:
    """The real thing: the system's clock and randomness, and bounded thread pools.

    Pools start on first use, belong to the process that started them (a forked child gets its own) and end
    with `shutdown()` or the interpreter.
    """

    def __init__(self, pool_sizes: dict[Pool, int] | None = None, patience: dict[Pool, float] | None = None) -> None:
        """`patience` are the seconds that `map` waits for its next result before it raises StoreUnavailable."""
        cores = os.cpu_count() or 1
        self._sizes: dict[Pool, int] = {
            "listing": cores,
            "versions": 8,
            "manifests": 8,
            "checkpoint": 2,
            "splits": max(2, cores),
            "requests": _REQUESTS,
            "maintenance": max(2, cores),
            "upkeep": max(2, cores),
            "overdue": max(2, cores),
            "flush": 8,
        }
        self._sizes.update(pool_sizes or {})
        self._patience = dict(patience or {})
        self._random = random.SystemRandom()
        self._began = time.monotonic()
        self._lock = Lock()
        self._pools: dict[Pool, ThreadPoolExecutor] = {}
        self._pid = os.getpid()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def age(self) -> float:
        return time.monotonic() - self._began

    def gives_up(self) -> bool:
        if not _ENDING or not threading.current_thread().name.startswith(_GIVEN_UP):
            return False
        since = _ENDING[0]
        return time.monotonic() - since > max(_LEAST_S, _SHARE * (since - self._began))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def random(self) -> float:
        return self._random.random()

    def token(self) -> str:
        return os.urandom(16).hex()

    def map(self, pool: Pool, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        work = list(items)
        alone = len(work) <= 1 and pool not in _NICE
        if alone or threading.current_thread().name.startswith("indextables-"):
            # One item gains nothing from a thread that does not stand back, and a pool thread that waits for its own
            # pool can deadlock.
            return map(call, work)
        patience = self._patience.get(pool)
        executor = self._executor(pool)
        given = _Given(call)
        try:
            if patience is None:
                return executor.map(given, work)
            return _patiently([executor.submit(given, item) for item in work], patience, pool)
        except RuntimeError as error:
            given.take_back()
            if not _is_want_of_threads(error):
                raise
            return map(call, work)

    def submit(self, pool: Pool, call: Callable[[], R]) -> Future[R]:
        given: _Given[None, R] = _Given(lambda _: call())
        try:
            return self._executor(pool).submit(given, None)
        except RuntimeError as error:
            given.take_back()
            if not _is_want_of_threads(error) or (pool in _UNASKED and _NO_THREAD in str(error)):
                raise
        done: Future[R] = Future()
        done.set_result(call())
        return done

    def shutdown(self) -> None:
        """Wait for running work, then end the threads. The pools start again on next use."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for executor in pools.values():
            executor.shutdown(wait=True)

    def __reduce__(self) -> tuple[object, ...]:
        return (SystemAmbient, (self._sizes, self._patience))

    def _executor(self, pool: Pool) -> ThreadPoolExecutor:
        with self._lock:
            if self._pid != os.getpid():
                self._pools, self._pid = {}, os.getpid()
            executor = self._pools.get(pool)
            if executor is None:
                executor = ThreadPoolExecutor(
                    self._sizes[pool],
                    thread_name_prefix=f"indextables-{pool}",
                    initializer=functools.partial(_yield_to_others, _NICE[pool]) if pool in _NICE else None,
                )
                self._pools[pool] = executor
            return executor


class _Given(Generic[T, R]):
    """A call that was given to threads. A pool that could not start one has it still, for a thread that comes later."""

    def __init__(self, call: Callable[[T], R]) -> None:
        self._call: Callable[[T], R] | None = call

    def take_back(self) -> None:
        """Do not run what has not begun."""
        self._call = None

    def __call__(self, item: T) -> R:
        call = self._call
        if call is None:
            raise CancelledError
        return call(item)


def _is_want_of_threads(error: RuntimeError) -> bool:
    return any(words in str(error) for words in (*_THREADS_ARE_OVER, _NO_THREAD))


def _yield_to_others(nice: int) -> None:
    """Let this thread, and those that libraries start from it, stand back behind others.

    Linux has a priority per thread; elsewhere it is the process's, which is left alone.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))


def _patiently(futures: list[Future[R]], seconds: float, pool: Pool) -> Iterator[R]:
    """The results in order. Raises StoreUnavailable if the next one takes longer; what has not started is cancelled."""
    try:
        for future in futures:
            try:
                yield future.result(seconds)
            except FutureTimeout as error:
                if future.done():
                    raise
                message = f"a parallel read ({pool}) had no answer for {seconds:g} s; try again, or allow more time"
                raise StoreUnavailable(message, pool=pool, seconds=seconds) from error
    finally:
        for future in futures:
            future.cancel()
