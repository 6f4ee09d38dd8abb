"""Threads of one process share a commit: one version or one doubt for all, and nobody waits for ever."""

from __future__ import annotations

import dis
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import ClassVar

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.commits import METADATA, add, new_table, open_log
from tests.log.scripted import SLOT, Scripted, lost, unavailable
from tests.world.commits import change_metadata

import indextables
from indextables.errors import CommitStateUnknown, MetadataChanged, StoreUnavailable
from indextables.log.commit import sharing
from indextables.log.commit.resolve import resolve_token
from indextables.log.commit.sharing import Append, Queue, Shared, companions, queue_of, shareable
from indextables.log.commit.transaction import Transaction
from indextables.log.read.log import Log
from indextables.log.wire.actions import Add, Metadata

OTHER = msgspec.structs.replace(METADATA, configuration={"k": "v"})


def append(*paths: str, metadata: Metadata = METADATA) -> Append:
    return Append(tuple(add(path) for path in paths), metadata)


class Stop(BaseException):
    """What a Ctrl-C does to a thread."""


class Meeting:
    """A queue whose leader waits, before it commits, until so many others wait for it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.arrived = threading.Semaphore(0)
        self.queue = Queue(self._gate)
        self.before: Callable[[Transaction], None] = lambda _: None
        self.groups: list[list[str]] = []

    def _gate(self) -> threading.Event:
        meeting = self

        class Counting(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                meeting.arrived.release()
                return super().wait(timeout)

        return Counting()

    def commit(self, given: Append, *, others: int = 0) -> Shared:
        def stage(adds: Sequence[Add]) -> Transaction:
            self.groups.append([found.path for found in adds])
            made = Transaction(self.log, operation="WRITE", table_id=METADATA.id, written_for=given.written_for)
            made.add(adds)
            self.before(made)
            return made

        def wait(adds: Sequence[Add]) -> Transaction:
            made = stage(adds)
            for _ in range(others):
                self.arrived.acquire()
            return made

        return self.queue.commit(given, wait if others else stage, self.log.url)

    def all_at_once(self, first: Append, others: Sequence[Append]) -> list[Future[Shared]]:
        """The first leads alone, and the others come while its commit is under way."""
        leading = threading.Event()
        self.before = lambda _: leading.set()
        with ThreadPoolExecutor(1 + len(others)) as pool:
            futures = [pool.submit(self.commit, first, others=len(others))]
            assert leading.wait(60)
            futures += [pool.submit(self.commit, given) for given in others]
        return futures


def live(log: Log) -> list[str]:
    return sorted(log.snapshot().files["path"].to_pylist())


def test_who_comes_while_a_commit_is_under_way_goes_with_the_next(tmp_path: Path):
    meeting = Meeting(new_table(tmp_path / "t"))
    first, *others = meeting.all_at_once(append("a"), [append("b"), append("c", "d"), append("e")])
    assert first.result().committed.version == 1
    assert {future.result().committed.version for future in others} == {2}
    assert len({future.result().committed.token for future in others}) == 1
    assert sorted(future.result().led for future in others) == [False, False, True]
    assert [sorted(group) for group in meeting.groups] == [["a"], ["b", "c", "d", "e"]]
    assert live(meeting.log) == ["a", "b", "c", "d", "e"]


def test_files_that_were_written_for_other_metadata_go_alone(tmp_path: Path):
    log = new_table(tmp_path / "t")
    change_metadata(log, OTHER)
    meeting = Meeting(log)
    futures = meeting.all_at_once(append("a", metadata=OTHER), [append("b"), append("c", metadata=OTHER)])
    assert sorted(future.result().committed.version for future in futures) == [2, 3, 4]
    assert live(log) == ["a", "b", "c"]


def test_all_get_the_same_conflict_each_as_an_error_of_its_own(tmp_path: Path):
    log = new_table(tmp_path / "t")
    schema = METADATA.schemaString.replace('"long"', '"string"')
    meeting = Meeting(log)
    first, *others = meeting.all_at_once(append("a"), [append("b"), append("c")])
    change_metadata(open_log(log.env), msgspec.structs.replace(METADATA, schemaString=schema))
    first, *others = meeting.all_at_once(append("d"), [append("e"), append("f")])
    errors = [future.exception() for future in (first, *others)]
    assert [type(error) for error in errors] == [MetadataChanged] * 3
    assert len({id(error) for error in errors}) == 3
    assert live(log) == ["a", "b", "c"]


def test_all_are_in_the_same_doubt_and_can_resolve_it_with_the_token_of_the_commit(tmp_path: Path):
    log = new_table(tmp_path / "t")
    store = Scripted(log.env.store)
    meeting = Meeting(open_log(msgspec.structs.replace(log.env, store=store)))

    def lose_the_answer(made: Transaction) -> None:
        leading.set()
        if len(meeting.groups) == 2:
            store.play("put_if_absent", SLOT, lost)
            store.play("get", SLOT, unavailable, times=1_000)

    leading = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        meeting.before = lose_the_answer
        futures = [pool.submit(meeting.commit, append("a"), others=2)]
        assert leading.wait(60)
        futures += [pool.submit(meeting.commit, append(path)) for path in ("b", "c")]
    doubts = [future.exception() for future in futures[1:]]
    assert [type(doubt) for doubt in doubts] == [CommitStateUnknown] * 2
    assert {(doubt.token, doubt.version) for doubt in doubts} == {(doubts[0].token, 2)}
    known = open_log(log.env)
    assert resolve_token(known, doubts[0].token, 2) == 2
    assert live(known) == ["a", "b", "c"]


def test_an_error_before_the_first_put_is_everybodys_and_the_next_group_goes_on(tmp_path: Path):
    meeting = Meeting(new_table(tmp_path / "t"))
    futures: list[Future[Shared]] = []

    def fail(made: Transaction) -> None:
        leading.set()
        if len(meeting.groups) == 2:
            raise StoreUnavailable("no answer")

    leading = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        meeting.before = fail
        futures.append(pool.submit(meeting.commit, append("a"), others=2))
        assert leading.wait(60)
        futures += [pool.submit(meeting.commit, append(path)) for path in ("b", "c")]
    assert futures[0].result().committed.version == 1
    assert [type(future.exception()) for future in futures[1:]] == [StoreUnavailable] * 2
    assert meeting.commit(append("d")).committed.version == 2
    assert live(meeting.log) == ["a", "d"]


def test_a_leader_that_is_stopped_before_it_puts_anything_takes_nobody_along(tmp_path: Path):
    meeting = Meeting(new_table(tmp_path / "t"))

    def stop(made: Transaction) -> None:
        leading.set()
        if len(meeting.groups) == 2:
            raise Stop

    leading = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        meeting.before = stop
        futures = [pool.submit(meeting.commit, append("a"), others=3)]
        assert leading.wait(60)
        futures += [pool.submit(meeting.commit, append(path)) for path in ("b", "c", "d")]
    ended = [future.exception() for future in futures]
    assert sorted(type(error).__name__ for error in ended) == ["NoneType", "NoneType", "NoneType", "Stop"]
    assert len(live(meeting.log)) == 3


def test_who_went_with_a_leader_that_was_stopped_during_its_put_can_find_out(tmp_path: Path):
    log = new_table(tmp_path / "t")
    store = Scripted(log.env.store)
    meeting = Meeting(open_log(msgspec.structs.replace(log.env, store=store)))

    def land_and_stop(call: Callable[[], object]) -> object:
        call()
        raise Stop

    def arm(made: Transaction) -> None:
        leading.set()
        if len(meeting.groups) == 2:
            store.play("put_if_absent", SLOT, land_and_stop)

    leading = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        meeting.before = arm
        futures = [pool.submit(meeting.commit, append("a"), others=2)]
        assert leading.wait(60)
        futures += [pool.submit(meeting.commit, append(path)) for path in ("b", "c")]
    ended = [future.exception() for future in futures[1:]]
    assert sorted(type(error).__name__ for error in ended) == ["CommitStateUnknown", "Stop"]
    (doubt,) = [error for error in ended if isinstance(error, CommitStateUnknown)]
    assert resolve_token(open_log(log.env), doubt.token, doubt.version) == 2
    assert live(open_log(log.env)) == ["a", "b", "c"]


def test_a_thread_that_is_stopped_while_it_waits_is_not_committed(tmp_path: Path):
    log = new_table(tmp_path / "t")

    class Stopped(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise Stop

    queue = Queue(Stopped)

    def stage(adds: Sequence[Add]) -> Transaction:
        # While this one leads, another comes and is stopped.
        if adds[0].path == "a":
            with ThreadPoolExecutor(1) as pool:
                other = pool.submit(queue.commit, append("b"), stage, log.url)
            assert isinstance(other.exception(), Stop)
        return Transaction(log, operation="WRITE", table_id=METADATA.id, written_for=METADATA).add(adds)

    assert queue.commit(append("a"), stage, log.url).committed.version == 1
    assert queue.commit(append("c"), stage, log.url).committed.version == 2
    assert live(log) == ["a", "c"]


@pytest.mark.timeout(60)
def test_a_handler_of_the_log_that_appends_its_lines_to_the_table_does_not_wait_for_itself(tmp_path: Path, caplog):
    """It is called in the midst of an append, by the thread that makes it, and others wait for that thread."""
    table = indextables.create(tmp_path / "t", pa.schema([("line", pa.string())]))

    class IntoTheTable(logging.Handler):
        written: ClassVar[list[str]] = []
        is_at_it = False

        def emit(self, record: logging.LogRecord) -> None:
            if not self.is_at_it:
                self.is_at_it = True
                self.written.append(record.getMessage())
                table.append([{"line": self.written[-1]}])
                self.is_at_it = False

    handler = IntoTheTable()
    logger = logging.getLogger("indextables")
    caplog.set_level(logging.INFO, logger.name)
    logger.addHandler(handler)
    try:
        table.append([{"line": "first"}])
    finally:
        logger.removeHandler(handler)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(table.append, [{"line": "of another thread"}]).result()
    assert handler.written
    wanted = ["first", *handler.written, "of another thread"]
    assert sorted(table.refresh().to_arrow()["line"].to_pylist()) == sorted(wanted)


_LOOKS_FOR_SIGNALS = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}
"""The instructions after which Python runs the handler of a signal."""


def stopped_at(step: int, call: Callable[[], object]) -> bool:
    """Stop a call where a signal could stop it for the `step`-th time in the module of the queue; False if it ends."""
    left = itertools.count(-step)
    came_from: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_filename != sharing.__file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            before = came_from.get(frame)
            came_from[frame] = frame.f_lasti
            looks = before is not None and dis.opname[frame.f_code.co_code[before]] in _LOOKS_FOR_SIGNALS
            if looks and next(left) == 0:
                sys.settrace(None)
                raise Stop
        return trace

    sys.settrace(trace)
    try:
        call()
    except Stop:
        return True
    finally:
        sys.settrace(None)
    return False


def test_wherever_a_thread_is_stopped_the_next_commit_goes_through(tmp_path: Path):
    class Open(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert self.is_set(), "it would wait for ever"
            return True

    log = new_table(tmp_path / "t")
    for step in itertools.count():
        queue = Queue(Open)
        is_stopped = stopped_at(step, lambda: queue.commit(append(f"a{step}"), plain(log), log.url))  # noqa: B023
        assert queue.commit(append(f"b{step}"), plain(log), log.url).committed.version
        if not is_stopped:
            break
    assert step > 20
    assert len(set(live(log))) == len(live(log))


def test_wherever_a_leader_is_stopped_the_others_are_told_or_go_on(tmp_path: Path):
    log = new_table(tmp_path / "t")
    told: list[str] = []
    for step in itertools.count():
        is_stopped = stopped_among_others(log, step, told)
        if not is_stopped:
            break
    assert step > 40
    assert set(told) <= set(live(log))
    assert len(set(live(log))) == len(live(log))


def stopped_among_others(log: Log, step: int, told: list[str]) -> bool:
    """One thread leads, a second one waits to lead next and is stopped somewhere, and a third one goes with it."""
    leads, may_go, arrived = threading.Event(), threading.Event(), threading.Semaphore(0)

    class Counting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            arrived.release()
            return super().wait(timeout)

    queue = Queue(Counting)
    stopped: list[bool] = []

    def hold(adds: Sequence[Add]) -> Transaction:
        leads.set()
        may_go.wait()
        return plain(log)(adds)

    def commit(path: str, stage: Callable[[Sequence[Add]], Transaction]) -> None:
        try:
            queue.commit(append(path), stage, log.url)
            told.append(path)
        except CommitStateUnknown as doubt:
            if resolve_token(open_log(log.env), doubt.token, doubt.version) is not None:
                told.append(path)

    def be_stopped() -> None:
        stopped.append(stopped_at(step, lambda: commit(f"b{step}", plain(log))))
        arrived.release()

    calls = [lambda: commit(f"a{step}", hold), be_stopped, lambda: commit(f"c{step}", plain(log))]
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread, come in zip(threads, (leads.wait, arrived.acquire, arrived.acquire), strict=True):
        thread.start()
        come()
    may_go.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), f"stopped at {step}, the others wait for ever"
    assert {f"a{step}", f"c{step}"} <= set(told)
    return stopped[0]


def plain(log: Log) -> Callable[[Sequence[Add]], Transaction]:
    return lambda adds: Transaction(log, operation="WRITE", table_id=METADATA.id, written_for=METADATA).add(adds)


@pytest.mark.parametrize(
    "own", [{"txn": ("app", 1)}, {"user_metadata": ""}, {"changes_table": True}], ids=["batch", "note", "change"]
)
def test_what_says_something_of_its_own_shares_no_commit(own):
    plain = {"txn": None, "user_metadata": None, "changes_table": False}
    assert shareable([add("a")], METADATA, **plain) is not None
    assert shareable([add("a")], METADATA, **{**plain, **own}) is None
    assert shareable([], METADATA, **plain) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 700)), min_size=1, max_size=12))
def test_companions_are_alike_start_with_the_first_and_are_bounded(waiting):
    made = [append(*["x"] * files, metadata=OTHER if other else METADATA) for other, files in waiting]
    chosen = companions(made)
    assert chosen[0] == 0
    assert chosen == sorted(set(chosen))
    assert all(made[place].written_for == made[0].written_for for place in chosen)
    assert len(chosen) == 1 or sum(len(made[place].adds) for place in chosen) <= 1_000


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent(tmp_path: Path):
    log = new_table(tmp_path / "t")
    queue = queue_of(log)

    def stage(adds: Sequence[Add]) -> Transaction:
        return Transaction(log, operation="WRITE", table_id=METADATA.id, written_for=METADATA).add(adds)

    def fork_meanwhile(adds: Sequence[Add]) -> Transaction:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if queue_of(log).commit(append("child"), stage, log.url).committed.version == 1 else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        return stage(adds)

    assert queue.commit(append("parent"), fork_meanwhile, log.url).committed.version == 2
    assert live(log) == ["child", "parent"]
