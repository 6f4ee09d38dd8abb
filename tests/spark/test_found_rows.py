"""Statements with searches: whoever finds the rows (the driver or tasks), they are the same."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.vectors import delete_rows

import indextables
from indextables.errors import NotSupported
from indextables.spark.session import registry
from indextables.storage.local import LocalStore

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


OF_EACH_KIND = pa.schema(
    [
        ("message", pa.string()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("d", pa.decimal128(20, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("flag", pa.bool_()),
        ("bytes", pa.binary()),
        ("nested", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("tags", pa.list_(pa.string())),
        ("facts", pa.map_(pa.string(), pa.int64())),
        ("a b", pa.int16()),
    ]
)
CONDITIONS = [
    "TEXTSEARCH(message, 'nowhere')",
    "NOT (f <= 0.25)",
    "f > 0.25",
    "f = 0",
    "s IN ('x', NULL)",
    "s NOT IN ('x', 'y')",
    "s <=> NULL",
    "s = 'x '",
    "s LIKE 'a\\\\_%' AND i IS NOT NULL",
    "S >= 'x' OR `a b` BETWEEN 3 AND 4",
    "d = 1.1 AND i < 7.5",
    "day < DATE '1582-10-10'",
    "at >= TIMESTAMP '2026-01-05 01:00:00'",
    "local < TIMESTAMP_NTZ '1600-01-01 00:00:00'",
    "at = '2026-01-05 01:00:00'",
    "flag AND i = '4'",
]
ANSWERED = [
    "SELECT * FROM t WHERE {}",
    "SELECT i, s AS part, nested, tags, facts, `a b`, bytes, d FROM t WHERE {} LIMIT 1000",
    "SELECT t.s, at, local, day FROM t WHERE {}",
    "SELECT count(*) FROM t WHERE {} AND TEXTSEARCH(s, 'x OR y')",
    "SELECT count(*), count(s), count(t.f), sum(t.i), sum(`a b`), max(at) AS last, min(day) FROM t WHERE {}",
    "SELECT s, count(*) AS n, count(f), sum(i), min(local), max(flag) FROM t WHERE {} GROUP BY s",
    "SELECT s, count(*) AS n, count(nested), sum(i), min(local), max(i) FROM t WHERE {} GROUP BY s, s",
    "SELECT max(i) FROM t WHERE {} GROUP BY day, at, flag",
    "SELECT at, day FROM t WHERE {} GROUP BY at, day, local",
    "SELECT f, count(*) FROM t WHERE {} GROUP BY f",
    "SELECT d, sum(d), max(s) FROM t WHERE {} GROUP BY 1",
    "SELECT s AS x, S AS y, count(1) FROM t WHERE {} GROUP BY x",
    "SELECT I, upper(s), i + 1, CAST(i AS STRING), nested.a, 1 FROM t WHERE {}",
    "SELECT count(DISTINCT s), sum(f) FROM t WHERE {} HAVING count(*) > 1",
    "SELECT nested.b AS i FROM t AS nested WHERE {} LIMIT 0",
    "WITH w AS (SELECT i, s FROM t WHERE {}) SELECT w.i, o.s FROM w JOIN w AS o ON w.s = o.s UNION SELECT 1, 'x'",
]
"""Some are answered here and some by Spark, with one of the conditions beside a search for `word`."""


@pytest.fixture
def each_kind(spark, tmp_path):
    """A table `t` with a column of each kind, and its rows as plain Parquet, called `plain`."""
    made = indextables.create(tmp_path / "t", OF_EACH_KIND, indexing={"message": "text", "s": "text"})
    days = [dt.date(1500, 1, 1), None, dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(2026, 1, 5)]
    floats = [None, 0.0, -0.0, float("nan"), 0.5, float("inf"), -float("inf")]
    listed = [
        {
            "message": None if number % 6 == 5 else "word" if number % 3 else "word nowhere else",
            "i": None if number == 2 else number,
            "l": 2**62 if number in (3, 4) else number,
            "s": [None, "x", "y", "x", "a_b", "x "][number % 6],
            "f": floats[number % 7],
            "d": None if number == 1 else decimal.Decimal(11 * (number % 4)) / 10,
            "day": days[number % 5],
            "at": dt.datetime(1500 if number == 7 else 2026, 1, 1 + number % 8, tzinfo=dt.UTC) - dt.timedelta(hours=8),
            "local": dt.datetime.fromisoformat(f"{1500 if number == 8 else 2026}-03-29T02:30:0{number % 2}"),
            "flag": [None, True, False][number % 3],
            "bytes": [None, b"", b"\x00\xff"][number % 3],
            "nested": None if number == 4 else {"a": None if number == 3 else number, "b": ["p", None]},
            "tags": [None, [], ["a", None]][number % 3],
            "facts": [None, [], [("k", None), ("m", number)]][number % 3],
            "a b": number % 5,
        }
        for number in range(18)
    ]
    for start in (0, 9):
        made.append(pa.Table.from_pylist(listed[start : start + 9], schema=OF_EACH_KIND))
    registry.register(spark, "t", str(tmp_path / "t"))
    indextables.enable(spark)
    whole = spark.sql("SELECT * FROM t")
    whole.coalesce(1).write.parquet(str(tmp_path / "plain"))
    spark.read.schema(whole.schema).parquet(str(tmp_path / "plain")).createOrReplaceTempView("plain")
    settings = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
    before = {key: spark.conf.get(key) for key in settings}
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value)
    indextables.disable(spark)
    registry.forget(spark, "t")
    spark.sql("DROP VIEW plain")


def by_spark(text):
    """The same statement over plain Parquet."""
    text = text.replace("TEXTSEARCH(s, 'x OR y')", "split(s, ' ')[0] IN ('x', 'y')")
    return re.sub(r"TEXTSEARCH\((\w+), '(\w+)'\)", r"\1 LIKE '%\2%'", re.sub(r"FROM t\b( AS)?", _from_plain, text))


def _from_plain(found):
    return "FROM plain AS" if found[1] else "FROM plain AS t"


def told(session, text):
    """Names, types and rows."""
    frame = session.sql(text)
    return [(field.name, field.dataType, field.nullable) for field in frame.schema], answer(frame)


def outcome(session, text):
    """As `told`, or what kind of error."""
    from pyspark.errors import PySparkException

    try:
        return told(session, text)
    except PySparkException as error:
        return error.getCondition()


@pytest.mark.connect
def test_answers_have_the_names_types_and_values_of_spark(each_kind):
    pairs = [(text, CONDITIONS[place % 3 + 1]) for place, text in enumerate(ANSWERED)]
    pairs += [(ANSWERED[place % 7], condition) for place, condition in enumerate(CONDITIONS)]
    texts = [text.format(f"TEXTSEARCH(message, 'word') AND ({condition})") for text, condition in pairs]
    each_kind.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    found = [(text, told(each_kind, text), told(each_kind, by_spark(text))) for text in texts]
    assert [one for one in found if one[1] != one[2]] == []
    assert sum(bool(rows) for _, (_, rows), _ in found) > 2 * len(found) / 3


@pytest.mark.connect
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_sum_too_large_is_what_the_settings_of_spark_say(each_kind, ansi):
    each_kind.conf.set("spark.sql.ansi.enabled", ansi)
    for text in (
        "SELECT flag, sum(l) AS s FROM t WHERE TEXTSEARCH(message, 'word') GROUP BY flag",
        "SELECT sum(l) FROM t WHERE TEXTSEARCH(message, 'word')",
    ):
        assert outcome(each_kind, text) == outcome(each_kind, by_spark(text))


@pytest.mark.connect
def test_without_ansi_a_text_that_is_no_number_is_null(each_kind):
    each_kind.conf.set("spark.sql.ansi.enabled", "false")
    for shown in ("count(*)", "l, s", "s, count(*)"):
        end = " GROUP BY s" if shown.startswith("s,") else ""
        for condition in ("s = 5", "NOT (s IN (1, 2))"):
            text = f"SELECT {shown} FROM t WHERE TEXTSEARCH(message, 'word') AND {condition}{end}"
            assert told(each_kind, text) == told(each_kind, by_spark(text)), text


def plan_of(frame, capsys):
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out


@pytest.mark.connect
def test_counts_groups_and_few_rows_are_answered_without_a_scan(spark, table, capsys):
    place = f"indextables.`{table.url}`"
    search = "TEXTSEARCH(message, 'timeout')"
    indextables.enable(spark)
    try:
        for text in (
            f"SELECT count(*) FROM {place} WHERE {search}",
            f"SELECT level, count(*) AS n, sum(id) AS s FROM {place} WHERE {search} GROUP BY level",
            f"SELECT * FROM {place} WHERE {search} LIMIT 10",
        ):
            plan = plan_of(spark.sql(text), capsys)
            assert "LocalTableScan" in plan, text
            assert not any(word in plan for word in ("FileScan", "Aggregate", "Exchange", "Coalesce", "Python")), text
        # What Spark adds up itself are the rows that were found.
        added = plan_of(spark.sql(f"SELECT sum(share) FROM {place} WHERE {search} GROUP BY note"), capsys)
        assert "LocalTableScan" in added
        assert not any(word in added for word in ("FileScan", "Exchange"))
        assert "FileScan" in plan_of(spark.sql(f"SELECT * FROM {place} LIMIT 10"), capsys)
    finally:
        indextables.disable(spark)


@pytest.mark.connect
def test_a_larger_answer_is_written_as_one_file(spark, tmp_path):
    made = indextables.create(tmp_path / "t", pa.schema([("message", pa.string())]), indexing={"message": "text"})
    made.append(pa.table({"message": ["slow disk"] * 100 + ["slow query"]}))
    indextables.enable(spark)
    try:
        found = spark.sql(f"SELECT * FROM indextables.`{tmp_path / 't'}` WHERE TEXTSEARCH(message, 'slow')")
        found.write.parquet(str(tmp_path / "written"))
    finally:
        indextables.disable(spark)
    (file,) = (tmp_path / "written").glob("*.parquet")
    assert pq.read_metadata(file).num_rows == 101


@pytest.mark.connect
def test_an_answer_stays_at_its_version(spark, tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA, indexing={"message": "text"})
    made.append(rows(0, 20))
    place, search = f"indextables.`{tmp_path / 't'}`", "TEXTSEARCH(message, 'disk')"
    indextables.enable(spark)
    try:
        texts = [
            f"SELECT id FROM {place} WHERE {search} LIMIT 100",
            f"SELECT level, count(*) AS n FROM {place} WHERE {search} GROUP BY level",
        ]
        frames = [spark.sql(text) for text in texts]
        before = [expected(made, text.replace(place, "t")) for text in texts]
        made.append(rows(20, 40))
        assert [answer(frame) for frame in frames] == before
        assert [answer(frame) for frame in frames] == before
        after = [expected(made, text.replace(place, "t")) for text in texts]
        assert after != before
        assert [answer(spark.sql(text)) for text in texts] == after
    finally:
        indextables.disable(spark)


@pytest.mark.connect
def test_a_view_of_an_answer_is_not_taken_for_another_one(session):
    frame = session.sql("SELECT id, message FROM t WHERE TEXTSEARCH(message, 'timeout') LIMIT 5")
    frame.createOrReplaceTempView("few")
    try:
        assert session.sql("SELECT id FROM few WHERE TEXTSEARCH(message, '*')").count() == 5
        # Replaced where nobody looks.
        other = session.createDataFrame(pa.table({"id": [1], "message": ["other"]}), frame.schema)
        type(other).createOrReplaceTempView.__wrapped__(other, "few")
        with pytest.raises(NotSupported):
            session.sql("SELECT id FROM few WHERE TEXTSEARCH(message, '*')").collect()
    finally:
        session.sql("DROP VIEW few")


def test_a_limit_reads_only_pages_with_hits(spark, tmp_path, monkeypatch):
    pick = random.Random(1)
    lines = [f"{pick.getrandbits(2000):x} {'needle' if n % 5000 == 4000 else 'hay'}" for n in range(20_000)]
    options = {"cache.directory": str(tmp_path / "cache"), "cache.rowsSize": "0"}
    made = indextables.create(
        tmp_path / "t", pa.schema([("message", pa.string())]), indexing={"message": "text"}, options=options
    )
    made.append(pa.table({"message": lines}))
    size = made.detail()["sizeInBytes"]
    read = []

    def counting(name):
        real = getattr(LocalStore, name)

        def ask(store, key, *args, **kwargs):
            found = real(store, key, *args, **kwargs)
            if not key.startswith("_transaction_log/"):
                read.extend(map(len, found if isinstance(found, list) else [found]))
            return found

        monkeypatch.setattr(LocalStore, name, ask)

    for key, value in options.items():
        spark.conf.set(f"spark.indextables.{key}", value)
    indextables.enable(spark)
    place = f"indextables.`{tmp_path / 't'}`"
    try:
        assert spark.sql(f"SELECT count(*) AS n FROM {place} WHERE TEXTSEARCH(message, 'needle')").collect()[0].n == 4
        for name in ("get", "get_ranges"):
            counting(name)
        found = spark.sql(f"SELECT * FROM {place} WHERE TEXTSEARCH(message, 'needle') LIMIT 2").collect()
    finally:
        indextables.disable(spark)
        for key in options:
            spark.conf.unset(f"spark.indextables.{key}")
    assert len(found) == 2
    assert all(row.message.endswith("needle") for row in found)
    assert 0 < sum(read) < size / 4
