"""A merge commit whose put got no answer: files of a version that may be live are never deleted.

Other systems took such an answer for a conflict and deleted the files of the live snapshot.
"""

from __future__ import annotations

import re

import pytest
from tests.table.merge_world import ids, log_of, splits_in_store, table_of

from indextables.errors import CommitStateUnknown, StoreUnavailable
from indextables.log.env import LogEnv
from indextables.log.snapshot import Log
from indextables.options import Options
from indextables.storage.store import PutAnswer
from indextables.table.merge_splits import merge_splits
from indextables.table.running import Threads

SLOT = re.compile(r"_transaction_log/[0-9]{20}\.json")
QUICK = {"transaction.retry.baseDelayMs": "1", "transaction.retry.maxDelayMs": "2"}


class Unanswered:
    """A store behind a network that loses the answer to the next commit, and what follows it if asked to."""

    def __init__(self, inner, *, lands: bool, stays_away: bool) -> None:
        self._inner = inner
        self._lands = lands
        self._stays_away = stays_away
        self._lost: str | None = None

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put_if_absent(self, key, data, **more):
        if SLOT.fullmatch(key) is None or self._lost is not None:
            return self._inner.put_if_absent(key, data, **more)
        self._lost = key
        if self._lands:
            self._inner.put_if_absent(key, data, **more)
        return PutAnswer.UNKNOWN

    def get(self, key, **more):
        if self._stays_away and key == self._lost:
            raise StoreUnavailable(f"no answer to the read of {key}", key=key)
        return self._inner.get(key, **more)


@pytest.fixture
def table(tmp_path):
    return table_of(tmp_path / "t", [4] * 3)


def merge_through(table, **network):
    env = log_of(table).env
    behind = LogEnv(Unanswered(env.store, **network), env.ambient, Options(QUICK))
    return merge_splits(Log(behind), runner=Threads(behind))


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
