"""A commit whose outcome was unknown is found by its token, or known never to come."""

from __future__ import annotations

import re

import pytest
from tests.table.merge_world import ids, log_of, table_of
from tests.table.unanswered import Unanswered

from indextables.embedded import Table
from indextables.env import Env
from indextables.errors import CommitStateUnknown, InvalidArgument
from indextables.log.care import open_log
from indextables.options import Options

QUICK = {"transaction.retry.baseDelayMs": "1", "transaction.retry.maxDelayMs": "2"}


@pytest.fixture
def table(tmp_path):
    return table_of(tmp_path / "t", [4])


def lost_append(table, *, lands):
    """What an append raises whose answer is lost; whether it is in the table only the test knows."""
    env = log_of(table).env
    log = open_log(Env(Unanswered(env.store, lands=lands, stays_away=True), env.ambient, Options(QUICK)))
    with pytest.raises(CommitStateUnknown) as caught:
        Table(log, log.snapshot()).append(table.to_arrow())
    return caught.value


def test_a_commit_that_landed_is_found_by_what_its_error_says(table):
    error = lost_append(table, lands=True)
    token, version = re.search(r"resolve\('([0-9a-f]+)', ([0-9]+)\)", str(error)).groups()
    assert (token, int(version)) == (error.token, error.version)
    assert table.resolve(token, int(version)) == 2
    assert ids(table.refresh().to_arrow()) == [0, 1, 2, 3] * 2


def test_nobody_can_tell_while_the_slot_is_empty_and_any_other_commit_settles_it(table):
    error = lost_append(table, lands=False)
    with pytest.raises(CommitStateUnknown, match="is not there yet"):
        table.resolve(error.token, error.version)
    table.append(table.to_arrow(limit=1))
    assert table.resolve(error.token, error.version) is None
    assert ids(table.to_arrow()) == [0, 1, 2, 3, 0]


@pytest.mark.parametrize(("token", "version"), [(None, 1), (b"00", 1), ("00", -1), ("00", "1"), ("00", 1.5)])
def test_what_no_commit_can_have_had_is_refused(table, token, version):
    with pytest.raises(InvalidArgument):
        table.resolve(token, version)
