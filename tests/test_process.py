"""All that a process remembers is declared: nothing is missing, misleads a forked child or changes results."""

from __future__ import annotations

import builtins
import importlib
import os
import pkgutil
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables import process
from tests import memories
from tests.table.test_forked_verbs import in_a_child

ARCHITECTURE = Path(__file__).parent.parent / "docs" / "ARCHITECTURE.md"

SOURCES = Path(indextables.__file__).parent

_LOCK = re.compile(r"threading\.R?Lock\(")
NOT_FORKED = {"cli/interrupt.py", "spark/scan.py"}
"""A command of the shell does not fork; the driver of a Spark session does not survive it."""

PURE = "a pure function: an answer is never wrong, and as many as it says are kept"
NO_MEMORY = {
    "indextables.process._MEMORIES": "the list itself",
    "indextables.process._LOCKS": "locks that a forked child opens, for as long as somebody has them",
    "indextables.option_values._REGISTRY": "declarations, complete when options.py is loaded",
    "indextables.option_values._TOGETHER": "declarations, complete when options.py is loaded",
    "indextables.log.wire.actions.engine_info": PURE,
    "indextables.log.wire.codec._LATELY": PURE,
    "indextables.log.wire.codec._LATELY_LOCK": "a lock of ours, which a forked child opens",
    "indextables.log.wire.paths._root": PURE,
    "indextables.log.wire.schema.schema_from_json": PURE,
    "indextables.query.charset._categories": PURE,
    "indextables.query.java_match.java_pattern": PURE,
    "indextables.split.index.analyze._hash": PURE,
    "indextables.split.index.analyze._native": PURE,
    "indextables.split.index.fields._fields_of": PURE,
    "indextables.split.index.fields._mapping_of": PURE,
    "indextables.split.index.fields._ref_of": PURE,
    "indextables.split.search.carrier._template": PURE,
    "indextables.split.search.opened._tantivy_schema": PURE,
    "indextables.split.search.opened._plan_of": PURE,
    "indextables.split.index.cache_disk._boot": "a fact about the machine, the same until the process ends",
    "indextables.split.write.scratch.system_memory": "a fact about the machine: where it changes, the disk takes over",
    "indextables.table.environment.process_user": "a fact about the process",
    "indextables.table.requests.fields_of": PURE,
    "indextables.cli.input.csv_files._rows": PURE,
    "indextables.query.stored._constant": PURE,
    "indextables.split.file.columns._unpacked": PURE,
    "indextables.cli.input.sources._heads": "one command of the shell: what was read ahead of its streams",
    "indextables.cli.input.sources._stream": "one command of the shell: its streams",
    "indextables.cli.interrupt.WATCH": "one command of the shell: whether it is interrupted",
    "indextables.cli.render._encoder": PURE,
    "indextables.spark.scan._CONF_LOCK": "the driver of a Spark session does not survive fork()",
}


@pytest.fixture(scope="module")
def declared() -> dict[str, process.Memory]:
    for module in pkgutil.walk_packages(indextables.__path__, "indextables."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return {memory.where: memory for memory in process.memories()}


def test_every_variable_that_outlives_a_call_is_declared_or_told_why_not(declared):
    found = memories.found()
    assert {name: why for name, why in found.items() if name not in declared and name not in NO_MEMORY} == {}
    assert set(NO_MEMORY) <= set(found)
    assert not set(NO_MEMORY) & set(declared)
    assert set(declared) <= set(found)


def test_only_the_list_asks_to_be_called_after_a_fork():
    assert memories.fork_hooks() == ["indextables.process"]


def test_the_architecture_shows_the_memories(declared):
    drawn = re.search(r"<!-- memories -->\n(.*?)<!-- -->", ARCHITECTURE.read_text(), re.DOTALL)
    rows = sorted(
        f"| {m.name} | `{_file(m.where)}` | {m.key} | {m.bound} | {m.fork} | {m.ends} |" for m in declared.values()
    )
    assert drawn is not None
    assert drawn.group(1).splitlines()[2:] == rows, "\n".join(rows)


def _file(variable: str) -> str:
    return variable.rpartition(".")[0].removeprefix("indextables.").replace(".", "/") + ".py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_finds_every_lock_open(declared):
    for memory in declared.values():
        with memory.lock:
            assert in_a_child(lambda lock=memory.lock: _can_take(lock)) == 0, memory.name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("again", [False, True])
def test_a_child_finds_the_lock_of_an_object_open(again):
    lock = process.Lock(again=again)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        assert in_a_child(lambda: _can_take(lock)) == 0
    finally:
        done.set()
        holder.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_can_load_a_module_that_a_thread_of_its_parent_was_loading(tmp_path, monkeypatch):
    """A fork waits for the thread, which here goes on once it is waited for."""
    (tmp_path / "slow_to_load.py").write_text("import builtins\nbuiltins.began.set()\nbuiltins.goes_on.wait()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.began", threading.Event(), raising=False)
    monkeypatch.setattr("builtins.goes_on", threading.Event(), raising=False)
    monkeypatch.setattr(process, "_pause", lambda _: builtins.goes_on.set())
    loads = threading.Thread(target=importlib.import_module, args=["slow_to_load"])
    loads.start()
    builtins.began.wait()
    try:
        assert in_a_child(lambda: importlib.import_module("slow_to_load") is not None) == 0
    finally:
        builtins.goes_on.set()
        loads.join()
        sys.modules.pop("slow_to_load", None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_within_the_loading_of_a_module_does_not_wait_for_itself(tmp_path, monkeypatch):
    (tmp_path / "forks.py").write_text("import builtins\nbuiltins.code = builtins.fork()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.fork", lambda: in_a_child(lambda: True), raising=False)
    monkeypatch.setattr("builtins.code", None, raising=False)
    monkeypatch.setattr(process, "_pause", lambda _: pytest.fail("the fork waited"))
    idle = threading.Event()
    other = threading.Thread(target=idle.wait)
    other.start()
    try:
        importlib.import_module("forks")
        assert builtins.code == 0
    finally:
        idle.set()
        other.join()
        sys.modules.pop("forks", None)


def _can_take(lock: process.Lock) -> bool:
    with lock:
        return True


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer of a process")
@pytest.mark.parametrize("again", [False, True])
def test_a_ctrl_c_leaves_no_lock_held(again):
    locks = [process.Lock(again=again) for _ in range(200)]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        for lock in locks:
            with pytest.raises(KeyboardInterrupt):
                _take_for_ever(lock)
    finally:
        signal.signal(signal.SIGVTALRM, before)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: [lock for lock in locks if not _is_open(lock)]).result() == []


def _take_for_ever(lock: process.Lock) -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005)
    while True:
        with lock:
            pass


def _is_open(lock: process.Lock) -> bool:
    held = lock._held
    return bool(held.acquire(blocking=False) and (held.release() or True))


def test_no_object_has_a_lock_that_a_forked_child_could_find_held():
    found = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if _LOCK.search(path.read_text())}
    assert found == {"process.py", *NOT_FORKED}


def test_a_process_that_forgets_everything_between_two_steps_gives_the_same_answers(tmp_path, forget_everything):
    assert _life(tmp_path / "forgets", forget_everything) == _life(tmp_path / "remembers", lambda: None)


def test_a_table_is_forgotten_with_those_below_it_and_no_other(tmp_path, forget_everything):
    tables = {name: _table(tmp_path / name) for name in ("a", "a/b", "ab")}
    for table in tables.values():
        table.append([{"n": 1, "m": "foo"}])
    told = [memory for memory in process.memories() if memory.forget is not None]
    assert {memory.name for memory in told} >= {"parsed log files", "verified heads"}
    assert all(memory.forget(str((tmp_path / "a").as_uri())) > 0 for memory in told if _is_about_logs(memory))
    assert all(memory.forget(str((tmp_path / "a").as_uri())) == 0 for memory in told)
    assert all(memory.forget(str((tmp_path / "ab").as_uri())) > 0 for memory in told if _is_about_logs(memory))
    assert [table.append([{"n": 2, "m": "bar"}]) for table in tables.values()] == [2, 2, 2]


def _is_about_logs(memory: process.Memory) -> bool:
    return memory.name in {"parsed log files", "verified heads"}


def _table(path: Path) -> indextables.Table:
    options = {"storage.fsync": "false", "cache.directory": str(path.parent / "cache"), "checkpoint.interval": "2"}
    return indextables.create(
        path, pa.schema([("n", pa.int64()), ("m", pa.string())]), indexing={"m": "text"}, options=options
    )


def _life(path: Path, between: Callable[[], None]) -> list[object]:
    """The answers of a table's life, with `between` done after each."""
    answers = []
    for answer in _steps(path):
        answers.append(answer)
        between()
    return answers


def _steps(path: Path) -> Iterator[object]:
    table = _table(path)
    yield table.append([{"n": 1, "m": "foo bar"}, {"n": 2, "m": "foo"}])
    yield table.search("foo")["n"].to_pylist()
    yield table.append([{"n": 3, "m": "bar"}])
    yield table.refresh().count("bar")
    yield len(table.merge_splits().versions)
    yield table.refresh().to_arrow(where="n > 1").to_pylist()
    yield table.overwrite([{"n": 4, "m": "baz"}])
    yield table.refresh().search("baz OR foo")["n"].to_pylist()
    yield indextables.open(path, version=1).to_arrow()["n"].to_pylist()
    yield table.verify().ok
