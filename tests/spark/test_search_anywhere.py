"""A search in Spark may stand wherever rows of a table of ours are handed on."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from tests.sql.search_forms import FORMS, INDEXING, SCHEMA, SCORED, TIMEOUTS, rows

import indextables
from indextables.errors import NotSupported
from indextables.spark.session import registry

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("anywhere") / "t"
    table = indextables.create(path, SCHEMA, indexing=INDEXING)
    table.append(rows().slice(0, 7))
    table.append(rows().slice(7))
    return path


@pytest.fixture
def session(spark, place):
    registry.register(spark, "t", place)
    yield indextables.enable(spark)
    indextables.disable(spark)
    registry.forget(spark, "t")


def ids(frame):
    return sorted(row.id for row in frame.collect())


@pytest.mark.connect
def test_a_search_finds_the_rows_that_subqueries_and_with_names_hand_on(session):
    for text, expected in FORMS.items():
        assert ids(session.sql(text)) == expected, text


@pytest.mark.connect
def test_the_score_is_handed_on_too(session, place):
    found = [(row.id, row._score) for row in session.sql(SCORED).collect()]
    direct = indextables.open(place).sql(SCORED).to_pylist()
    assert found == [(row["id"], pytest.approx(row["_score"])) for row in direct]


@pytest.mark.connect
def test_dataframes_of_the_table_take_a_search_as_text_and_as_a_column(session, place):
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    from indextables.functions import textsearch

    frame = indextables.IndexTable.forPath(session, place).toDF()
    assert ids(frame.where("TEXTSEARCH(message, 'timeout')")) == TIMEOUTS
    assert ids(frame.filter("TEXTSEARCH(author.name, 'ann') AND id > 3")) == [6, 9]
    assert ids(frame.where(F.expr("TEXTSEARCH(message, 'timeout') OR id = 1"))) == sorted([*TIMEOUTS, 1])
    assert ids(frame.where(textsearch("message", "timeout"))) == TIMEOUTS
    mixed = frame.where(~textsearch(F.col("message"), "timeout") & (F.col("id") > 4))
    assert ids(mixed) == [5, 6, 9, 10]
    assert mixed.columns == frame.columns
    assert ids(frame.where("id > 3").select("id", "message").where("TEXTSEARCH(message, 'it''s OR well')")) == [6, 10]
    assert ids(session.sql("SELECT id, message AS m FROM t WHERE id < 9").where("TEXTSEARCH(m, 'timeout')")) == [
        i for i in TIMEOUTS if i < 9
    ]


@pytest.mark.connect
def test_a_search_in_a_select_list_has_a_name_and_groups_rows(session, place):
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    from indextables.functions import textsearch

    text = "TEXTSEARCH(message, 'timeout')"
    grouped = session.sql(f"SELECT {text}, count(*) AS n FROM t GROUP BY {text}")
    assert grouped.columns == [text, "n"]
    assert {row[0]: row.n for row in grouped.collect()} == {
        True: len(TIMEOUTS),
        False: session.table("t").count() - len(TIMEOUTS),
    }
    frame = indextables.IndexTable.forPath(session, place).toDF()
    for shown in (frame.select("id", F.expr(text)), frame.selectExpr("id", text)):
        assert shown.columns == ["id", text]
        assert ids(shown.where(F.col(f"`{text}`")).select("id")) == TIMEOUTS
    marked = frame.withColumns({"a": textsearch("message", "timeout"), "b": F.expr(text)})
    assert ids(marked.where("a AND b").select("id")) == TIMEOUTS
    assert frame.agg(F.count_if(textsearch("message", "timeout")).alias("n")).first().n == len(TIMEOUTS)
    with pytest.raises(NotSupported, match="group by 'hit'"):
        frame.groupBy(textsearch("message", "timeout"))
    with pytest.raises(NotSupported, match="larger Column"):
        frame.select(F.expr(text).alias("h"))


@pytest.mark.connect
def test_the_score_of_a_search_can_be_selected_and_ordered_by(session, place):
    from indextables.functions import score, textsearch

    found = indextables.IndexTable.forPath(session, place).toDF().where(textsearch("message", "timeout again"))
    direct = indextables.open(place).sql(
        "SELECT id, _score FROM t WHERE TEXTSEARCH(message, 'timeout again') ORDER BY _score DESC, id"
    )
    scores = {row["id"]: pytest.approx(row["_score"]) for row in direct.to_pylist()}
    assert {row.id: row._score for row in found.select("id", score()).collect()} == scores
    best = found.orderBy(score().desc(), "id")
    assert [row.id for row in best.collect()] == direct["id"].to_pylist()
    assert best.columns == found.columns
    with pytest.raises(NotSupported, match="right behind"):
        found.select("id").select("id", score())


@pytest.mark.connect
def test_views_are_searched_through_to_their_table(session, place):
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    frame = indextables.IndexTable.forPath(session, place).toDF()
    frame.createOrReplaceTempView("v")
    assert ids(session.sql("SELECT id FROM v WHERE TEXTSEARCH(message, 'timeout')")) == TIMEOUTS
    session.sql("CREATE OR REPLACE TEMPORARY VIEW w AS SELECT id, message AS m FROM t WHERE id > 3")
    assert ids(session.sql("SELECT x.id FROM w x WHERE TEXTSEARCH(x.m, 'timeout')")) == [i for i in TIMEOUTS if i > 3]
    # What a name meant before is not what it means now.
    frame.where(F.col("id") > 8).createOrReplaceTempView("v")
    with pytest.raises(NotSupported, match="table of IndexTables"):
        session.sql("SELECT id FROM v WHERE TEXTSEARCH(message, 'timeout')").collect()
    type(session).sql(session, "CREATE OR REPLACE TEMPORARY VIEW w AS SELECT 1 AS id, 'timeout' AS m")
    with pytest.raises(NotSupported, match="table of IndexTables"):
        session.sql("SELECT id FROM w WHERE TEXTSEARCH(m, 'timeout')").collect()


@pytest.mark.connect
def test_a_search_without_a_table_of_ours_is_refused_with_our_sentence(session):
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    from indextables.functions import textsearch

    other = session.createDataFrame([(1, "timeout")], "id long, message string")
    for condition in ("TEXTSEARCH(message, 'timeout')", F.expr("TEXTSEARCH(message, 'timeout')")):
        with pytest.raises(NotSupported, match="index of a table of IndexTables"):
            other.where(condition)
    with pytest.raises((NotSupported, AnalysisException), match="table of IndexTables"):
        other.where(textsearch("message", "timeout")).collect()
    other.createOrReplaceTempView("other")
    with pytest.raises(NotSupported, match="index of a table of IndexTables"):
        session.sql("SELECT * FROM other WHERE TEXTSEARCH(message, 'timeout')")
    assert ids(other.where("message <> 'TEXTSEARCH(message, 1)'")) == [1]


@pytest.mark.connect
def test_disable_gives_sparks_methods_back(spark, place):
    from indextables.spark.session import frame_class

    kind = frame_class(spark)
    before = kind.filter
    indextables.enable(spark)
    assert kind.filter is not before
    indextables.disable(spark)
    assert kind.filter is before


@pytest.mark.connect
def test_dataframes_by_name_and_by_path_take_a_search(session, place):
    for frame in (session.table("t"), session.read.format("indextables").load(str(place))):
        assert ids(frame.where("TEXTSEARCH(message, 'timeout') AND id > 3")) == [i for i in TIMEOUTS if i > 3]


def test_views_of_the_catalog_are_searched_through_to_their_table(session, place):
    session.sql(f"CREATE TABLE searched_t USING indextables LOCATION '{place}'")
    session.sql("CREATE VIEW searched_v AS SELECT id, message FROM searched_t WHERE id > 3")
    try:
        found = session.sql("SELECT id FROM searched_v WHERE TEXTSEARCH(message, 'timeout')")
        assert ids(found) == [i for i in TIMEOUTS if i > 3]
    finally:
        session.sql("DROP VIEW searched_v")
        session.sql("DROP TABLE searched_t")


def test_a_temporary_view_of_a_table_of_the_catalog_is_searched(session, place):
    session.sql(f"CREATE TABLE searched_t USING indextables LOCATION '{place}'")
    session.sql("CREATE TEMPORARY VIEW searched_v AS SELECT id, message AS m FROM searched_t WHERE id > 3")
    try:
        found = session.sql("SELECT id FROM searched_v WHERE TEXTSEARCH(m, 'timeout')")
        assert ids(found) == [i for i in TIMEOUTS if i > 3]
    finally:
        session.sql("DROP VIEW searched_v")
        session.sql("DROP TABLE searched_t")
