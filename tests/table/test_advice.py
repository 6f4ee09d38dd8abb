"""What an operator is told: advice that its command solves, who holds the table, and which file is the matter."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.table.merge_world import delete_rows, ids, log_of, table_of
from tests.table.operate_world import keys, new_table, orphan, rows
from tests.world.commits import append as log_append

import indextables
from indextables.errors import CommitConflict, InvalidArgument, SplitCorrupt, VersionExpired
from indextables.log.care.leasing import acquire, leases
from indextables.log.wire.actions import Add
from indextables.sql.local.session import LocalSession
from indextables.table.maintenance.purge.verb import LEASE
from indextables.table.maintenance.repairing import invalidate_caches

TEXT = pa.schema([("id", pa.int64()), ("m", pa.string())])


def codes(table) -> list[str]:
    return [line.code for line in table.refresh().health().advice]


def paste(command: str) -> None:
    """As into a shell."""
    LocalSession({}).run(command)


def lying(table, number: int, d: str) -> Add:
    """A file of the store that is not a split: what is advised does not depend on what is in it."""
    path = f"d={d}/splits/split-{number:032x}.split"
    table._log.env.store.put(path, b"rows")
    return Add(path, {"d": d}, 4, 1, dataChange=True, numRecords=10)


def damaged(tmp_path, damage):
    """Three splits, of which the second is not as it was written; and its path."""
    options = {"cache.directory": str(tmp_path / "cache")}
    table = indextables.create(tmp_path / "t", TEXT, indexing={"m": "text"}, options=options)
    for number in range(3):
        table.append(pa.table({"id": [number], "m": ["hello world"]}))
    path = table.files()["path"][1].as_py()
    damage(tmp_path / "t" / path)
    return table, path


def cut_in_half(file) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


# Advice


def test_small_files_that_no_merge_would_take_are_not_advised_on():
    table, _ = new_table(partitioned=True)
    log_append(table._log, [lying(table, number, str(number)) for number in range(60)])
    found = table.refresh().health()
    assert (found.small_files, found.mergeable_files) == (60, 0)
    assert "small-files" not in codes(table)
    log_append(table._log, [lying(table, 100 + number, "1") for number in range(60)])
    found = table.refresh().health()
    assert (found.small_files, found.mergeable_files) == (120, 61)
    assert "small-files" in codes(table)
    assert table.merge_splits(dry_run=True).plan.num_rows == 61


@pytest.mark.parametrize(
    ("counts", "kept", "verb"),
    [([10], "0.05", "MERGE SPLITS"), ([10, 10], "0.05", "MERGE SPLITS"), ([10], "1", "REINDEX")],
)
def test_deleted_rows_are_dropped_by_the_command_that_the_advice_names(tmp_path, counts, kept, verb):
    table = table_of(tmp_path / "t", counts, properties={"merge.maxDeletedRowsRatio": kept})
    delete_rows(log_of(table), {path: range(5) for path in table.files()["path"].to_pylist()})
    advice = {line.code: line.command for line in table.refresh().health().advice}
    assert advice["deleted-rows"].startswith(verb)
    before = ids(table.to_arrow(["id"]))
    paste(advice["deleted-rows"])
    table.refresh()
    assert "deleted-rows" not in codes(table)
    assert ids(table.to_arrow(["id"])) == before


def test_an_index_that_has_all_that_is_wanted_is_no_older_one(tmp_path):
    table = indextables.create(tmp_path / "t", TEXT, indexing={"m": "text"})
    table.append(pa.table({"id": [1], "m": ["x"]}))
    table.append(pa.table({"id": [2], "m": ["x"], "more": ["y"]}), merge_schema=True)
    assert table.health().index_coverage == 0.5
    table.restore(1)
    assert table.health().index_coverage == 1
    assert table.reindex().fresh == 1
    assert codes(table) == []


def test_a_checkpoint_whose_manifests_are_gone_is_advised_on_and_the_command_solves_it(tmp_path):
    table = indextables.create(tmp_path / "t", TEXT)
    table.append(pa.table({"id": [1], "m": ["x"]}))
    table.checkpoint()
    for manifest in (tmp_path / "t" / "_transaction_log" / "manifests").iterdir():
        manifest.unlink()
    invalidate_caches(tmp_path / "t")
    table = indextables.open(tmp_path / "t")
    (advice,) = table.health().advice
    assert advice.code == "checkpoint-damaged"
    assert "manifest" in advice.problem
    paste(advice.command)
    assert codes(table) == []


def test_an_estimate_of_orphans_is_not_made_of_the_first_files_alone():
    table, clock = new_table(partitioned=True)
    for number in range(2500):
        orphan(table, number, folder="d=0/")
    log_append(table._log, [lying(table, number, "1") for number in range(3000)])
    clock.advance(days=8)
    found = table.refresh().health()
    assert not found.orphans_exact
    assert 0 < found.orphans < 10_000


# Who holds it


def test_who_holds_a_table_and_until_when_is_told_wherever_that_stands_in_the_way():
    table, clock = new_table()
    table.append(rows(1))
    key = orphan(table, 1)
    clock.advance(days=8)
    lease = acquire(table._log.env, LEASE)
    (held,) = table.health().leases
    assert (held.name, held.holder) == (LEASE, lease.holder)
    assert held.until_ms == lease.modified_ms() + 900_000
    report = table.purge()
    assert lease.holder in report.reason
    assert "ends by itself at 2" in report.reason
    assert key in keys(table)
    with pytest.raises(CommitConflict, match="ends by itself at 2") as raised:
        table.restore(0)
    assert raised.value.details["holder"] == lease.holder
    lease.release()
    assert table.health().leases == []


def test_a_lease_that_nobody_renews_is_nobodys():
    table, clock = new_table()
    acquire(table._log.env, LEASE)
    clock.advance(hours=1)
    assert leases(table._log.env) == []


# Which file is the matter


@pytest.mark.parametrize("damage", [cut_in_half, lambda file: file.unlink()])
def test_a_split_that_cannot_be_warmed_is_named_and_the_others_are_warm(tmp_path, damage):
    table, path = damaged(tmp_path, damage)
    report = table.prewarm()
    assert list(report.failed) == [path]
    assert report.splits == 2


def test_an_index_is_warmed_without_a_look_at_deleted_rows(tmp_path):
    table = table_of(tmp_path / "t", [10], options={"cache.directory": str(tmp_path / "cache")})
    delete_rows(log_of(table), {path: [1] for path in table.files()["path"].to_pylist()}, as_file=True)
    for file in (tmp_path / "t").rglob("deletion_vector_*.bin"):
        file.unlink()
    report = table.refresh().prewarm()
    assert (report.splits, report.failed) == (1, {})


def test_a_search_of_a_split_that_was_cut_off_names_the_file_as_damaged(tmp_path):
    table, path = damaged(tmp_path, cut_in_half)
    with pytest.raises(SplitCorrupt, match=path):
        table.count("hello")


def test_a_split_that_is_gone_is_not_laid_to_a_purge_alone(tmp_path):
    table, path = damaged(tmp_path, lambda file: file.unlink())
    for read in (table.to_arrow, lambda: table.search("hello"), lambda: table.count("hello")):
        with pytest.raises(VersionExpired, match=r"purge was faster.*verify") as raised:
            read()
        assert path in {raised.value.details.get("path"), raised.value.details.get("key")}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT m FROM t WHERE textsearch(m, 'hello')",
        "SELECT m, _score FROM t WHERE textsearch(m, 'hello')",
        "SELECT m, textsearch(m, 'hello') FROM t",
    ],
)
def test_a_statement_that_searches_says_so_too_when_the_split_was_there_at_its_last_search(tmp_path, statement):
    table, path = damaged(tmp_path, lambda _: None)
    table.count("hello")
    (tmp_path / "t" / path).unlink()
    with pytest.raises(VersionExpired, match=r"purge was faster.*verify"):
        table.sql(statement)


# Arguments


@pytest.mark.parametrize("wrong", ["12", [1], object()])
def test_hours_are_numbers(wrong):
    table, _ = new_table()
    for call in (
        lambda: table.purge(older_than_hours=wrong, force=True),
        lambda: table.purge(tx_log_retention_hours=wrong, force=True),
        lambda: table.protect(wrong),
    ):
        with pytest.raises(InvalidArgument, match="number of hours"):
            call()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), True, -1, 0, 1e9])
def test_a_protection_lasts_for_some_hours(wrong):
    table, _ = new_table()
    with pytest.raises(InvalidArgument):
        table.protect(wrong)


@pytest.mark.parametrize("wrong", ["false", 0, None])
def test_what_must_not_happen_by_mistake_is_true_or_false(wrong):
    table, _ = new_table(partitioned=True)
    for call in (
        lambda: table.purge(force=wrong),
        lambda: table.purge(dry_run=wrong),
        lambda: table.drop_partitions("d = 'x'", dry_run=wrong),
        lambda: table.truncate_time_travel(dry_run=wrong),
        lambda: table.merge_splits(dry_run=wrong),
        lambda: table.reindex(force=wrong),
    ):
        with pytest.raises(InvalidArgument, match="true or false"):
            call()
    assert table.version == 0
