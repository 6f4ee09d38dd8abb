"""DELETE, UPDATE and MERGE in SQL of one process: what they select, what they tell, and what they refuse."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables
from indextables.errors import (
    CardinalityViolation,
    CommandSyntaxError,
    CommitConflict,
    InvalidArgument,
    NotSupported,
    QueryInvalid,
    SchemaMismatch,
    TableNotFound,
)
from indextables.sql.command import CHANGED

SCHEMA = pa.schema([("id", pa.int64()), ("Name", pa.string()), ("message", pa.string())])


def rows(first, end):
    return [
        {"id": n, "Name": f"n{n}", "message": None if n % 5 == 0 else f"row {n} {'odd' if n % 2 else 'even'}"}
        for n in range(first, end)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table `t` of two files, a table `u`, and a folder of Parquet files."""
    root = tmp_path_factory.mktemp("rows")
    table = indextables.create(root / "t", SCHEMA, indexing={"message": "text"})
    table.append(rows(0, 6))
    table.append(rows(6, 12))
    indextables.create(root / "u", SCHEMA).append(rows(10, 14))
    (root / "parquet").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), root / "parquet" / "part.parquet")
    return root


@pytest.fixture
def root(made, tmp_path):
    """The same, to be changed."""
    shutil.copytree(made, tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def table(root):
    return indextables.open(root / "t")


@pytest.fixture
def session(root):
    return session_of(root)


def session_of(root):
    return indextables.LocalSession({"t": str(root / "t"), "u": str(root / "u")})


def ids(session):
    return session.run("SELECT id FROM t ORDER BY id")["id"].to_pylist()


def only(answer):
    assert answer.schema == CHANGED
    (row,) = answer.to_pylist()
    return {**row, "metrics": dict(row["metrics"])}


def folder(root):
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "where",
    [
        "TEXTSEARCH(message, 'odd')",
        "NOT TEXTSEARCH(message, 'odd')",
        "TEXTSEARCH(x.message, 'odd') OR x.id = 2",
        "TEXTSEARCH(*, 'n3 OR odd') AND id > 4",
        "(TEXTSEARCH(message, 'odd') OR id = 2) AND TEXTSEARCH(message, 'row') AND id < 9",
        "CASE WHEN TEXTSEARCH(message, 'odd') THEN id < 5 ELSE id > 9 END",
        "TEXTSEARCH(message, 'odd') = (id = 3)",
        "x.message LIKE '%odd' AND name <> 'n3'",
    ],
)
def test_a_change_takes_the_rows_that_a_select_shows(session, where):
    shown = session.run(f"SELECT id FROM t AS x WHERE {where} ORDER BY id")["id"].to_pylist()
    assert 0 < len(shown) < 12
    told = only(session.run(f"UPDATE t AS x SET Name = 'taken' WHERE {where}"))
    assert (told["num_affected_rows"], told["num_updated_rows"]) == (len(shown), len(shown))
    assert session.run("SELECT id FROM t WHERE name = 'taken' ORDER BY id")["id"].to_pylist() == shown
    session.run("RESTORE TABLE t TO VERSION AS OF 2")
    assert only(session.run(f"DELETE FROM t x WHERE {where}"))["num_deleted_rows"] == len(shown)
    assert ids(session) == sorted(set(range(12)) - set(shown))


def test_what_stands_in_the_history_is_what_a_statement_answers(session, table):
    told = only(
        session.run(
            "MERGE INTO t USING u AS b ON t.id = b.id WHEN MATCHED AND b.id = 11 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET t.name = upper(b.name), message = b.message "
            "WHEN NOT MATCHED AND b.id > 12 THEN INSERT (id, name) VALUES (b.id, concat(b.name, ' is new')) "
            "WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN DELETE",
            txn=("nightly", 1),
            user_metadata="by hand",
        )
    )
    assert [told[f"num_{what}_rows"] for what in ("affected", "updated", "deleted", "inserted")] == [5, 1, 3, 1]
    newest = table.refresh().history(1).to_pylist()[0]
    metrics = dict(newest["operationMetrics"])
    assert metrics.pop("locatedBy") == told["located_by"]
    assert {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"} < metrics.keys()
    written = {name: int(value) for name, value in metrics.items()}
    assert (newest["version"], newest["operation"], newest["userMetadata"]) == (told["version"], "MERGE", "by hand")
    assert {name: told["metrics"][name] for name in written} == written
    assert written["numTargetRowsNotMatchedBySourceDeleted"] == 2
    again = session.run(
        "MERGE INTO t USING nothing_there s ON t.id = s.id WHEN MATCHED THEN DELETE", txn=("nightly", 1)
    )
    assert (only(again)["version"], only(again)["num_affected_rows"]) == (told["version"], 0)
    assert ids(session) == [*range(2, 11), 13]
    assert session.run("SELECT name FROM t WHERE id IN (10, 13) ORDER BY id")["Name"].to_pylist() == [
        "N10",
        "n13 is new",
    ]


EVOLVING = (
    "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT id, 1 AS more FROM u) b ON t.id = b.id AND t.id > 7 "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
PLANS = [
    ["1 file ruled out", "1 file with selected rows only"],
    ["1 file ruled out", "1 file asked", "name = 'x'"],
    ["(SELECT id, 1 AS more FROM u)", "1 file ruled out", "gets: more", "when matched: update all columns"],
]


def test_explain_tells_the_plan_and_touches_nothing(made):
    session, before = session_of(made), folder(made)
    plans = {
        text: session.run(f"EXPLAIN {text}")["plan"].to_pylist()[0]
        for text in (
            "DELETE FROM t WHERE id < 6",
            "UPDATE t SET name = 'x' WHERE id = 8 AND TEXTSEARCH(message, 'even')",
            EVOLVING,
        )
    }
    for plan, words in zip(plans.values(), PLANS, strict=True):
        assert [word for word in words if word not in plan] == []
    with pytest.raises(QueryInvalid, match="did you mean id"):
        session.run("EXPLAIN DELETE FROM t WHERE idd = 1")
    assert folder(made) == before


def test_a_dry_run_tells_what_the_statement_would_do(session, root):
    before = folder(root)
    text = "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    dry = only(session.run(text, dry_run=True))
    assert (dry["version"], dry["dry_run"]) == (None, True)
    assert folder(root) == before
    done = only(session.run(text))
    names = [f"num_{what}_rows" for what in ("affected", "updated", "deleted", "inserted")]
    assert [dry[name] for name in names] == [done[name] for name in names] == [4, 0, 2, 2]


def test_terms_are_for_statements_that_change_rows(made):
    session = session_of(made)
    for term in ({"dry_run": True}, {"txn": ("a", 1)}, {"expect_version": 1}, {"user_metadata": "a"}):
        for text in ("SELECT 1", "MERGE SPLITS t"):
            with pytest.raises(InvalidArgument, match="are for DELETE, UPDATE and MERGE"):
                session.run(text, **term)


def test_rows_that_changed_since_they_were_read_are_not_changed_again(session, table):
    read = table.refresh().version
    session.run("UPDATE t SET name = 'theirs' WHERE id = 3")
    with pytest.raises(CommitConflict):
        session.run("UPDATE t SET name = 'ours' WHERE id = 3", expect_version=read)
    assert session.run("SELECT name FROM t WHERE id = 3")["Name"].to_pylist() == ["theirs"]
    assert only(session.run("DELETE FROM t WHERE id = 4", expect_version=read))["num_deleted_rows"] == 1


def test_a_source_that_reads_the_table_reads_it_as_the_change_finds_it(table):
    """Somebody deletes the last row while a statement runs that counts back from the last row, to another one."""
    steps = []

    def somebody(step):
        if not steps:
            indextables.open(table.url).delete("id = 11")
        steps.append(step.what)

    session = indextables.LocalSession({"t": table.url}, progress=somebody)
    text = "MERGE INTO t USING (SELECT max(id) - 8 AS id FROM t) AS m ON t.id = m.id WHEN MATCHED THEN DELETE"
    told = only(session.run(text))
    assert (told["reruns"], told["num_deleted_rows"]) == (1, 1)
    assert ids(session) == [0, 1, *range(3, 11)]
    steps.clear()
    indextables.open(table.url).append(rows(11, 12))
    with pytest.raises(CommitConflict):
        session.run(text, expect_version=table.refresh().version)
    assert ids(session) == [0, 1, *range(3, 11)]
    fixed = text.replace("FROM t)", "FROM t VERSION AS OF 2)")
    assert (only(session.run(fixed))["num_deleted_rows"], ids(session)) == (1, [0, 1, *range(4, 11)])


def test_a_name_that_means_a_version_means_the_new_one_after_a_change(table):
    session = indextables.LocalSession({"t": table.url}, pinned={"t": 1})
    assert ids(session) == list(range(6))
    session.run("DELETE FROM t WHERE id = 11")
    assert ids(session) == list(range(11))


def test_values_are_bound_and_never_become_text(session):
    nasty = "x' OR 'a' = 'a"
    assert only(session.run("DELETE FROM t WHERE name = $name", {"name": nasty}))["num_affected_rows"] == 0
    session.run("UPDATE t SET name = $name WHERE id = $id", {"name": nasty, "id": 1})
    assert session.run("SELECT id FROM t WHERE name = $name", {"name": nasty})["id"].to_pylist() == [1]
    merged = session.run(
        "MERGE INTO t USING (SELECT id FROM u WHERE id > $least) s ON t.id = s.id AND t.id <> $but "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, $name)",
        {"least": 10, "but": 10, "name": nasty},
    )
    assert [only(merged)[f"num_{what}_rows"] for what in ("deleted", "inserted")] == [1, 2]


def test_schema_evolution_is_asked_for(session, table):
    text = "INTO t USING (SELECT id, 'x' AS more FROM u) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    with pytest.raises(SchemaMismatch, match="Name, message"):
        session.run(f"MERGE {text}")
    session.run(f"MERGE WITH SCHEMA EVOLUTION {text}")
    assert table.refresh().schema.names == [*SCHEMA.names, "more"]
    assert session.run("SELECT id FROM t WHERE more = 'x' ORDER BY id")["id"].to_pylist() == [12, 13]
    session.run("MERGE INTO t USING (SELECT 1 AS id, 'm' AS more) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * EXCEPT (name, message)")  # fmt: skip
    assert session.run("SELECT name, more FROM t WHERE id = 1").to_pylist() == [{"Name": "n1", "more": "m"}]


TWICE = "(SELECT 1 AS id, 'a' AS v UNION ALL SELECT 1, 'b') s ON t.id = s.id"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("DELETE FROM t WHERE idd = 1", QueryInvalid, "did you mean id"),
        ("DELETE FROM t AS x WHERE x.nam = 1", QueryInvalid, "did you mean Name"),
        ("DELETE FROM t AS x WHERE y.id = 1", QueryInvalid, "no column"),
        ("UPDATE t SET nam = 1", InvalidArgument, "did you mean Name"),
        ("UPDATE t SET id = 'many'", InvalidArgument, "CAST"),
        ("UPDATE t SET id = 1, ID = 2", CommandSyntaxError, "set twice"),
        ("UPDATE t SET u.id = 1", CommandSyntaxError, "part of a column"),
        ("DELETE FROM t VERSION AS OF 1", CommandSyntaxError, "newest"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM u)", NotSupported, "USING"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM t)", NotSupported, "USING"),
        ("UPDATE t SET id = (SELECT max(id) FROM t)", NotSupported, "USING"),
        ("DELETE FROM t WHERE TEXTSEARCH(mesage, 'a')", QueryInvalid, "did you mean message"),
        ("DELETE FROM t WHERE TEXTSEARCH(message, name)", QueryInvalid, "in quotes"),
        ("DELETE FROM t WHERE TEXTSEARCH(message, '(')", QueryInvalid, "never closed"),
        ("UPDATE t SET name = TEXTSEARCH(message, 'a')", QueryInvalid, "stands in the WHERE"),
        ("DELETE FROM nope", TableNotFound, "nope"),
        ("DELETE FROM '{folder}/none'", TableNotFound, "none"),
        ("DELETE FROM '{folder}/parquet' WHERE id = 1", NotSupported, "only read here"),
        ("UPDATE '{folder}/parquet' SET id = 1", NotSupported, "only read here"),
        ("EXPLAIN DELETE FROM '{folder}/parquet'", NotSupported, "only read here"),
        ("MERGE INTO '{folder}/parquet' USING u ON t.id = u.id WHEN MATCHED THEN DELETE", NotSupported, "only read"),
        ("MERGE INTO t USING u ON id = id WHEN MATCHED THEN DELETE", QueryInvalid, "t.id or u.id"),
        ("MERGE INTO t USING u ON t.id < u.id WHEN MATCHED THEN DELETE", NotSupported, "no equality"),
        ("MERGE INTO t USING t ON t.id = t.id WHEN MATCHED THEN DELETE", InvalidArgument, "another alias"),
        ("MERGE INTO t USING u ON t.id = u.id", CommandSyntaxError, "WHEN MATCHED"),
        ("MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN INSERT *", CommandSyntaxError, "UPDATE SET or DELETE"),
        (
            "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *",
            InvalidArgument,
            "last of its kind",
        ),
        (
            "MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED THEN INSERT (id, name) VALUES (u.id)",
            CommandSyntaxError,
            "each of the 2 columns",
        ),
        (
            "MERGE INTO t USING (SELECT id FROM u) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            SchemaMismatch,
            "Name, message",
        ),
        (
            "MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)",
            QueryInvalid,
            "no column",
        ),
        (f"MERGE INTO t USING {TWICE} WHEN MATCHED THEN UPDATE SET name = s.v", CardinalityViolation, "'a'"),
        ("MERGE INTO t USING (SELEC 1) s ON t.id = s.id WHEN MATCHED THEN DELETE", QueryInvalid, ""),
        ("MERGE INTO t USING none s ON t.id = s.id WHEN MATCHED THEN DELETE", TableNotFound, "none"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(made, text, error, words):
    before = folder(made)
    with pytest.raises(error) as caught:
        session_of(made).run(text.format(folder=made))
    assert words in str(caught.value)
    assert type(caught.value) is error
    assert folder(made) == before


def test_a_row_that_two_rows_want_to_change_is_named_with_both(session):
    with pytest.raises(CardinalityViolation) as caught:
        session.run(f"MERGE INTO t USING {TWICE} WHEN MATCHED THEN UPDATE SET name = s.v")
    assert caught.value.details["target"] == {"id": 1, "Name": "n1", "message": "row 1 odd"}
    assert sorted(caught.value.details["source"], key=str) == [{"id": 1, "v": "a"}, {"id": 1, "v": "b"}]
    gone = session.run(f"MERGE INTO t USING {TWICE} WHEN MATCHED THEN DELETE")
    assert only(gone)["num_deleted_rows"] == 1
