"""Many splits as one index: which may share one, what each query reads, and what stays a hole."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.split.search_kinds import KINDS
from tests.split.search_world import SCHEMA, World, build_world, make_rows, open_searcher, with_vector
from tests.world.store import CountingStore

from indextables.errors import IndexUnavailable
from indextables.query.parse import parse
from indextables.split.file import dv
from indextables.split.index import delfile
from indextables.split.query.plan import leaves
from indextables.split.search.answer import IndexShard, ReadyShards
from indextables.split.search.components import needed
from indextables.split.search.hits import SearchMetrics
from indextables.split.search.shelf import Shelf, open_index
from indextables.split.search.state import States
from indextables.split.search.virtual import KEPT_IDLE, OpenIndexes, VirtualIndex, group_by_schema


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    made = build_world(tmp_path_factory.mktemp("virtual"), make_rows(90), 3)
    made.searcher.prewarm()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_each_query_kind_is_exact_on_exactly_the_components_it_needs(world, kind, data, tmp_path_factory):
    text, _ = data.draw(KINDS[kind])
    cold = open_searcher(world.store, world.refs, tmp_path_factory.mktemp("cold"))
    warm = world.searcher.search(text, limit=None).hits
    found = cold.search(text, limit=None).hits
    assert (found.splits.tolist(), found.rows.tolist()) == (warm.splits.tolist(), warm.rows.tolist())
    assert found.scores.tolist() == pytest.approx(warm.scores.tolist(), rel=1e-5)
    allowed = needed(cold.plan(text), scored=True) | {"term"}
    assert all(state.cached.whole <= allowed for state in cold.states)


def test_a_hole_is_filled_before_it_is_searched(world, tmp_path):
    searcher = open_searcher(world.store, world.refs, tmp_path)
    assert all(state.cached.whole == {"term"} for state in searcher.states)
    term = searcher.search("message:foo", limit=None).hits
    assert all(state.cached.whole == {"term", "idx", "fieldnorm"} for state in searcher.states)
    searcher.search('message:"foo bar"')
    assert all(state.cached.whole == {"term", "idx", "fieldnorm", "pos"} for state in searcher.states)
    assert searcher.search("message:foo", limit=None).hits.scores.tolist() == term.scores.tolist()
    assert searcher.count("status:200") == world.searcher.count("status:200")
    assert all(state.cached.whole >= {"fast"} for state in searcher.states)


def test_a_split_without_a_hit_costs_one_read_and_a_part_of_its_index(tmp_path):
    rows = make_rows(3000)
    rows[2900]["message"] = "needle in the hay"
    world = build_world(tmp_path, rows, 3)
    store = CountingStore(world.store, is_local=False)
    more = {"schema": world.searcher.schema, "index": world.searcher.index}
    searcher = open_searcher(store, world.refs, tmp_path / "other", **more)
    assert sorted(key for _, key, _ in store.reads) == sorted(ref.key for ref in world.refs)
    hits = searcher.search('message:"needle in"').hits
    searcher.rows(hits, ["message"])
    reads = [key for _, key, _ in store.reads]
    hit = world.refs[int(hits.splits[0])].key
    # Directory and terms; postings, positions and page locations; pages.
    assert reads.count(hit) == 3
    assert [reads.count(ref.key) for ref in world.refs if ref.key != hit] == [1, 1]
    assert store.count("head") == 0


def test_splits_share_an_index_only_if_one_schema_begins_with_the_other():
    a, b, c = ({"name": n, "type": "text", "options": {"x": 1}} for n in "abc")
    changed = {**b, "options": {"x": 2}}
    schemas = [json.dumps(s) for s in ([a], [a, b], [a, b, c], [a, changed], [b, a], [a, b])]
    groups = dict(group_by_schema(schemas))
    assert groups[schemas[2]] == [0, 1, 2, 5]
    assert groups[schemas[3]] == [3]
    assert groups[schemas[4]] == [4]


def test_opened_indexes_are_bounded_and_the_oldest_go_first(world):
    shard = _index_shard(world, "message:foo")
    opened = OpenIndexes(max_indexes=2, max_segments=100)
    made = itertools.count()

    def make(_):
        next(made)
        return shard.index

    for key in ("a", "b", "a", "c", "a", "b"):
        opened.get((key,), lambda _: True, make)
    assert next(made) == 4
    assert len(opened) == 2
    assert (opened.hits, opened.misses) == (2, 4)
    opened.clear()
    assert len(opened) == 0


def test_indexes_that_nobody_searches_any_more_are_closed_in_time():
    now = [0.0]
    opened = OpenIndexes(clock=lambda: now[0])

    def ask(number):
        opened.get((number,), lambda _: True, lambda _: SimpleNamespace(segments=[str(number)], alive_bytes=0))

    for number in range(100):
        ask(number)
        ask("always")
        now[0] += 10
    assert len(opened) == KEPT_IDLE
    assert opened.misses == 101, "one that is searched again and again is opened once"


def test_an_opened_index_leaves_nothing_on_disk(world):
    world.searcher.search("message:foo")
    assert list((world.searcher.cache._root / "tmp").iterdir()) == []


def test_a_folder_that_is_no_index_is_a_typed_error(tmp_path):
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(IndexUnavailable):
        open_index(tmp_path)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_alive_bits_keep_their_rows(bits):
    mask = np.array(bits, dtype=np.bool_)
    words = delfile.words_of(mask)
    assert len(words) == -(-len(bits) // 64)
    assert delfile.mask_of(words, len(bits)).tolist() == bits
    data, deleted = delfile.encode(words, len(bits), b"{}")
    assert deleted == bits.count(False)
    assert int.from_bytes(data[:4], "little") == len(bits)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_outside_the_alive_bits_are_neither_found_nor_counted(world, data):
    state = world.searcher.states[0]
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=state.num_rows, max_size=state.num_rows)), dtype=np.bool_
    )
    shard = _index_shard(world, "message:foo")
    schema = state.cached.directory.schema
    searcher = world.searcher
    index = VirtualIndex([state.member(mask)], state.plan, schema, Shelf(), searcher.cache, searcher.env.ambient)
    every = {int(r) for s, r in zip(*_hits(shard.everything()), strict=True) if s == 0}
    alone = IndexShard(index, [0], shard.plan, None)
    expected = sorted(every & set(np.flatnonzero(mask).tolist()))
    assert alone.everything().rows.tolist() == expected
    assert alone.count() == len(expected)


def _hits(hits):
    return hits.splits.tolist(), hits.rows.tolist()


def _index_shard(world: World, query: str) -> IndexShard:
    plan = world.searcher.plan(query)
    assert list(leaves(plan))
    (shard,) = world.searcher.shards(plan, SearchMetrics(), scored=True)
    assert isinstance(shard, IndexShard)
    return shard


def test_a_table_of_many_splits_keeps_the_index_of_each_open():
    opened = OpenIndexes()
    for _ in range(2):
        for number in range(300):
            opened.get(
                (str(number),), lambda _: True, lambda _, n=number: SimpleNamespace(segments=[str(n)], alive_bytes=0)
            )
    assert (opened.hits, opened.misses, len(opened)) == (300, 300, 300)
    opened.get(
        ("large",),
        lambda _: True,
        lambda _: SimpleNamespace(segments=list(map(str, range(8_000, 16_000))), alive_bytes=0),
    )
    assert len(opened) == 1


def test_indexes_for_many_filters_hold_a_bounded_number_of_bits(world, tmp_path):
    opened = OpenIndexes(max_alive_bytes=100)
    searcher = open_searcher(world.store, world.refs, tmp_path, opened=opened)
    for number in range(-8, 8):
        where = parse(f"price > {number / 2}", SCHEMA)
        meant = {row["id"] for row in world.rows if row["price"] is not None and row["price"] > number / 2}
        hits = searcher.search("NOT message:nowhere", where=where, limit=None).hits
        assert set(searcher.rows(hits, ["id"]).column("id").to_pylist()) == meant
    assert 0 < sum(index.alive_bytes for index in opened._open.values()) <= 100


def test_what_is_kept_of_questions_is_bounded_by_number_and_bytes():
    shards = [SimpleNamespace(held_bytes=size) for size in (10, 40, 101)]
    kept = ReadyShards(most=3, max_bytes=100)
    for number in range(5):
        kept.keep(number, [shards[0]], SearchMetrics())
    assert [kept.get(number) is not None for number in range(5)] == [False, False, True, True, True]
    kept.get(2)
    kept.keep("large", [shards[1], shards[1]], SearchMetrics())
    assert kept.get(2) is not None
    assert kept.get(3) is None
    assert kept.size_bytes == 100
    kept.keep("larger than all", [shards[2]], SearchMetrics())
    assert kept.get("larger than all") is None
    kept.keep("large", [shards[0]], SearchMetrics())
    assert kept.size_bytes == 10 * len(kept)
    kept.clear()
    assert (len(kept), kept.size_bytes) == (0, 0)


def test_versions_of_deletion_vectors_are_not_kept_for_ever(world, tmp_path):
    states = States(max_bytes=80)
    for number in range(20):
        refs = [with_vector(ref, dv.encode([number % ref.num_rows])) for ref in world.refs]
        searcher = open_searcher(world.store, refs, tmp_path, states=states)
        assert searcher.count("*") == sum(ref.num_rows - 1 for ref in world.refs)
    assert searcher.states[0].alive_bytes == -(-world.refs[0].num_rows // 64) * 8
    assert len(world.refs) < len(states) <= len(world.refs) + 80 // 8
