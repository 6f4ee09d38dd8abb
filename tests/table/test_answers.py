"""One attempt per partition is committed, whatever answers get lost, doubled, mixed up or come late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import InvariantViolated
from indextables.log.wire.actions import Add
from indextables.table.writing.answers import Answer, accepted, heard


def answer(partition, attempt=0, files=1, write="w"):
    paths = [f"{write}-{partition}-{attempt}-{n}" for n in range(files)]
    return Answer(write, partition, attempt, [Add(path, {}, 1, 0, dataChange=True) for path in paths])


def paths(adds):
    return [add.path for add in adds]


ATTEMPTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=6)


@pytest.mark.slow
@given(ATTEMPTS, st.randoms(use_true_random=False), st.integers(0, 3))
def test_files_of_exactly_one_attempt_per_partition_are_accepted(attempts, random, files):
    answers = [answer(partition, attempt, files) for partition, tried in enumerate(attempts) for attempt in tried]
    random.shuffle(answers)
    took = paths(accepted("w", answers))
    chosen = {tuple(path.split("-")[1:3]) for path in took}
    assert len(took) == len(set(took)) == files * len(attempts)
    if files:
        assert sorted(int(partition) for partition, _ in chosen) == list(range(len(attempts)))
    assert set(took) <= set(paths(heard("w", answers)))


@given(st.integers(2, 6), st.data())
def test_an_answer_that_is_lost_is_noticed(partitions, data):
    lost = data.draw(st.integers(0, partitions - 2))
    answers = [answer(n) for n in range(partitions) if n != lost]
    with pytest.raises(InvariantViolated, match=str(lost)):
        accepted("w", answers)
    with pytest.raises(InvariantViolated, match="not answered"):
        accepted("w", [*answers, None])


def test_an_answer_of_another_write_is_refused():
    with pytest.raises(InvariantViolated, match="arrived at the commit"):
        accepted("w", [answer(0), answer(1, write="older")])
    assert paths(heard("w", [answer(0), answer(1, write="older"), None])) == ["w-0-0-0"]


def test_one_file_from_two_partitions_is_refused():
    one = answer(0)
    with pytest.raises(InvariantViolated, match="same file"):
        accepted("w", [one, Answer("w", 1, 0, one.adds)])


def test_no_task_at_all_wrote_nothing():
    assert accepted("w", []) == []
