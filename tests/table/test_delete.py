"""Rows are deleted: which go, what others did meanwhile, what the log and the history tell of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.store import CountingStore

import indextables
from indextables.errors import CommitConflict, MetadataChanged, QueryInvalid
from indextables.table.environment import open_env

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string()), ("day", pa.string())])
WORDS = ["alpha", "beta", "gamma", None]


def rows(ids, day="d0"):
    return [{"id": n, "word": WORDS[n % 4], "day": day} for n in ids]


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA, partition_by=["day"], indexing={"word": "text"})
    made.append(rows(range(20)))
    made.append(rows(range(20, 40), "d1"))
    return made


def ids(table, **more):
    return sorted(table.to_arrow(**more)["id"].to_pylist())


def seen_everywhere(table):
    """The ids of all rows, by every way to read them: they must agree."""
    fresh = indextables.open(table.url)
    found = ids(fresh)
    assert fresh.count() == len(found)
    assert fresh.sql("SELECT id FROM t ORDER BY id")["id"].to_pylist() == found
    assert sorted(fresh.search("*", limit=None)["id"].to_pylist()) == found
    words = sum(fresh.count(word) for word in WORDS if word)
    assert words == sum(n % 4 != 3 for n in found)
    return found


@pytest.mark.parametrize(
    ("where", "search", "gone"),
    [
        ("id = 7", None, [7]),
        ("id >= 18 AND id < 22", None, [18, 19, 20, 21]),
        ("word IS NULL", None, list(range(3, 40, 4))),
        ("word <> 'alpha'", None, [n for n in range(40) if n % 4 in (1, 2)]),
        ("day = 'd1'", None, list(range(20, 40))),
        (None, "beta", list(range(1, 40, 4))),
        ("day = 'd0'", "beta OR gamma", [n for n in range(20) if n % 4 in (1, 2)]),
        (None, None, list(range(40))),
        ("id > 1000", None, []),
    ],
)
def test_the_rows_that_are_asked_for_go_and_no_others(table, where, search, gone):
    before = table.version
    report = table.delete(where, search=search)
    assert report.deleted == len(gone)
    assert seen_everywhere(table) == [n for n in range(40) if n not in gone]
    assert table.version == before + bool(gone)
    assert report.version == (table.version if gone else None)


def test_rows_that_stay_keep_their_order(table):
    table.delete("id = 3")
    assert table.to_arrow()["id"].to_pylist() == [0, 1, 2, *range(4, 40)]
    table.delete("id = 25")
    assert indextables.open(table.url).to_arrow()["id"].to_pylist() == [0, 1, 2, *range(4, 25), *range(26, 40)]


def test_a_handle_of_an_older_version_still_shows_the_rows(table):
    old = indextables.open(table.url)
    then = old.count()
    table.delete("id < 30")
    assert old.count() == then
    assert ids(old) == list(range(40))
    assert old.delete("id < 35").deleted == 5, "a statement runs on the newest version"
    assert seen_everywhere(old) == list(range(35, 40))


def test_whole_files_go_without_being_opened(table):
    env = open_env(table.url, {})
    store = CountingStore(env.store)
    from indextables.env import Env
    from indextables.log.care import open_log
    from indextables.table.change.delete import delete

    log = open_log(Env(store, env.ambient, env.options))
    report = delete(log, where="day = 'd1' AND id >= 20")
    assert (report.deleted, report.removed_files, report.vectors, report.located_by) == (20, 1, 0, "files")
    assert not [call for call in store.calls if call.key.endswith(".split") and call.verb.startswith("get")]
    assert seen_everywhere(table) == list(range(20))


def test_a_file_that_lost_its_last_row_leaves_the_table(table):
    table.delete("id < 19")
    assert table.files().num_rows == 2
    report = table.delete("id = 19")
    assert (report.removed_files, report.vectors) == (1, 0)
    assert table.files().num_rows == 1
    assert seen_everywhere(table) == list(range(20, 40))


def test_a_large_vector_is_a_file_and_a_small_one_stands_in_the_log(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": range(20_000)}))
    table.delete("id % 7 = 0")
    assert list((tmp_path / "t").glob("deletion_vector_*.bin"))
    assert table.count() == sum(n % 7 != 0 for n in range(20_000))
    table.delete("id = 1")
    assert table.count(where="id < 10") == 7
    assert table.verify().findings == ()
    table.delete("id > 3")
    assert ids(table) == [2, 3]


def meanwhile(action):
    """A progress that lets somebody else commit once, after rows were found and before the commit."""
    done = []

    def progress(step):
        if step.what == "located" and not done:
            done.append(step)
            action()

    return progress


def vectors_told(table, version):
    """The vectors of the only `add` and `remove` of a version."""
    log = Path(urlsplit(table.url).path) / "_transaction_log"
    lines = gzip.decompress((log / f"{version:020d}.json").read_bytes()).splitlines()
    actions = [json.loads(line) for line in lines]
    return {kind: told[kind].get("deletionVector") for told in actions for kind in ("add", "remove") if kind in told}


def test_deletes_of_other_rows_of_the_same_file_are_united(table):
    other = indextables.open(table.url)
    report = table.delete("id IN (1, 2)", progress=meanwhile(lambda: other.delete("id IN (3, 4)")))
    assert (report.repairs, report.reruns) == (1, 0)
    assert seen_everywhere(table) == [0, *range(5, 40)]
    theirs, ours = vectors_told(table, report.version - 1), vectors_told(table, report.version)
    assert ours["remove"] == theirs["add"], "the entry that is replaced is the winner's"
    assert ours["add"]["cardinality"] == 4


def test_rows_that_somebody_else_deleted_meanwhile_are_not_counted_again(table):
    other = indextables.open(table.url)
    report = table.delete("id < 4", progress=meanwhile(lambda: other.delete("id IN (2, 3, 9)")))
    assert report.deleted == 2
    assert table.history()["operationMetrics"].to_pylist()[0][0] == ("numDeletedRows", "2")
    assert seen_everywhere(table) == [4, 5, 6, 7, 8, *range(10, 40)]


def test_a_file_that_was_removed_meanwhile_is_left_out(table):
    other = indextables.open(table.url)
    report = table.delete("id IN (1, 25)", progress=meanwhile(lambda: other.drop_partitions("day = 'd1'")))
    assert report.deleted == 1
    assert seen_everywhere(table) == [0, *range(2, 20)]


def test_rows_appended_meanwhile_stay_unless_the_table_is_serializable(table, tmp_path):
    other = indextables.open(table.url)
    table.delete("id >= 38", progress=meanwhile(lambda: other.append(rows([100]))))
    assert seen_everywhere(table) == [*range(38), 100]
    strict = indextables.create(tmp_path / "s", SCHEMA, properties={"isolationLevel": "Serializable"})
    strict.append(rows(range(4)))
    second = indextables.open(strict.url)
    strict.delete("id >= 3", progress=meanwhile(lambda: second.append(rows([100]))))
    assert ids(strict) == [0, 1, 2]


def test_rows_that_came_back_by_a_restore_are_deleted_too(table):
    before = table.version
    table.delete("id IN (5, 6)")
    other = indextables.open(table.url)
    report = table.delete("id IN (5, 30)", progress=meanwhile(lambda: other.restore(version=before)))
    assert report.deleted == 2
    assert seen_everywhere(table) == [n for n in range(40) if n not in (5, 30)]


def test_rows_that_came_back_to_a_file_that_loses_others_are_deleted_too(table):
    before = table.version
    table.delete("id IN (5, 6)")
    other = indextables.open(table.url)
    report = table.delete("id IN (5, 7)", progress=meanwhile(lambda: other.restore(version=before)))
    assert report.deleted == 2
    assert seen_everywhere(table) == [n for n in range(40) if n not in (5, 7)]


def test_a_list_with_a_null_deletes_the_rows_that_it_names_and_no_whole_file(table):
    assert table.delete("id IN (7, NULL)").deleted == 1
    assert table.delete("id IN (100, NULL)").deleted == 0
    assert seen_everywhere(table) == [n for n in range(40) if n != 7]


def test_rows_that_a_merge_moved_meanwhile_are_deleted_where_they_are_now(table):
    table.append(rows(range(40, 60)))
    other = indextables.open(table.url)
    report = table.delete("id IN (1, 45)", progress=meanwhile(other.merge_splits))
    assert report.deleted == 2
    assert seen_everywhere(table) == [n for n in range(60) if n not in (1, 45)]


def test_an_overwrite_meanwhile_brings_rows_that_are_looked_at(table):
    other = indextables.open(table.url)
    report = table.delete("id >= 10", progress=meanwhile(lambda: other.overwrite(rows([1, 2, 50]))))
    assert seen_everywhere(table) == [1, 2]
    assert report.deleted == 1


def test_appends_prepared_before_the_first_delete_of_a_table_are_committed(table):
    other = indextables.open(table.url)
    other.append(rows([50]))
    table.delete("id = 0")
    other.append(rows([51]))
    assert seen_everywhere(table) == [*range(1, 40), 50, 51]


def test_a_batch_is_done_once(table):
    first = table.delete("id < 5", txn=("job", 1))
    table.append(rows([1]))
    again = table.delete("id < 5", txn=("job", 1))
    assert (first.deleted, again.deleted, again.version) == (5, 0, first.version)
    assert seen_everywhere(table) == [1, *range(5, 40)]
    assert table.delete("id > 1000", txn=("job", 2)).version == table.version, "the batch is remembered"


def test_an_expected_version_refuses_only_where_selected_rows_changed(table):
    read = table.version
    other = indextables.open(table.url)
    other.delete("id = 11")
    assert table.delete("id = 12", expect_version=read).deleted == 1
    with pytest.raises(CommitConflict):
        table.delete("id IN (11, 13)", expect_version=read)
    other.append(rows([200]))
    with pytest.raises(CommitConflict):
        table.delete("id >= 39", expect_version=read)
    assert seen_everywhere(table) == [n for n in range(40) if n not in (11, 12)] + [200]


def test_an_expected_version_without_selected_rows_refuses_if_some_came_since(table):
    """Nothing would be committed, so that no commit finds out: the newest version is asked."""
    read = table.version
    other = indextables.open(table.url)
    other.append(rows([200]))
    before = other.version
    for change in (
        lambda: table.delete("id >= 40", expect_version=read),
        lambda: table.update({"word": "'x'"}, "id >= 40", expect_version=read),
        lambda: table.merge([{"id": 200}], ["id"]).when_matched_delete().execute(expect_version=read),
    ):
        with pytest.raises(CommitConflict) as refused:
            change()
        assert (refused.value.details["winner"], refused.value.details["url"]) == (before, table.url)
    assert table.delete("id >= 300", expect_version=read).version is None
    assert table.delete("id >= 40", expect_version=before, dry_run=True).deleted == 1
    assert other.refresh().version == before


def test_an_expected_version_without_selected_rows_refuses_if_its_columns_are_gone(table):
    read = table.version
    other = indextables.open(table.url)
    other.rename_column("word", "words")
    for change in (
        lambda: table.delete("word = 'nothing'", expect_version=read),
        lambda: table.update({"word": "'x'"}, "id >= 40", expect_version=read),
    ):
        with pytest.raises(MetadataChanged):
            change()
    assert table.delete("id >= 40", expect_version=read).version is None


def test_a_dry_run_tells_and_writes_nothing(table):
    before = table.version
    report = table.delete("id < 5", dry_run=True)
    assert (report.deleted, report.version, report.dry_run) == (5, None, True)
    assert indextables.open(table.url).version == before
    assert seen_everywhere(table) == list(range(40))


def test_a_predicate_that_cannot_be_understood_writes_nothing(table):
    before = table.version
    for bad in ("nothing = 1", "id", "id = "):
        with pytest.raises(QueryInvalid):
            table.delete(bad)
    with pytest.raises(QueryInvalid):
        table.delete(search='"open')
    assert indextables.open(table.url).version == before


def test_time_travel_restore_and_merge_know_the_deleted_rows(table):
    before = table.version
    table.delete("id < 10")
    assert ids(table.at(version=before)) == list(range(40))
    table.restore(version=before)
    assert seen_everywhere(table) == list(range(40))
    table.delete("id < 10")
    table.append(rows(range(40, 50)))
    table.merge_splits()
    assert seen_everywhere(table) == list(range(10, 50))
    table.checkpoint()
    table.delete("id < 12")
    assert seen_everywhere(table) == list(range(12, 50))


PREDICATES = {
    "id < {0}": lambda row, a, b: row["id"] < a,
    "id BETWEEN {0} AND {1}": lambda row, a, b: a <= row["id"] <= b,
    "id % 3 = {0} % 3": lambda row, a, b: row["id"] % 3 == a % 3,
    "word = 'alpha'": lambda row, a, b: row["word"] == "alpha",
    "word <> 'alpha' AND id > {0}": lambda row, a, b: (
        row["word"] is not None and row["word"] != "alpha" and row["id"] > a
    ),
    "word IS NULL OR id = {0}": lambda row, a, b: row["word"] is None or row["id"] == a,
    "day = 'd1'": lambda row, a, b: row["day"] == "d1",
    "NOT (day = 'd1' AND id > {0})": lambda row, a, b: not (row["day"] == "d1" and row["id"] > a),
}
NUMBERS = st.integers(0, 60)
DELETES = st.tuples(st.sampled_from(sorted(PREDICATES)), NUMBERS, NUMBERS)
RIVALS = st.one_of(
    DELETES.map(lambda given: ("delete", given)),
    st.tuples(st.just("append"), st.lists(NUMBERS, min_size=1, max_size=5)),
    st.just(("merge", None)),
    st.just(("restore", None)),
    st.just(("overwrite", None)),
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(DELETES, st.one_of(st.none(), RIVALS)), min_size=1, max_size=4))
def test_any_deletes_beside_any_others_leave_what_one_after_the_other_leaves(tmp_path_factory, steps):
    """Under Serializable the rival came first, as the versions say: each step is checked against a plain loop."""
    folder = tmp_path_factory.mktemp("life")
    table = indextables.create(
        folder / "t", SCHEMA, indexing={"word": "text"}, properties={"isolationLevel": "Serializable"}
    )
    table.append(rows(range(20)))
    table.append(rows(range(20, 40), "d1"))
    truth, first = rows(range(20)) + rows(range(20, 40), "d1"), table.version
    for (form, a, b), rival in steps:

        def act(rival=rival):
            nonlocal truth
            truth = play(indextables.open(table.url), rival, truth, first)

        report = table.delete(form.format(a, b), progress=None if rival is None else meanwhile(act))
        if report.version is not None:
            # Without a version there was nothing to delete when it looked, whatever came then.
            truth = [row for row in truth if not PREDICATES[form](row, a, b)]
        fresh = indextables.open(table.url)
        assert sorted(map(repr, fresh.to_arrow().to_pylist())) == sorted(map(repr, truth))
        assert fresh.count() == len(truth)
        assert fresh.count("alpha") == sum(row["word"] == "alpha" for row in truth)


def play(other, rival, truth, first):
    what, given = rival
    if what == "delete":
        form, a, b = given
        other.delete(form.format(a, b))
        return [row for row in truth if not PREDICATES[form](row, a, b)]
    if what == "append":
        other.append(rows(given))
        return truth + rows(given)
    if what == "merge":
        other.merge_splits()
        return truth
    if what == "restore":
        other.restore(version=first)
        return rows(range(20)) + rows(range(20, 40), "d1")
    other.overwrite(rows([3, 50]))
    return rows([3, 50])
