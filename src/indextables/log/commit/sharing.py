"""Lets appends of several threads share a commit: who comes while one is under way waits, and goes with the next.

Whether an append may share, and with whom, are pure decisions. The queue of a log knows one leader at a time. It takes
what waits, puts it into the log as one version, and hands the lead on. All that went with it get the same outcome.
"""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable, Sequence
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

    __slots__ = ("answer", "append", "gate", "leads")

    def __init__(self, append: Append, gate: Gate) -> None:
        self.append = append
        self.gate = gate
        self.answer: Outcome | IndexTablesError | None = None
        self.leads = False


class Queue:
    """Those that want to append to one log. The leader is the first of those that wait, until it has taken them."""

    def __init__(self, gate: Callable[[], Gate] = threading.Event) -> None:
        self._gate = gate
        self._lock = Lock()
        self._waiting: list[_Seat] = []
        self._group: list[_Seat] = []
        """Those whose commit is under way, the leader first."""
        self._is_led = False

    def commit(self, append: Append, stage: Callable[[list[Add]], Transaction], url: str) -> Shared:
        """Put the append into the log of the table at `url`, alone or with others.

        `stage` makes the transaction for the files of all.

        Raises what the commit raises, each thread its own: CommitStateUnknown has the token of the commit.
        """
        seat = _Seat(append, self._gate())
        with self._lock:
            self._waiting.append(seat)
            seat.leads, self._is_led = not self._is_led, True
        if not seat.leads:
            try:
                seat.gate.wait()
            except BaseException:
                self._leave(seat)
                raise
        if seat.leads:
            return Shared(_committed(self._lead(stage), url), led=True)
        if isinstance(seat.answer, IndexTablesError):
            # A copy, as every thread adds its own way to the traceback.
            raise copy.copy(seat.answer) from seat.answer
        return Shared(_committed(seat.answer, url), led=False)

    def _lead(self, stage: Callable[[list[Add]], Transaction]) -> Outcome:
        transaction: Transaction | None = None
        try:
            self._take()
            transaction = stage([add for seat in self._group for add in seat.append.adds])
            # What follows a commit (a checkpoint) is not theirs to wait for.
            outcome = transaction.when_landed(lambda landed: _tell(self._group, landed)).commit()
        except IndexTablesError as error:
            # Raised before the first put: nothing of it is in the log.
            _tell(self._group, error)
            raise
        except BaseException as error:
            if transaction is None or transaction.tried is None:
                self._put_back()
            else:
                # This thread was stopped, perhaps while a put was out.
                reason = f"the thread that committed it was stopped: {type(error).__name__}"
                _tell(self._group, Unknown(transaction.token, transaction.tried, reason))
            raise
        else:
            _tell(self._group, outcome)
            return outcome
        finally:
            self._hand_on()

    def _take(self) -> None:
        with self._lock:
            chosen = set(companions([seat.append for seat in self._waiting]))
            group = [seat for place, seat in enumerate(self._waiting) if place in chosen]
            rest = [seat for place, seat in enumerate(self._waiting) if place not in chosen]
            # At once: a thread that is stopped here loses nobody.
            self._waiting, self._group = rest, group

    def _put_back(self) -> None:
        """The leader was stopped before it began: the others have lost nothing."""
        with self._lock:
            self._waiting[:0] = self._group[1:]

    def _hand_on(self) -> None:
        with self._lock:
            self._group = []
            if not self._waiting:
                self._is_led = False
                return
            first = self._waiting[0]
            first.leads = True
        first.gate.set()

    def _leave(self, seat: _Seat) -> None:
        """A thread that was stopped while it waited: if nobody has taken its files, nobody will."""
        with self._lock:
            if seat not in self._waiting:
                return
            self._waiting.remove(seat)
            led = seat.leads
        if led:
            self._hand_on()


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
