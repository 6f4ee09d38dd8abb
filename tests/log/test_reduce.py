"""A reduced run replays to what the whole run replays to, however the log is cut into runs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.logs import add, remove
from tests.log.test_replay import LOGS, assert_same, contents

from indextables.errors import LogCorrupt
from indextables.log.read.folding import replay
from indextables.log.read.reduce import dump_run, load_run, reduce_versions
from indextables.log.wire.actions import MergeSkip


def cut(versions, places):
    """Runs of neighbouring versions."""
    bounds = sorted({0, len(versions), *(place % (len(versions) + 1) for place in places)})
    return [versions[start:end] for start, end in pairwise(bounds)]


@pytest.mark.slow
@given(LOGS, st.lists(st.integers(0, 6), max_size=4), st.integers(0, 3))
def test_reduced_runs_replay_to_the_same_table(log, places, checkpoint):
    versions = contents(log)
    whole = replay(None, versions)
    runs = [load_run(dump_run(reduce_versions(run))) for run in cut(versions, places)]
    assert_same(replay(None, [content for run in runs for content in run]), whole)
    split = min(checkpoint, len(versions) - 1)
    base = replay(None, versions[: split + 1])
    tail = [content for run in cut(versions[split + 1 :], places) for content in reduce_versions(run)]
    assert_same(replay(base, tail), whole)


def test_what_a_run_overtakes_does_not_travel():
    log = [[], *([add("a", size=size)] for size in (1, 2, 3)), [remove("a")], [remove("b")], [remove("b")]]
    run = reduce_versions(contents(log))
    assert [content.version for content in run] == list(range(7))
    assert sum(content.adds.num_rows for content in run) == 1
    assert [content.removes.num_rows for content in run] == [0, 0, 0, 0, 1, 0, 1]


def test_a_skip_ends_where_it_ended_before():
    skip = MergeSkip("a", 5, "r", "merge")
    log = [[add("a")], [skip], [remove("a")], [add("a")], [remove("a"), add("a", size=7)]]
    versions = contents(log)
    for places in ([], [1], [2], [3], [1, 3], [2, 4]):
        tail = [content for run in cut(versions, places) for content in reduce_versions(run)]
        assert replay(None, tail).skips == replay(None, versions).skips == {}


@pytest.mark.parametrize("data", [b"", b"\x93\x90\xc4\x00\xc4\x00", b"\x93\x90\xc4\x03abc\xc4\x00", b"nonsense"])
def test_bytes_that_are_no_run_are_told(data):
    with pytest.raises(LogCorrupt, match="not a run of versions"):
        load_run(data)
