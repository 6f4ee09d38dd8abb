"""Statements with searches: whoever finds the rows (the driver or tasks), they are the same."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest
from tests.spark.vectors import delete_rows

import indextables
from indextables.spark.session import registry

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("note", pa.string()),
        ("share", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)
WORDS = ["timeout", "disk", "query", "slow"]

WAYS = {
    "driver": {},
    "limited driver": {"search.driver.maxRows": "5"},
    "tasks": {"search.driver.maxSplits": "0"},
}
"""Options with which each of those who can find rows does it."""

SEARCHES = [
    "TEXTSEARCH(message, 'timeout')",
    "TEXTSEARCH(message, 'disk AND slow')",
    "TEXTSEARCH(*, 'disk') AND TEXTSEARCH(message, 'slow OR query')",
    "TEXTSEARCH(message, 'nowhere')",
    "TEXTSEARCH(message, 'timeout OR disk OR query OR slow')",
    "TEXTSEARCH(*, '*')",
    "TEXTSEARCH(*, 'NOT nowhere') AND TEXTSEARCH(message, '*') AND level = 'WARN'",
    "TEXTSEARCH(message, 'timeout') AND level = 'ERROR'",
    "TEXTSEARCH(message, 'query') AND id BETWEEN 5 AND 33 AND note IS NOT NULL",
    "TEXTSEARCH(message, 'slow') AND share > 0.25",
    "TEXTSEARCH(message, 'slow') AND NOT (share <= 0.25)",
    "TEXTSEARCH(message, 'disk') AND at >= TIMESTAMP '2026-01-05T00:00:00Z'",
    "TEXTSEARCH(message, 'disk') AND NOT TEXTSEARCH(note, 'fine')",
    "TEXTSEARCH(message, 'disk') AND (level = 'INFO' OR TEXTSEARCH(note, 'fine'))",
    "TEXTSEARCH(message, 'disk') AND upper(level) = 'WARN'",
]

SELECTS = [
    "SELECT count(*) FROM t WHERE {}",
    "SELECT count(*) AS n FROM t AS x WHERE {} LIMIT 5",
    "SELECT level, count(*) AS n, max(id) AS m FROM t WHERE {} GROUP BY level",
    "SELECT id, note, level FROM t WHERE {}",
    "SELECT (SELECT count(*) FROM t WHERE {}) AS n, min(id) AS m FROM t",
    "SELECT count(*) AS n FROM t WHERE {0} UNION ALL SELECT count(*) FROM t VERSION AS OF 1 WHERE {0}",
    "WITH hits AS (SELECT id FROM t WHERE {}) SELECT t.id, hits.id AS other FROM t LEFT JOIN hits ON t.id = hits.id",
]


def rows(start, stop):
    pick = random.Random(start)
    return [
        {
            "id": number,
            "level": pick.choice(["INFO", "WARN", "ERROR"]),
            "message": None if number % 7 == 3 else " ".join(pick.choices(WORDS, k=pick.randint(1, 3))),
            "note": pick.choice([None, "disk checked", "fine"]),
            "share": pick.choice([None, 0.0, -0.0, float("nan"), 0.5, float("inf")]),
            "at": dt.datetime(2026, 1, 1 + number % 20, tzinfo=dt.UTC),
            "tags": pick.choice([None, [], ["a"], ["a", "b"]]),
        }
        for number in range(start, stop)
    ]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three appends in three partitions, and rows of most of them deleted."""
    path = tmp_path_factory.mktemp("found") / "t"
    indexing = {"message": "text", "note": "text"}
    made = indextables.create(path, SCHEMA, partition_by=["level"], indexing=indexing)
    for start in (0, 20, 40):
        made.append(rows(start, start + 20))
    assert delete_rows(path, lambda number, rows: range(0, rows, 3) if number % 3 else []) > 5
    return indextables.open(path)


@pytest.fixture(params=sorted(WAYS))
def session(request, spark, table):
    """The session with our SQL, in which rows are found in one way only."""
    registry.register(spark, "t", table.url)
    settings = {f"spark.indextables.{key}": value for key, value in WAYS[request.param].items()}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield indextables.enable(spark)
    indextables.disable(spark)
    for key in settings:
        spark.conf.unset(key)
    registry.forget(spark, "t")


def answer(frame):
    return sorted(repr(tuple(row)) for row in frame.collect())


def expected(table, text):
    """What the embedded engine says."""
    found = table.sql(text.replace("t VERSION AS OF 1", "first"), tables={"first": table.at(1)})
    return sorted(map(repr, zip(*(column.to_pylist() for column in found.columns), strict=True)))


def test_statements_answer_as_the_embedded_engine_does(session, table):
    pick = random.Random(3)
    counts, others = SELECTS[:2], SELECTS[2:]
    for search in SEARCHES:
        for select in (pick.choice(counts), pick.choice(others)):
            text = select.format(search)
            assert answer(session.sql(text)) == expected(table, text), text


def test_rows_come_whole(session, table):
    text = "TEXTSEARCH(message, 'timeout OR disk')"
    ids = {row.id for row in session.sql(f"SELECT id FROM t WHERE {text}").collect()}
    assert len(ids) > 10
    found = session.sql(f"SELECT * FROM t WHERE {text}")
    assert found.schema == session.sql("SELECT * FROM t").schema
    plain = [row for row in session.sql("SELECT * FROM t").collect() if row.id in ids]
    assert answer(found) == sorted(repr(tuple(row)) for row in plain)


@pytest.mark.parametrize("search", SEARCHES[:1] + SEARCHES[5:13])
def test_a_limit_gives_any_rows_that_match(session, table, search):
    matching = set(expected(table, f"SELECT id, note FROM t WHERE {search}"))
    found = answer(session.sql(f"SELECT id, note FROM t WHERE {search} LIMIT 3"))
    assert len(found) == min(3, len(matching))
    assert set(found) <= matching


def test_a_limit_is_that_of_the_rows_which_the_statement_gives(session, table):
    search = "TEXTSEARCH(message, 'timeout OR disk OR query')"
    matching = table.sql(f"SELECT id, tags FROM t WHERE {search} ORDER BY id")
    tags = sum(len(value or []) for value in matching["tags"].to_pylist())
    wanted = min(tags, matching.num_rows)
    assert len(session.sql(f"SELECT explode(tags) AS tag FROM t WHERE {search} LIMIT {wanted}").collect()) == wanted
    highest = session.sql(f"SELECT id FROM t WHERE {search} ORDER BY id DESC LIMIT 2").collect()
    assert [row.id for row in highest] == matching["id"].to_pylist()[:-3:-1]
    levels = session.sql(f"SELECT DISTINCT level FROM t WHERE {search} LIMIT 3").collect()
    assert sorted(row.level for row in levels) == ["ERROR", "INFO", "WARN"]
    assert session.sql(f"SELECT max(id) AS m FROM t WHERE {search} LIMIT 1").collect()[0].m == highest[0].id
    behind = session.sql(f"SELECT id FROM t WHERE {search} LIMIT 3 OFFSET {matching.num_rows - 1}").collect()
    assert len(behind) == 1


def test_scores_are_those_of_the_whole_table(session, table):
    text = "SELECT id, _score FROM t WHERE TEXTSEARCH(message, 'timeout disk') AND id > 30"
    found = {row.id: row._score for row in session.sql(text).collect()}
    ours = {row["id"]: row["_score"] for row in table.search("message:(timeout disk)", limit=None).to_pylist()}
    assert found == pytest.approx({number: score for number, score in ours.items() if number > 30})


@pytest.mark.connect
def test_a_count_takes_values_and_keeps_its_name(session, table):
    by_name = "SELECT count(*) FROM t WHERE TEXTSEARCH(message, :q) AND id < :id"
    number = int(table.count("message:timeout", where="id < 30"))
    frame = session.sql(by_name, args={"q": "timeout", "id": 30})
    assert frame.columns == ["count(1)"]
    assert frame.collect()[0][0] == number
    by_place = "SELECT count(*) AS n FROM t WHERE TEXTSEARCH(message, ?) AND id < ?"
    assert session.sql(by_place, args=["timeout", 30]).collect()[0].n == number


def test_a_view_shows_the_version_it_was_made_of(session, table):
    text = "SELECT level, count(*) AS n FROM t WHERE TEXTSEARCH(message, 'timeout') GROUP BY level"
    session.sql(f"CREATE OR REPLACE TEMP VIEW found AS {text}")
    session.sql("CREATE OR REPLACE TEMP VIEW counted AS SELECT count(*) AS n FROM t WHERE TEXTSEARCH(message, 'disk')")
    try:
        assert answer(session.sql("SELECT * FROM found")) == expected(table, text)
        assert session.sql("SELECT n FROM counted").collect()[0].n == table.count("message:disk")
    finally:
        session.sql("DROP VIEW found")
        session.sql("DROP VIEW counted")
