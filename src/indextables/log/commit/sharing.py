"""Lets appends of several threads share a commit: who comes while one is under way waits, and goes with the next.

Whether an append may share, and with whom, are pure decisions. The queue of a log knows one leader at a time. It takes
what waits, puts it into the log as one version, and hands the lead on. All that went with it get the same outcome.
"""

from __future__ import annotations

import copy
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol as Interface

import msgspec

from indextables import process
from indextables.errors import IndexTablesError
from indextables.log.commit.transaction import Transaction
from indextables.log.read import Log
from indextables.log.wire import Add, Committed, Metadata, Outcome, Unknown, error_of
from indextables.process import Lock

__all__ = ["Append", "Gate", "Queue", "Shared", "companions", "queue_of", "shareable"]

_MOST_FILES = 1_000
"""A version of more files takes long to write, and nobody who waits for it gains by that."""


class Append(msgspec.Struct, frozen=True, eq=False):
    """New files, which are durable, and nothing else: no batch, no note, no change of the table."""

    adds: tuple[Add, ...]
    written_for: Metadata


class Shared(msgspec.Struct, frozen=True):
    """The commit that holds an append; `led` tells one of those that share it from all others."""

    committed: Committed
    led: bool


class Gate(Interface):
    """Where a thread waits for its outcome or for the lead; `threading.Event` is one."""

    def set(self) -> None: ...

    def wait(self) -> object: ...


def shareable(
    adds: Sequence[Add],
    written_for: Metadata,
    *,
    txn: tuple[str, int] | None,
    user_metadata: str | None,
    changes_table: bool,
) -> Append | None:
    """The append that may share its commit; None for one that has to say something of its own. Pure."""
    if txn is not None or user_metadata is not None or changes_table or not adds:
        return None
    return Append(tuple(adds), written_for)


def companions(waiting: Sequence[Append]) -> list[int]:
    """The places of those that share the commit of the first: written for the same metadata, within a bound. Pure."""
    first = waiting[0].written_for
    chosen: list[int] = []
    files = 0
    for place, append in enumerate(waiting):
        fits = place == 0 or files + len(append.adds) <= _MOST_FILES
        if fits and (append.written_for is first or append.written_for == first):
            chosen.append(place)
            files += len(append.adds)
    return chosen


class _Seat:
    """One thread that waits. It has an answer, or the lead, when its gate is open."""

    __slots__ = ("answer", "append", "gate")

    def __init__(self, append: Append, gate: Gate) -> None:
        self.append = append
        self.gate = gate
        self.answer: Outcome | IndexTablesError | None = None


class _Group:
    """Those whose commit is under way, the leader among them; `fate` is what came of it, once that is known."""

    __slots__ = ("fate", "seats", "transaction")

    def __init__(self, seats: list[_Seat]) -> None:
        self.seats = seats
        self.transaction: Transaction | None = None
        self.fate: Outcome | IndexTablesError | None = None

    def settle(self, fate: Outcome | IndexTablesError) -> None:
        """Tell all of them, unless they know already."""
        self.fate = fate
        _tell(self.seats, fate)


class Queue:
    """Those that want to append to one log. The leader is the first of those that wait, until it has taken them.

    A thread may be stopped at any instruction, by a Ctrl-C: whatever it holds then, `_leave` gives to the others.
    A thread that appends in the midst of its own append, as a handler of the log or of a signal does, commits alone: it
    would wait for itself. `thread` tells who asks.
    """

    def __init__(
        self, gate: Callable[[], Gate] = threading.Event, thread: Callable[[], Hashable] = threading.get_ident
    ) -> None:
        self._gate = gate
        self._thread = thread
        self._inside: set[Hashable] = set()
        """The threads that are in `commit`. One that was stopped as it left may stay: then it shares no more."""
        self._lock = Lock()
        self._waiting: list[_Seat] = []
        self._leader: _Seat | None = None
        self._group: _Group | None = None
        """What the leader has taken."""

    def commit(self, append: Append, stage: Callable[[list[Add]], Transaction], url: str) -> Shared:
        """Put the append into the log of the table at `url`, alone or with others.

        `stage` makes the transaction for the files of all.

        Raises what the commit raises, each thread its own: CommitStateUnknown has the token of the commit.
        """
        me = self._thread()
        if me in self._inside:
            return Shared(_committed(stage(list(append.adds)).commit(), url), led=True)
        self._inside.add(me)
        try:
            return self._commit(append, stage, url)
        finally:
            self._inside.discard(me)

    def _commit(self, append: Append, stage: Callable[[list[Add]], Transaction], url: str) -> Shared:
        seat = _Seat(append, self._gate())
        try:
            try:
                led = self._go(seat, stage)
            finally:
                self._leave(seat)
        finally:
            # Also where it is stopped while it leaves. What is done already is not done again.
            self._leave(seat)
        if led is not None:
            return Shared(_committed(led, url), led=True)
        if isinstance(seat.answer, IndexTablesError):
            # A copy, as every thread adds its own way to the traceback.
            raise copy.copy(seat.answer) from seat.answer
        return Shared(_committed(seat.answer, url), led=False)

    def _go(self, seat: _Seat, stage: Callable[[list[Add]], Transaction]) -> Outcome | None:
        """What came of the commit that this thread led; None where another one did."""
        with self._lock:
            self._waiting.append(seat)
            if self._leader is None:
                self._leader = seat
        if self._leader is not seat:
            seat.gate.wait()
        if self._leader is not seat:
            return None
        group = self._taken()
        try:
            group.transaction = stage([add for each in group.seats for add in each.append.adds])
            # What follows a commit (a checkpoint) is not theirs to wait for.
            outcome = group.transaction.when_landed(group.settle).commit()
        except IndexTablesError as error:
            # Raised before the first put: nothing of it is in the log.
            group.fate = error
            raise
        group.fate = outcome
        return outcome

    def _taken(self) -> _Group:
        with self._lock:
            chosen = set(companions([seat.append for seat in self._waiting]))
            self._group = group = _Group([seat for place, seat in enumerate(self._waiting) if place in chosen])
            self._waiting = [seat for place, seat in enumerate(self._waiting) if place not in chosen]
            return group

    def _leave(self, seat: _Seat) -> None:
        """A thread is done, or was stopped. What it led has an outcome or waits again, and the lead goes on.

        Safe to be called again by the same thread, also where a first call was stopped on its way.
        """
        with self._lock:
            if self._leader is seat and self._group is not None:
                self._close(self._group, seat)
                self._group = None
            if seat in self._waiting:
                # If nobody has taken its files, nobody will.
                self._waiting.remove(seat)
            if self._leader is seat:
                self._leader = self._waiting[0] if self._waiting else None
            if self._leader is not None:
                self._leader.gate.set()

    def _close(self, group: _Group, leader: _Seat) -> None:
        transaction = group.transaction
        if group.fate is not None:
            group.settle(group.fate)
        elif transaction is None or transaction.tried is None:
            # The leader was stopped before it began: the others have lost nothing.
            back = [seat for seat in group.seats if seat is not leader]
            self._waiting = [*back, *(seat for seat in self._waiting if seat not in back)]
        else:
            # Perhaps it was stopped while a put was out.
            by = getattr(sys.exc_info()[0], "__name__", "")
            reason = f"the thread that committed it was stopped: {by}"
            group.settle(Unknown(transaction.token, transaction.tried, reason))


def _tell(group: list[_Seat], answer: Outcome | IndexTablesError) -> None:
    for seat in group:
        if seat.answer is None:
            seat.answer = answer
        seat.gate.set()


def _committed(outcome: Outcome | None, url: str) -> Committed:
    if isinstance(outcome, Committed):
        return outcome
    assert outcome is not None  # noqa: S101 - a gate opens when there is an answer or the lead
    raise error_of(outcome, url)


def queue_of(log: Log) -> Queue:
    """The queue of a log in this process."""
    with _MEMORY.lock:
        return _QUEUES.setdefault(log, Queue())


_QUEUES: weakref.WeakKeyDictionary[Log, Queue] = weakref.WeakKeyDictionary()

_MEMORY = process.declare(
    process.Memory(
        name="appends that wait",
        where=f"{__name__}._QUEUES",
        key="handle (`Log`)",
        bound="one queue per living handle, one seat per thread that appends",
        fork="the child starts anew: the threads that wait are the parent's",
        ends="a seat when its commit has an outcome, a queue with the handle",
        after_fork=_QUEUES.clear,
    )
)
