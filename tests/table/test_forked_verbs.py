"""A child that is forked after its parent has used every verb does the same, or is told in words; it never waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future

import pyarrow as pa
import pytest

import indextables
from indextables.ambient import SystemAmbient
from indextables.errors import ForkUnsafe

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

SCHEMA = pa.schema([("d", pa.string()), ("m", pa.string())])


def in_a_child(work: Callable[[], object]) -> int:
    """The exit code of a forked child: 0 if `work` is true, 1 if not, another number for an error or a hang."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(120)
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def full_life(path, **options):
    table = indextables.create(
        path, SCHEMA, partition_by=["d"], indexing={"m": "text"}, options={"storage.fsync": "false", **options}
    )
    for number in range(3):
        table.append([{"d": f"p{number}", "m": f"foo {number}"}])
    table.checkpoint()
    return table


@pytest.mark.slow
@pytest.mark.parametrize("state", ["avro", "json", "parquet"])
def test_a_child_writes_the_checkpoints_that_its_parent_would_write(tmp_path, state):
    table = full_life(tmp_path / "t", **{"state.format": state})
    table.append([{"d": None, "m": "ü\U0001f600 foo"}])
    assert in_a_child(lambda: table.checkpoint() == table.version) == 0
    indextables.invalidate_caches()
    again = indextables.open(tmp_path / "t")
    assert sorted(again.to_arrow()["m"].to_pylist()) == ["foo 0", "foo 1", "foo 2", "ü\U0001f600 foo"]
    assert again.verify().ok
    assert in_a_child(lambda: table.compact() is not None and table.verify().ok) == 0
    assert indextables.verify(str(tmp_path / "t")).ok


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb",
    [
        lambda t: t.append([{"d": "x", "m": "new"}]) is not None,
        lambda t: t.merge_splits() is not None,
        lambda t: t.overwrite([{"d": "x", "m": "new"}]) is not None,
        lambda t: t.search("foo").num_rows == 3,
        lambda t: t.to_arrow(where="d = 'p1'").num_rows == 1,
        lambda t: t.count() == 3,
        lambda t: t.purge(dry_run=True) is not None,
    ],
    ids=["append", "merge", "overwrite", "search", "scan", "count", "purge"],
)
def test_a_child_does_what_its_parent_did(tmp_path, verb):
    table = full_life(tmp_path / "t", **{"checkpoint.interval": "1"})
    table.search("foo")
    table.merge_splits()
    assert in_a_child(lambda: verb(table)) == 0


def test_a_child_is_told_that_select_was_run_before_the_fork(tmp_path):
    table = full_life(tmp_path / "t")
    assert table.sql("select count(*) as n from t").to_pylist() == [{"n": 3}]

    def refused() -> bool:
        with pytest.raises(ForkUnsafe, match="spawn"):
            table.sql("select count(*) as n from t")
        return table.search("foo").num_rows == 3

    assert in_a_child(refused) == 0
    assert table.sql("select count(*) as n from t").to_pylist() == [{"n": 3}]


class Parking(SystemAmbient):
    """Background work waits for ever while `is_parked`, and is done at once otherwise."""

    is_parked = True

    def submit(self, pool, call):
        done: Future = Future()
        if not self.is_parked:
            done.set_result(call())
        return done


def test_a_child_does_not_wait_for_the_background_work_of_its_parent(tmp_path):
    ambient = Parking()
    table = indextables.create(
        tmp_path / "t",
        SCHEMA,
        properties={"mergeOnWrite.enabled": "true", "mergeOnWrite.minSplits": "3", "checkpoint.async": "true"},
        options={"storage.fsync": "false", "checkpoint.interval": "3"},
        ambient=ambient,
    )
    for number in range(4):
        table.append([{"d": "p", "m": f"foo {number}"}])

    def cared_for() -> bool:
        ambient.is_parked = False
        table.append([{"d": "p", "m": "child"}])
        log = tmp_path / "t" / "_transaction_log"
        return table.refresh().files().num_rows == 1 and any("state" in path.name for path in log.iterdir())

    assert in_a_child(cared_for) == 0
    assert table.refresh().count() == 5
