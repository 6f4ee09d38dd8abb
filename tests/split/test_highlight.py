"""Marks stand on the words that made a row match, in the text as it is in the rows."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.split.search_kinds import KINDS
from tests.split.search_world import World, build_world, make_rows

from indextables.split.index.analyze import analyzer
from indextables.split.query.plan import LeafTarget, Terms
from indextables.split.search.explain import explain_query
from indextables.split.search.highlight import highlighter, snippets


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return build_world(tmp_path_factory.mktemp("highlight"), make_rows(120), 3)


def marked(world: World, query: str, text: str, column: str = "message") -> str | None:
    return highlighter(world.searcher.plan(query), column, before="[", after="]").marked(text)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("message:foo", "Foo, bar; FOO!", "[Foo], bar; [FOO]!"),
        ('message:"foo bar"', "bar foo bar foo", "bar [foo] [bar] foo"),
        ('message:"foo bar"~1', "foo x bar foo", "[foo] x [bar] foo"),
        ('message:"foo bar baz"~2', "foo bar x baz", "[foo] [bar] x [baz]"),
        ("message:ti*", "time and tide, a tie", "[time] and [tide], a [tie]"),
        ('message:"foo ti"*', "foo time tim", "foo time tim".replace("foo time", "[foo] [time]")),
        ("message:tmie~1", "time tame", "[time] tame"),
        ("message:/t.m./", "time tome tim", "[time] [tome] tim"),
        ("message:IN [foo bar]", "foo x bar", "[foo] x [bar]"),
        ("message:[a TO c]", "apple cat bee", "[apple] cat [bee]"),
        ("message:foo -message:bar", "foo bar", "[foo] bar"),
        ("title:foo", "foo", "foo"),
        ("foo", "foo", "[foo]"),
        ("message:naïve", "so naïve & <b>", "so [naïve] &amp; &lt;b&gt;"),
    ],
)
def test_words_that_matched_are_marked(world, query, text, expected):
    assert marked(world, query, text) == expected


def test_a_whole_value_is_marked_in_a_string_column(world):
    assert marked(world, 'host:"db 1"', "db 1", "host") == "[db 1]"
    assert marked(world, 'host:"db 1"', "db 2", "host") == "db 2"


def test_a_path_inside_a_nested_column_is_marked(world):
    plan = world.searcher.plan("attrs.user:foo attrs.n:3")
    assert highlighter(plan, "attrs", ("user",), before="[", after="]").marked("a foo") == "a [foo]"


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_row_that_matches_by_its_text_has_a_mark(world, data):
    kind = data.draw(st.sampled_from(["terms", "phrases", "prefixes", "fuzzy", "regexes", "sets"]))
    query, _ = data.draw(KINDS[kind].filter(lambda case: case[0].startswith("message:")))
    marker = highlighter(world.searcher.plan(query), "message")
    hits = world.searcher.matches(query).hits
    texts = world.searcher.rows(hits, ["message"]).column(0).to_pylist()
    assert all(marker.places(text) for text in texts)
    rest = [row["message"] for row in world.rows if row["message"] is not None and row["message"] not in set(texts)]
    assert not any(marker.places(text) for text in rest)


def test_a_snippet_is_short_and_shows_a_mark(world):
    text = "lorem " * 200 + "the foo is here" + " ipsum" * 200
    marker = highlighter(world.searcher.plan("message:foo"), "message", max_chars=80)
    found = marker.snippet(text)
    assert "<em>foo</em>" in found
    assert len(re.sub("</?em>", "", found)) <= 80


def test_a_snippet_without_marks_is_the_beginning(world):
    marker = highlighter(world.searcher.plan("message:foo"), "message", max_chars=20)
    assert "lorem ipsum dolor sit amet".startswith(marker.snippet("lorem ipsum dolor sit amet"))
    assert marker.snippet(None) is None


def test_snippets_come_from_the_rows_of_hits(world):
    plan = world.searcher.plan("message:foo")
    rows = world.searcher.rows(world.searcher.search(plan, limit=5).hits, ["message"])
    assert all("<em>" in snippet for snippet in snippets(plan, rows, "message").to_pylist())


def test_a_query_can_be_explained(world):
    told = explain_query(world.searcher, "message:foo AND ratio:>0")
    assert told["conditions"] == [
        {"kind": "Terms", "columns": ["message"], "answered_by": "index"},
        {"kind": "ValueRange", "columns": ["ratio"], "answered_by": "columns"},
    ]
    assert told["components"] == ["fieldnorm", "idx", "term"]


@given(
    st.lists(st.sampled_from("abcx"), max_size=14),
    st.lists(st.sampled_from("abc"), min_size=2, max_size=3),
    st.integers(0, 4),
)
def test_words_of_a_phrase_are_marked_in_every_window_that_holds_them_all(words, phrase, slop):
    plan = Terms(LeafTarget("body", "text", analyzer=analyzer("default")), tuple(enumerate(phrase)), slop)
    entries = [
        (place - at, number, place)
        for place, word in enumerate(words)
        for number, (at, term) in enumerate(plan.terms)
        if word == term
    ]
    meant = set()
    for low, _, _ in entries:
        inside = [entry for entry in entries if low <= entry[0] <= low + slop]
        if {number for _, number, _ in inside} == set(range(len(phrase))):
            meant |= {(place * 2, place * 2 + 1) for _, _, place in inside}
    assert highlighter(plan, "body").places(" ".join(words)) == sorted(meant)


def test_a_long_text_full_of_the_words_of_a_phrase_is_marked_without_looking_at_every_pair():
    plan = Terms(LeafTarget("body", "text", analyzer=analyzer("default")), ((0, "a"), (1, "b")), 40_000)
    marker = highlighter(plan, "body", max_chars=100)
    text = "x " * 60 + "a b " * 10_000
    assert len(marker.places(text)) == 20_000
    assert marker.snippet(text).count("<em>") > 40
