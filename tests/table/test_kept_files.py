"""Whatever adds files looks for them before its put: purge may have taken them meanwhile."""

from __future__ import annotations

import msgspec
import pytest
from tests.table.operate_world import Faulty, new_table, rows, splits

import indextables
from indextables.embedded.table import Table
from indextables.errors import CommitError, CommitStateUnknown
from indextables.log.care.opening import open_log
from indextables.log.wire.names import version_key
from indextables.storage.store import PutAnswer

VERBS = {
    "append": lambda table: table.append(rows(9)),
    "append of a batch": lambda table: table.append(rows(9), txn=("app", 1)),
    "append of a new column": lambda table: table.append([{"id": 9, "d": "x", "new": 1}], merge_schema=True),
    "overwrite": lambda table: table.overwrite(rows(9)),
    "overwrite of a range": lambda table: table.overwrite(rows(9, d="x"), "d = 'x'"),
    "overwrite of partitions": lambda table: table.overwrite(rows(9, d="x"), partitions="dynamic"),
    "overwrite of the schema": lambda table: table.overwrite([{"id": 9, "d": "x", "new": 1}], overwrite_schema=True),
    "merge": lambda table: table.merge_splits(),
    "clustering": lambda table: table.merge_splits(cluster_by=["id"]),
    "reindex": lambda table: table.reindex(force=True),
}
"""Every verb that writes files and names them in a commit."""

PURGES = {
    "an hour": (1, {"older_than_hours": 0, "force": True}, {}),
    "an hour, by an option of the purger": (1, {"older_than_hours": 0}, {"purge.minRetentionHours": "0"}),
    "an hour, unchecked": (1, {"older_than_hours": 0}, {"purge.retentionCheckEnabled": "false"}),
    "an hour, by a property of the table": (1, {"older_than_hours": 0}, {}),
    "longer than an intent lives": (30, {"older_than_hours": 25}, {}),
    "longer than purge waits by default": (200, {}, {}),
}
"""How long the writer sleeps, and the purge that comes meanwhile, with its options."""

BY_PROPERTY = "an hour, by a property of the table"

BY_INTENT = {"merge", "clustering", "reindex"}
"""What holds purge off for as long as its intent lives."""


def table_of(env) -> Table:
    log = open_log(env)
    return Table(log, log.snapshot())


def state_of(table) -> list[dict[str, object]]:
    return table_of(table._log.env).to_arrow().sort_by("id").to_pylist()


def sleeper(table, clock, hours, meanwhile):
    """The table as one has it who falls asleep with its next question to the store after it has written files."""
    before, made = splits(table), []

    def when(method: str, _: str) -> bool:
        new = splits(table) - before
        if new and not made and method in {"get", "head", "exists", "list"}:
            made.append(new)
            clock.advance(hours=hours)
            meanwhile()
        return False

    return table_of(Faulty(table._log.env, when).env), made


@pytest.mark.slow
@pytest.mark.parametrize("purge", PURGES)
@pytest.mark.parametrize("verb", VERBS)
def test_no_row_is_lost_to_a_purge_while_a_writer_sleeps(verb, purge):
    properties = {"purge.minRetentionHours": "0"} if purge == BY_PROPERTY else {}
    table, clock = new_table(partitioned=True, **properties)
    for number in range(3):
        table.append(rows(number))
    before = state_of(table)
    clock.advance(days=1)
    hours, asked, options = PURGES[purge]
    reports = []

    def meanwhile() -> None:
        other = indextables.open(table.url, options=options, ambient=clock)
        reports.append(other.purge(**asked))

    slow, made = sleeper(table, clock, hours, meanwhile)
    try:
        VERBS[verb](slow)
    except CommitError as error:
        refused = str(error)
    else:
        refused = None
    assert made
    taken = {path for report in reports for path in report.files["path"].to_pylist()} & made[0]
    if verb not in BY_INTENT or hours > 24:
        assert taken, "this purge was to take files of the writer"
    if taken:
        assert refused is not None
        assert "gone" in refused
        assert "Nothing was committed" in refused
    after = state_of(table)
    if refused is not None or verb in BY_INTENT:
        assert after == before


def test_files_are_looked_for_before_every_put_of_a_version():
    """The first put has no answer and never arrives; a purge takes the files before the second, and does not tell."""
    table, clock = new_table(partitioned=True)
    table.append(rows(0))
    before, puts, reports = state_of(table), [], []

    purging = Faulty(table._log.env, lambda method, key: method == "put_if_absent" and key == version_key(2)).env

    class Unanswered(Faulty):
        def put_if_absent(self, key: str, data: bytes, **more: object) -> PutAnswer:
            if key != version_key(2):
                return self.inner.put_if_absent(key, data, **more)
            puts.append(key)
            if len(puts) > 1:
                return self.inner.put_if_absent(key, data, **more)
            clock.advance(hours=1)
            reports.append(table_of(purging).purge(older_than_hours=0, force=True))
            return PutAnswer.UNKNOWN

    slow = table_of(Unanswered(table._log.env, lambda *_: False).env)
    # The first put may still be on its way: nobody can say that it is not in the log.
    with pytest.raises(CommitStateUnknown, match="gone"):
        slow.append(rows(9))
    assert reports[0].count("split") == 1
    assert state_of(table) == before


class SlowPuts:
    """A store whose data files take an hour each."""

    def __init__(self, env, clock):
        self._inner, self._clock = env.store, clock
        self.env = msgspec.structs.replace(env, store=self)

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put_file(self, key, path):
        self._inner.put_file(key, path)
        self._clock.advance(hours=1)


def test_a_file_is_as_old_as_the_beginning_of_its_put():
    """Purge may have taken a file since then, however long the put took."""
    table, clock = new_table()
    began = clock.now_ms()
    table_of(SlowPuts(table._log.env, clock).env).append(rows(1))
    assert clock.now_ms() - began >= 3_600_000
    (told,) = table.refresh().files()["modificationTime"].to_pylist()
    assert told == began
