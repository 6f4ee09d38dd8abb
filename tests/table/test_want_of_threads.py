"""A process that can start no thread works in the threads that it has, and a commit that landed is never an error."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.log.commits import METADATA, add, new_table, open_log
from tests.log.scripted import SLOT, Scripted

import indextables
from indextables.ambient import SystemAmbient
from indextables.errors import CommitStateUnknown
from indextables.log.commit.resolve import resolve_token
from indextables.log.commit.transaction import Transaction

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])

_TOO_LARGE = 1 << 47
"""No address space has room for a stack of this size."""


@pytest.fixture
def no_thread() -> Iterator[None]:
    before = threading.stack_size(_TOO_LARGE)
    try:
        try:
            threading.Thread(target=lambda: None).start()
        except RuntimeError:
            yield
        else:
            pytest.skip("this system starts threads with any stack")
    finally:
        threading.stack_size(before)


@pytest.mark.usefixtures("no_thread")
@pytest.mark.parametrize("later", [False, True])
def test_every_append_that_landed_says_so(tmp_path: Path, later):
    options = {"checkpoint.async": later, "checkpoint.interval": 2, "mergeOnWrite.minSplits": 3}
    table = indextables.create(tmp_path / "t", SCHEMA, indexing={"t": "text"}, options=options, ambient=SystemAmbient())
    for number in range(12):
        table.append([{"k": number, "t": f"common {number}"}])
    fresh = indextables.open(tmp_path / "t", options, ambient=SystemAmbient())
    assert sorted(fresh.to_arrow()["k"].to_pylist()) == list(range(12))
    assert fresh.count("common") == 12
    assert fresh.state().version >= 11 - 2
    assert fresh.merge_splits().versions


def test_what_no_thread_could_do_is_not_done_again_by_one_that_comes_later():
    ambient = SystemAmbient()
    calls: list[int] = []
    before = threading.stack_size(_TOO_LARGE)
    try:
        threading.Thread(target=lambda: None).start()
        pytest.skip("this system starts threads with any stack")
    except RuntimeError:
        assert list(ambient.map("splits", lambda number: calls.append(number) or number, range(3))) == [0, 1, 2]
        assert ambient.submit("checkpoint", lambda: calls.append(3) or 3).result() == 3
        with pytest.raises(RuntimeError):
            ambient.submit("maintenance", lambda: calls.append(4))
    finally:
        threading.stack_size(before)
    for pool in ("splits", "checkpoint", "maintenance"):
        assert ambient.submit(pool, lambda: 5).result() == 5
    ambient.shutdown()
    assert calls == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("can't start new thread"), OSError(errno.EMFILE, "Too many open files")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("key", [r"\.crc$", r"_manifest\.avro$", r"_last_checkpoint$"])
def test_nothing_that_goes_wrong_after_a_commit_fails_it(tmp_path: Path, key, error):
    base = new_table(tmp_path / "t", checkpoint__interval=1)
    store = Scripted(base.env.store)
    log = open_log(msgspec.structs.replace(base.env, store=store))
    failed: list[BaseException] = []

    def fail(_call: Callable[[], object]) -> object:
        failed.append(error)
        raise error

    for verb in ("put", "put_if_absent"):
        store.play(verb, key, fail)
    for number in range(1, 6):
        made = Transaction(log, operation="WRITE", table_id=METADATA.id, written_for=METADATA).add([add(str(number))])
        assert made.commit_or_raise().version == number
    assert failed
    fresh = open_log(base.env)
    assert sorted(fresh.snapshot().files["path"].to_pylist()) == ["1", "2", "3", "4", "5"]
    assert fresh.states()[0].version == 5


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
@pytest.mark.parametrize("lands", [False, True])
def test_want_of_memory_while_a_put_is_out_is_doubt_with_a_token(tmp_path: Path, error, lands):
    base = new_table(tmp_path / "t")
    store = Scripted(base.env.store)
    log = open_log(msgspec.structs.replace(base.env, store=store))

    def fail(call: Callable[[], object]) -> object:
        if lands:
            call()
        raise error

    store.play("put_if_absent", SLOT, fail)
    made = Transaction(log, operation="WRITE", table_id=METADATA.id, written_for=METADATA).add([add("a")])
    with pytest.raises(CommitStateUnknown) as doubt:
        made.commit_or_raise()
    known = open_log(base.env)
    Transaction(known, operation="WRITE", table_id=METADATA.id, written_for=METADATA).add([add("b")]).commit_or_raise()
    assert resolve_token(known, doubt.value.token, doubt.value.version) == (1 if lands else None)


def test_an_append_is_told_its_version_where_nothing_can_be_read_after_it(tmp_path: Path):
    table = indextables.create(tmp_path / "t", SCHEMA)
    store = Scripted(table._log.env.store)
    log = open_log(msgspec.structs.replace(table._log.env, store=store))
    handle = indextables.Table(log, log.snapshot())

    def fail(_call: Callable[[], object]) -> object:
        raise MemoryError

    def fail_from_now_on(_call: Callable[[], object]) -> object:
        for verb in ("get", "head", "exists", "list", "put", "put_if_absent"):
            store.play(verb, "", fail, times=1_000)
        raise MemoryError

    store.play("put_if_absent", r"\.crc$", fail_from_now_on)
    assert handle.append([{"k": 1, "t": "a"}]) == 1
    assert indextables.open(tmp_path / "t").to_arrow()["k"].to_pylist() == [1]
