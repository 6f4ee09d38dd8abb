"""Where a statement speaks about our tables: found by position, and only there is it changed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import indextables
from indextables.errors import IndexTablesError, NotSupported, QueryInvalid
from indextables.sql.command.lexer import tokens, unquoted
from indextables.sql.command.references import find_references, has_signs, table_names
from indextables.sql.local.session import LocalSession
from indextables.sql.spark.rewrite import COUNTED, rewrite_for_spark

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
        ("SELECT 1 FROM x JOIN y ON f(x.a, y.b) = 1, z", ["x", "y", "z"]),
        ("SELECT 1 FROM x, y JOIN v USING (a, b), w", ["x", "y", "v", "a", "b", "w"]),
        ("TABLE x UNION TABLE y", ["x", "y"]),
        ("SELECT 1 FROM IDENTIFIER('a.x'), y", ["a.x", "y"]),
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
        ("SELECT db.logs.id FROM db.logs", "SELECT logs.id FROM <0> AS logs"),
        (
            "SELECT DB.logs.*, spark_catalog . db.`logs`.note.x FROM db.logs ORDER BY db.logs.id",
            "SELECT logs.*, `logs`.note.x FROM <0> AS logs ORDER BY logs.id",
        ),
        (
            "INSERT INTO db.logs SELECT /*+ BROADCAST(logs) */ db.logs.id FROM db.logs",
            "INSERT INTO <0> SELECT /*+ BROADCAST(logs) */ logs.id FROM <1> AS logs",
        ),
        ("SELECT db.logs.id, other.logs.id FROM db.logs", "SELECT logs.id, other.logs.id FROM <0> AS logs"),
        (
            "SELECT 1 FROM db.logs WHERE EXISTS (SELECT 1 FROM x AS logs WHERE db.logs.id = logs.id)",
            "SELECT 1 FROM <0> AS logs WHERE EXISTS (SELECT 1 FROM x AS logs WHERE db.logs.id = logs.id)",
        ),
        (
            "SELECT id FROM db.logs WHERE TEXTSEARCH(db.logs.message, 'a') AND db.logs.id = 1",
            "SELECT id FROM <0> AS logs WHERE `__search0_0` AND logs.id = 1",
        ),
        ("select id from IndexTables.`/a b/{c}` where 1=1", "select id from <0> where 1=1"),
        ("SELECT * FROM logs VERSION AS OF 3 AS x", "SELECT * FROM <0> AS x"),
        ("SELECT * FROM logs FOR SYSTEM_TIME AS OF '2026-01-01'", "SELECT * FROM <0> AS logs"),
        ("SELECT * FROM logs@v3, other@v3", "SELECT * FROM <0> AS logs, other@v3"),
        ("SELECT * FROM other VERSION AS OF 3, t", "SELECT * FROM other VERSION AS OF 3, <0> AS t"),
        ("SELECT a FROM logs TABLESAMPLE (5 ROWS)", "SELECT a FROM <0> TABLESAMPLE (5 ROWS) AS logs"),
        (
            "SELECT a FROM logs@v3 TABLESAMPLE (BUCKET 1 OUT OF (2)) /* ) */ REPEATABLE (3) WHERE logs.id = (1)",
            "SELECT a FROM <0> TABLESAMPLE (BUCKET 1 OUT OF (2)) /* ) */ REPEATABLE (3) AS logs WHERE logs.id = (1)",
        ),
        ("SELECT x.a FROM logs TABLESAMPLE (5 ROWS) x", "SELECT x.a FROM <0> TABLESAMPLE (5 ROWS) x"),
        ("SELECT x.a FROM x LEFT JOIN logs ON x.a = logs.a", "SELECT x.a FROM x LEFT JOIN <0> AS logs ON x.a = logs.a"),
        ("INSERT INTO logs (a) SELECT b FROM t", "INSERT INTO <0> (a) SELECT b FROM <1> AS t"),
        ("INSERT OVERWRITE TABLE logs VALUES (1)", "INSERT OVERWRITE TABLE <0> VALUES (1)"),
        ("EXPLAIN EXTENDED SELECT id FROM logs", "EXPLAIN EXTENDED SELECT id FROM <0> AS logs"),
        ("CREATE TABLE logs AS SELECT * FROM t", "CREATE TABLE logs AS SELECT * FROM <0> AS t"),
        ("DESCRIBE logs", "DESCRIBE <0>"),
        (
            "MERGE INTO other USING db.logs ON other.id = db.logs.id WHEN MATCHED THEN DELETE",
            "MERGE INTO other USING <0> AS logs ON other.id = logs.id WHEN MATCHED THEN DELETE",
        ),
        (
            "SELECT /*+ BROADCAST(logs), MERGE(t) */ id FROM logs",
            "SELECT /*+ BROADCAST(logs), MERGE(t) */ id FROM <0> AS logs",
        ),
        ("TABLE logs", "TABLE <0>"),
        ("table logs ORDER BY id LIMIT 3", "table <0> ORDER BY id LIMIT 3"),
        ("EXPLAIN TABLE logs", "EXPLAIN TABLE <0>"),
        ("TABLE other UNION ALL TABLE logs", "TABLE other UNION ALL TABLE <0>"),
        (
            "WITH x AS (TABLE logs) SELECT * FROM x, (TABLE t) AS y",
            "WITH x AS (TABLE <1>) SELECT * FROM x, (TABLE <0>) AS y",
        ),
        ("INSERT INTO TABLE logs TABLE t", "INSERT INTO TABLE <0> TABLE <1>"),
        ("INSERT INTO logs (a) TABLE t", "INSERT INTO <0> (a) TABLE <1>"),
        ("SELECT * FROM IDENTIFIER('logs')", "SELECT * FROM <0> AS `logs`"),
        ("SELECT x.id FROM identifier ( 'DB.`Logs`' ) x", "SELECT x.id FROM <0> x"),
        ('INSERT INTO IDENTIFIER("logs") VALUES (1)', "INSERT INTO <0> VALUES (1)"),
        ("SELECT * FROM IDENTIFIER('other')", None),
        ("SELECT * FROM IDENTIFIER('lo' || 'gs')", None),
        ("VALUES ((SELECT max(id) FROM logs))", "VALUES ((SELECT max(id) FROM <0> AS logs))"),
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
    if expected is None:
        assert find_references(text, known) is None
    else:
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
        "SELECT * FROM logs |> LIMIT 3",
        "",
    ],
)
def test_what_is_not_ours_has_no_references(text):
    assert find_references(text, known) is None


def test_what_a_reference_must_deliver():
    _, (need,) = rewritten("SELECT id FROM logs WHERE TEXTSEARCH(message, 'a') AND (TEXTSEARCH(note, 'b') OR id = 1)")
    assert [search.column for search in need.required] == ["message"]
    assert [search.column for search in need.marked] == ["note"]
    assert need.columns == ("id",)
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


@pytest.mark.parametrize(
    "text",
    [
        # Names that the statement gives to columns hide those of the table.
        "SELECT * FROM logs AS l(level, id, a, b) WHERE id = 5",
        "SELECT note FROM logs PIVOT (sum(id) AS id FOR level IN ('a', 'b')) WHERE id = 1",
        "SELECT * FROM logs UNPIVOT (id FOR note IN (id, message)) WHERE id = 1",
        # Rows are chosen before the condition is asked.
        "SELECT id FROM logs TABLESAMPLE (5 ROWS) WHERE id = 3",
        "FROM logs |> ORDER BY id |> LIMIT 5 |> WHERE id = 3",
        "FROM logs |> LIMIT 5\n|>\nWHERE id = 3",
    ],
)
def test_conditions_about_something_else_than_the_rows_of_the_table_leave_out_no_files(text):
    assert rewritten(text)[1][0].filters == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM logs PIVOT (sum(id) FOR level IN ('a'))",
        "SELECT count(*, note) FROM logs",
        "SELECT count(* EXCEPT (note)) FROM logs",
        "SELECT count(*) FILTER (WHERE id > 1) FROM logs",
        "SELECT count(*) OVER () FROM logs",
        "SELECT count(*) FROM logs TABLESAMPLE (10 PERCENT)",
        "SELECT count(*) FROM logs LATERAL VIEW explode(array(1, 2)) AS x",
        "SELECT count(*) FROM (logs)",
    ],
)
def test_a_count_of_something_else_than_all_rows_is_not_taken_from_the_log(text):
    needs = rewritten(text)[1]
    assert not needs[0].counts
    assert COUNTED not in rewritten(text)[0]


def test_a_search_in_a_filter_of_an_aggregate_takes_no_row_from_the_others():
    _, (need,) = rewritten("SELECT count(*), count(*) FILTER (WHERE TEXTSEARCH(note, 'x') AND id > 1) FROM logs")
    assert need.required == ()
    assert len(need.marked) == 1
    assert need.filters == ()


def test_a_name_may_be_a_value():
    parsed = find_references("SELECT ? FROM IDENTIFIER(?) WHERE id = ?", known, args=[1, "db.logs", 2])
    assert [reference.name for reference in parsed.references] == ["db.logs"]
    assert rewrite_for_spark(parsed, [COLUMNS], [1, "db.logs", 2]).args == [1, 2]
    assert find_references("SELECT * FROM IDENTIFIER(:n)", known, args={"n": "other"}) is None
    assert find_references("SELECT * FROM IDENTIFIER(:n)", known) is None
    assert table_names("SELECT * FROM IDENTIFIER(:n)", {"n": "db.logs"}) == ["db.logs"]


def test_a_search_in_a_sample_takes_no_row_from_it():
    _, (need,) = rewritten("SELECT id FROM logs TABLESAMPLE (5 ROWS) WHERE TEXTSEARCH(note, 'x')")
    assert need.required == ()
    assert len(need.marked) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM logs AS l(message, a, b, c) WHERE TEXTSEARCH(message, 'x')",
        "SELECT a FROM logs PIVOT (sum(id) FOR level IN ('x' AS a)) WHERE TEXTSEARCH(message, 'x')",
        "SELECT a FROM logs JOIN other PIVOT (sum(id) FOR level IN ('x' AS a)) WHERE TEXTSEARCH(message, 'x')",
        "FROM logs |> WHERE TEXTSEARCH(message, 'x')",
    ],
)
def test_a_search_of_rows_in_another_shape_is_refused(text):
    with pytest.raises(NotSupported, match="subquery"):
        rewritten(text)


@pytest.mark.parametrize("query", ["'a' 'b'", "'a' || 'b'", "'a' || note"])
def test_a_query_that_has_to_be_computed_is_refused(query):
    for text in (f"SELECT note INDEXQUERY {query} FROM logs", f"SELECT id FROM logs WHERE TEXTSEARCH(note, {query})"):
        with pytest.raises(QueryInvalid, match="must be a text in quotes or a parameter"):
            rewritten(text)


def test_all_columns_are_there_where_a_name_is_computed():
    assert rewritten("SELECT IDENTIFIER('level') FROM logs WHERE TEXTSEARCH(note, 'x')")[1][0].columns is None
    assert rewritten("SELECT count(*, id) FROM logs WHERE id = 1 OR id = 2")[1][0].columns is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (r"'caf\u00e9 \U0001F600 \ud83d\ude00 \101\n'", "caf\u00e9 \U0001f600 \U0001f600 A\n"),
        (r"'100\% a\_b \q\'\x41'", r"100\% a\_b q'x41"),
        (r"'\ud83d'", "\ufffd"),
        (r"'\U00110000 \u12'", "\ufffd u12"),
    ],
)
def test_a_text_is_read_as_spark_reads_it(typed, meant):
    (token,) = tokens(typed)
    assert unquoted(token) == meant
    statement = f"SELECT id FROM logs WHERE TEXTSEARCH(note, {typed})"
    if r"\q" in typed or r"\u12'" in typed:
        with pytest.raises(QueryInvalid, match="drops the backslash"):
            rewritten(statement)
    else:
        assert rewritten(statement)[1][0].required[0].query == meant


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
        "SELECT 1 FROM logs, (SELECT upper(message) AS m FROM t) s WHERE TEXTSEARCH(m, 'a')",
        "SELECT 1 FROM logs WHERE TEXTSEARCH(x.message, 'a')",
        "SELECT 1 FROM logs WHERE TEXTSEARCH(id, 'a', 'b')",
        "SELECT 1 FROM logs WHERE INDEXQUERYALL(message, 'a')",
    ):
        with pytest.raises(QueryInvalid) as caught:
            rewritten(text)
        assert 0 <= caught.value.position < len(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM logs a WHERE EXISTS (SELECT 1 FROM (SELECT 'x' AS message) a WHERE TEXTSEARCH(a.message, 'b'))",
        "SELECT 1 FROM logs WHERE id IN (SELECT 1 FROM (SELECT 'x' AS message) s WHERE TEXTSEARCH(message, 'b'))",
        "SELECT 1 FROM logs WHERE id IN (SELECT 1 FROM (SELECT 'x' AS message) WHERE message INDEXQUERY 'b')",
        "WITH s AS (SELECT 'x' AS message) SELECT 1 FROM logs WHERE EXISTS (SELECT 1 FROM s WHERE TEXTSEARCH(*, 'b'))",
    ],
)
def test_a_search_of_something_nearer_is_not_taken_for_one_of_a_table_further_out(text):
    with pytest.raises(QueryInvalid, match="table itself"):
        rewritten(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT id FROM (SELECT * FROM logs) s WHERE TEXTSEARCH(s.message, 'a')",
            (
                "SELECT id FROM (SELECT * EXCEPT (`__search0_0`) , `__search0_0` AS `__search0_0` FROM <0> AS logs) s "
                "WHERE s.`__search0_0`"
            ),
        ),
        (
            "WITH c AS (SELECT id, note AS n FROM logs WHERE id > 3) SELECT * FROM c x WHERE TEXTSEARCH(n, 'a')",
            (
                "WITH c AS (SELECT id, note AS n , `__search0_0` AS `__search0_0` FROM <0> AS logs WHERE id > 3) "
                "SELECT * EXCEPT (`__search0_0`) FROM c x WHERE x.`__search0_0`"
            ),
        ),
    ],
)
def test_a_subquery_hands_on_what_a_search_says_of_its_rows(text, expected):
    done, needs = rewritten(text)
    assert done.replace("  ", " ") == expected
    (search,) = needs[0].required
    assert search.query == "a"


@pytest.mark.parametrize(
    "between",
    [
        "SELECT * FROM logs ORDER BY id LIMIT 5",
        "SELECT *, row_number() OVER (ORDER BY id) AS n FROM logs",
        "SELECT * FROM logs TABLESAMPLE (10 PERCENT)",
    ],
)
def test_a_subquery_that_chooses_rows_chooses_among_all(between):
    _, needs = rewritten(f"SELECT id FROM ({between}) s WHERE TEXTSEARCH(message, 'a')")
    assert not needs[0].required
    assert [search.query for search in needs[0].marked] == ["a"]


def test_a_with_name_that_has_two_readers_keeps_the_rows_of_both():
    text = "WITH c AS (SELECT * FROM logs) SELECT id FROM c WHERE TEXTSEARCH(message, 'a') UNION ALL SELECT * FROM c"
    done, needs = rewritten(text)
    assert not needs[0].required
    assert done.endswith("UNION ALL SELECT * EXCEPT (`__search0_0`) FROM c")


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


@pytest.mark.parametrize("typed", [r"'a\:b'", r'"web\-1"'])
def test_a_search_whose_backslash_sql_would_drop_is_refused_with_what_to_write(tmp_path, typed):
    table = indextables.create(tmp_path / "t", pa.schema([("m", pa.string())]))
    table.append([{"m": "a:b"}, {"m": "web-1"}])
    session = LocalSession({"t": str(tmp_path / "t")})
    with pytest.raises(QueryInvalid, match="drops the backslash") as caught:
        session.run(f"SELECT m FROM t WHERE m INDEXQUERY {typed}")
    kept = typed.replace("\\", "\\\\")
    assert f"write {kept}" in str(caught.value)
    assert session.run(f"SELECT m FROM t WHERE m INDEXQUERY {kept}").num_rows == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT count(*) FROM logs WHERE TEXTSEARCH(note, 'x')", "SELECT {} AS `count(1)` FROM <0> AS logs  "),
        (
            "SELECT count(*) n FROM logs AS l WHERE (TEXTSEARCH(note, 'x;') AND id IN (1, 2)) LIMIT 1",
            "SELECT {} n FROM <0> AS l  LIMIT 1",
        ),
        (
            "SELECT (SELECT count(*) FROM t WHERE id < 3 AND TEXTSEARCH(*, 'where')) AS n FROM one WHERE a = 1",
            "SELECT (SELECT {} AS `count(1)` FROM <0> AS t  ) AS n FROM one WHERE a = 1",
        ),
    ],
)
def test_a_count_of_matching_rows_is_a_number(text, expected):
    statement, (need,) = rewritten(text)
    assert need.counts
    assert statement.rstrip() == expected.format(f"`{COUNTED}`").rstrip()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(id) FROM logs WHERE TEXTSEARCH(note, 'x')",
        "SELECT count(*) + 1 FROM logs WHERE TEXTSEARCH(note, 'x')",
        "SELECT count(*) FROM logs WHERE TEXTSEARCH(note, 'x') OR id = 1",
        "SELECT count(*) FROM logs WHERE NOT TEXTSEARCH(note, 'x')",
        "SELECT count(*) FROM logs WHERE TEXTSEARCH(note, 'x') AND upper(note) = 'X'",
        "SELECT count(*) FROM logs WHERE TEXTSEARCH(note, 'x') AND _score > 1",
        "SELECT count(*) FROM logs WHERE TEXTSEARCH(note, 'x') AND rand() < 0.5",
        "SELECT count(*) FROM logs WHERE TEXTSEARCH(note, 'x') GROUP BY level",
        "SELECT count(*) FROM logs WHERE TEXTSEARCH(note, 'x') HAVING count(*) > 3",
        "SELECT count(*) FROM logs JOIN other WHERE TEXTSEARCH(note, 'x')",
        "SELECT count(*) FROM logs, other WHERE TEXTSEARCH(note, 'x')",
        "SELECT count(*) FROM logs TABLESAMPLE (5 ROWS) WHERE TEXTSEARCH(note, 'x')",
        "SELECT count(*) FROM logs LATERAL VIEW explode(array(1, 2)) e WHERE TEXTSEARCH(note, 'x')",
        "SELECT DISTINCT count(*) OVER () FROM logs WHERE TEXTSEARCH(note, 'x')",
        "SELECT count(*), 1 FROM logs WHERE TEXTSEARCH(note, 'x')",
        "SELECT count(*) FROM logs WHERE id = 3",
    ],
)
def test_what_the_index_does_not_count_is_left_to_spark(text):
    _, (need,) = rewritten(text)
    assert not need.counts
    assert need.limit is None


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("SELECT * FROM logs WHERE TEXTSEARCH(note, 'x') LIMIT 7", 7),
        ("SELECT id, note AS n, 1 FROM logs l WHERE TEXTSEARCH(note, 'x') AND id < 3 LIMIT 7", 7),
        ("SELECT * FROM logs WHERE TEXTSEARCH(note, 'x') LIMIT ALL", None),
        ("SELECT * FROM logs WHERE TEXTSEARCH(note, 'x') LIMIT 3 + 4", None),
        ("SELECT * FROM logs WHERE TEXTSEARCH(note, 'x') LIMIT 7 OFFSET 2", None),
        ("SELECT * FROM logs WHERE TEXTSEARCH(note, 'x') ORDER BY id LIMIT 7", None),
        ("SELECT * FROM logs WHERE TEXTSEARCH(note, 'x') SORT BY id LIMIT 7", None),
        ("SELECT DISTINCT id FROM logs WHERE TEXTSEARCH(note, 'x') LIMIT 7", None),
        ("SELECT max(id) FROM logs WHERE TEXTSEARCH(note, 'x') LIMIT 7", None),
        ("SELECT explode(split(note, ' ')) FROM logs WHERE TEXTSEARCH(note, 'x') LIMIT 7", None),
        ("SELECT id FROM logs WHERE TEXTSEARCH(note, 'x') AND upper(note) = 'X' LIMIT 7", None),
        ("SELECT id FROM logs WHERE TEXTSEARCH(note, 'x') UNION ALL SELECT 1 LIMIT 7", None),
    ],
)
def test_a_limit_reaches_the_table_where_any_rows_do(text, limit):
    _, (need,) = rewritten(text)
    assert need.limit == limit


def test_a_column_that_is_only_searched_is_not_read():
    _, (need,) = rewritten("SELECT level FROM logs WHERE TEXTSEARCH(message, 'note') AND `id` > 1")
    assert need.columns == ("id", "level")
    _, (need,) = rewritten("SELECT level, l.message FROM logs l WHERE l.message INDEXQUERY 'x' OR note IS NULL")
    assert need.columns == ("level", "message", "note")
