"""A merge commit whose put got no answer: files of a version that may be live are never deleted.

Other systems took such an answer for a conflict and deleted the files of the live snapshot.
"""

from __future__ import annotations

import pytest
from tests.table.merge_world import ids, log_of, splits_in_store, table_of
from tests.table.unanswered import Unanswered

from indextables.env import Env
from indextables.errors import CommitStateUnknown
from indextables.log.care.opening import open_log
from indextables.options import Options
from indextables.table.merge.verb import merge_splits
from indextables.table.requests import MergeSplits
from indextables.table.running import Threads

QUICK = {"transaction.retry.baseDelayMs": "1", "transaction.retry.maxDelayMs": "2"}


@pytest.fixture
def table(tmp_path):
    return table_of(tmp_path / "t", [4] * 3)


def merge_through(table, **network):
    env = log_of(table).env
    behind = Env(Unanswered(env.store, **network), env.ambient, Options(QUICK))
    return merge_splits(open_log(behind), MergeSplits(), runner=Threads(behind))


@pytest.mark.parametrize("lands", [True, False])
def test_a_lost_answer_is_found_out(table, lands):
    report = merge_through(table, lands=lands, stays_away=False)
    assert report.versions == [4]
    table.refresh()
    assert table.files().num_rows == 1
    assert ids(table.to_arrow()) == list(range(12))


@pytest.mark.parametrize("lands", [True, False])
def test_where_nobody_can_tell_nothing_is_deleted(table, lands):
    before = splits_in_store(table)
    with pytest.raises(CommitStateUnknown):
        merge_through(table, lands=lands, stays_away=True)
    assert len(splits_in_store(table) - before) == 1
    table.refresh()
    assert table.files().num_rows == (1 if lands else 3)
    assert ids(table.to_arrow()) == list(range(12))
    assert set(table.files()["path"].to_pylist()) <= splits_in_store(table)
