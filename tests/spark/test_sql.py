"""SQL of a session with our commands and tables in it, against Spark without them and against the embedded engine."""

from __future__ import annotations

import datetime as dt
import importlib.util
import random
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sql.test_commands import COLUMNS

import indextables
from indextables.errors import (
    CommandSyntaxError,
    InvalidArgument,
    NotSupported,
    QueryInvalid,
    TableNotFound,
    VersionNotFound,
)
from indextables.spark.session import registry
from indextables.sql.spark import session as session_module

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("note", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
WORDS = ["timeout", "disk", "query", "slow", "served", "again"]


def rows(start, stop):
    pick = random.Random(start)
    return [
        {
            "id": number,
            "level": pick.choice(["INFO", "WARN", "ERROR"]),
            "message": None if number % 7 == 3 else " ".join(pick.choices(WORDS, k=pick.randint(1, 5))),
            "note": pick.choice([None, "disk {x} checked", "fine"]),
            "at": dt.datetime(2026, 1, 1 + number % 20, tzinfo=dt.UTC),
        }
        for number in range(start, stop)
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three appends of ten rows, partitioned by level."""
    path = tmp_path_factory.mktemp("sql") / "logs"
    indexing = {"message": "text", "note": "text"}
    table = indextables.create(path, SCHEMA, partition_by=["level"], indexing=indexing)
    for start in (0, 10, 20):
        table.append(rows(start, start + 10))
    return path


@pytest.fixture
def copy(place, tmp_path):
    """A table that a test may change."""
    return Path(shutil.copytree(place, tmp_path / "copy"))


@pytest.fixture
def session(spark, place):
    """The session with our SQL, in which `t` is the table."""
    registry.register(spark, "t", place)
    yield indextables.enable(spark)
    indextables.disable(spark)
    for name in registry.names(spark):
        registry.forget(spark, name)


def answer(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def embedded(table, text, params=None):
    found = table.sql(text, params=params)
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr)


QUERIES = [
    "SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout')",
    "SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout OR disk') AND id < 17 AND level = 'ERROR'",
    "SELECT id FROM t WHERE TEXTSEARCH(*, 'disk') AND TEXTSEARCH(message, 'slow')",
    "SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout') OR level = 'INFO'",
    "SELECT id FROM t WHERE TEXTSEARCH(message, 'query') AND NOT (TEXTSEARCH(note, 'disk') OR id > 20)",
    "SELECT id, TEXTSEARCH(note, 'fine') AS fine FROM t WHERE TEXTSEARCH(message, 'timeout disk')",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.id = b.id - 10 AND TEXTSEARCH(b.message, 'disk')",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.id = b.id - 10 WHERE TEXTSEARCH(b.message, 'disk')",
    "SELECT a.id, b.id FROM t a FULL JOIN t b ON a.id = b.id - 25 WHERE TEXTSEARCH(a.message, 'disk') OR b.id IS NULL",
    "SELECT id FROM t WHERE id IN (SELECT id + 1 FROM t WHERE TEXTSEARCH(message, 'slow'))",
    "SELECT id FROM t o WHERE EXISTS (SELECT 1 FROM t i WHERE i.id = o.id + 3 AND TEXTSEARCH(i.message, 'query'))",
    "WITH hits AS (SELECT id FROM t WHERE TEXTSEARCH(message, 'disk')) SELECT count(*) AS n FROM hits",
    "SELECT n FROM (SELECT id AS n FROM t WHERE TEXTSEARCH(note, '\"disk x\"')) s WHERE n > 5",
    "SELECT (SELECT count(*) FROM t) AS n, max(id) AS m FROM t",
]


def test_queries_answer_as_the_embedded_engine_does(session, place):
    table = indextables.open(place)
    for text in QUERIES:
        assert answer(session.sql(text)) == embedded(table, text), text


def test_any_mixture_of_conditions_answers_as_the_embedded_engine_does(session, place):
    table = indextables.open(place)
    pick = random.Random(7)
    atoms = [
        "TEXTSEARCH(message, 'timeout')",
        "TEXTSEARCH(message, 'disk AND slow')",
        "TEXTSEARCH(*, 'disk')",
        "TEXTSEARCH(note, 'fine')",
        "id < 12",
        "level = 'ERROR'",
        "message IS NULL",
        "note = 'fine'",
    ]

    def condition(depth):
        if depth == 0 or pick.random() < 0.3:
            return pick.choice(["", "", "NOT "]) + pick.choice(atoms)
        parts = [condition(depth - 1) for _ in range(2)]
        return f"({pick.choice([' AND ', ' OR ']).join(parts)})"

    for _ in range(6):
        text = f"SELECT id, note FROM t WHERE {condition(3)}"
        assert answer(session.sql(text)) == embedded(table, text), text


@pytest.mark.connect
def test_other_spellings_of_a_search(session):
    expected = answer(session.sql("SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout')"))
    everywhere = answer(session.sql("SELECT id FROM t WHERE TEXTSEARCH(*, 'disk')"))
    assert expected
    assert answer(session.sql("SELECT id FROM t WHERE message INDEXQUERY 'timeout'")) == expected
    assert answer(session.sql("select T.id from t where t.MESSAGE indexquery 'timeout'")) == expected
    assert answer(session.sql("SELECT id FROM t WHERE `message` INDEXQUERY :q", args={"q": "timeout"})) == expected
    assert (
        answer(session.sql("SELECT id FROM t WHERE TEXTSEARCH(message, ?) AND id >= ?", args=["timeout", 0]))
        == expected
    )
    assert answer(session.sql("SELECT id FROM t WHERE INDEXQUERYALL('disk')")) == everywhere
    assert answer(session.sql("SELECT id FROM t WHERE _indexall INDEXQUERY 'disk'")) == everywhere
    rest = answer(session.sql("SELECT id FROM t WHERE message NOT INDEXQUERY 'timeout'"))
    assert sorted(expected + rest) == [(number,) for number in range(30)]


def test_stars_show_the_columns_of_the_table_only(session):
    names = SCHEMA.names
    assert session.sql("SELECT * FROM t WHERE TEXTSEARCH(message, 'disk')").columns == names
    assert session.sql("SELECT t.*, 1 AS one FROM t WHERE TEXTSEARCH(message, 'disk') OR id = 1").columns == [
        *names,
        "one",
    ]
    assert session.sql("SELECT *, _score FROM t WHERE TEXTSEARCH(message, 'disk')").columns == [*names, "_score"]
    assert session.sql("SELECT * FROM t WHERE TEXTSEARCH(message, 'disk') ORDER BY _score").columns == names
    with pytest.raises(NotSupported, match="name the columns"):
        session.sql("SELECT struct(*) FROM t WHERE TEXTSEARCH(message, 'disk')")


@pytest.mark.connect
def test_scores_are_those_of_the_embedded_engine(session, place):
    table = indextables.open(place)
    expected = table.search("message:(timeout disk)", columns=["id"], limit=None)
    found = session.sql("SELECT id, _score FROM t WHERE TEXTSEARCH(message, 'timeout disk') ORDER BY _score DESC, id")
    scores = dict(zip(expected["id"].to_pylist(), expected["_score"].to_pylist(), strict=True))
    assert {row.id: row._score for row in found.collect()} == scores
    best = session.sql(
        "SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout disk') AND id < 9 ORDER BY _score DESC LIMIT 1"
    )
    assert best.collect()[0].id == max((i for i in scores if i < 9), key=lambda i: scores[i])
    with pytest.raises(NotSupported, match="_score"):
        session.sql("SELECT _score FROM t WHERE TEXTSEARCH(message, 'a') OR id = 1")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT id FROM t WHERE TEXTSEARCH(message, 'a AND')", QueryInvalid, "AND needs"),
        ("SELECT id FROM t WHERE TEXTSEARCH(nope, 'a')", QueryInvalid, "is not a column"),
        ("SELECT id FROM t WHERE TEXTSEARCH(message)", QueryInvalid, "takes a column"),
        ("SELECT id FROM t WHERE TEXTSEARCH(message, note)", QueryInvalid, "text in quotes"),
        ("SELECT id FROM t WHERE TEXTSEARCH(lower(message), 'a')", QueryInvalid, "must be a column"),
        ("SELECT id FROM t WHERE TEXTSEARCH(message, :q)", QueryInvalid, "no value is bound"),
        ("SELECT a.id FROM t a, t b WHERE TEXTSEARCH(message, 'a')", QueryInvalid, "more than one table"),
        (
            "SELECT m FROM (SELECT upper(message) AS m FROM t) s WHERE TEXTSEARCH(m, 'a')",
            QueryInvalid,
            "needs the table itself",
        ),
        ("SELECT id FROM t VERSION AS OF 99", VersionNotFound, "99"),
        ("SELECT id FROM t VERSION AS OF 'x'", InvalidArgument, "number of a version"),
        ("SELECT id FROM t TIMESTAMP AS OF 'x'", InvalidArgument, "not a time"),
        ("DELETE FROM t WHERE id IN (SELECT 1)", NotSupported, "holds a query"),
        ("EXPLAIN DELETE FROM t WHERE idd = 1", QueryInvalid, "did you mean id"),
        ("MERGE SPLITS t NOW", CommandSyntaxError, "syntax: MERGE SPLITS"),
        ("OPTIMIZE t NOW", CommandSyntaxError, "syntax: OPTIMIZE"),
        ("CHECKPOINT INDEXTABLES nope", TableNotFound, "nope"),
    ],
)
def test_what_is_wrong_with_ours_is_told_by_a_typed_error(session, text, error, message):
    with pytest.raises(error, match=message):
        session.sql(text)


@pytest.mark.connect
def test_explain_of_a_change_tells_its_plan_and_changes_nothing(session, place):
    before = sorted(path.name for path in Path(place).rglob("*"))
    (deleted,) = session.sql("EXPLAIN DELETE FROM t WHERE id > 100").collect()
    assert "9 files ruled out" in deleted.plan
    merge = "MERGE INTO t USING (SELECT 1 AS id, 'x' AS word) AS s ON t.id = s.id WHEN MATCHED THEN DELETE"
    (merged,) = session.sql(f"EXPLAIN {merge}").collect()
    assert "source s:" in merged.plan
    assert "(id int32, word string)" in merged.plan
    assert "when matched: delete" in merged.plan
    assert sorted(path.name for path in Path(place).rglob("*")) == before


@pytest.mark.connect
def test_tables_by_path_and_by_name_and_other_versions(session, place):
    for table in ("t", "T", "spark_catalog.default.t", f"indextables.`{place}`", f"IndexTables.`file://{place}`"):
        assert session.sql(f"SELECT max(id) AS m FROM {table}").collect()[0].m == 29, table
    for travel in ("VERSION AS OF 1", "version as of '1'", "FOR VERSION AS OF 1", "FOR SYSTEM_VERSION AS OF 1"):
        assert session.sql(f"SELECT max(id) AS m FROM t {travel} AS x WHERE x.id >= 0").collect()[0].m == 9, travel
    assert session.sql("SELECT max(id) AS m FROM t@v2").collect()[0].m == 19
    assert (
        session.sql("SELECT id FROM t VERSION AS OF :v WHERE TEXTSEARCH(message, 'slow')", args={"v": 0}).count() == 0
    )
    assert session.sql(f"SELECT count(*) AS n FROM indextables.`{place}`@v1").collect()[0].n == 10
    history = session.sql("DESCRIBE HISTORY t").collect()
    stamp = next(row.timestamp for row in history if row.version == 2).astimezone(dt.UTC).isoformat()
    assert session.sql(f"SELECT max(id) AS m FROM t TIMESTAMP AS OF '{stamp}'").collect()[0].m == 19
    both = "SELECT count(*) AS n FROM t JOIN t VERSION AS OF 1 AS old ON t.id = old.id"
    assert session.sql(both).collect()[0].n == 10


def test_a_bare_count_opens_no_file(session, copy):
    for split in copy.rglob("*.split"):
        split.unlink()
    for text in ("SELECT count(*) FROM indextables.`{}`", "select COUNT( * ) from indextables.`{}` as x"):
        frame = session.sql(text.format(copy))
        assert frame.columns == ["count(1)"]
        assert frame.collect()[0][0] == 30
    assert session.sql(f"SELECT count(*) AS n FROM indextables.`{copy}` VERSION AS OF 2").collect()[0].n == 20


def test_files_that_cannot_matter_are_left_out(session):
    def files(text, **more):
        return session.sql(text, **more).inputFiles()

    everything = files("SELECT id FROM t")
    assert len(everything) > 3
    few = files("SELECT id FROM t WHERE level = 'ERROR' AND id < 10")
    assert len(few) == 1
    assert files("SELECT id FROM t x WHERE x.level = :l AND (x.id BETWEEN 0 AND 9)", args={"l": "ERROR"}) == few
    assert files("SELECT id FROM t WHERE level = 'ERROR' OR upper(level) = 'INFO'") == everything
    assert len(files("SELECT t.id FROM t JOIN t b ON t.id = b.id WHERE t.id < 10")) == len(everything)


@pytest.mark.connect
def test_rows_are_inserted_through_names_and_paths(session, copy):
    before = _own_views(session)
    registry.register(session, "mine", copy)
    session.sql("INSERT INTO mine VALUES (100, 'INFO', 'brand new', null, timestamp'2026-02-01 00:00:00Z')")
    session.sql(
        f"INSERT INTO indextables.`{copy}` (message, id) SELECT concat(message, ' twice'), 200 FROM mine WHERE id = 100"
    )
    found = session.sql("SELECT id, level, message FROM mine WHERE TEXTSEARCH(message, 'brand') ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(100, "INFO", "brand new"), (200, None, "brand new twice")]
    with pytest.raises(Exception, match="CANNOT_SAFELY_CAST"):
        session.sql("INSERT INTO mine VALUES ('x', 'INFO', 'm', null, null)")
    session.sql("INSERT OVERWRITE mine SELECT * FROM t WHERE id < 2")
    assert indextables.open(copy).count() == 2
    assert _own_views(session) == before
    with pytest.raises(TableNotFound):
        session.sql(f"INSERT INTO indextables.`{copy}-nope` VALUES (1)")


def _own_views(session):
    """Views that a statement made for itself; a temporary view of the user keeps those that it stands on."""
    return {view.name for view in session.catalog.listTables() if view.name.startswith("indextables_")}


@pytest.mark.connect
def test_commands_answer_with_dataframes_of_the_documented_columns(session, copy):
    registry.register(session, "logs", copy)
    # What cannot be done after a truncation comes first.
    for text, columns in sorted(COLUMNS.items(), key=lambda item: not item[0].startswith("RESTORE")):
        frame = session.sql(text.replace("day =", "level ="))
        # DROP INDEXTABLE answers as DROP TABLE does in Spark.
        assert frame.columns == ([] if text.startswith("DROP INDEXTABLE ") else columns.split()), text
        frame.collect()
    made = session.sql(
        f"CREATE INDEXTABLE fresh (id int, s string) LOCATION '{copy}-fresh' INDEXING (s text)"
    ).collect()
    assert made[0].created
    session.sql("INSERT INTO fresh VALUES (1, 'hello world')")
    assert session.sql("SELECT id FROM fresh WHERE s INDEXQUERY 'hello'").collect()[0].id == 1


def test_bound_values_stay_values(session, copy):
    hostile = "x' OR 1=1; DROP TABLE t; --"
    found = session.sql("SELECT count(*) AS n FROM t WHERE note = :v", args={"v": hostile})
    assert found.collect()[0].n == 0
    dropped = session.sql(
        "DROP INDEXTABLES PARTITIONS FROM :path WHERE level = :v DRY RUN", args={"path": str(copy), "v": hostile}
    )
    assert dropped.collect() == []
    assert indextables.sql(session, "DESCRIBE INDEXTABLES STATE ?", args=[str(copy)]).count() == 1


FOREIGN = [
    "SELECT 1 AS one",
    "SELECT nope",
    "SELEC 1",
    "SELECT * FROM nope",
    "SELECT * FROM range(3) AS indextables",
    "SELECT indextables.`id` FROM range(3) AS indextables",
    "SELECT 'MERGE SPLITS t; indextables.`/x` TEXTSEARCH(a, b)' AS text",
    "WITH t AS (SELECT 5 AS five) SELECT * FROM t",
    "MERGE INTO nope USING x ON true WHEN MATCHED THEN DELETE",
    "OPTIMIZE nope",
    "VACUUM delta.`/nope`",
    "RESTORE TABLE nope TO VERSION AS OF 1",
    "DESCRIBE indextables",
    "DESCRIBE indextables state",
    "DESCRIBE HISTORY nope",
    "REPAIR TABLE nope",
    "SELECT '{a}' AS braces, map('k', 'v') AS m",
    "SELECT /* MERGE SPLITS */ 1 -- t",
    "SHOW TABLES LIKE 'indextables*'",
    "SET spark.indextables.some.key",
    "EXPLAIN SELECT 1",
    "DROP TABLE nope",
    "CREATE TABLE indextable",
    "SELECT * FROM indextables",
    "SELECT * FROM nope VERSION AS OF 1",
    "SELECT * FROM nope@v1",
    "",
    "   ",
    ";",
    "SELECT 1; SELECT 2",
    "-- nothing",
]


def outcome(call):
    """What a statement gives: columns and rows, or the class and text of its error."""
    try:
        frame = call()
        return frame.columns, [_without_ids(tuple(row)) for row in frame.collect()]
    except Exception as error:  # noqa: BLE001 - whatever Spark raises
        return type(error), _without_ids(str(error).split("JVM stacktrace")[0])


def _without_ids(shown):
    """Spark numbers its expressions; no two plans have the same numbers."""
    return re.sub(r"#\d+L?", "#", str(shown))


@pytest.mark.connect
def test_every_other_statement_is_untouched(spark, place):
    registry.register(spark, "t", place)
    plain = [outcome(lambda text=text: spark.sql(text)) for text in FOREIGN]
    indextables.enable(spark)
    try:
        ours = [outcome(lambda text=text: spark.sql(text)) for text in FOREIGN]
    finally:
        indextables.disable(spark)
    for text, before, after in zip(FOREIGN, plain, ours, strict=True):
        assert before == after, text


@pytest.mark.connect
def test_arguments_are_passed_on(session):
    numbers = session.range(3)
    assert session.sql("SELECT :a AS a", args={"a": 1}).collect()[0].a == 1
    assert session.sql("SELECT ? AS a", args=[2]).collect()[0].a == 2
    assert session.sql("SELECT ? AS a", [3]).collect()[0].a == 3
    assert session.sql(sqlQuery="SELECT 4 AS a").collect()[0].a == 4
    assert session.sql("SELECT count(*) AS n FROM {d} WHERE id > :k", args={"k": 0}, d=numbers).collect()[0].n == 2
    joined = session.sql("SELECT count(*) AS n FROM {d} AS d JOIN t ON t.id = d.id AND note <> '{{'", d=numbers)
    assert joined.collect()[0].n >= 0
    braces = session.sql("SELECT id FROM t WHERE note = 'disk {x} checked' AND TEXTSEARCH(note, 'disk')")
    assert braces.count() == session.sql("SELECT id FROM t WHERE note = 'disk {x} checked'").count() > 0
    for text in (None, 5):
        assert (
            outcome(lambda text=text: session.sql(text))[0]
            is outcome(lambda text=text: type(session).sql(session, text))[0]
        )


@pytest.mark.connect
def test_enable_is_idempotent_and_ends_with_disable(spark, place):
    original = spark.sql
    assert indextables.enable(spark) is spark
    first = spark.sql
    indextables.enable(spark)
    assert spark.sql == first
    assert spark.sql(f"SELECT count(*) AS n FROM indextables.`{place}`").collect()[0].n == 30
    indextables.disable(spark)
    assert spark.sql == original
    indextables.disable(spark)
    assert indextables.sql(spark, f"SELECT count(*) AS n FROM indextables.`{place}`").collect()[0].n == 30
    assert indextables.sql(spark, "SELECT 1 AS one").collect()[0].one == 1


def test_a_second_import_of_the_package_takes_over(spark, place):
    text = f"SELECT count(*) AS n FROM indextables.`{place}`"
    original = spark.sql
    indextables.enable(spark)
    spec = importlib.util.spec_from_file_location("indextables_again", session_module.__file__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    for module in (again, session_module, again):
        assert module.run_sql(spark, text).collect()[0].n == 30
        module.enable(spark)
        assert spark.sql(text).collect()[0].n == 30
        assert spark.sql("SELECT 1 AS one").collect()[0].one == 1
    session_module.disable(spark)
    assert spark.sql == original


def test_what_is_put_over_an_enabled_session_is_asked_once(spark, place):
    # An expression: what the index alone can answer is asked of nobody.
    text = f"SELECT count(*) + 0 AS n FROM indextables.`{place}`"
    seen = []
    enabled = indextables.enable(spark).sql
    spark.sql = lambda text, *more, **named: seen.append(text) or enabled(text, *more, **named)
    try:
        assert spark.sql(text).collect()[0].n == 30
        assert indextables.enable(spark).sql(text).collect()[0].n == 30
        assert seen[0] == text
        assert len(seen) == 2
        indextables.disable(spark)
        assert spark.sql("SELECT 1 AS one").collect()[0].one == 1
    finally:
        del spark.sql


@pytest.mark.connect
def test_every_form_of_naming_a_table(session, copy):
    registry.register(session, "mine", copy)
    for text in (
        "TABLE t",
        "SELECT * FROM IDENTIFIER('t') WHERE t.id >= 0",
        "SELECT t.* FROM IDENTIFIER(:name)",
        "SELECT /*+ BROADCAST(t), COALESCE(1) */ t.* FROM range(1) JOIN t ON true, range(1) AS r",
        "FROM t |> WHERE id >= 0",
        "SELECT * FROM (TABLE t) UNION TABLE mine",
    ):
        assert session.sql(text, args={"name": "spark_catalog.default.t"}).count() == 30, text
    session.sql("INSERT INTO IDENTIFIER('mine') TABLE t")
    assert indextables.open(copy).count() == 60
    assert session.sql("SELECT {text} AS a FROM range(1)", text=session.range(1).id).count() == 1
    assert session.sql("SELECT count(*) AS n FROM t, {spark}", spark=session.range(2)).collect()[0].n == 60


@pytest.mark.connect
def test_a_name_that_cannot_be_followed_is_refused_with_the_way_that_works(session, place):
    for text in (
        "SELECT * FROM explode(TABLE(t))",
        "SELECT * FROM t WITH (a = 'b')",
        "REFRESH TABLE t",
        f"SELECT * FROM indextables.`{place}` WITH (a = 'b')",
    ):
        with pytest.raises(NotSupported, match="createOrReplaceTempView"):
            session.sql(text)
    with pytest.raises(NotSupported, match="its partitions come and go with its rows"):
        session.sql("ALTER TABLE t RECOVER PARTITIONS")
    session.sql("CREATE TEMP VIEW t AS SELECT 1 AS other")
    try:
        assert session.sql("SELECT * FROM t").columns == SCHEMA.names
        with pytest.raises(NotSupported, match="createOrReplaceTempView"):
            session.sql("SELECT * FROM t WITH (a = 'b')")
    finally:
        session.sql("DROP VIEW t")
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        session.sql("SELECT * FROM t WHERE (")


@pytest.mark.connect
def test_views_and_copies_of_a_catalog_table_are_their_own_rows(session, place):
    session.sql(f"CREATE TABLE whole USING indextables OPTIONS (path '{place}')")
    session.sql("CREATE TEMP VIEW `few-rows` AS SELECT * FROM whole WHERE id < 3")
    session.sql("CREATE VIEW few AS SELECT * FROM whole WHERE id < 3")
    session.sql("CREATE TABLE copied USING parquet AS SELECT * FROM whole WHERE id < 3")
    try:
        for name, count in {"whole": 30, "`few-rows`": 3, "few": 3, "copied": 3}.items():
            joined = f"SELECT count(*) AS n FROM indextables.`{place}` AS a JOIN {name} AS b ON a.id = b.id"
            assert session.sql(joined).collect()[0].n == count, name
        assert registry.resolve(session, "whole") == registry.resolve(session, "t")
        for name in ("few", "copied"):
            with pytest.raises(TableNotFound):
                indextables.IndexTable.forName(session, name)
            with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
                session.sql(f"OPTIMIZE {name}")
    finally:
        for text in ("VIEW few", "VIEW `few-rows`", "TABLE copied", "TABLE whole"):
            session.sql(f"DROP {text}")


def test_a_condition_on_names_that_the_statement_gives_takes_no_rows_away(session):
    renamed = "SELECT count(*) AS n FROM t AS x(id, level, message, note, at)"
    assert session.sql(f"{renamed} WHERE x.id = 5").collect()[0].n == 1
    swapped = "SELECT x.message AS id FROM t AS x(message, note, level, id, at) WHERE note = 'ERROR' AND message < 20"
    assert answer(session.sql(swapped)) == answer(session.sql("SELECT id FROM t WHERE level = 'ERROR' AND id < 20"))
    pivoted = "SELECT count(*) AS n FROM (SELECT id, level FROM t) PIVOT (count(*) FOR level IN ('INFO', 'WARN'))"
    assert session.sql(pivoted).collect()[0].n == 30
    both = "SELECT count(*) AS n, count(*) FILTER (WHERE TEXTSEARCH(message, 'disk')) AS hits FROM t"
    hits = session.sql("SELECT id FROM t WHERE TEXTSEARCH(message, 'disk')").count()
    assert tuple(session.sql(both).collect()[0]) == (30, hits)
    nulls = session.sql("SELECT id FROM t WHERE note IS NULL OR message IS NULL").count()
    assert session.sql("SELECT count(*, note) AS n FROM t").collect()[0].n == 30 - nulls


@pytest.mark.parametrize(
    ("zone", "second", "third"),
    [("+01:00", [2], []), ("GMT+1", [2], []), ("CAT", [2], []), ("+05:30", [1, 2], [2])],
)
def test_a_zone_that_only_spark_has_a_name_for(session, tmp_path, zone, second, third):
    table = indextables.create(tmp_path / "t", SCHEMA)
    for number in (1, 2):
        table.append([{"id": number, "at": dt.datetime(2026, 1, number, 20, 45, tzinfo=dt.UTC)}])
    before = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", zone)
    try:
        for day, expected in (("2026-01-02 00:00:00", second), ("2026-01-03", third)):
            text = f"SELECT id FROM indextables.`{tmp_path / 't'}` WHERE id > 0 AND at >= '{day}'"
            assert [number for (number,) in answer(session.sql(text))] == expected
        frame = indextables.IndexTable.forPath(session, tmp_path / "t").toDF(f"id > 0 AND at >= '{day}'")
        assert [row.id for row in frame.collect()] == expected
    finally:
        session.conf.set("spark.sql.session.timeZone", before)


ODD = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("s", pa.string()), ("o", pa.string())])


@pytest.mark.parametrize(
    ("setting", "value", "where", "expected"),
    [
        ("spark.sql.ansi.enabled", "false", "f = '0.3'", [1]),
        ("spark.sql.ansi.enabled", "false", "id NOT IN ('02')", [1, 2, 3]),
        ("spark.sql.parser.escapedStringLiterals", "true", "s = 'a\\tb'", [2]),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 's = "o"', [3]),
        ("spark.sql.legacy.consecutiveStringLiterals.enabled", "true", "s = 'sa''me'", [3]),
    ],
)
def test_conditions_mean_what_the_settings_of_the_session_say(session, tmp_path, setting, value, where, expected):
    table = indextables.create(tmp_path / "odd", ODD)
    for row in ((1, 0.3, "a\tb", "x"), (2, 0.5, "a\\tb", "y"), (3, 0.7, "same", "same")):
        table.append([dict(zip(ODD.names, row, strict=True))])
    before = session.conf.get(setting)
    session.conf.set(setting, value)
    try:
        found = session.sql(f"SELECT id FROM indextables.`{tmp_path / 'odd'}` WHERE {where}")
        assert [number for (number,) in answer(found)] == expected
        # A predicate of ours stays what it is; one that others could read in another way is refused.
        handle = indextables.IndexTable.forPath(session, tmp_path / "odd")
        if '"' in where:
            with pytest.raises(QueryInvalid, match="double quotes"):
                handle.toDF(where)
        else:
            assert handle.toDF(where).count() == table.count(where=where)
    finally:
        session.conf.set(setting, before)


@pytest.mark.connect
def test_views_over_our_tables_live_on(session):
    session.sql("CREATE OR REPLACE TEMP VIEW errors AS SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout')")
    direct = session.sql("SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout')")
    assert answer(session.sql("SELECT id FROM errors")) == answer(direct)
    assert "id" in session.sql("EXPLAIN SELECT id FROM t").collect()[0][0]
    described = [row.col_name for row in session.sql("DESCRIBE t").collect()]
    assert described == [*SCHEMA.names, "# Partition Information", "# col_name", "level"]
    assert session.sql("SELECT id FROM t").filter("id < 3").count() == 3
    session.sql("DROP VIEW errors")
    before = sorted(table.name for table in session.catalog.listTables())
    with pytest.raises(NotSupported, match="TEMPORARY VIEW"):
        session.sql("CREATE VIEW lasting AS SELECT id FROM t")
    with pytest.raises(Exception, match="nowhere"):
        session.sql("CREATE TEMP VIEW wrong AS SELECT nowhere FROM t")
    assert sorted(table.name for table in session.catalog.listTables()) == before


@pytest.mark.parametrize(
    "search", ["", " AND TEXTSEARCH(message, 'disk')", " AND (id = 1 OR TEXTSEARCH(message, 'slow'))"]
)
def test_times_mean_the_zone_of_spark_whatever_the_options_of_the_table_say(session, tmp_path, search):
    table = indextables.create(tmp_path / "t", SCHEMA, indexing={"message": "text"})
    for number, month in ((1, 6), (2, 7)):
        at = dt.datetime(2026, month, 1, 4, 30, tzinfo=dt.UTC)
        table.append([{"id": number, "message": "slow disk", "at": at}])
    zones = {"spark.sql.session.timeZone": "America/New_York", "spark.indextables.timeZone": "UTC"}
    before = session.conf.get("spark.sql.session.timeZone")
    for key, zone in zones.items():
        session.conf.set(key, zone)
    try:
        text = f"SELECT id FROM indextables.`{tmp_path / 't'}` WHERE at < TIMESTAMP '2026-06-01 01:00:00'{search}"
        assert [row.id for row in session.sql(text).collect()] == [1]
    finally:
        session.conf.set("spark.sql.session.timeZone", before)
        session.conf.unset("spark.indextables.timeZone")


@pytest.mark.parametrize("state", ["avro", "parquet", "json"])
def test_a_statement_with_a_filter_changes_nothing_for_what_comes_after_it(session, copy, state):
    indextables.open(copy, options={"state.format": state}).checkpoint()
    indextables.invalidate_caches()
    name = f"indextables.`{copy}`"
    assert 0 < len(session.sql(f"SELECT id FROM {name} WHERE level = 'ERROR'").collect()) < 30
    assert len(session.sql(f"SELECT id FROM {name}").collect()) == 30
    assert indextables.open(copy).count() == 30
    indextables.open(copy).append(rows(30, 31))
    indextables.open(copy, options={"state.format": state}).checkpoint()
    indextables.invalidate_caches()
    assert sorted(indextables.open(copy).to_arrow()["id"].to_pylist()) == list(range(31))
