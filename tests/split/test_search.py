"""Every query kind, alone and combined, finds exactly the rows that a plain reading of the rows finds."""

from __future__ import annotations

import contextlib
import math

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.split.search_kinds import KINDS, any_query
from tests.split.search_world import (
    OPTIONS,
    SCHEMA,
    World,
    build_world,
    env_of,
    has_phrase,
    make_rows,
    open_searcher,
    with_vector,
    words_of,
)
from tests.world.store import CountingStore

from indextables.ambient import SystemAmbient
from indextables.errors import LimitExceeded
from indextables.options import Options
from indextables.split.file import dv
from indextables.split.index.cache import IndexCache
from indextables.split.index.fields import plan_fields
from indextables.split.search.searcher import OrderBy, SearchMemory, SplitSearcher
from indextables.split.search.state import States
from indextables.split.search.virtual import OpenIndexes
from indextables.split.write.writer import write_splits
from indextables.storage import open_store

RELAXED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture(scope="module", params=["one split", "seven splits", "seven splits with deletions"])
def world(request, tmp_path_factory) -> World:
    rows = make_rows(240)
    deleted = frozenset(range(0, 240, 5)) if "deletions" in request.param else frozenset()
    pieces = 1 if request.param == "one split" else 7
    return build_world(tmp_path_factory.mktemp("world"), rows, pieces, deleted=deleted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=25, deadline=None, suppress_health_check=RELAXED)
@given(data=st.data())
def test_each_query_kind_finds_exactly_the_rows_it_describes(world, kind, data):
    text, meaning = data.draw(KINDS[kind])
    assert world.ids(text) == world.meant(meaning), text


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(case=any_query())
def test_combined_queries_find_exactly_the_rows_they_describe(world, case):
    text, meaning = case
    try:
        found = world.ids(text)
    except LimitExceeded:
        return
    assert found == world.meant(meaning), text


@pytest.mark.soak
@settings(max_examples=5_000, deadline=None, suppress_health_check=RELAXED)
@given(case=any_query())
def test_a_great_many_combined_queries_find_exactly_the_rows_they_describe(world, case):
    text, meaning = case
    with contextlib.suppress(LimitExceeded):
        assert world.ids(text) == world.meant(meaning), text


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=RELAXED)
@given(case=any_query())
def test_count_and_hits_and_matches_agree(world, case):
    text, meaning = case
    try:
        total = world.searcher.count(text)
    except LimitExceeded:
        return
    everything = world.searcher.search(text, limit=None)
    assert total == len(everything.hits) == everything.total == len(world.meant(meaning))
    assert world.searcher.search(text, limit=5, count=True).total == total


def test_limit_zero_counts_and_returns_no_row(world):
    result = world.searcher.search("message:foo", limit=0, count=True)
    assert len(result.hits) == 0
    assert result.total == world.searcher.count("message:foo") > 0


def test_a_limit_beyond_all_rows_returns_all_rows(world):
    result = world.searcher.search("*", limit=2**40)
    assert len(result.hits) == len(world.rows) - len(world.deleted)


def test_pages_of_hits_join_to_the_whole_list(world):
    whole = world.searcher.search("foo bar", limit=None).hits
    pages = [world.searcher.search("foo bar", limit=7, offset=at).hits for at in range(0, len(whole) + 7, 7)]
    joined = [(int(s), int(r)) for page in pages for s, r in zip(page.splits, page.rows, strict=True)]
    assert joined == [(int(s), int(r)) for s, r in zip(whole.splits, whole.rows, strict=True)]


@pytest.mark.parametrize("column", ["status", "at", "day", "host", "ratio", "price", "ok", "id"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_hits_follow_a_column_with_missing_values_last(world, column, direction):
    hits = world.searcher.search("message:foo", limit=None, order_by=OrderBy(column, direction)).hits
    found = world.searcher.rows(hits, [column]).column(column).to_pylist()
    values = [v for v in found if v is not None]
    assert found == values + [None] * (len(found) - len(values))
    usual = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
    assert usual == sorted(usual, reverse=direction == "desc")
    assert len(found) == world.searcher.count("message:foo")
    first = world.searcher.search("message:foo", limit=4, order_by=OrderBy(column, direction)).hits
    assert (first.splits.tolist(), first.rows.tolist()) == (hits.splits[:4].tolist(), hits.rows[:4].tolist())


@pytest.mark.parametrize("query", ["*", "message:foo", "NOT message:bar"])
def test_hits_follow_a_column_that_older_splits_do_not_have(tmp_path, query):
    """Asked twice, because the second time everything is loaded, also of the splits that have no hit."""
    fields = [SCHEMA.field(name) for name in ("id", "message", "status")]
    rows = [{"id": n, "message": "foo", "status": None if n < 4 else 9 - n} for n in range(8)]
    store = open_store(tmp_path / "t", Options({"storage.fsync": "false"}, environ={}))
    refs, usual = [], Options(OPTIONS, environ={})
    for part, schema in (
        (rows[:2], pa.schema(fields[:2])),
        (rows[2:6], pa.schema(fields)),
        (rows[6:], pa.schema(fields)),
    ):
        table = pa.Table.from_pylist(part, schema)
        refs += [w.ref for w in write_splits(store, [table], schema, usual)]
    more = {"schema": pa.schema(fields), "index": plan_fields(pa.schema(fields), usual)}
    searcher = open_searcher(store, refs, tmp_path / "cache", **more)
    for direction, expected in [("asc", [7, 6, 5, 4, 0, 1, 2, 3]), ("desc", [4, 5, 6, 7, 0, 1, 2, 3])] * 2:
        hits = searcher.search(query, limit=None, order_by=OrderBy("status", direction)).hits
        assert searcher.rows(hits, ["id"]).column("id").to_pylist() == expected


@pytest.mark.parametrize("before", ["indexing.typemap.status", "indexing.nonfastfields"])
def test_hits_follow_a_column_that_some_indexes_do_not_hold(tmp_path, before):
    schema = pa.schema([SCHEMA.field(name) for name in ("id", "message", "status")])
    table = pa.table({"id": range(6), "message": ["foo"] * 6, "status": [3, None, 1, 2, 0, None]}, schema=schema)
    store = open_store(tmp_path / "t", Options({"storage.fsync": "false"}, environ={}))
    given = {**OPTIONS, "indexing.indexrecordoption.status": "basic"}
    now = Options(given, environ={})
    old = Options({**given, before: "none" if "typemap" in before else "status"}, environ={})
    refs = [w.ref for part, o in ((0, old), (3, now)) for w in write_splits(store, [table.slice(part, 3)], schema, o)]
    searcher = open_searcher(store, refs, tmp_path / "cache", schema=schema, index=plan_fields(schema, now))
    for query in ("message:foo", "*") * 2:
        hits = searcher.search(query, limit=None, order_by=OrderBy("status")).hits
        assert searcher.rows(hits, ["id"]).column("id").to_pylist() == [4, 2, 3, 0, 1, 5]


def test_a_range_of_words_is_one_of_words_also_where_whole_texts_are_fast(tmp_path):
    rows = [{"id": n, "message": text} for n, text in enumerate(["zoo bar", "bar zoo", "zoo", "alpha", None])]
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("message")])
    fast = build_world(tmp_path, rows, options={"indexing.fastfields": "message"}, schema=schema)
    fast.searcher.prewarm()
    assert fast.ids("message:[bar TO c}") == {0, 1}
    assert fast.ids("message:>=zoo") == {0, 1, 2}


def test_rows_come_with_their_columns_and_scores_in_the_order_of_the_hits(world):
    hits = world.searcher.search("foo", limit=9).hits
    table = world.searcher.rows(hits, ["id", "message"], score=True)
    assert table.column("_score").to_pylist() == pytest.approx(hits.scores.tolist())
    assert table.column("_score").to_pylist() == sorted(table.column("_score").to_pylist(), reverse=True)
    by_id = {row["id"]: row["message"] for row in world.rows}
    assert all(by_id[r["id"]] == r["message"] for r in table.to_pylist())


def test_hits_without_any_column_are_their_scores_or_their_number(world):
    hits = world.searcher.search("foo", limit=9).hits
    assert world.searcher.rows(hits, [], score=True).column("_score").to_pylist() == pytest.approx(hits.scores.tolist())
    assert world.searcher.rows(hits, []).num_rows == len(hits)


def test_no_split_at_all_answers_with_nothing(world):
    from tests.split.search_world import open_searcher

    empty = open_searcher(
        world.store, [], world.searcher.cache._root, schema=world.searcher.schema, index=world.searcher.index
    )
    assert empty.count("foo") == 0
    assert len(empty.search("foo").hits) == 0
    assert empty.rows(empty.search("foo").hits).num_rows == 0


def test_texts_inside_nested_columns_that_look_like_times_are_found_by_their_words(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("attrs", pa.struct([("when", pa.string())]))])
    texts = ["2024-01-01T00:00:00Z", "2024-01-01", "2023-05-05 10:00:00+02:00", None]
    rows = [{"id": i, "attrs": {"when": text}} for i, text in enumerate(texts)]
    world = build_world(tmp_path, rows, 2, schema=schema)
    assert world.ids("attrs.when:2024") == {0, 1}
    assert world.ids('attrs.when:"2024-01-01T00:00:00Z"') == {0}
    assert world.ids("attrs.when:05") == {2}


@pytest.mark.parametrize("record", ["basic", "freq"])
def test_phrases_are_exact_on_columns_that_are_indexed_without_positions(tmp_path, record):
    rows = make_rows(80)
    world = build_world(tmp_path, rows, 2, options={"indexing.indexrecordoption.message": record})
    for query, phrase, slop in (('message:"foo bar"', ["foo", "bar"], 0), ('message:"foo bar"~3', ["foo", "bar"], 3)):
        assert world.ids(query) == world.meant(lambda row, p=phrase, s=slop: has_phrase(row["message"], p, s))
    assert world.ids("message:foo-bar") == world.meant(lambda row: has_phrase(row["message"], ["foo", "bar"]))
    assert world.ids('message:"foo ti"*') == build_world(tmp_path / "p", rows, 1).ids('message:"foo ti"*')


def test_a_search_after_an_append_reads_only_the_new_split(world, tmp_path):
    store = CountingStore(world.store, is_local=True)
    memory = SearchMemory(IndexCache(tmp_path, 1 << 30, SystemAmbient()))
    shared = {"memory": memory, "schema": world.searcher.schema, "index": world.searcher.index}
    before = SplitSearcher(env_of(store), world.refs[:-1], **shared)
    before.search("message:foo")
    store.calls.clear()
    after = SplitSearcher(env_of(store), world.refs, **shared)
    assert len(after.search("message:foo", limit=None).hits) == world.searcher.count("message:foo")
    assert {key for _, key, _ in store.reads} == {world.refs[-1].key}


def test_versions_share_a_split_and_not_the_rows_that_one_of_them_deleted(world, tmp_path):
    store = CountingStore(world.store, is_local=False)
    memory = SearchMemory(IndexCache(tmp_path, 1 << 30, SystemAmbient()))
    shared = {"memory": memory, "schema": world.searcher.schema, "index": world.searcher.index}
    gone = {row["id"] for row in world.rows[:5]}
    plain = [with_vector(ref, None) for ref in world.refs]
    deleted = [with_vector(plain[0], dv.encode(range(5))), *plain[1:]]

    def ids(refs) -> set[int]:
        searcher = SplitSearcher(env_of(store), refs, **shared)
        assert searcher.count("*") == len(searcher.matches("*").hits)
        return set(searcher.rows(searcher.matches("message:foo").hits, ["id"]).column("id").to_pylist())

    meant = {row["id"] for row in world.rows if "foo" in words_of(row["message"])}
    assert ids(plain) == meant
    store.calls.clear()
    assert ids(deleted) == meant - gone
    assert ids(plain) == meant
    assert ids(deleted) == meant - gone
    assert [call for call in store.reads if call.verb == "get_range"] == []
    assert meant & gone


def test_splits_of_other_tables_and_credentials_are_not_taken_for_those_of_one(world, tmp_path):
    cache = IndexCache(tmp_path, 1 << 30, SystemAmbient())
    states, opened, first = States(), OpenIndexes(), {}
    for scope in ("one", "two", "one"):
        store = CountingStore(world.store, is_local=False)
        first.setdefault(scope, store)
        memory = SearchMemory(cache, opened, states, scope)
        searcher = SplitSearcher(env_of(store), world.refs, memory=memory)
        assert len(searcher.search("message:foo", limit=None).hits) == world.searcher.count("message:foo")
        assert {id(state.split.store) for state in searcher.states} == {id(first[scope])}


def test_defaults_come_from_the_options(world):
    options = Options({"search.defaultOperator": "AND", "search.defaultFields": "title"}, environ={})
    memory = SearchMemory(world.searcher.cache)
    searcher = SplitSearcher(env_of(world.store, options=options), world.refs, memory=memory)
    hits = searcher.matches("foo bar").hits
    found = set(searcher.rows(hits, ["id"]).column("id").to_pylist())
    assert found == world.meant(lambda row: {"foo", "bar"} <= set(words_of(row["title"])))
    plan = searcher.plan("foo bar", default_operator="or", default_fields=["message"])
    found = set(searcher.rows(searcher.matches(plan).hits, ["id"]).column("id").to_pylist())
    assert found == world.meant(lambda row: bool({"foo", "bar"} & set(words_of(row["message"]))))


def test_existence_is_known_from_null_counts_where_all_rows_have_a_value_or_none(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("full", pa.string()), ("bare", pa.string()), ("some", pa.string())])
    rows = [{"id": i, "full": "x", "bare": None, "some": "x" if i % 2 else None} for i in range(10)]
    world = build_world(tmp_path, rows, 2, schema=schema)
    for query, expected, scanned in (("full:*", 10, 0), ("bare:*", 0, 0), ("-bare:*", 10, 0), ("some:*", 5, 10)):
        result = world.searcher.search(query, limit=None)
        assert (len(result.hits), result.metrics.rows_scanned) == (expected, scanned)
