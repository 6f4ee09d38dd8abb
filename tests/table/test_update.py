"""Rows are updated: which change, to what, and what others did meanwhile."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.table.test_delete import meanwhile

import indextables
from indextables.errors import CommitConflict, ConstraintViolation, InvalidArgument, QueryInvalid, SchemaMismatch

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32()), ("word", pa.string())])


def rows(ids):
    return [{"id": n, "n": n % 5 if n % 7 else None, "word": f"w{n % 3} common"} for n in ids]


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA, indexing={"word": "text"})
    made.append(rows(range(10)))
    made.append(rows(range(10, 20)))
    return made


def held(table):
    return sorted(indextables.open(table.url).to_arrow().to_pylist(), key=lambda row: (row["id"], row["word"] or ""))


def test_values_are_computed_from_the_rows_as_they_were(table):
    report = table.update(
        {"n": "coalesce(n, 0) + 1", "word": "concat(word, ' ', cast(n as string))"}, "id BETWEEN 8 AND 11"
    )
    assert (report.updated, report.version) == (4, table.version)
    expected = rows(range(20))
    for row in expected:
        if 8 <= row["id"] <= 11:
            old = row["n"]
            row["n"] = (old or 0) + 1
            row["word"] = None if old is None else f"{row['word']} {old}"
    assert held(table) == expected
    assert table.count("common") == sum("common" in (row["word"] or "") for row in expected)


def test_rows_that_a_search_finds_are_updated_and_found_by_their_new_words(table):
    assert table.update({"word": "'changed'", "n": 7}, search="w1").updated == 7
    assert (table.count("w1"), table.count("changed")) == (0, 7)
    assert table.count(where="n = 7") == 7


def test_a_partition_column_that_is_updated_moves_the_row(tmp_path):
    table = indextables.create(tmp_path / "p", SCHEMA, partition_by=["word"])
    table.append(rows(range(6)))
    table.update({"word": "'elsewhere'"}, "id = 2")
    assert [row["id"] for row in table.to_arrow(where="word = 'elsewhere'").to_pylist()] == [2]
    assert table.count() == 6


def test_updates_of_other_rows_of_one_file_are_united(table):
    other = indextables.open(table.url)
    report = table.update({"n": 100}, "id = 1", progress=meanwhile(lambda: other.update({"n": 200}, "id = 2")))
    assert (report.repairs, report.reruns) == (1, 0)
    assert [row["n"] for row in held(table)[1:3]] == [100, 200]
    assert len(held(table)) == 20


def test_two_updates_of_one_row_come_one_after_the_other(table):
    other = indextables.open(table.url)
    report = table.update({"n": "n + 10"}, "id = 1", progress=meanwhile(lambda: other.update({"n": "n * 3"}, "id = 1")))
    assert report.reruns == 1
    assert held(table)[1]["n"] == 13


def test_a_row_that_another_update_brought_into_the_predicate_is_updated_too(table):
    other = indextables.open(table.url)
    table.update({"word": "'seen'"}, "n = 99 OR id = 3", progress=meanwhile(lambda: other.update({"n": 99}, "id = 5")))
    assert [row["id"] for row in held(table) if row["word"] == "seen"] == [3, 5]


def test_a_row_that_was_deleted_meanwhile_stays_deleted(table):
    other = indextables.open(table.url)
    report = table.update({"n": 1}, "id IN (4, 5)", progress=meanwhile(lambda: other.delete("id = 4")))
    assert report.updated == 1
    assert [row["id"] for row in held(table)] == [n for n in range(20) if n != 4]


def test_rows_that_a_merge_moved_meanwhile_are_updated_once(table):
    other = indextables.open(table.url)
    table.update({"n": 50}, "id IN (1, 15)", progress=meanwhile(other.merge_splits))
    assert [row["id"] for row in held(table) if row["n"] == 50] == [1, 15]
    assert len(held(table)) == 20


@pytest.mark.parametrize(
    "change",
    [
        lambda other: other.rename_column("word", "words"),
        lambda other: other.drop_columns("word"),
        lambda other: other.alter_column("word", default="'none'"),
        lambda other: other.add_constraint("sane", "id >= 0"),
        lambda other: other.alter_column("n", type="bigint"),
    ],
    ids=["rename", "drop", "default", "constraint", "widen"],
)
def test_a_change_of_the_table_that_asks_for_a_feature_is_got_over(table, change):
    other = indextables.open(table.url)
    report = table.update({"n": 50}, "id = 3", progress=meanwhile(lambda: change(other)))
    assert (report.updated, report.reruns) == (1, 1)
    assert table.count(where="n = 50") == 1
    assert table.count() == 20


def test_a_constraint_that_comes_meanwhile_holds(table):
    other = indextables.open(table.url)
    with pytest.raises(ConstraintViolation):
        table.update(
            {"n": -1}, "id = 3", progress=meanwhile(lambda: other.add_constraint("sane", "n >= 0 OR n IS NULL"))
        )
    assert indextables.open(table.url).count(where="n < 0") == 0


def test_an_expected_version_refuses_an_update_of_rows_that_changed(table):
    read = table.version
    other = indextables.open(table.url)
    other.update({"n": 1}, "id = 3")
    with pytest.raises(CommitConflict):
        table.update({"n": 2}, "id = 3", expect_version=read)
    assert table.update({"n": 2}, "id = 4", expect_version=read).updated == 1


@pytest.mark.parametrize(
    ("values", "where", "error"),
    [
        ({"nothing": "1"}, None, InvalidArgument),
        ({"n": 1, "N": 2}, None, InvalidArgument),
        ({"n": "'text'"}, None, InvalidArgument),
        ({"n": "id * 10000000000"}, "id = 9", InvalidArgument),
        ({"n": 2.5}, None, SchemaMismatch),
        ({"n": {"a": 1}}, None, SchemaMismatch),
        ({"n": "1 +"}, None, QueryInvalid),
        ({"n": "10 / (id - 3)"}, None, QueryInvalid),
        ({"id": "NULL"}, "id = 3", SchemaMismatch),
        ({}, None, InvalidArgument),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(table, values, where, error):
    before, files = table.version, sorted(table.files()["path"].to_pylist())
    with pytest.raises(error):
        table.update(values, where)
    fresh = indextables.open(table.url)
    assert (fresh.version, sorted(fresh.files()["path"].to_pylist())) == (before, files)
    assert held(table) == rows(range(20))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("n + 2147483647", "the new value of n cannot be computed: a result of + is too large for its type"),
        ("cast(word as int)", "the new value of n cannot be computed: 'w"),
        ("n / 0", "the new value of n cannot be computed: division by zero"),
    ],
)
def test_a_value_that_cannot_be_computed_is_told_with_its_column(table, value, words):
    before = table.version
    with pytest.raises(QueryInvalid) as caught:
        table.update({"n": value}, "n > 0")
    assert str(caught.value).startswith(words)
    assert table.refresh().version == before


FLOATS = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("g", pa.float64())])
INFINITE, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("number", [1e300, -1e300, 1e-300, 0.1, 16777217.0])
def test_a_double_that_a_float_column_would_change_is_refused(tmp_path, number):
    table = indextables.create(tmp_path / "t", FLOATS)
    table.append([{"id": 1, "f": 1.5, "g": number}])
    source = pa.table({"id": [1, 2], "f": [0.5, number], "g": [0.5, 0.5]})
    ways = {
        "a column": lambda: table.update({"f": "g"}),
        "a literal": lambda: table.update({"f": f"{number:.17e}"}),
        "an upsert": lambda: table.upsert(source, "id"),
        "all columns": lambda: table.merge(source, "t.id = s.id - 1").when_matched_update_all().execute(),
        "an insert": lambda: table.merge(source, "t.id = s.id").when_not_matched_insert_all().execute(),
        "a clause": lambda: table.merge(source, "t.id = s.id - 1").when_matched_update({"f": "s.f"}).execute(),
    }
    for way, change in ways.items():
        with pytest.raises(InvalidArgument, match="column f"):
            change()
        assert indextables.open(table.url).to_arrow()["f"].to_pylist() == [1.5], way
    assert indextables.open(table.url).version == 1


@pytest.mark.parametrize("text", ["1e400", "-1e400", "g + 1E+309"])
def test_a_number_that_no_double_holds_is_refused(tmp_path, text):
    table = indextables.create(tmp_path / "t", FLOATS)
    table.append([{"id": 1, "g": 1.5}])
    with pytest.raises(QueryInvalid, match="larger than every double"):
        table.update({"g": text})
    table.update({"g": "cast('Infinity' as double)"}, "g < 1e400")
    assert indextables.open(table.url).to_arrow()["g"].to_pylist() == [INFINITE]


def test_a_double_that_a_float_column_holds_is_written_as_it_is(tmp_path):
    table = indextables.create(tmp_path / "t", FLOATS)
    numbers = [0.5, -0.0, 2.0**-149, 16777216.0, INFINITE, -INFINITE, NAN, None]
    table.append([{"id": place, "g": number} for place, number in enumerate(numbers)])
    table.update({"f": "g"})
    assert repr(table.to_arrow().sort_by("id")["f"].to_pylist()) == repr(numbers)
    table.update({"f": "cast(g + 0.1 as float)"}, "id = 0")
    assert table.to_arrow(where="id = 0")["f"].to_pylist() == [pytest.approx(0.6)]
    table.update({"f": "0.1"}, "id = 0")
    assert table.to_arrow(where="id = 0")["f"].to_pylist() == [pytest.approx(0.1)]


def test_a_batch_is_done_once_and_a_dry_run_writes_nothing(table):
    assert table.update({"n": "n + 1"}, "id = 1", txn=("job", 1)).updated == 1
    assert table.update({"n": "n + 1"}, "id = 1", txn=("job", 1)).updated == 0
    before = table.version
    assert table.update({"n": 0}, dry_run=True).updated == 20
    assert indextables.open(table.url).version == before
    assert held(table)[1]["n"] == 2


UPDATES = {
    ("n", "coalesce(n, 0) + {0}", "id % 3 = {1} % 3"): (
        lambda r, a, b: {**r, "n": (r["n"] or 0) + a},
        lambda r, a, b: r["id"] % 3 == b % 3,
    ),
    ("n", "NULL", "n > {0}"): (lambda r, a, b: {**r, "n": None}, lambda r, a, b: r["n"] is not None and r["n"] > a),
    ("word", "concat(word, '{0}')", "id < {1}"): (
        lambda r, a, b: {**r, "word": f"{r['word']}{a}"},
        lambda r, a, b: r["id"] < b,
    ),
}
SMALL = st.integers(0, 9)
STATEMENTS = st.tuples(st.sampled_from(sorted(UPDATES)), SMALL, SMALL)
RIVALS = st.one_of(
    STATEMENTS.map(lambda one: ("update", one)),
    SMALL.map(lambda n: ("delete", n)),
    st.just(("merge", None)),
    st.just(("append", None)),
)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(STATEMENTS, st.one_of(st.none(), RIVALS)), min_size=1, max_size=3))
def test_any_updates_beside_any_others_leave_what_one_after_the_other_leaves(tmp_path_factory, steps):
    table = indextables.create(
        tmp_path_factory.mktemp("life") / "t", SCHEMA, properties={"isolationLevel": "Serializable"}
    )
    table.append(rows(range(8)))
    truth = rows(range(8))
    for (form, a, b), rival in steps:

        def act(rival=rival):
            nonlocal truth
            truth = play(indextables.open(table.url), rival, truth)

        column, value, where = form
        change, selects = UPDATES[form]
        report = table.update(
            {column: value.format(a, b)}, where.format(a, b), progress=None if rival is None else meanwhile(act)
        )
        if report.version is not None:
            truth = [change(row, a, b) if selects(row, a, b) else row for row in truth]
        assert sorted(map(repr, held(table))) == sorted(map(repr, truth))


def play(other, rival, truth):
    what, given = rival
    if what == "update":
        (column, value, where), a, b = given
        change, selects = UPDATES[(column, value, where)]
        other.update({column: value.format(a, b)}, where.format(a, b))
        return [change(row, a, b) if selects(row, a, b) else row for row in truth]
    if what == "delete":
        other.delete(f"id = {given}")
        return [row for row in truth if row["id"] != given]
    if what == "merge":
        other.merge_splits()
        return truth
    other.append(rows([100]))
    return truth + rows([100])


def test_the_history_tells_of_the_attempt_that_was_committed(table):
    """Numbers of attempts that were thrown away are nobody's."""
    other = indextables.open(table.url)
    report = table.delete("id IN (1, 2, 3)", progress=meanwhile(lambda: other.delete("id = 1")))
    metrics = told(table)
    assert (report.repairs, report.reruns, metrics["numRepairs"], metrics["numDeletedRows"]) == (1, 0, "1", "2")
    report = table.update(
        {"n": "n + 1"}, "id IN (4, 5, 6)", progress=meanwhile(lambda: other.refresh().delete("id = 4"))
    )
    metrics = told(table)
    assert (report.repairs, report.reruns, report.updated) == (0, 1, 2)
    assert (metrics["numUpdatedRows"], metrics["numReruns"], metrics.get("numRepairs")) == ("2", "1", None)
    assert metrics["locatedBy"] == report.located_by == "index"
    assert 0 <= int(metrics["scanTimeMs"]) <= int(metrics["executionTimeMs"])
    everything = table.update({"n": "0"}, dry_run=True)
    assert (everything.located_by, everything.metrics["numUpdatedRows"]) == ("files", table.count())


def told(table) -> dict[str, str]:
    return dict(table.history(1)["operationMetrics"].to_pylist()[0])
