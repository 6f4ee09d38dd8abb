"""Statements run by the engine agree with a look at every row."""

import contextlib
import math
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import IndexTablesError, NotSupported, QueryInvalid, SplitCorrupt
from indextables.sql.local.engine import run
from tests.sql.memory import MemorySource, matches

LIMIT = 256 * 2**20
ROWS = [
    {"id": 1, "Level": "E", "message": "db timeout", "x": 1.0},
    {"id": 2, "Level": "I", "message": "all good", "x": math.nan},
    {"id": 3, "Level": "E", "message": "timeout again", "x": -0.0},
    {"id": 4, "Level": None, "message": "slow disk", "x": 2.0},
    {"id": 5, "Level": "W", "message": None, "x": None},
    {"id": 6, "Level": "W", "message": "disk timeout", "x": 0.0},
    {"id": 7, "Level": "I", "message": "", "x": math.inf},
]
SCHEMA = pa.schema([("id", pa.int64()), ("Level", pa.string()), ("message", pa.string()), ("x", pa.float64())])


def source():
    return MemorySource(pa.Table.from_pylist(ROWS, schema=SCHEMA))


def ids(text, **tables):
    given_tables = tables or {"t": source()}
    return run(text, given_tables, memory_limit=LIMIT).column(0).to_pylist()


def total_order(value):
    return (1, 0.0) if math.isnan(value) else (0, value)


def compare(key, op, literal):
    def holds(row):
        value = row[key]
        if value is None:
            return None
        a, b = (total_order(value), total_order(literal)) if isinstance(value, float) else (value, literal)
        return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]

    text = f"'{literal}'" if isinstance(literal, str) else str(literal)
    return f"{key} {op} {text}", holds


def search(word):
    """Unknown, not false, in a row of nulls that an outer join made up."""

    def holds(row):
        return None if row["id"] is None else matches(row, "message", word)

    return f"TEXTSEARCH(message, '{word}')", holds


def is_null(key):
    return f"{key} IS NULL", lambda row: row[key] is None


def negated(term):
    def holds(row):
        value = term[1](row)
        return None if value is None else not value

    return f"(NOT {term[0]})", holds


def both(left, right):
    def holds(row):
        values = {left[1](row), right[1](row)}
        return False if False in values else None if None in values else True

    return f"({left[0]} AND {right[0]})", holds


def either(left, right):
    def holds(row):
        values = {left[1](row), right[1](row)}
        return True if True in values else None if None in values else False

    return f"({left[0]} OR {right[0]})", holds


operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
atoms = st.one_of(
    st.builds(search, st.sampled_from(["timeout", "disk", "nothing"])),
    st.builds(compare, st.just("id"), operators, st.integers(0, 8)),
    st.builds(compare, st.just("Level"), operators, st.sampled_from("EIW")),
    st.builds(compare, st.just("x"), operators, st.sampled_from([0.0, 1.0, 2.5])),
    st.builds(is_null, st.sampled_from(["Level", "message", "x"])),
)
predicates = st.recursive(
    atoms, lambda t: st.one_of(st.builds(negated, t), st.builds(both, t, t), st.builds(either, t, t)), max_leaves=6
)


@pytest.mark.slow
@given(predicates)
@settings(max_examples=150, deadline=None)
def test_any_condition_gives_the_rows_it_holds_for(predicate):
    text, holds = predicate
    expected = [row["id"] for row in ROWS if holds(row)]
    assert ids(f"SELECT id FROM t WHERE {text} ORDER BY id") == expected


@pytest.mark.slow
@given(predicates, predicates)
@settings(max_examples=40, deadline=None)
def test_a_condition_on_the_optional_side_of_a_join_gives_the_rows_it_holds_for(on, where):
    def renamed(text):
        for name in ("id ", "Level", "message", "x "):
            text = text.replace(name, f"r.{name}")
        return text

    empty = dict.fromkeys(SCHEMA.names)
    expected = []
    for row in ROWS:
        partners = [other for other in ROWS if other["id"] == row["id"] and on[1](other)] or [empty]
        expected += [row["id"] for other in partners if where[1](other)]
    text = f"SELECT l.id FROM t l LEFT JOIN t r ON l.id = r.id AND {renamed(on[0])}"
    assert ids(f"{text} WHERE {renamed(where[0])} ORDER BY l.id") == expected


def test_only_needed_columns_rows_and_matches_are_read():
    t = source()
    assert ids("SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout') AND level = 'E' ORDER BY id", t=t) == [1, 3]
    ((columns, where, required, marked),) = t.asked
    assert columns == ("id", "Level")
    assert where is not None
    assert (required, marked) == (("timeout",), ())


def test_a_search_under_or_is_marked_row_by_row():
    t = source()
    assert ids("SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout') OR id = 4 ORDER BY id", t=t) == [1, 3, 4, 6]
    assert t.asked[0][2:] == ((), ("timeout",))


def test_a_bare_count_reads_no_column():
    t = source()
    assert ids("SELECT count(*) FROM t", t=t) == [7]
    assert t.asked == [((), None, (), ())]


def test_a_subquery_used_twice_reads_what_either_use_needs():
    t = source()
    text = (
        "WITH c AS (SELECT * FROM t WHERE TEXTSEARCH(message, 'timeout')) "
        "SELECT c.id FROM c JOIN c d ON c.id = d.id + 2 WHERE d.id = 1"
    )
    assert ids(text, t=t) == [3]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT l.id FROM t l LEFT JOIN t r ON l.id = r.id AND r.id >= 1 WHERE r.id < 2 ORDER BY l.id",
        "SELECT l.id FROM t l JOIN t r ON l.id = r.id WHERE r.id > 0 AND r.id < 2 AND r.level = 'E' ORDER BY 1",
        "SELECT id FROM t l JOIN t r USING (id) WHERE TEXTSEARCH(r.message, 'db') AND r.id > 0 AND r.id < 2 ORDER BY 1",
    ],
)
def test_an_order_by_a_column_that_the_filter_pins_survives_the_planner(text):
    assert ids(text) == [1]


def test_a_limit_stops_reading_early():
    table = pa.table({"id": range(300_000)})
    taken = []

    class Counted(MemorySource):
        def batches(self, columns, *_, **__):
            for batch in table.select(columns).to_batches(max_chunksize=1000):
                taken.append(batch.num_rows)
                yield batch

    assert len(ids("SELECT id FROM t WHERE id % 2 = 0 LIMIT 10", t=Counted(table))) == 10
    assert sum(taken) < 150_000


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("SELECT id FROM t LIMIT 2", 2),
        ("SELECT id FROM t LIMIT 2 OFFSET 3", 5),
        ("SELECT id, TEXTSEARCH(message, 'timeout') FROM t LIMIT 2", 2),
        ("SELECT id FROM (SELECT * FROM t LIMIT 6) WHERE id > 1 LIMIT 2", 6),
        ("SELECT id FROM t WHERE id > 1 LIMIT 2", None),
        ("SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout') LIMIT 2", None),
        ("SELECT id FROM t ORDER BY x LIMIT 2", None),
        ("SELECT level FROM t GROUP BY level LIMIT 2", None),
        ("SELECT t.id FROM t LEFT JOIN t u ON t.id = u.id + 1 LIMIT 2", None),
        ("SELECT id FROM t UNION ALL (SELECT id FROM t LIMIT 1) LIMIT 2", 2),
    ],
)
def test_a_table_gives_no_more_rows_than_the_statement_takes(text, limit):
    t = source()
    assert len(ids(text, t=t)) == 2
    assert set(t.limits) == {limit}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t WHERE id >= 0 LIMIT 1",
        "SELECT t.id FROM u JOIN t ON t.id = u.id LIMIT 1",
        "SELECT id FROM t WHERE id >= 0 UNION ALL SELECT id FROM u LIMIT 1",
        "SELECT 1 / (id - 5) AS x FROM t",
    ],
)
def test_nothing_is_read_any_more_when_the_answer_is_there(text):
    inside = threading.Semaphore(0)

    class Slow(MemorySource):
        def batches(self, columns, *_, **__):
            for number in range(9):
                inside.release()
                sum(range(number * 5_000_000))
                inside.acquire()
                yield from self.table.select(columns).to_batches()

    table = pa.table({"id": range(10_000)})
    with contextlib.suppress(QueryInvalid):
        ids(text, t=Slow(table), u=MemorySource(table.slice(0, 10)))
    assert not inside.acquire(blocking=False)


def test_a_statement_that_breaks_its_parser_is_refused_by_type():
    with pytest.raises(QueryInvalid, match="without"):
        ids("SELECT * FROM t WHERE TEXTSEARCH(m, 'a') |> LIMIT 3", t=MemorySource(pa.table({"m": ["a"]})))


def test_conditions_that_move_with_the_clock_are_left_to_the_engine():
    t = MemorySource(pa.table({"id": [1], "at": pa.array([0], pa.timestamp("us", "UTC"))}))
    assert ids("SELECT id FROM t WHERE at < now()", t=t) == [1]
    assert t.asked[0][1] is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("upper(level) = 'E'", [1, 3]),
        ("length(message) > 10 AND id < 6", [3]),
        ("abs(id) IN (1, 2) OR lower(level) = 'w'", [1, 2, 5, 6]),
        ("level LIKE 'E%'", [1, 3]),
        ("CAST(id AS VARCHAR) = '4'", [4]),
        ("CASE WHEN id = 1 THEN true ELSE level = 'W' END", [1, 5, 6]),
        ("id = ANY(ARRAY[1, 2])", [1, 2]),
        ("-id < -6", [7]),
        ("id IN (SELECT max(id) FROM t)", [7]),
        ("EXISTS (SELECT 1 FROM t u WHERE u.id = t.id + 6)", [1]),
        ("message ~ '^db'", [1]),
        ("x IS NOT NULL AND isnan(x)", [2]),
        ("id BETWEEN 2 AND 3", [2, 3]),
        ("(level IS DISTINCT FROM 'E') AND id < 5", [2, 4]),
        ("(id, level) = (1, 'E')", [1]),
    ],
)
def test_conditions_of_every_shape_are_answered(condition, expected):
    assert ids(f"SELECT id FROM t WHERE {condition} ORDER BY id") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS r FROM t) WHERE r = 1", [7]),
        (
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT n FROM c ORDER BY 1",
            [1, 2, 3],
        ),
        ("SELECT unnest([id, id + 10]) AS u FROM t WHERE id = 2 ORDER BY u", [2, 12]),
        ("SELECT v.n FROM (VALUES (1), (2)) AS v(n) JOIN t ON t.id = v.n ORDER BY 1", [1, 2]),
        ("SELECT DISTINCT ON (level) id FROM t WHERE level = 'E' ORDER BY level, id", [1]),
        ("SELECT id FROM t WHERE id < 3 INTERSECT SELECT id FROM t WHERE id > 1", [2]),
        ("SELECT count(*) FROM t GROUP BY ROLLUP(level) ORDER BY 1 DESC LIMIT 1", [7]),
    ],
)
def test_statements_of_every_shape_are_answered(text, expected):
    assert ids(text) == expected


def test_stars_show_the_columns_of_the_table_in_its_spelling():
    result = run("SELECT * FROM t WHERE TEXTSEARCH(*, 'slow')", {"t": source()}, memory_limit=LIMIT)
    assert result.column_names == SCHEMA.names


def test_quoted_names_find_their_column_and_quoted_texts_stay():
    text = """SELECT "Level" AS l, '"Level"' AS literal FROM t WHERE "LEVEL" = 'W' ORDER BY id LIMIT 1"""
    assert run(text, {"t": source()}, memory_limit=LIMIT).to_pylist() == [{"l": "W", "literal": '"Level"'}]


def test_parameters_are_bound():
    text = "SELECT id FROM t WHERE TEXTSEARCH(message, $q) AND id > $least ORDER BY id"
    params = {"q": "timeout", "least": 1}
    assert run(text, {"t": source()}, params=params, memory_limit=LIMIT).column(0).to_pylist() == [3, 6]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("SELEC 1", QueryInvalid, "SQL statement"),
        ("SELECT nope FROM t", QueryInvalid, "nope"),
        ("SELECT 1 FROM nope", QueryInvalid, "nope"),
        ("SELECT 1 FROM 'file.parquet'", QueryInvalid, "there is no table 'file.parquet' here"),
        ("SELECT 1 / 0", QueryInvalid, "[Zz]ero"),
        ("SELECT id FROM t WHERE Level = 1", QueryInvalid, "whole number"),
        ("DROP TABLE t", NotSupported, "SELECT"),
        ("CREATE TABLE z AS SELECT 1", NotSupported, "SELECT"),
        ("COPY t TO 'stolen.parquet'", NotSupported, "SELECT"),
        ("SET datafusion.execution.batch_size = 1", NotSupported, "SELECT"),
        ("CREATE EXTERNAL TABLE z STORED AS CSV LOCATION '/etc/passwd'", NotSupported, "SELECT"),
        ("", QueryInvalid, "statement"),
    ],
)
def test_a_wrong_statement_is_one_clear_line(text, kind, words):
    with pytest.raises(kind, match=words) as caught:
        ids(text)
    assert "\n" not in str(caught.value)


FRAGMENTS = [
    *(
        "SELECT",
        "*",
        "id",
        "message",
        "FROM",
        "t",
        "WHERE",
        "TEXTSEARCH(message, 'timeout')",
        "TEXTSEARCH(",
        "'x'",
        ")",
    ),
    *(
        "(",
        ",",
        "AND",
        "OR",
        "NOT",
        "JOIN t u ON",
        "t.id = u.id",
        "WITH c AS (",
        "UNION",
        "GROUP BY",
        "ORDER BY",
        "LIMIT",
    ),
    *(
        "1",
        "=",
        "AS",
        "TEXTSEARCH(*, 'disk')",
        "u.",
        "$q",
        '"',
        "'",
        ";",
        "--",
        "/*",
        "*/",
        "count(*)",
        "\x00",
        "💥",
        "\\",
    ),
]


@pytest.mark.slow
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14), st.booleans())
@settings(max_examples=250, deadline=None)
def test_any_text_is_answered_or_refused_with_a_typed_error(parts, whole):
    text = " ".join(["SELECT id FROM t WHERE", *parts] if whole else parts)
    refused = None
    try:
        run(text, {"t": source()}, params={"q": "timeout"}, memory_limit=LIMIT)
    except IndexTablesError as error:
        refused = str(error)
    assert "\n" not in (refused or "")


@pytest.mark.slow
def test_a_process_may_end_while_a_batch_is_read_that_nobody_waits_for():
    code = """
import pyarrow as pa
from indextables.sql.local.engine import run

class Slow:
    schema = pa.schema([("id", pa.int64())])

    def batches(self, *_, **__):
        for number in range(9):
            sum(range(number * 5_000_000))
            yield pa.record_batch([pa.array(range(100_000))], schema=self.schema)

print(run("SELECT id FROM t WHERE id >= 0 LIMIT 1", {"t": Slow()}, memory_limit=1 << 28).num_rows)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "1\n"), ran.stderr


def test_a_broken_file_is_reported_as_what_it_is():
    class Broken(MemorySource):
        def batches(self, *_, **__):
            raise SplitCorrupt("the footer of a.split is broken", path="a.split")
            yield

    with pytest.raises(SplitCorrupt, match="footer"):
        ids("SELECT id FROM t", t=Broken(source().table))
