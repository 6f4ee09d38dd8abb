"""What DataFusion does not run is refused in one plain sentence; a command that is almost one shows its grammar."""

import datetime as dt

import pyarrow as pa
import pytest

import indextables
from indextables.errors import CommandSyntaxError, NotSupported, QueryInvalid

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("b", pa.bool_()),
        ("y", pa.binary()),
        ("l", pa.list_(pa.int64())),
        ("d", pa.date32()),
    ]
)
OF_THE_ENGINE = (
    "Internal error",
    "bug",
    "signature",
    "Candidate",
    "Utf8",
    "Int32",
    "Timestamp(",
    "ParserError",
    "coerc",
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = indextables.create(str(tmp_path_factory.mktemp("told") / "t"), SCHEMA)
    made.append([{"i": 1, "s": "an", "ts": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "b": True, "y": b"x", "l": [1]}])
    return made


FUNCTIONS = ["avg", "sum", "median", "stddev", "var_pop", "abs", "round", "floor", "sqrt", "upper", "trim", "bit_and"]


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_that_does_not_take_a_column_says_so_in_one_sentence(table, function):
    told = []
    for column in SCHEMA.names:
        try:
            table.sql(f"select {function}({column}) from t")
        except (QueryInvalid, NotSupported) as fault:
            told.append(str(fault))
    assert told
    for sentence in told:
        assert sentence.startswith(f"{function} does not take ")
        assert not [word for word in OF_THE_ENGINE if word in sentence], sentence
        assert len(sentence) < 120


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("s + i", "a text + a whole number cannot be computed"),
        ("b * d", "true or false * a date cannot be computed"),
        ("i || b", "a whole number || true or false cannot be computed"),
        ("i < l", "a whole number < a list cannot be computed"),
        ("i like s", "LIKE compares texts, not a whole number with a text"),
        ("substr(s)", "substr takes a text and a place"),
    ],
)
def test_types_that_do_not_meet_are_told_in_plain_words(table, expression, words):
    with pytest.raises(QueryInvalid) as caught:
        table.sql(f"select {expression} from t")
    assert words in str(caught.value)
    assert not [word for word in OF_THE_ENGINE if word in str(caught.value)]


@pytest.mark.parametrize(
    "text",
    [
        "insert into t values (1)",
        "INSERT INTO t SELECT * FROM t",
        "copy t to 'x'",
        "show functions",
        "create table x (i int)",
        "drop table t",
        "update t set i = 1",
        "delete from t",
        "merge into t using t on true when matched then delete",
        "use x",
        "begin",
        "commit;",
        "analyze t",
        "/* a note */ load x",
        "call f()",
        "grant select on t to you",
        "table t",
    ],
)
def test_a_statement_that_is_no_query_is_refused_by_its_kind(table, text):
    before = table.refresh().version
    changes_rows = text.split()[0] in ("update", "delete", "merge")
    # A session runs those.
    for run in (table.sql, *([] if changes_rows else [indextables.LocalSession({"t": table.url}).run])):
        with pytest.raises(NotSupported, match="commands of ours are run here") as caught:
            run(text)
        word = text.removeprefix("/* a note */ ").split()[0].rstrip(";").upper()
        assert str(caught.value).startswith(f"{word} is no query")
        assert "\n" not in str(caught.value)
    assert table.refresh().version == before


@pytest.mark.parametrize("text", ["alter table t add column x int", "MERGE SPLITS t", "describe indextables history t"])
def test_a_command_is_no_query_of_a_table(table, text):
    before = table.refresh().version
    with pytest.raises(NotSupported, match=r"this is a command, .* indextables.LocalSession") as caught:
        table.sql(text)
    assert "\n" not in str(caught.value)
    assert table.refresh().version == before


@pytest.mark.parametrize("text", ["select", "SELECT;", " select -- nothing"])
def test_a_select_of_nothing_is_told(table, text):
    with pytest.raises(QueryInvalid, match="SELECT says nothing to select"):
        table.sql(text)


@pytest.mark.parametrize(
    ("text", "command", "at"),
    [
        ("DESCRIBE INDEXTABLES HISTRY t", "DESCRIBE INDEXTABLES (STATE", "HISTRY"),
        ("desc indextables helth t", "DESCRIBE INDEXTABLES (STATE", "helth"),
        ("DESCRIBE INDEXTABEL HISTORY t", "DESCRIBE INDEXTABLES (STATE", "INDEXTABEL"),
        ("PURGE INDEXTABEL t", "PURGE INDEXTABLE", "INDEXTABEL"),
        ("PURGE t", "PURGE INDEXTABLE", "t"),
        ("MERGE SPLIT t", "MERGE SPLITS", "SPLIT"),
        ("MERG SPLITS t", "MERGE SPLITS", "MERG"),
        ("MERG INTO t USING s ON t.i = s.i WHEN MATCHED THEN DELETE", "MERGE", "MERG"),
        ("DELET FROM t WHERE i = 1", "DELETE", "DELET"),
        ("VERFY INDEXTABLES t", "VERIFY INDEXTABLES", "VERFY"),
        ("REPAIR t", "REPAIR INDEXFILES", "t"),
        ("DROP INDEXTABEL PARTITIONS FROM t WHERE true", "DROP INDEXTABLES", "INDEXTABEL"),
        ("CREATE INDXTABLE 'x' (a int)", "CREATE INDEXTABLE", "INDXTABLE"),
        ("VACUM t", "VACUUM", "VACUM"),
        ("OPTIMISE t", "OPTIMIZE", "OPTIMISE"),
        ("RESTOR t TO VERSION AS OF 1", "RESTORE", "RESTOR"),
        ("PREWARM t", "PREWARM INDEXTABLES", "t"),
    ],
)
def test_a_mistyped_command_shows_the_grammar_of_the_nearest(table, text, command, at):
    for run in (table.sql, indextables.LocalSession({"t": table.url}).run):
        with pytest.raises(CommandSyntaxError) as caught:
            run(text)
        assert f"syntax: {command}" in str(caught.value)
        assert text[caught.value.position :].split()[0] == at


@pytest.mark.parametrize("text", ["DESCRIBE t", "describe indextables", "EXPLAIN SELECT 1", "(SELECT 1)", "VALUES (1)"])
def test_queries_are_not_taken_for_commands(table, text):
    others = {"indextables": table} if "indextables" in text else {}
    assert table.sql(text, **({"tables": others} if others else {})).num_rows > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select id from (select i as id, x from t, unnest(l) as y(x))", "unnest of a column is offered in the SELECT"),
        ("select i from t where 1 in (select unnest(l))", "array_has"),
        ("select x from t, unnest(l) x where x = 1", "unnest of a column is offered in the SELECT list"),
        ("select i from t lateral view explode(l) x as y", "LATERAL VIEW is not offered: write SELECT id, unnest"),
        ("select explode(l) from t", "there is no function explode: write unnest(list)"),
        ("select size(l) from t", "write cardinality(list)"),
        ("select if(b, 1, 2) from t", "write CASE WHEN"),
        ("select (struct(1 as a)).b", ""),
        ("select i from t where s rlike 'a'", "write column ~ 'pattern'"),
    ],
)
def test_habits_of_spark_are_refused_with_what_to_write_instead(table, text, words):
    with pytest.raises((QueryInvalid, NotSupported)) as caught:
        table.sql(text)
    assert words in str(caught.value)
    assert not [word for word in (*OF_THE_ENGINE, "Ident", "Word(", "outer_ref") if word in str(caught.value)]


def test_parts_of_times_and_items_of_lists_are_what_a_predicate_says(table):
    found = table.sql("select year(ts), quarter(ts) + 1, HOUR (ts), 'year(ts)' as text, unnest(l) from t")
    assert found.column_names == ["year(ts)", "quarter(ts) + 1", "hour(ts)", "text", "unnest(l)"]
    assert found.to_pylist() == [dict(zip(found.column_names, [2024, 2, 0, "year(ts)", 1], strict=True))]
    assert table.count(where="year(ts) = 2024 AND quarter(ts) = 1 AND hour(ts) = 0") == 1
    assert table.sql("select count(*) as n from t where year(ts) = 2024").to_pylist() == [{"n": 1}]
    with pytest.raises(QueryInvalid) as caught:
        table.sql("select year(nope) from t")
    assert caught.value.position == len("select year(")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("not i", "true or false, not a whole number"),
        ("i and b", "true or false, not a whole number"),
        ("s or b", "true or false, not a text"),
        ("'true'", "true or false, not a text"),
        ("i", "true or false, not a whole number"),
        ("b && b", "write AND"),
        ("~i = 1", "not offered"),
        ("sqrt(-i) > 0", "negative number"),
        ("CAST(1e300 AS INT) = i", "too large"),
        ("mod(i, 2) = 1", "a % b"),
        ("last_day(d) = d", "date_trunc"),
    ],
)
def test_a_condition_that_is_none_is_told_in_a_sentence(table, condition, words):
    with pytest.raises((QueryInvalid, NotSupported)) as caught:
        table.sql(f"select i from t where {condition}")
    assert words in str(caught.value)
    assert not [word for word in OF_THE_ENGINE if word in str(caught.value)]
