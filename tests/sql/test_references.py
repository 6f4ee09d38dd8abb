"""Where a statement speaks about our tables: found by position, and only there is it changed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from indextables.errors import IndexTablesError, NotSupported, QueryInvalid
from indextables.sql.references import find_references, has_signs, table_names
from indextables.sql.spark_rewrite import COUNTED, rewrite_for_spark
from indextables.sql.tokens import tokens

COLUMNS = ["id", "level", "message", "note"]
KNOWN = {"logs", "db.logs", "t"}


def known(name):
    return name.lower() in KNOWN


def found(text, **more):
    result = find_references(text, known, **more)
    assert result is not None, text
    return result


def rewritten(text, args=None):
    """The statement that Spark would get, references as <n>, and what each reference must deliver."""
    parsed = found(text)
    result = rewrite_for_spark(parsed, [COLUMNS for _ in parsed.references], args)
    return "".join(piece if isinstance(piece, str) else f"<{piece}>" for piece in result.pieces), result.needs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM x, y AS z JOIN db.w ON x.a = w.a WHERE b IN (SELECT c FROM `v v`)", ["x", "y", "db.w", "v v"]),
        ("INSERT INTO TABLE a.b SELECT 1, 2 FROM (c)", ["a.b", "c"]),
        ("SELECT 1, 2", []),
        ("SELECT 'FROM x' -- FROM y\n", []),
        ("FROM x SELECT a, b", ["x"]),
        ("DESCRIBE TABLE EXTENDED x", ["x"]),
        ("SELECT f(a, b) FROM x WHERE g(c, d) GROUP BY e, f", ["x"]),
        ("WITH a AS (SELECT * FROM x) SELECT * FROM a, b", ["x", "a", "b"]),
    ],
)
def test_names_that_stand_where_tables_do(text, expected):
    assert table_names(text) == expected


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", [25]),
        ("WITH a AS (SELECT * FROM t), t AS (SELECT 1) SELECT * FROM a, t", [25]),
        ("WITH t AS (SELECT 1), a AS (SELECT * FROM t) SELECT * FROM a", []),
        ("WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT * FROM t", []),
        ("SELECT * FROM t WHERE id IN (WITH t AS (SELECT 3 AS id) SELECT id FROM t)", [14]),
        ("WITH t AS (SELECT 1) SELECT * FROM (SELECT * FROM T) UNION SELECT * FROM t", []),
        ("WITH t AS (SELECT 1) SELECT * FROM t JOIN logs", [42]),
    ],
)
def test_a_name_of_with_hides_a_table_only_where_it_is_seen(text, starts):
    result = find_references(text, known)
    assert [reference.start for reference in (result.references if result is not None else [])] == starts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM logs", "SELECT id FROM <0> AS logs"),
        ("SELECT id FROM `logs` l", "SELECT id FROM <0> l"),
        ("SELECT db.logs.id FROM db.logs", "SELECT db.logs.id FROM <0> AS logs"),
        ("select id from IndexTables.`/a b/{c}` where 1=1", "select id from <0> where 1=1"),
        ("SELECT * FROM logs VERSION AS OF 3 AS x", "SELECT * FROM <0> AS x"),
        ("SELECT * FROM logs FOR SYSTEM_TIME AS OF '2026-01-01'", "SELECT * FROM <0> AS logs"),
        ("SELECT * FROM logs@v3, other@v3", "SELECT * FROM <0> AS logs, other@v3"),
        ("SELECT * FROM other VERSION AS OF 3, t", "SELECT * FROM other VERSION AS OF 3, <0> AS t"),
        ("SELECT a FROM logs TABLESAMPLE (5 ROWS)", "SELECT a FROM <0> TABLESAMPLE (5 ROWS)"),
        ("SELECT x.a FROM x LEFT JOIN logs ON x.a = logs.a", "SELECT x.a FROM x LEFT JOIN <0> AS logs ON x.a = logs.a"),
        ("INSERT INTO logs (a) SELECT b FROM t", "INSERT INTO <0> (a) SELECT b FROM <1> AS t"),
        ("INSERT OVERWRITE TABLE logs VALUES (1)", "INSERT OVERWRITE TABLE <0> VALUES (1)"),
        ("EXPLAIN EXTENDED SELECT id FROM logs", "EXPLAIN EXTENDED SELECT id FROM <0> AS logs"),
        ("CREATE TABLE logs AS SELECT * FROM t", "CREATE TABLE logs AS SELECT * FROM <0> AS t"),
        ("DESCRIBE logs", "DESCRIBE <0>"),
        ("SELECT count(*) FROM logs", f"SELECT `{COUNTED}` AS `count(1)` FROM <0> AS logs"),
        ("SELECT count( * ) n FROM logs LIMIT 1", f"SELECT `{COUNTED}` n FROM <0> AS logs LIMIT 1"),
        ("SELECT count(*) FROM logs WHERE id = 1", "SELECT count(*) FROM <0> AS logs WHERE id = 1"),
        ("SELECT count(*) FROM logs GROUP BY id", "SELECT count(*) FROM <0> AS logs GROUP BY id"),
        ("SELECT count(id) FROM logs", "SELECT count(id) FROM <0> AS logs"),
        (
            "SELECT id /* TEXTSEARCH */ FROM logs WHERE TEXTSEARCH(message, 'it''s') AND id > 1",
            "SELECT id /* TEXTSEARCH */ FROM <0> AS logs WHERE `__search0_0` AND id > 1",
        ),
        (
            "SELECT l.* FROM logs l WHERE l.message NOT INDEXQUERY 'x' OR id = 1",
            "SELECT l.* EXCEPT (`__search0_0`) FROM <0> l WHERE (NOT `__search0_0`) OR id = 1",
        ),
        (
            "SELECT id FROM logs WHERE indexqueryall( 'a' ) AND _indexall INDEXQUERY 'b'",
            "SELECT id FROM <0> AS logs WHERE `__search0_0` AND `__search0_1`",
        ),
    ],
)
def test_only_what_is_ours_is_replaced(text, expected):
    assert rewritten(text)[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM other",
        "SELECT logs FROM other",
        "SELECT indextables.`id` FROM range(3) AS indextables",
        "WITH logs AS (SELECT 1) SELECT * FROM logs",
        "SELECT * FROM indextables.plain",
        "SELECT 'FROM logs'",
        "DROP TABLE logs",
        "SET x = logs",
        "SELEC id FROM logs",
        "SELECT * FROM logs WHERE (",
        "SELECT * FROM logs; SELECT * FROM logs",
        "",
    ],
)
def test_what_is_not_ours_has_no_references(text):
    assert find_references(text, known) is None


def test_what_a_reference_must_deliver():
    _, (need,) = rewritten("SELECT id FROM logs WHERE TEXTSEARCH(message, 'a') AND (TEXTSEARCH(note, 'b') OR id = 1)")
    assert [search.column for search in need.required] == ["message"]
    assert [search.column for search in need.marked] == ["note"]
    assert need.columns == ("id", "message", "note")
    assert not need.score
    _, (need,) = rewritten("SELECT *, _score FROM logs WHERE TEXTSEARCH(*, :q)", {"q": "a"})
    assert (need.columns, need.score, need.required[0].query) == (None, True, "a")
    _, (left, right) = rewritten("SELECT a.id FROM logs a LEFT JOIN logs b ON TEXTSEARCH(b.note, 'x') WHERE a.id = 1")
    assert (left.required, left.marked, right.required, len(right.marked)) == ((), (), (), 1)


def test_conditions_that_leave_out_files():
    text = (
        "SELECT id FROM logs l WHERE l.id > 1 AND (level = 'a' OR level IN ('b', 'it''s')) AND upper(note) = 'x' "
        "AND id = :v AND TEXTSEARCH(message, 'q') AND note LIKE 'a%' AND id IN (SELECT id FROM other)"
    )
    _, (need,) = rewritten(text, {"v": 7})
    assert need.filters == ("id > 1", "level = 'a' OR level IN ('b', 'it\\'s')", "id = (7)", "note LIKE 'a%'")
    assert rewritten("SELECT l.id FROM logs l, other WHERE l.id > 1")[1][0].filters == ()
    assert rewritten("SELECT id FROM logs WHERE other.id > 1")[1][0].filters == ()


def test_values_by_place_that_a_search_takes_are_not_left_for_spark():
    parsed = found("SELECT ? FROM logs VERSION AS OF ? WHERE TEXTSEARCH(note, ?) AND id = ?")
    result = rewrite_for_spark(parsed, [COLUMNS], [1, 2, "three", 4])
    assert result.args == [1, 4]
    assert result.needs[0].required[0].query == "three"


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM logs WHERE id = 1",
        "UPDATE logs SET id = 1",
        "MERGE INTO logs USING t ON true WHEN MATCHED THEN DELETE",
    ],
)
def test_rows_are_not_changed_in_place(text):
    with pytest.raises(NotSupported):
        find_references(text, known)


def test_a_time_that_has_to_be_computed_is_refused_for_our_tables_only():
    with pytest.raises(NotSupported, match="a literal or a parameter"):
        find_references("SELECT * FROM logs TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY", known)
    assert find_references("SELECT * FROM other TIMESTAMP AS OF current_timestamp()", known) is None


def test_a_search_without_a_table_of_ours_beside_it_is_refused():
    for text in (
        "SELECT 1 FROM logs, (SELECT message AS m FROM t) s WHERE TEXTSEARCH(m, 'a')",
        "SELECT 1 FROM logs WHERE TEXTSEARCH(x.message, 'a')",
        "SELECT 1 FROM logs WHERE TEXTSEARCH(id, 'a', 'b')",
        "SELECT 1 FROM logs WHERE INDEXQUERYALL(message, 'a')",
    ):
        with pytest.raises(QueryInvalid) as caught:
            rewritten(text)
        assert 0 <= caught.value.position < len(text)


WORDS = """SELECT FROM WHERE JOIN ON AND OR NOT logs t other
indextables.`p` TEXTSEARCH(message,'q') message INDEXQUERY 'q'
INDEXQUERYALL('q') VERSION AS OF 3 @v1 * count(*) ( ) , ; x INSERT INTO VALUES WITH EXPLAIN DESCRIBE :a ? {d} _score"""
PIECES = some.one_of(some.sampled_from(WORDS.split()), some.text(max_size=5))


@given(some.lists(PIECES, max_size=16).map(" ".join))
@settings(deadline=None)
def test_any_text_is_rewritten_refused_with_a_typed_error_or_left_alone(text):
    assert isinstance(has_signs(text), bool)
    assert all(isinstance(name, str) for name in table_names(text))
    try:
        result = find_references(text, known)
        if result is None:
            return
        changed = rewrite_for_spark(result, [COLUMNS for _ in result.references], {"a": "b"})
    except IndexTablesError:
        return
    kept = [piece for piece in changed.pieces[::2] if isinstance(piece, str)]
    at = 0
    for piece in kept:
        at = text.index(piece, at) + len(piece)
    assert sorted(ref.start for ref in result.references) == sorted({ref.start for ref in result.references})
    assert any(token.start == ref.start for ref in result.references for token in tokens(text))
