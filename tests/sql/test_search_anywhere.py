"""A search may be about a subquery or a WITH name that hands on rows of the table, and about fields of structs."""

from __future__ import annotations

import pytest

import indextables
from indextables.errors import QueryInvalid
from tests.sql.search_forms import FORMS, INDEXING, SCHEMA, SCORED, rows


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    table = indextables.create(tmp_path_factory.mktemp("anywhere") / "t", SCHEMA, indexing=INDEXING)
    table.append(rows().slice(0, 7))
    table.append(rows().slice(7))
    return table


@pytest.mark.parametrize("text", FORMS)
def test_a_search_finds_the_rows_that_are_handed_on(table, text):
    assert sorted(table.sql(text)["id"].to_pylist()) == FORMS[text]


def test_stars_show_no_more_than_what_was_handed_on(table):
    shown = table.sql("WITH c AS (SELECT id, message FROM t) SELECT * FROM c WHERE TEXTSEARCH(message, 'well')")
    assert shown.column_names == ["id", "message"]


def test_the_score_is_handed_on_too(table):
    found = table.sql(SCORED)
    direct = table.sql("SELECT id, _score FROM t WHERE TEXTSEARCH(message, 'timeout') ORDER BY _score DESC, id")
    assert found == direct


def test_a_field_that_is_not_there_is_told(table):
    with pytest.raises(QueryInvalid, match="nope"):
        table.sql("SELECT id FROM t WHERE TEXTSEARCH(author.nope, 'ann')")
