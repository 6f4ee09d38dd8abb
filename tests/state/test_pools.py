"""Thread pools: sized by options, shut down cleanly, never inherited across fork."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

import pytest

from indextables.ambient import SystemAmbient
from indextables.errors import StoreUnavailable
from indextables.options import Options
from indextables.table.environment import open_env, pool_sizes

PATIENCE_S = 120
"""How long a test waits for threads of a busy machine before it takes them for stuck."""


def running() -> set[threading.Thread]:
    """Ours that live; those of tables that earlier tests let go may end at any time, so look only at what is new."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("indextables-")}


def test_pools_have_the_sizes_of_the_options():
    sizes = pool_sizes(Options({"checkpoint.parallelism": 3, "state.read.parallelism": 5}, environ={}))
    assert (sizes["versions"], sizes["manifests"], sizes["checkpoint"]) == (3, 5, 2)
    before = running()
    ambient = SystemAmbient(sizes)
    together = threading.Barrier(3)
    assert list(ambient.map("versions", lambda _: together.wait(PATIENCE_S) >= 0, range(3))) == [True] * 3
    assert len(running() - before) == 3
    ambient.shutdown()


def test_a_table_works_with_the_threads_that_its_options_ask_for(tmp_path):
    options = {"state.read.parallelism": 5, "checkpoint.parallelism": 3}
    ambient = open_env(tmp_path / "a", options).ambient
    assert open_env(tmp_path / "b", options).ambient is ambient
    assert open_env(tmp_path / "a").ambient is not ambient
    for pool, size in (("manifests", 5), ("versions", 3)):
        before = running()
        together = threading.Barrier(size)
        assert (
            list(ambient.map(pool, lambda _, all_of=together: all_of.wait(PATIENCE_S) >= 0, range(size)))
            == [True] * size
        )
        assert len(running() - before) == size
    ambient.shutdown()


def test_a_parallel_read_without_an_answer_ends_in_a_typed_error(tmp_path):
    ambient = open_env(tmp_path, {"checkpoint.read.timeoutSeconds": 1}).ambient
    answer = threading.Event()
    with pytest.raises(StoreUnavailable):
        list(ambient.map("manifests", lambda _: answer.wait(PATIENCE_S), range(2)))
    answer.set()
    ambient.shutdown()


def test_results_come_in_order_and_the_first_error_is_raised():
    ambient = SystemAmbient()
    assert list(ambient.map("manifests", lambda item: item * 2, range(50))) == [item * 2 for item in range(50)]

    def fail(item: int) -> int:
        if item >= 3:
            raise ValueError(item)
        return item

    with pytest.raises(ValueError, match="3"):
        list(ambient.map("manifests", fail, range(20)))
    ambient.shutdown()


def test_a_task_of_a_pool_may_use_the_pools():
    ambient = SystemAmbient({"checkpoint": 1})
    future = ambient.submit("checkpoint", lambda: list(ambient.map("checkpoint", str, range(10))))
    assert future.result(PATIENCE_S) == [str(item) for item in range(10)]
    ambient.shutdown()


def test_no_thread_starts_before_it_is_needed_and_none_is_left_after_shutdown():
    before = running()
    ambient = SystemAmbient()
    assert list(ambient.map("manifests", str, [1])) == ["1"]
    assert not running() - before
    list(ambient.map("manifests", str, range(10)))
    assert running() - before
    ambient.shutdown()
    assert not running() - before
    assert list(ambient.map("manifests", str, range(3))) == ["0", "1", "2"]
    ambient.shutdown()


def test_an_ambient_travels_without_its_threads():
    ambient = SystemAmbient({"versions": 7})
    list(ambient.map("versions", str, range(10)))
    copy = pickle.loads(pickle.dumps(ambient))  # noqa: S301 - our own bytes
    assert list(copy.map("versions", str, range(3))) == ["0", "1", "2"]
    copy.shutdown()
    ambient.shutdown()


@pytest.mark.parametrize("background", ["true", "false"])
def test_a_commit_when_the_interpreter_ends_writes_its_checkpoint_all_the_same(tmp_path, background):
    """Programs write what they still hold in `atexit`, when Python starts no threads any more."""
    script = f"""
import atexit
from tests.log.commits import add, new_table
from tests.world.commits import append

log = new_table(tmp_path, checkpoint__interval=3, checkpoint__async={background!r})
append(log, [add("a")])
atexit.register(lambda: print(append(log, [add("b")]).version, [ref.version for ref in log.states()]))
"""
    program = f"from pathlib import Path; tmp_path = Path({str(tmp_path / 't')!r})\n{script}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("2 [2]\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_gets_pools_of_its_own():
    ambient = SystemAmbient()
    list(ambient.map("manifests", str, range(10)))
    child = os.fork()
    if child == 0:
        try:
            fine = list(ambient.map("manifests", str, range(10))) == [str(item) for item in range(10)]
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    ambient.shutdown()


AFTER_MAIN = """
import sys, threading, indextables
from tests.table.merge_world import SCHEMA, row

table = indextables.create(sys.argv[1], SCHEMA, indexing={"message": "text"})
table.append([row(0)])

def work():
    threading.main_thread().join()
    for number in range(1, 25):
        table.append([row(number)])
    print(table.count(), flush=True)

threading.Thread(target=work).start()
"""


def test_a_thread_that_outlives_the_main_one_appends_as_before(tmp_path):
    """Idle threads of a pool end it for everybody once the main thread has ended."""
    program = [sys.executable, "-c", AFTER_MAIN, str(tmp_path / "t")]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr, done.returncode) == ("25\n", "", 0)
