"""Tables without `parquetSplit` log paths as they are on disk: one rule for all that reads, writes and deletes."""

from __future__ import annotations

import pytest
from tests.state.logs import SCHEMA_JSON, environment

from indextables.errors import PathEscape
from indextables.log.care.describe import describe_state
from indextables.log.care.opening import open_log
from indextables.log.care.repair import repair_log
from indextables.log.care.schedule import checkpoint
from indextables.log.care.verifying import verify
from indextables.log.checkpoint.read import read_state
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Add, MergeSkip, Metadata, Protocol, Remove
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import version_key
from indextables.log.wire.outcome import Committed, Conflicted
from indextables.log.wire.paths import PathRule
from indextables.log.wire.protocol import new_table_protocol, path_rule, upgraded
from indextables.table.maintenance.purge.verb import purge
from indextables.table.requests import Purge
from indextables.table.running import Threads
from indextables.table.writing.keys import data_keys

NAMES = [
    "region=a%2Fb/part-1.split",
    "region=a%3Ab/part-2.split",
    "region=a%20b/part-3.split",
    "region=a b/part-4.split",
    "region=a%2525/part-5.split",
    "region=plain/part-6.split",
    "part-7%41.split",
]
GONE = "region=x%2Fy/part-8.split"


def table(protocol, logged, **options):
    """A table of three versions: all files, one of which the last version removes."""
    env = environment(options)
    metadata = Metadata(id="t", schemaString=SCHEMA_JSON, partitionColumns=["region"])
    adds = [
        Add(path, {"region": path.split("/")[0][7:]}, 4, 1, dataChange=True) for path in map(logged, [*NAMES, GONE])
    ]
    skip = MergeSkip(logged(NAMES[0]), 1, "damaged", "merge")
    remove = Remove(logged(GONE), dataChange=True, deletionTimestamp=1)
    for version, actions in enumerate([[protocol, metadata], adds, [remove, skip]]):
        env.store.put(version_key(version), encode_version(actions, compress=False))
    for name in NAMES:
        env.store.put(name, b"rows")
    return env


FOREIGN = Protocol(4, 4)
OLDER = Protocol(2, 2)
OURS = new_table_protocol()


@pytest.mark.parametrize("protocol", [FOREIGN, OLDER, OURS], ids=["foreign", "older", "ours"])
@pytest.mark.parametrize("plainly", [False, True])
def test_every_name_means_the_file_that_it_is_on_disk(protocol, plainly):
    rule = path_rule(protocol)
    assert rule is (PathRule.ENCODED if protocol is OURS else PathRule.ON_DISK)
    env = table(protocol, rule.logged, **{"transaction.useOptimized": str(not plainly).lower()})
    state = open_log(env).snapshot().state
    assert sorted(state.files["path"].to_pylist()) == sorted(map(rule.logged, NAMES))
    assert sorted(data_keys(state.files, env.store.url, rule).to_pylist()) == sorted(NAMES)
    assert list(state.skips) == [rule.logged(NAMES[0])]
    assert verify(env, data_files=True).findings == ()


@pytest.mark.parametrize("state_format", ["avro", "json", "parquet"])
@pytest.mark.parametrize("protocol", [OLDER, OURS], ids=["older", "ours"])
def test_states_that_we_write_keep_the_names_of_the_table(protocol, state_format):
    rule = path_rule(protocol)
    env = table(protocol, rule.logged, **{"state.format": state_format})
    checkpoint(env)
    removed = Remove(rule.logged(NAMES[1]), dataChange=True, deletionTimestamp=1)
    again = Add(rule.logged(NAMES[2]), {"region": "z"}, 4, 1, dataChange=True)
    newest = open_log(env).latest_version() + 1
    env.store.put(version_key(newest), encode_version([removed, again], compress=False))
    ref = checkpoint(env)
    wanted = sorted(map(rule.logged, [NAMES[0], *NAMES[2:]]))
    assert sorted(read_state(env, ref).files["path"].to_pylist()) == wanted
    assert sorted(open_log(env).snapshot().files["path"].to_pylist()) == wanted
    assert list(open_log(env).snapshot().skips) == [rule.logged(NAMES[0])]


@pytest.mark.parametrize("protocol", [FOREIGN, OLDER, OURS], ids=["foreign", "older", "ours"])
def test_a_repaired_log_misses_no_file_that_is_there(protocol):
    rule = path_rule(protocol)
    env = table(protocol, rule.logged)
    env.store.delete_many([NAMES[3]])
    target = environment()
    report = repair_log(env, target)
    assert report.missing == (rule.logged(NAMES[3]),)
    assert report.num_files == len(NAMES) - 1
    kept = open_log(target).snapshot()
    assert sorted(kept.files["path"].to_pylist()) == sorted(rule.logged(n) for n in NAMES if n != NAMES[3])


@pytest.mark.parametrize("protocol", [OLDER, OURS], ids=["older", "ours"])
def test_no_live_file_is_an_orphan(protocol):
    """Names that purge knows, in folders that only the right rule finds."""
    rule = path_rule(protocol)
    names = [f"region={text}/splits/split-{number:032x}.split" for number, text in enumerate(["a%2Fb", "a%3Ab", "a b"])]
    env = environment()
    metadata = Metadata(id="t", schemaString=SCHEMA_JSON, partitionColumns=["region"])
    adds = [Add(rule.logged(name), {"region": "x"}, 4, 1, dataChange=True) for name in names]
    for version, actions in enumerate([[protocol, metadata], adds]):
        env.store.put(version_key(version), encode_version(actions, compress=False))
    orphan = f"region=a%2Fb/splits/split-{99:032x}.split"
    for name in [*names, orphan]:
        env.store.put(name, b"rows")
    env.ambient.advance(days=400)
    log = open_log(env)
    report = purge(log, Purge(older_than_hours=24), runner=Threads(env, "maintenance"))
    assert [path for path in report.files["path"].to_pylist() if path.endswith(".split")] == [orphan]
    assert {meta.key for meta in env.store.list_from("") if meta.key.endswith(".split")} == set(names)


def removal(log, path):
    """A transaction that takes one file out of the table, as a writer that read it prepares it."""
    removed = Remove(path, dataChange=True, deletionTimestamp=2)
    return Transaction(log, operation="DELETE", snapshot=log.snapshot()).remove([removed]).read_files([path])


UPGRADED = upgraded(OLDER, 4, 4)


@pytest.mark.parametrize("many", [False, True], ids=["few lines", "many lines"])
@pytest.mark.parametrize("protocol", [OLDER, UPGRADED, OURS], ids=["older", "upgraded", "ours"])
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_the_winner_of_a_race_took_is_not_taken_twice(protocol, name, many):
    rule = path_rule(protocol)
    env = table(protocol, rule.logged)
    slow = removal(open_log(env), rule.logged(name))
    winner = removal(open_log(env), rule.logged(name))
    if many:
        winner.add([Add(f"part-{number:0200}.split", {}, 1, 1, dataChange=True) for number in range(400)])
    assert isinstance(winner.commit(), Committed)
    outcome = slow.commit()
    assert isinstance(outcome, Conflicted)
    assert rule.logged(name) in outcome.reason


@pytest.mark.parametrize("protocol", [OLDER, UPGRADED], ids=["older", "upgraded"])
def test_a_file_that_another_rule_would_give_the_same_name_is_another_file(protocol):
    env = table(protocol, PathRule.ON_DISK.logged)
    slow = removal(open_log(env), "part-7%41.split")
    winner = Transaction(open_log(env), operation="WRITE").add([Add("part-7A.split", {}, 1, 1, dataChange=True)])
    assert isinstance(winner.commit(), Committed)
    assert isinstance(slow.commit(), Committed)
    files = open_log(env).snapshot().files["path"].to_pylist()
    assert "part-7A.split" in files
    assert "part-7%41.split" not in files
    assert verify(env).findings == ()


@pytest.mark.parametrize("state_format", ["avro", "json"])
def test_a_file_that_came_back_after_a_checkpoint_has_no_skip_by_any_name(state_format):
    env = table(OLDER, PathRule.ON_DISK.logged, **{"state.format": state_format})
    checkpoint(env)
    assert [skip.path for skip in describe_state(env).skips] == [NAMES[0]]
    assert isinstance(removal(open_log(env), NAMES[0]).commit(), Committed)
    assert describe_state(env).skips == ()


@pytest.mark.parametrize("path", ["../x", "_transaction_log/x", "%2e%2e/x", "a%2F..%2Fb/x"])
def test_names_on_disk_lead_nowhere_else_either(path):
    with pytest.raises(PathEscape):
        open_log(table(FOREIGN, lambda name: path if name == NAMES[0] else name)).snapshot().files  # noqa: B018 - it loads
