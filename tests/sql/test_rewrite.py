"""What a statement with TEXTSEARCH becomes, and which ones are refused."""

import pyarrow as pa
import pytest

from indextables.errors import LimitExceeded, NotSupported, QueryInvalid
from indextables.sql.local.rewrite import MAX_DEPTH, rewrite

TABLES = {
    "t": pa.schema([("id", pa.int64()), ("message", pa.string()), ("Note", pa.string())]),
    "u": pa.schema([("id", pa.int64()), ("note", pa.string())]),
}


def test_a_statement_without_a_search_reaches_the_engine_as_typed():
    text = "SELECT 'it''s'  FROM t -- TextSearch in a comment"
    assert rewrite(text, TABLES).text == text


def test_the_query_text_leaves_the_statement():
    done = rewrite("SELECT id FROM t WHERE TEXTSEARCH(message, 'it''s \" ; DROP')", TABLES)
    assert "DROP" not in done.text
    (search,) = done.targets["__search0_t0"].searches
    assert (search.column, search.query) == ("message", "it's \" ; DROP")


def test_columns_are_found_in_any_case_and_named_as_the_table_names_them():
    done = rewrite("SELECT 1 FROM T AS x WHERE textsearch(X.NOTE, 'a')", TABLES)
    assert done.text == 'SELECT 1 FROM "__search0_t0" AS x WHERE x."__search0_0"'
    assert done.targets["__search0_t0"].searches[0].column == "Note"


def test_the_same_search_has_the_same_column_wherever_it_stands():
    call = "TEXTSEARCH(message, 'a')"
    done = rewrite(f"SELECT {call}, count(*) FROM t GROUP BY {call} ORDER BY TEXTSEARCH(t.message, 'a')", TABLES)
    hidden = 't."__search0_0"'
    assert done.text == f'SELECT {hidden}, count(*) FROM "__search0_t0" AS t GROUP BY {hidden} ORDER BY {hidden}'
    assert len(done.targets["__search0_t0"].searches) == 1


def test_stars_do_not_show_the_hidden_columns():
    done = rewrite("SELECT *, u.*, count(*) FROM t JOIN u USING (id) WHERE TEXTSEARCH(message, 'a')", TABLES)
    assert done.text.startswith('SELECT * EXCEPT ("__search0_0"), u.*, count(*) FROM "__search0_t0" AS t JOIN u')


def test_positions_hold_beside_letters_of_more_than_one_byte():
    done = rewrite("SELECT 'üü漢' FROM t WHERE TEXTSEARCH(message, 'ß') AND 1 = 1", TABLES)
    assert done.text == 'SELECT \'üü漢\' FROM "__search0_t0" AS t WHERE t."__search0_0" AND 1 = 1'
    assert done.targets["__search0_t0"].searches[0].query == "ß"


def test_a_hidden_name_never_meets_a_column_of_that_name():
    tables = {"t": pa.schema([("__search0_0", pa.bool_()), ("m", pa.string())])}
    done = rewrite("SELECT 1 FROM t WHERE TEXTSEARCH(m, 'a')", tables)
    assert done.targets["__search1_t0"].searches[0].name == "__search1_0"


def test_a_search_in_a_subquery_may_be_about_the_outer_table():
    done = rewrite("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE TEXTSEARCH(t.message, 'a'))", TABLES)
    assert done.targets["__search0_t0"].table == "t"
    assert 'FROM "__search0_t0" AS t' in done.text
    assert "FROM u" in done.text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM t a WHERE EXISTS (SELECT 1 FROM (SELECT 'x' AS message) a WHERE TEXTSEARCH(a.message, 'b'))",
        "SELECT 1 FROM t WHERE id IN (SELECT 1 FROM (SELECT 'x' AS message) s WHERE TEXTSEARCH(message, 'b'))",
        "WITH s AS (SELECT 'x' AS message) SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM s WHERE TEXTSEARCH(*, 'b'))",
    ],
)
def test_a_search_of_something_nearer_is_not_taken_for_one_of_a_table_further_out(text):
    with pytest.raises(NotSupported, match="table itself"):
        rewrite(text, TABLES)


@pytest.mark.parametrize("star", ["sum(t.*)", "(t.*)"])
def test_a_star_inside_of_something_else_shows_no_hidden_column(star):
    with pytest.raises(NotSupported, match="name the columns"):
        rewrite(f"SELECT {star} FROM t WHERE TEXTSEARCH(message, 'a')", TABLES)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("SELECT 1 FROM t WHERE TEXTSEARCH(message)", QueryInvalid, "takes a column"),
        ("SELECT 1 FROM t WHERE TEXTSEARCH(lower(message), 'a')", QueryInvalid, "must be a column"),
        ("SELECT 1 FROM t WHERE TEXTSEARCH(message, note)", QueryInvalid, "single quotes"),
        ("SELECT 1 FROM t WHERE TEXTSEARCH(message, $q)", QueryInvalid, "must be given as text"),
        ("SELECT 1 FROM t WHERE TEXTSEARCH(nope, 'a')", QueryInvalid, "not a column"),
        ("SELECT 1 FROM t, u WHERE TEXTSEARCH(note, 'a')", QueryInvalid, "could be about"),
        ("SELECT 1 FROM t, u WHERE TEXTSEARCH(*, 'a')", QueryInvalid, "could be about"),
        ("SELECT 1 FROM nope WHERE TEXTSEARCH(message, 'a')", QueryInvalid, "no table 'nope'"),
        ("SELECT 1 FROM t WHERE TEXTSEARCH(message, 'a", QueryInvalid, "quote"),
        ("SELECT 1 FROM t WHERE WHERE TEXTSEARCH(message, 'a')", QueryInvalid, "line 1"),
        ("SELECT 1; SELECT TEXTSEARCH(message, 'a') FROM t", QueryInvalid, "one SELECT"),
        ("SELECT 1 FROM (SELECT DISTINCT * FROM t) s WHERE TEXTSEARCH(s.message, 'a')", NotSupported, "are equal"),
        ("SELECT 1 FROM (SELECT id, max(note) n FROM u GROUP BY id) s WHERE TEXTSEARCH(n, 'a')", NotSupported, "compu"),
        ("SELECT 1 FROM (SELECT note FROM u GROUP BY note) s WHERE TEXTSEARCH(note, 'a')", NotSupported, "groups"),
        ("SELECT 1 FROM (SELECT * FROM u UNION SELECT * FROM u) s WHERE TEXTSEARCH(note, 'a')", NotSupported, "UNION"),
        ("SELECT 1 FROM (SELECT upper(note) AS note FROM u) s WHERE TEXTSEARCH(note, 'a')", NotSupported, "computes"),
        ("SELECT 1 FROM (SELECT id, note FROM u) s WHERE TEXTSEARCH(*, 'a')", NotSupported, "table itself"),
        ("WITH t AS (SELECT 1) SELECT 1 FROM t WHERE TEXTSEARCH(message, 'a')", NotSupported, "table itself"),
        ("SELECT * EXCEPT (id) FROM t WHERE TEXTSEARCH(message, 'a')", NotSupported, "name the columns"),
        ("SELECT TEXTSEARCH" + "(" * (MAX_DEPTH + 1), LimitExceeded, "deeper"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_reason(text, kind, words):
    with pytest.raises(kind, match=words):
        rewrite(text, TABLES)
