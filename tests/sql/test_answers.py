"""Which statements are answered without a plan of Spark's, and what their groups are."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from indextables.sql.command.references import find_references
from indextables.sql.spark.answers import Answer, Shown, answer_of, grouped_rows

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.string()),
        ("share", pa.float64()),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())),
        ("a b", pa.int32()),
    ]
)
SEARCH = "TEXTSEARCH(level, 'x')"


def asked(text, conditions=1):
    found = find_references(text, lambda name: name in ("t", "db.t"))
    assert found is not None, text
    return answer_of(found, SCHEMA, conditions)


def value(name, column=None):
    return Shown(name, "value", column or name)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"SELECT id, level FROM t WHERE {SEARCH} LIMIT 10", Answer((value("id"), value("level")), limit=10)),
        (f"SELECT * FROM t WHERE {SEARCH};", Answer(tuple(value(name) for name in SCHEMA.names))),
        (
            f"SELECT t.id AS Number, `a b` FROM db.t WHERE {SEARCH}",
            Answer((value("Number", "id"), value("a b"))),
        ),
        (f"SELECT x.id FROM indextables.`/p` x WHERE {SEARCH}", Answer((value("id"),))),
        (f"SELECT count(*) FROM t WHERE {SEARCH}", Answer((Shown("count(1)", "rows"),), ())),
        (
            f"SELECT count(*) AS n, day, max(id), sum(id) AS s FROM t WHERE {SEARCH} GROUP BY level, day",
            Answer(
                (Shown("n", "rows"), value("day"), Shown("max(id)", "max", "id"), Shown("s", "sum", "id")),
                ("level", "day"),
            ),
        ),
        (f"SELECT min(day), count(share) FROM t WHERE {SEARCH}", None),
    ],
)
def test_statements_that_are_answered(text, answer):
    if answer is None:
        answer = Answer((Shown("min(day)", "min", "day"), Shown("count(share)", "count", "share")), ())
    assert asked(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT id FROM t WHERE {SEARCH} ORDER BY id",
        f"SELECT DISTINCT id FROM t WHERE {SEARCH}",
        f"SELECT id FROM t WHERE {SEARCH} LIMIT 5 OFFSET 1",
        f"SELECT id FROM t WHERE {SEARCH} LIMIT 0",
        f"SELECT id FROM t WHERE {SEARCH} LIMIT 2147483648",
        f"SELECT id FROM t WHERE {SEARCH} LIMIT 2 + 3",
        f"SELECT id FROM t WHERE {SEARCH} LIMIT :n",
        f"SELECT ID FROM t WHERE {SEARCH}",
        f"SELECT id, id FROM t WHERE {SEARCH}",
        f"SELECT id, level AS ID FROM t WHERE {SEARCH}",
        f"SELECT id AS `a b` FROM t WHERE {SEARCH}",
        f"SELECT id, 1 FROM t WHERE {SEARCH}",
        f"SELECT id + 1 FROM t WHERE {SEARCH}",
        f"SELECT t.* FROM t WHERE {SEARCH}",
        f"SELECT * EXCEPT (id) FROM t WHERE {SEARCH}",
        f"SELECT other.id FROM t WHERE {SEARCH}",
        f"SELECT /*+ COALESCE(1) */ id FROM t WHERE {SEARCH}",
        f"SELECT id FROM t TABLESAMPLE (5 ROWS) WHERE {SEARCH}",
        f"SELECT id FROM t, range(3) WHERE {SEARCH}",
        f"SELECT id FROM t WHERE {SEARCH} UNION ALL SELECT id FROM t",
        f"SELECT id FROM (SELECT id FROM t WHERE {SEARCH})",
        f"WITH w AS (SELECT 1) SELECT id FROM t WHERE {SEARCH}",
        f"FROM t SELECT id WHERE {SEARCH}",
        f"EXPLAIN SELECT id FROM t WHERE {SEARCH}",
        f"CREATE TEMP VIEW v AS SELECT id FROM t WHERE {SEARCH}",
        f"INSERT INTO t SELECT * FROM t WHERE {SEARCH}",
        # Groups
        f"SELECT level, count(*) FROM t WHERE {SEARCH} GROUP BY day",
        f"SELECT level, count(*) FROM t WHERE {SEARCH}",
        f"SELECT level, count(*) FROM t WHERE {SEARCH} GROUP BY 1",
        f"SELECT level, count(*) FROM t WHERE {SEARCH} GROUP BY ALL",
        f"SELECT level, count(*) FROM t WHERE {SEARCH} GROUP BY ROLLUP (level)",
        f"SELECT level, count(*) FROM t WHERE {SEARCH} GROUP BY level WITH CUBE",
        f"SELECT level, count(*) AS n FROM t WHERE {SEARCH} GROUP BY level HAVING n > 1",
        f"SELECT level, count(*) FROM t WHERE {SEARCH} GROUP BY level LIMIT 1",
        f"SELECT level, count(DISTINCT id) FROM t WHERE {SEARCH} GROUP BY level",
        f"SELECT level, count(id, day) FROM t WHERE {SEARCH} GROUP BY level",
        f"SELECT level, count(*) FILTER (WHERE id > 1) FROM t WHERE {SEARCH} GROUP BY level",
        f"SELECT level, sum(id) OVER (PARTITION BY level) FROM t WHERE {SEARCH}",
        f"SELECT sum(share) FROM t WHERE {SEARCH}",
        f"SELECT max(share) FROM t WHERE {SEARCH}",
        f"SELECT sum(price) FROM t WHERE {SEARCH}",
        f"SELECT max(level) FROM t WHERE {SEARCH}",
        f"SELECT sum(`a b`) FROM t WHERE {SEARCH}",
        f"SELECT share, count(*) FROM t WHERE {SEARCH} GROUP BY share",
        f"SELECT tags, count(*) FROM t WHERE {SEARCH} GROUP BY tags",
    ],
)
def test_statements_that_are_left_to_spark(text):
    assert asked(text) is None


def test_a_condition_that_nobody_knows_is_left_to_spark():
    text = f"SELECT id FROM t WHERE {SEARCH} AND upper(level) = 'X'"
    assert asked(text) is None
    assert asked(text, 2) == Answer((value("id"),))


def test_groups_are_those_of_spark():
    rows = pa.table(
        {
            "level": ["x", None, "x", None, "y"],
            "id": pa.array([1, 2, None, 4, None], pa.int16()),
            "day": pa.array([dt.date(2026, 1, n) for n in (1, 2, 3, 4, 5)]),
        }
    )
    shown = (
        *(Shown("n", "rows"), Shown("s", "sum", "id"), value("of", "level"), Shown("c", "count", "id")),
        *(Shown("first", "min", "day"), Shown("last", "max", "day"), Shown("most", "max", "id")),
    )
    found = grouped_rows(rows, Answer(shown, ("level",)))
    assert found.schema.field("s").type == pa.int64()
    assert found.schema.field("most").type == pa.int16()
    told = {
        row.pop("of"): [value.day if hasattr(value, "day") else value for value in row.values()]
        for row in found.to_pylist()
    }
    assert told == {"x": [2, 1, 1, 1, 3, 1], None: [2, 6, 2, 2, 4, 4], "y": [1, None, 0, 5, 5, None]}


def test_no_rows_are_no_groups_and_one_group_of_all():
    rows = pa.schema([("level", pa.string()), ("id", pa.int64())]).empty_table()
    shown = (Shown("n", "rows"), Shown("s", "sum", "id"), Shown("m", "max", "id"))
    assert grouped_rows(rows, Answer(shown, ("level",))).num_rows == 0
    assert grouped_rows(rows, Answer(shown, ())).to_pylist() == [{"n": 0, "s": None, "m": None}]


@pytest.mark.parametrize("numbers", [[2**62, 2**62], [-(2**63)], [2**63 - 1, 1]])
def test_a_sum_that_may_not_fit_is_left_to_spark(numbers):
    rows = pa.table({"id": pa.array(numbers, pa.int64())})
    assert grouped_rows(rows, Answer((Shown("s", "sum", "id"),), ())) is None
    assert grouped_rows(rows, Answer((Shown("m", "max", "id"),), ())).to_pylist() == [{"m": max(numbers)}]
