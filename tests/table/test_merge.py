"""Rows of a source are merged into a table: which clause takes which row, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import indextables
from indextables.errors import (
    CardinalityViolation,
    CommitConflict,
    ConstraintViolation,
    InvalidArgument,
    NotSupported,
    QueryInvalid,
    SchemaMismatch,
)

SCHEMA = pa.schema([pa.field("id", pa.int64()), ("n", pa.int32()), ("word", pa.string())])


def rows(ids):
    return [{"id": n, "n": n % 5, "word": f"w{n % 3} common"} for n in ids]


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA, indexing={"word": "text"})
    made.append(rows(range(5)))
    made.append(rows(range(5, 10)))
    return made


def held(table):
    return sorted(indextables.open(table.url).to_arrow().to_pylist(), key=repr)


def by_id(table):
    return {row["id"]: row for row in held(table)}


def given(*ids, **more):
    return [{"id": n, "n": 100 + (n or 0), "word": f"new{n}", **more} for n in ids]


def test_an_upsert_replaces_rows_with_the_same_key_and_adds_the_others(table):
    report = table.upsert(given(3, 7, 20), "id")
    assert (report.updated, report.inserted, report.deleted, report.version) == (2, 1, 0, table.version)
    assert held(table) == sorted([*rows(n for n in range(10) if n not in (3, 7)), *given(3, 7, 20)], key=repr)
    assert (table.count("new7"), table.count("common")) == (1, 8), "new words are found, old ones are not"


def test_every_clause_takes_its_rows(table):
    source = [*given(1, op="update"), *given(2, op="delete"), *given(30, op="insert"), *given(31, op="skip")]
    report = (
        table.merge(source, "t.id = s.id")
        .when_matched_update({"n": "t.n + s.n", "word": "s.op"}, "s.op = 'update'")
        .when_matched_delete("s.op = 'delete'")
        .when_not_matched_insert({"id": "s.id", "word": "upper(word)"}, "s.op = 'insert'")
        .when_not_matched_by_source_update({"word": "'alone'"}, "t.id = 8")
        .when_not_matched_by_source_delete("n = 4")
        .execute()
    )
    now = by_id(table)
    assert sorted(now) == [0, 1, 3, 5, 6, 7, 8, 30]
    assert now[1] == {"id": 1, "n": 102, "word": "update"}
    assert now[30] == {"id": 30, "n": None, "word": "NEW30"}
    assert now[8]["word"] == "alone"
    expected = {
        "numSourceRows": 4,
        "numTargetRowsInserted": 1,
        "numTargetRowsUpdated": 2,
        "numTargetRowsDeleted": 3,
        "numTargetRowsMatchedUpdated": 1,
        "numTargetRowsMatchedDeleted": 1,
        "numTargetRowsNotMatchedBySourceUpdated": 1,
        "numTargetRowsNotMatchedBySourceDeleted": 2,
        "numTargetRowsCopied": 0,
        "numOutputRows": 3,
        "numTargetFilesAdded": 1,
        "numTargetFilesRemoved": 0,
        "numTargetDeletionVectorsAdded": 2,
        "numTargetDeletionVectorsUpdated": 0,
        "numTargetDeletionVectorsRemoved": 0,
    }
    times = {name: report.metrics[name] for name in ("scanTimeMs", "rewriteTimeMs", "executionTimeMs")}
    assert report.metrics == {**expected, **times}
    latest = table.history().to_pylist()[0]
    assert latest["operation"] == "MERGE"
    numbers = {name: str(number) for name, number in report.metrics.items()}
    assert dict(latest["operationMetrics"]) == {**numbers, "locatedBy": "scan"}
    told = dict(latest["operationParameters"])
    assert told["predicate"] == "t.id = s.id"
    assert told["matchedPredicates"].count("actionType") == 2


def test_the_first_clause_that_holds_takes_the_row(table):
    (
        table.merge(given(1, 2, 3, 40, 41), "t.id = s.id")
        .when_matched_update({"word": "'first'"}, "t.id <= 2")
        .when_matched_update({"word": "'second'"}, "t.id <= 3")
        .when_matched_delete()
        .when_not_matched_insert({"id": "s.id", "word": "'one'"}, "s.id = 40")
        .when_not_matched_insert_all()
        .execute()
    )
    now = by_id(table)
    assert [now[n]["word"] for n in (1, 2, 3, 40, 41)] == ["first", "first", "second", "one", "new41"]


def test_rows_that_no_clause_takes_stay_where_they_are(table):
    before = table.files()["path"].to_pylist()
    report = table.merge(given(1, 2, 50), "t.id = s.id").when_matched_update_all("s.id = 1").execute()
    assert (report.updated, report.inserted) == (1, 0)
    assert set(before) <= set(table.files()["path"].to_pylist())
    assert table.count() == 10
    nothing = table.merge(given(1, 2, 50), "t.id = s.id").when_matched_update_all("s.id = 99").execute()
    assert (nothing.version, table.version) == (None, report.version)


def test_columns_are_named_by_alias_or_plainly_where_only_one_side_has_them(table):
    source = [{"key": 3, "bonus": 7, "word": "x"}]
    merged = table.merge(source, "old.id = new.key", source_alias="new", target_alias="old")
    merged.when_matched_update({"n": "n + bonus", "WORD": "New.word"}).execute()
    assert by_id(table)[3] == {"id": 3, "n": 10, "word": "x"}
    with pytest.raises(QueryInvalid, match="both sides"):
        table.merge(given(3), "id = s.id").when_matched_delete().execute()
    with pytest.raises(QueryInvalid, match="no column of s"):
        table.merge(given(3), "t.id = s.key").when_matched_delete().execute()
    with pytest.raises(QueryInvalid, match="no column that can be named here"):
        table.merge(given(3), "t.id = s.id").when_not_matched_insert({"id": "t.id"}).execute()
    with pytest.raises(QueryInvalid):
        table.merge(given(3), "t.id = s.id").when_not_matched_by_source_delete("s.n = 1").execute()


def test_a_condition_beside_the_equality_decides_what_matches(table):
    report = (
        table.merge(given(1, 2), "t.id = s.id AND s.n > 101 AND t.n < 3")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert (report.updated, report.inserted) == (1, 1)
    assert [row["n"] for row in held(table) if row["id"] == 1] == [1, 101]


def test_a_key_may_be_computed_and_have_several_columns(table):
    source = [{"twice": 6, "w": "W0 COMMON"}, {"twice": 6, "w": "other"}, {"twice": 8, "w": "W1 COMMON"}]
    merged = table.merge(source, "t.id * 2 = s.twice AND upper(t.word) = s.w").when_matched_delete()
    assert merged.execute().deleted == 2
    assert sorted(by_id(table)) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_null_is_no_key(table):
    table.append([{"id": None, "n": 1, "word": "nameless"}])
    report = table.upsert([{"id": None, "n": 2, "word": "also nameless"}], "id")
    assert (report.updated, report.inserted) == (0, 1)
    assert table.count("nameless") == 2
    gone = table.merge(given(1), "t.id = s.id").when_not_matched_by_source_delete("t.id IS NULL").execute()
    assert gone.deleted == 2


TIME = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
ODD = {
    "float": (pa.float64(), [0.0, float("nan"), 1.5, None], [-0.0, float("nan"), 2.5, None], 2),
    "decimal": (pa.decimal128(20, 3), [Decimal("1.100"), Decimal(-7)], [Decimal("1.1"), Decimal("-7.001")], 1),
    "time": (pa.timestamp("us", "UTC"), [TIME, None], [TIME, TIME + dt.timedelta(microseconds=1)], 1),
    "date": (pa.date32(), [dt.date(2026, 1, 2)], [dt.date(2026, 1, 2), dt.date(1, 1, 1)], 1),
    "text": (pa.string(), ["é", "a", "", "ß"], ["e\u0301", "A", "", "ss"], 1),
    "bytes": (pa.binary(), [b"\0", b""], [b"\0\0", b""], 1),
    "flag": (pa.bool_(), [True, None], [True, False], 1),
    "whole": (pa.int64(), [2**53, 2**53 + 1], [2**53 + 1, 2**53 + 2], 1),
}


@pytest.mark.parametrize(
    ("kind", "partitioned"),
    [(kind, False) for kind in sorted(ODD)] + [(kind, True) for kind in sorted(ODD) if kind not in ("bytes", "float")],
)
def test_keys_are_equal_as_sql_compares_them(tmp_path, kind, partitioned):
    data_type, there, come, matches = ODD[kind]
    schema = pa.schema([("k", data_type), ("v", pa.string())])
    table = indextables.create(tmp_path / "t", schema, partition_by=["k"] if partitioned else [])
    table.append([{"k": one, "v": "old"} for one in there])
    report = table.upsert([{"k": one, "v": "new"} for one in come], "k")
    assert (report.updated, report.inserted) == (matches, len(come) - matches)
    assert table.count(where="v = 'old'") == len(there) - matches
    assert table.count() == len(there) + len(come) - matches


def test_keys_of_other_types_meet_as_in_sql(table):
    texts = pa.table({"id": pa.array(["1", "77"]).dictionary_encode(), "n": pa.array([9, 9], pa.int8())})
    report = table.merge(texts, "t.id = s.id").when_matched_update({"n": "s.n"}).execute()
    assert (report.updated, by_id(table)[1]["n"]) == (1, 9)
    wide = pa.table({"k": pa.array(["w1 common"], pa.large_string()), "n": pa.array([3.0])})
    assert table.merge(wide, "t.word = s.k").when_matched_update({"n": "s.n"}).execute().updated == 3


def test_columns_of_any_type_are_set(tmp_path):
    inner = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
    schema = pa.schema([("id", pa.int64()), ("st", inner), ("m", pa.map_(pa.string(), pa.float64()))])
    table = indextables.create(tmp_path / "t", schema)
    table.append([{"id": 1, "st": {"x": 1, "tags": ["a"]}, "m": [("k", 1.0)]}, {"id": 2, "st": None, "m": None}])
    come = [
        {"id": 2, "st": {"x": None, "tags": [None, "b"]}, "m": [("z", float("inf"))]},
        {"id": 3, "st": {"x": 3, "tags": []}, "m": []},
    ]
    table.upsert(come, "id")
    assert [by_id(table)[n] for n in (2, 3)] == come
    table.merge(come[:1], ["id"]).when_matched_update({"st": "s.st", "m": None}).execute()
    assert by_id(table)[2] == {"id": 2, "st": come[0]["st"], "m": None}
    table.merge([{"id": 1}], ["id"]).when_matched_update({"st": {"x": 5, "tags": None}}).execute()
    assert by_id(table)[1]["st"] == {"x": 5, "tags": None}


def test_rows_move_between_partitions_and_are_merged_after_splits_were(tmp_path):
    table = indextables.create(tmp_path / "p", SCHEMA, partition_by=["word"])
    for n in range(6):
        table.append(rows([n]))
    table.delete("id = 4")
    table.merge_splits()
    table.upsert([{"id": 2, "n": 0, "word": "elsewhere"}, {"id": 4, "n": 0, "word": "w1 common"}], "id")
    table.merge_splits()
    assert [row["id"] for row in table.to_arrow(where="word = 'elsewhere'").to_pylist()] == [2]
    assert sorted(row["id"] for row in table.to_arrow(where="word = 'w1 common'").to_pylist()) == [1, 4]
    report = table.merge(given(0), ["id"]).when_not_matched_by_source_delete("word = 'elsewhere'").execute()
    assert (report.deleted, report.removed_files) == (1, 1)
    assert table.count() == 5


def test_a_row_that_two_rows_want_to_change_is_refused_by_name(table):
    twice = [*given(3), *given(8), *given(3)]
    before, files = table.version, table.files()["path"].to_pylist()
    with pytest.raises(CardinalityViolation, match="rows 0 and 2 of the source") as caught:
        table.merge(twice, ["id"]).when_matched_update_all().execute()
    assert caught.value.target == rows([3])[0]
    assert caught.value.source == [twice[0], twice[2]]
    assert (caught.value.rows, caught.value.columns) == ([0, 2], ["id"])
    with pytest.raises(CardinalityViolation):
        table.merge(twice, ["id"]).when_matched_delete("t.n >= 0").execute()
    with pytest.raises(CardinalityViolation, match="rows 0 and 1 have the same key"):
        table.upsert([*given(90), *given(90)], "id")
    fresh = indextables.open(table.url)
    assert (fresh.version, fresh.files()["path"].to_pylist()) == (before, files)


def test_rows_with_values_that_python_has_no_object_for_are_told_too(tmp_path):
    far = pa.array([400_000_000_000_000_000, 5], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    twice = pa.table({"id": [1, 1], "ts": far})
    table = indextables.create(tmp_path / "t", twice.schema)
    table.append(twice.slice(0, 1))
    for run in (lambda: table.merge(twice, "t.id = s.id").when_matched_delete("s.id = 1"), None):
        with pytest.raises(CardinalityViolation, match="14645-") as caught:
            run().execute() if run else table.upsert(twice, "id")
        assert [row["ts"] for row in caught.value.source][1].microsecond == 5
    broken = {"constraints.early": "ts < TIMESTAMP '2026-01-01 00:00:00'"}
    with pytest.raises(ConstraintViolation, match="14645-"):
        indextables.create(tmp_path / "u", twice.schema, properties=broken).append(twice)


def test_lists_and_structs_are_chosen_from_though_they_do_not_compare(tmp_path):
    kinds = {"tags": pa.list_(pa.string()), "st": pa.struct([("a", pa.int32())]), "m": pa.map_(pa.string(), pa.int32())}
    some = {"tags": ["x", None], "st": {"a": 1}, "m": [("k", 1)]}
    other = {"tags": [], "st": {"a": None}, "m": []}
    schema = pa.schema([("id", pa.int64()), *kinds.items()])
    table = indextables.create(tmp_path / "t", schema)
    table.append([{"id": 1, **some}, {"id": 2, **dict.fromkeys(kinds)}, {"id": 3, **other}])
    source = pa.Table.from_pylist([{"id": 1}, {"id": 2, **other}, {"id": 4, **some}, {"id": 5, **some}], schema=schema)
    kept = {name: f"coalesce(s.{name}, t.{name})" for name in kinds}
    new = {name: f"CASE WHEN 4 / (s.id - 3) > 3 THEN s.{name} ELSE NULL END" for name in kinds}
    merge = table.merge(source, ["id"]).when_matched_update(kept).when_not_matched_insert({"id": "s.id", **new})
    assert (merge.execute().updated, table.count()) == (2, 5)
    empty = dict.fromkeys(kinds)
    found = {row.pop("id"): row for row in table.to_arrow().to_pylist()}
    assert found == {1: some, 2: other, 3: other, 4: some, 5: empty}
    with pytest.raises(QueryInvalid, match="compare what is in them"):
        table.merge(source, "t.id = s.id AND t.st = s.st").when_matched_delete().execute()


def test_pairs_that_change_nothing_are_no_violation(table):
    twice = [*given(3, op="yes"), *given(3, op="no"), *given(60, op="no"), *given(60, op="no")]
    merged = table.merge(twice, ["id"]).when_matched_update({"n": "s.n"}, "s.op = 'yes'")
    report = merged.when_not_matched_insert_all().execute()
    assert (report.updated, report.inserted) == (1, 2)
    assert table.merge(twice, ["id"]).when_matched_delete().execute().deleted == 3, "gone is gone"


def test_one_row_of_the_source_may_change_many(table):
    come = [{"word": "w0 common", "n": 50}]
    assert table.merge(come, ["word"]).when_matched_update({"n": "s.n"}).execute().updated == 4
    assert table.count(where="n = 50") == 4


def test_new_columns_come_with_the_rows_that_have_them(table):
    wide = pa.table({"id": [3, 70], "n": pa.array([2**40, 1]), "extra": ["e3", "e70"], "unused": [1, 2]})
    named = table.merge(wide, ["id"], merge_schema=True)
    report = (
        named.when_matched_update({"extra": "s.extra"}).when_not_matched_insert_all(except_cols=["unused"]).execute()
    )
    assert (report.updated, report.inserted) == (1, 1)
    now = indextables.open(table.url)
    assert now.schema.names == ["id", "n", "word", "extra"]
    assert now.schema.field("n").type == pa.int64(), "an int that must hold a long is one"
    assert by_id(now)[3] == {"id": 3, "n": 3, "word": "w0 common", "extra": "e3"}
    assert by_id(now)[70] == {"id": 70, "n": 1, "word": None, "extra": "e70"}
    assert by_id(now)[5]["extra"] is None
    now.upsert(pa.table({"id": [4], "more": [1.5]}), "id", merge_schema=True)
    assert by_id(now)[4] == {"id": 4, "n": 4, "word": "w1 common", "extra": None, "more": 1.5}


def test_columns_that_nobody_sets_are_left_alone(table):
    source = [{"id": 3, "n": 9, "word": "x", "op": "noise"}]
    table.merge(source, ["id"]).when_matched_update_all(except_cols=["word"]).execute()
    assert by_id(table)[3] == {"id": 3, "n": 9, "word": "w0 common"}
    assert "op" not in table.schema.names


def test_a_dry_run_tells_and_the_same_merge_then_does(table):
    reader = pa.table({"id": [1, 99], "n": pa.array([7, 7], pa.int32()), "word": ["x", "y"]}).to_reader()
    merged = table.merge(reader, ["id"]).when_matched_update_all().when_not_matched_insert_all()
    before = table.version
    told = merged.execute(dry_run=True)
    assert (told.updated, told.inserted, told.version, told.dry_run) == (1, 1, None, True)
    assert indextables.open(table.url).version == before
    done = merged.execute(user_metadata="a note")
    assert (done.updated, done.inserted, done.version) == (1, 1, before + 1)
    assert table.history()["userMetadata"][0].as_py() == "a note"


def test_a_batch_is_merged_once(table):
    first = table.upsert(given(90), "id", txn=("job", 1))
    table.delete("id = 90")
    again = table.upsert(given(90), "id", txn=("job", 1))
    assert (first.inserted, again.inserted, again.version) == (1, 0, first.version)
    assert 90 not in by_id(table)
    assert table.upsert([], "id", txn=("job", 2)).version == table.version, "the batch is remembered"
    assert table.upsert([], "id").version is None


def test_an_expected_version_refuses_where_rows_that_match_changed(table):
    read = table.version
    other = indextables.open(table.url)
    other.update({"n": 1}, "id = 3")
    other.append(given(95))
    with pytest.raises(CommitConflict):
        table.upsert(given(3), "id", expect_version=read)
    with pytest.raises(CommitConflict):
        table.upsert(given(95), "id", expect_version=read)
    with pytest.raises(CommitConflict):
        table.merge(given(3, 96), ["id"]).when_not_matched_insert_all().execute(expect_version=read)
    assert table.upsert(given(4, 96), "id", expect_version=read).updated == 1


def refusals():
    return [
        (lambda t: t.merge(given(1), "t.id > s.id").when_matched_delete(), NotSupported),
        (lambda t: t.merge(given(1), "t.id = 3").when_matched_delete(), NotSupported),
        (lambda t: t.merge(given(1), "t.id <=> s.id").when_matched_delete(), NotSupported),
        (lambda t: t.merge(given(1), ["id"]), InvalidArgument),
        (lambda t: t.merge(given(1), ["id"], source_alias="T").when_matched_delete(), InvalidArgument),
        (lambda t: t.merge(given(1), ["id"]).when_matched_delete().when_matched_update_all(), InvalidArgument),
        (lambda t: t.merge(given(1), ["id"]).when_matched_update({"nothing": 1}), InvalidArgument),
        (lambda t: t.merge(given(1), ["id"]).when_matched_update({"n": 1, "N": 2}), InvalidArgument),
        (lambda t: t.merge(given(1), ["id"]).when_matched_update({"n": "s.word"}), InvalidArgument),
        (lambda t: t.merge(given(1), ["id"]).when_matched_update({"n": "s.id * 10000000000"}), InvalidArgument),
        (lambda t: t.merge(given(1), ["id"]).when_matched_update({"n": 2.5}), SchemaMismatch),
        (lambda t: t.merge(given(1), ["id"]).when_matched_update({"n": "1 +"}), QueryInvalid),
        (lambda t: t.merge(given(1), ["id"]).when_matched_update({"n": "10 div (s.id - 1)"}), QueryInvalid),
        (lambda t: t.merge(given(1), ["id"]).when_matched_delete("s.n"), QueryInvalid),
        (lambda t: t.merge(given(1), "t.id = s.id AND").when_matched_delete(), QueryInvalid),
        (lambda t: t.merge([{"id": 1}], ["id"]).when_matched_update_all(), SchemaMismatch),
        (lambda t: t.merge([{"id": 1}], ["id"]).when_matched_update_all(except_cols=["what"]), InvalidArgument),
        (lambda t: t.merge([{"id": "x"}], ["id"]).when_matched_delete(), SchemaMismatch),
        (lambda t: t.merge([{"id": 1, "ID": 2}], ["id"]).when_matched_delete(), SchemaMismatch),
        (lambda t: t.merge(7, ["id"]).when_matched_delete(), InvalidArgument),
        (lambda t: t.merge(given(1, op=1), ["op"]).when_matched_delete(), QueryInvalid),
    ]


@pytest.mark.parametrize("number", range(len(refusals())))
def test_what_does_not_fit_is_refused_and_nothing_is_written(table, number):
    build, error = refusals()[number]
    before, files = table.version, sorted(path.name for path in table_folder(table).rglob("*.split"))
    with pytest.raises(error):
        build(table).execute()
    assert indextables.open(table.url).version == before
    assert sorted(path.name for path in table_folder(table).rglob("*.split")) == files
    assert held(table) == sorted(rows(range(10)), key=repr)


def table_folder(table):
    from pathlib import Path
    from urllib.parse import urlsplit

    return Path(urlsplit(table.url).path)


@pytest.mark.parametrize(
    ("rows_given", "on", "error"),
    [
        (given(1, extra=2), "id", SchemaMismatch),
        (given(1), "nothing", InvalidArgument),
        (given(1), [], InvalidArgument),
        ([{"id": 1}], "id", SchemaMismatch),
        ([{"n": 1}], "id", InvalidArgument),
        (given(1), 7, InvalidArgument),
    ],
)
def test_an_upsert_that_would_lose_something_is_refused(table, rows_given, on, error):
    before = table.version
    with pytest.raises(error):
        table.upsert(rows_given, on)
    assert indextables.open(table.url).version == before


@pytest.mark.parametrize(
    ("kind", "given_kind", "number"),
    [
        (pa.float32(), pa.float64(), 0.5),
        (pa.float32(), pa.decimal128(4, 2), Decimal("0.1")),
        (pa.float64(), pa.decimal128(4, 2), Decimal("0.1")),
        (pa.int32(), pa.float64(), 7.0),
        (pa.float64(), pa.int64(), 7),
    ],
    ids=str,
)
def test_an_upsert_knows_a_key_again_that_it_wrote_in_another_type(tmp_path, kind, given_kind, number):
    table = indextables.create(tmp_path / "t", pa.schema([("k", kind), ("n", pa.int64())]))
    source = pa.table({"k": pa.array([number], given_kind), "n": [1]})
    done = [table.upsert(source, "k") for _ in range(3)]
    assert [(one.inserted, one.updated) for one in done] == [(1, 0), (0, 1), (0, 1)]
    assert table.count() == 1


def test_keys_of_an_upsert_are_the_same_if_they_would_be_written_the_same(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("k", pa.float32()), ("n", pa.int64())]))
    near = [Decimal("0.1"), Decimal("0.1000000000001")]
    with pytest.raises(CardinalityViolation, match="same key"):
        table.upsert(pa.table({"k": pa.array(near, pa.decimal128(20, 13)), "n": [1, 2]}), "k")
    with pytest.raises(InvalidArgument, match="column k"):
        table.upsert(pa.table({"k": [0.1], "n": [1]}), "k")
    assert indextables.open(table.url).version == 0


def test_a_null_for_a_column_that_must_not_be_is_refused(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
    table = indextables.create(tmp_path / "t", schema)
    table.append([{"id": 1, "n": 1}])
    with pytest.raises(SchemaMismatch):
        table.merge([{"k": 5}], "t.id = s.k").when_not_matched_insert({"n": "s.k"}).execute()
    with pytest.raises(SchemaMismatch):
        table.upsert([{"id": None, "n": 2}], "id")
    assert len(list(table_folder(table).rglob("*.split"))) == 1
    assert indextables.open(table.url).version == 1


def test_columns_with_odd_names_are_merged(tmp_path):
    schema = pa.schema(
        [("a b", pa.int64()), ("s", pa.int64()), ("row", pa.int64()), ("t", pa.struct([("s", pa.int64())]))]
    )
    table = indextables.create(tmp_path / "t", schema)
    table.append([{"a b": 1, "s": 1, "row": 1, "t": {"s": 1}}])
    come = [{"a b": 1, "s": 2, "row": 2, "t": {"s": 2}}, {"a b": 2, "s": 3, "row": 3, "t": {"s": 3}}]
    report = table.upsert(come, ["a b"])
    assert (report.updated, report.inserted) == (1, 1)
    assert sorted(table.to_arrow().to_pylist(), key=repr) == come
    assert table.upsert(come, ["row", "s"]).updated == 2
    odd = pa.table({"k`1": [2], "s.x": [7]})
    report = table.merge(odd, "t.t.s = s.`k``1`").when_matched_update({"row": "s.`s.x` + t.t.s"}).execute()
    assert (report.updated, table.count(where="row = 9")) == (1, 1)


def test_only_files_that_may_hold_a_key_are_read(tmp_path):
    from tests.world.store import CountingStore

    from indextables.env import Env
    from indextables.log.care import open_log
    from indextables.table.change.merge import source_of, upsert
    from indextables.table.environment import open_env
    from indextables.table.rows import read_rows

    table = indextables.create(tmp_path / "t", SCHEMA)
    for start in (0, 1_000, 2_000):
        table.append(rows(range(start, start + 40)))
    env = open_env(table.url, {})
    store = CountingStore(env.store)
    log = open_log(Env(store, env.ambient, env.options))
    source = source_of(read_rows(given(*range(1_001, 1_040)), SCHEMA), SCHEMA)
    report = upsert(log, source, ["id"])
    assert (report.updated, report.inserted, report.located_by) == (39, 0, "scan")
    read = {call.key for call in store.calls if call.key.endswith(".split") and call.verb.startswith("get")}
    assert len(read) == 1


def test_a_condition_on_one_side_guards_a_key_that_not_every_row_has(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("kind", pa.string()), ("code", pa.string())]))
    table.append([{"kind": "number", "code": "17"}, {"kind": "word", "code": "seventeen"}])
    source = [{"sort": "number", "value": "17"}, {"sort": "none", "value": "?"}]
    on = "t.kind = 'number' AND s.sort = 'number' AND cast(t.code AS int) = cast(s.value AS int)"
    report = table.merge(source, on).when_matched_delete().when_not_matched_insert({"code": "s.value"}).execute()
    assert (report.deleted, report.inserted) == (1, 1)
    assert sorted(table.to_arrow()["code"].to_pylist()) == ["?", "seventeen"]
    with pytest.raises(QueryInvalid):
        table.merge(source, "cast(t.code AS int) = cast(s.value AS int)").when_matched_delete().execute()


def test_a_column_that_older_files_lack_is_null_there(table):
    table.append([{"id": 50, "n": 1, "word": "x", "code": "c50"}], merge_schema=True)
    source = [{"code": "c50", "id": 60}, {"code": None, "id": 61}]
    merged = table.merge(source, ["code"]).when_matched_update({"id": "s.id"})
    report = merged.when_not_matched_by_source_delete("t.code IS NULL AND t.n = 4").execute()
    assert (report.updated, report.deleted) == (1, 2)
    assert sorted(by_id(table)) == [0, 1, 2, 3, 5, 6, 7, 8, 60]


KEYED = pa.schema([("key", pa.string()), ("n", pa.int64())])


def keyed(numbers):
    return pa.table({"key": [f"key-{n}" for n in numbers], "n": list(numbers)}, schema=KEYED)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Rows enough for the index to be asked; some are deleted, and some keys are there twice."""
    folder = tmp_path_factory.mktemp("large")
    table = indextables.create(folder / "t", KEYED)
    table.append(keyed(range(15_000)))
    table.append(pa.concat_tables([keyed(range(15_000, 30_000)), keyed([7])]))
    table.delete("n = 11")
    return table


def test_few_keys_are_looked_up_in_the_index(large):
    come = [{"key": key, "n": -1} for key in ("key-7", "key-11", "KEY-8", "key-20000", None)]
    report = large.upsert(come, "key", dry_run=True)
    assert (report.updated, report.inserted, report.located_by) == (3, 3, "index")
    composite = large.merge([{"key": "key-7", "n": 7}, {"key": "key-9", "n": 8}], ["n", "key"])
    report = composite.when_matched_delete().when_not_matched_insert_all().execute(dry_run=True)
    assert (report.deleted, report.inserted, report.located_by) == (2, 1, "index")
    guarded = large.merge(come, "t.key = s.key AND t.n > 100").when_matched_update({"n": "t.n"}, "t.n < 20001")
    report = guarded.execute(dry_run=True)
    assert (report.updated, report.located_by) == (1, "index")


def test_the_index_is_not_asked_where_every_row_counts_or_keys_are_many(large):
    alone = large.merge([{"key": "key-7"}], ["key"]).when_not_matched_by_source_delete("n < 20")
    report = alone.execute(dry_run=True)
    assert (report.deleted, report.located_by) == (18, "scan")
    report = large.upsert(keyed(range(5_000)), "key", dry_run=True)
    assert (report.updated, report.inserted, report.located_by) == (5_000, 1, "scan")


def test_an_upsert_by_index_changes_rows_and_starts_again_for_a_key_that_came(large):
    from tests.table.test_delete import meanwhile

    table = indextables.open(large.url)
    start = table.version
    other = indextables.open(table.url)
    rival = [{"key": "new", "n": 1}, {"key": "key-30", "n": 1}]
    report = table.upsert(
        [{"key": "new", "n": 2}, {"key": "key-40", "n": 2}],
        "key",
        progress=meanwhile(lambda: other.upsert(rival, "key")),
    )
    assert (report.reruns, report.updated, report.inserted) == (1, 2, 0)
    found = table.to_arrow(where="key IN ('new', 'key-30', 'key-40')").to_pylist()
    assert sorted((row["key"], row["n"]) for row in found) == [("key-30", 1), ("key-40", 2), ("new", 2)]
    table.restore(version=start)


def test_the_index_is_asked_where_it_costs_less():
    import numpy as np

    from indextables.table.change.matching import costs_less

    files = np.full(100, 1_000_000.0)
    assert costs_less(10_000, files, files.sum()).all(), "ten thousand keys of a hundred million rows"
    assert not costs_less(1_000_000, files, files.sum()).any()
    assert not costs_less(1, np.array([100.0, 2_000.0]), 2_100.0).any(), "a small file is read"
    assert costs_less(1, np.array([100_000.0]), 100_000.0).all()
