"""`search` and `count`: a cluster finds and scores what the embedded engine finds and scores."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.spark.vectors import delete_rows

import indextables
from indextables import IndexTable
from indextables.errors import InvalidArgument, QueryInvalid

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

WORDS = ["timeout", "error", "connection", "database", "user", "request", "lazy", "quick", "brown", "fox"]
TASKS = {"search.driver.maxSplits": 0}
BOTH = pytest.mark.parametrize("options", [TASKS, {}], ids=["tasks", "driver"])


def lines(count):
    """Messages of changing length whose words have very different frequencies."""
    messages = [
        " ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 3 + i % 7)) + (" needle" if i == count // 2 else "")
        for i in range(count)
    ]
    return pa.table({"id": list(range(count)), "message": messages, "part": [i % 4 for i in range(count)]})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Seven splits, two of them with deleted rows."""
    path = tmp_path_factory.mktemp("search") / "t"
    rows = lines(700)
    # A cache of its own: other runs on this machine empty the common one.
    options = {"cache.directory": str(path.parent / "cache")}
    table = indextables.create(path, rows.schema, indexing={"message": "text"}, options=options)
    for start in range(0, 700, 100):
        table.append(rows.slice(start, 100))
    delete_rows(path, lambda number, _: {2: range(0, 50, 3), 5: [1, 2]}.get(number, ()))
    return table.refresh()


@BOTH
@pytest.mark.parametrize("query", ["timeout", "lazy AND fox", '"quick brown"', "needle OR user", "message:tim*"])
def test_the_best_rows_and_their_scores_are_those_of_the_embedded_engine(spark, table, query, options):
    handle = IndexTable.forPath(spark, table.url, options)
    ours = [row.asDict() for row in handle.search(query, columns=["id"], limit=12).collect()]
    theirs = table.search(query, columns=["id"], limit=12).to_pylist()
    assert [row["_score"] for row in ours] == [pytest.approx(row["_score"], rel=1e-5) for row in theirs]
    every = table.search(query, columns=["id"], limit=None).to_pylist()
    scores = {row["id"]: row["_score"] for row in every}
    assert all(row["_score"] == pytest.approx(scores[row["id"]], rel=1e-5) for row in ours)


def test_all_matches_without_a_limit(spark, table):
    handle = IndexTable.forPath(spark, table.url, TASKS)
    frame = handle.search("timeout", where="part = 1")
    theirs = table.search("timeout", where="part = 1", limit=None).to_pylist()
    assert frame.columns == ["id", "message", "part", "_score"]
    ours = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"])
    assert [row["id"] for row in ours] == sorted(row["id"] for row in theirs)
    scores = {row["id"]: row["_score"] for row in theirs}
    assert all(row["_score"] == pytest.approx(scores[row["id"]], rel=1e-5) for row in ours)
    assert frame.count() == len(theirs) == handle.count("timeout", where="part = 1")


@BOTH
def test_counts_deleted_rows_excluded_and_none_is_none(spark, table, options):
    handle = IndexTable.forPath(spark, table.url, options)
    for query in ("timeout", "needle", "nobodysaysthis"):
        assert handle.count(query) == table.count(query)
    assert handle.count("nobodysaysthis") == 0
    assert handle.search("nobodysaysthis").collect() == []
    assert handle.count("timeout", where="id < 0") == 0


@BOTH
def test_highlights(spark, table, options):
    handle = IndexTable.forPath(spark, table.url, options)
    (row,) = handle.search("needle", columns=["id"], highlight=["message"], limit=5).collect()
    (theirs,) = table.search("needle", columns=["id"], highlight=["message"], limit=5).to_pylist()
    assert row.asDict() == {**theirs, "_score": pytest.approx(theirs["_score"], rel=1e-5)}
    assert "<em>needle</em>" in row["_highlight_message"]


@BOTH
def test_scores_do_not_depend_on_where(spark, table, options):
    handle = IndexTable.forPath(spark, table.url, options)
    whole = {row.id: row._score for row in handle.search("lazy", columns=["id"]).collect()}
    part = {row.id: row._score for row in handle.search("lazy", columns=["id"], where="id >= 600").collect()}
    assert part
    assert part == {number: pytest.approx(score, rel=1e-5) for number, score in whole.items() if number >= 600}


def test_a_search_is_a_dataframe_like_any_other(spark, table):
    frame = IndexTable.forPath(spark, table.url, TASKS).search("timeout OR lazy", columns=["id", "part"])
    counted = {row.part: row["count"] for row in frame.groupBy("part").count().collect()}
    assert sum(counted.values()) == table.count("timeout OR lazy")
    assert frame.join(frame.select("id"), "id").count() == table.count("timeout OR lazy")


def test_an_empty_table_finds_nothing(spark, tmp_path):
    indextables.create(tmp_path / "t", lines(1).schema, indexing={"message": "text"})
    for options in (TASKS, {}):
        handle = IndexTable.forPath(spark, tmp_path / "t", options)
        assert handle.search("timeout", limit=3).collect() == []
        assert handle.count("timeout") == 0


def test_what_is_asked_for_wrongly_is_told_at_once(spark, table):
    for options in (TASKS, {}):
        handle = IndexTable.forPath(spark, table.url, options)
        with pytest.raises(QueryInvalid):
            handle.search('message:"open')
        with pytest.raises(QueryInvalid, match="nope"):
            handle.search("timeout", where="nope = 1")
        with pytest.raises(InvalidArgument, match="nope"):
            handle.search("timeout", columns=["nope"])
        with pytest.raises(InvalidArgument, match="limit"):
            handle.search("timeout", limit=-1)
        with pytest.raises(QueryInvalid):
            handle.count("(((")


def test_a_score_of_the_table_in_any_case_is_not_shown_beside_that_of_a_search(spark, tmp_path):
    rows = pa.table({"id": [1], "_Score": [5.0], "message": ["disk"]})
    indextables.create(tmp_path / "t", rows.schema, indexing={"message": "text"}).append(rows)
    handle = IndexTable.forPath(spark, tmp_path / "t")
    with pytest.raises(InvalidArgument, match="name the columns"):
        handle.search("disk")
    assert handle.search("disk", columns=["id"]).columns == ["id", "_score"]
    reader = spark.read.format("indextables").option("search", "disk")
    with pytest.raises(Exception, match="option columns"):
        # Connect asks only now.
        _ = reader.load(str(tmp_path / "t")).columns
    assert reader.option("columns", "id").load(str(tmp_path / "t")).columns == ["id", "_score"]
