"""A search in Spark may stand wherever rows of a table of ours are handed on."""

from __future__ import annotations

import pytest
from tests.sql.search_forms import FORMS, INDEXING, SCHEMA, SCORED, rows

import indextables
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
