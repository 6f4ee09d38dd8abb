"""Scores do not depend on how rows are spread over splits, nor on how splits are spread over processes."""

from __future__ import annotations

import math
import multiprocessing
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from tests.split.search_world import SCHEMA, World, build_world, make_rows, open_searcher, words_of

from indextables.query.parse import parse
from indextables.split.file.ref import SplitRef
from indextables.split.search.carrier import TermStats, merge_stats
from indextables.split.search.searcher import SplitSearcher
from indextables.storage import open_store

ROWS = 600
QUERIES = {
    "term": "message:foo",
    "rare and common": "message:foo message:zoo",
    "raw term": 'host:"web-1"',
    "phrase": 'message:"foo bar"',
    "phrase with slop": 'message:"foo bar"~3',
    "long phrase with slop": 'message:"foo bar time"~4',
    "boolean": "+message:foo -title:bar message:time",
    "nested boolean": "(message:foo OR title:foo) AND (message:bar OR NOT title:zoo)",
    "boosted": "message:foo^3 title:bar^0.5 message:baz",
    "two fields": "foo bar",
    "nested column": "attrs.user:foo",
    "phrase in a nested column": 'attrs.user:"foo bar"',
    "nested and plain": "attrs.user:time message:time labels.k1:foo",
    "with a range": "message:foo AND status:[0 TO 404]",
    "with a set": 'message:foo AND host:IN ["web-1" "db 1"]',
    "with a prefix": "message:foo title:ti*",
    "with all rows": "* message:foo",
    "with a column that is not indexed": "message:foo AND ratio:>0",
    "with a column in an alternative": "message:foo OR (title:bar AND ok:true)",
    "same word twice": "message:foo message:foo",
}
DELETED = frozenset(range(3, ROWS, 4))


@pytest.fixture(scope="module", params=["all rows", "with deletions"])
def layouts(request, tmp_path_factory) -> dict[int, World]:
    rows = make_rows(ROWS, seed=11)
    deleted = DELETED if request.param == "with deletions" else frozenset()
    folder = tmp_path_factory.mktemp("ranking")
    made = {}
    for pieces in (1, 7, 50):
        (folder / str(pieces)).mkdir()
        made[pieces] = build_world(folder / str(pieces), rows, pieces, deleted=deleted)
    return made


@pytest.fixture(scope="module")
def fives(layouts, tmp_path_factory) -> dict[int, list[SplitSearcher]]:
    """Five searchers over a fifth of the splits each, as five processes would have them."""
    cache = tmp_path_factory.mktemp("fives")
    return {
        pieces: [open_searcher(world.store, world.refs[start::5], cache) for start in range(5)]
        for pieces, world in layouts.items()
    }


def scores(searcher: SplitSearcher, query: str, stats: TermStats | None = None, **more) -> dict[int, float]:
    hits = searcher.search(query, limit=None, stats=stats, **more).hits
    ids = searcher.rows(hits, ["id"]).column("id").to_pylist()
    return dict(zip(ids, hits.scores.tolist(), strict=True))


def assert_same(found: dict[int, float], expected: dict[int, float]) -> None:
    assert found.keys() == expected.keys()
    worst = max((abs(found[i] - s) / max(abs(s), 1e-9) for i, s in expected.items() if s or found[i]), default=0.0)
    assert worst < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUERIES))
@pytest.mark.parametrize("pieces", [7, 50])
def test_many_splits_score_as_one_big_split(layouts, pieces, name):
    expected = scores(layouts[1].searcher, QUERIES[name])
    assert expected
    assert_same(scores(layouts[pieces].searcher, QUERIES[name]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUERIES))
@pytest.mark.parametrize("pieces", [7, 50])
def test_five_searchers_that_exchange_statistics_score_as_one(layouts, fives, pieces, name):
    searchers = fives[pieces]
    sent = [msgspec.msgpack.encode(s.collect_stats(QUERIES[name])) for s in searchers]
    stats = merge_stats(msgspec.msgpack.decode(data, type=TermStats) for data in sent)
    found: dict[int, float] = {}
    for searcher in searchers:
        found |= scores(searcher, QUERIES[name], stats)
    assert_same(found, scores(layouts[1].searcher, QUERIES[name]))


@pytest.mark.slow
def test_five_processes_score_as_one(layouts, tmp_path):
    world = layouts[50]
    root = world.store.url
    jobs = [(root, msgspec.msgpack.encode(world.refs[start::5]), str(tmp_path)) for start in range(5)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        sent = pool.starmap(_collect, [(*job, list(QUERIES.values())) for job in jobs])
        merged = [
            msgspec.msgpack.encode(merge_stats(msgspec.msgpack.decode(part[i], type=TermStats) for part in sent))
            for i in range(len(QUERIES))
        ]
        answers = pool.starmap(_answer, [(*job, list(QUERIES.values()), merged) for job in jobs])
    for number, query in enumerate(QUERIES.values()):
        found: dict[int, float] = {}
        for answer in answers:
            found |= answer[number]
        assert_same(found, scores(layouts[1].searcher, query))


@pytest.mark.slow
def test_a_where_clause_changes_neither_scores_nor_their_order(layouts):
    where = parse("status >= 200 AND ratio IS NOT NULL AND title LIKE '%foo%'", SCHEMA)
    expected = scores(layouts[1].searcher, "message:foo message:bar", where=where)
    plain = scores(layouts[1].searcher, "message:foo message:bar")
    assert expected
    assert all(plain[i] == pytest.approx(s, rel=1e-6) for i, s in expected.items())
    for pieces in (7, 50):
        assert_same(scores(layouts[pieces].searcher, "message:foo message:bar", where=where), expected)


@pytest.mark.slow
def test_scores_are_those_of_bm25(layouts):
    rows = layouts[1].rows
    texts = [words_of(row["message"]) for row in rows]
    average = sum(map(len, texts)) / len(texts)
    frequency = sum("foo" in words for words in texts)
    idf = math.log(1 + (len(rows) - frequency + 0.5) / (frequency + 0.5))
    for number, score in scores(layouts[1].searcher, "message:foo").items():
        words = texts[number]
        count = words.count("foo")
        expected = idf * 2.2 * count / (count + 1.2 * (0.25 + 0.75 * len(words) / average))
        assert score == pytest.approx(expected, rel=1e-5)


def test_filters_add_nothing_to_a_score(layouts):
    world = layouts[7].searcher
    plain = scores(world, "message:foo")
    for extra in (
        "status:*",
        "*",
        "title:t*",
        "title:/t.*/",
        "message:fo~1",
        "status:>-5",
        'host:IN ["web-1" "web-2"]',
    ):
        both = scores(world, f"message:foo AND ({extra})")
        assert both
        assert all(score == pytest.approx(plain[i], rel=1e-6) for i, score in both.items())
        assert set(scores(world, extra).values()) == {0.0}


def test_splits_with_fewer_columns_share_the_ranking(tmp_path):
    """A column added later is last; older splits lack it and still count for every other statistic."""
    rows = make_rows(120, seed=3)
    narrow = pa.schema([f for f in SCHEMA if f.name != "title"])
    store = open_store(tmp_path / "mixed")
    from tests.split.search_world import OPTIONS

    from indextables.options import Options
    from indextables.split.index.fields import plan_fields
    from indextables.split.write.writer import write_splits

    options = Options(OPTIONS, environ={})
    wide = pa.schema([*narrow, SCHEMA.field("title")])
    first = plan_fields(narrow, options)
    second = plan_fields(wide, options, previous=first)
    for row in rows[:60]:
        row["title"] = None
    refs = [w.ref for w in write_splits(store, [pa.Table.from_pylist(rows[:60], narrow)], narrow, options, plan=first)]
    refs += [w.ref for w in write_splits(store, [pa.Table.from_pylist(rows[60:], wide)], wide, options, plan=second)]
    mixed = open_searcher(store, refs, tmp_path / "cache", schema=wide, index=second)
    (tmp_path / "one").mkdir()
    whole = build_world(tmp_path / "one", rows, 1)
    for query in ("foo bar", "message:foo", "title:foo", "-title:foo", "title:*", 'title:"foo bar"~2 message:bar'):
        assert_same(scores(mixed, query), scores(whole.searcher, query))


def test_equal_scores_keep_the_order_of_splits_and_rows(layouts):
    hits = layouts[7].searcher.search('host:"web-1"', limit=None).hits
    places = list(zip(hits.splits.tolist(), hits.rows.tolist(), strict=True))
    assert places == sorted(places)
    assert np.all(hits.scores == hits.scores[0])


@pytest.mark.parametrize("query", ["message:foo", 'message:"foo bar"', "(message:foo)^3"])
def test_a_boost_of_everything_multiplies_scores_and_moves_no_hit(layouts, query):
    searcher = layouts[7].searcher
    plain = searcher.search(query, limit=None).hits
    for factor in (1.0001, 0.3, 1e6, 1e-6):
        boosted = searcher.search(f"({query})^{factor:f}", limit=None).hits
        assert boosted.splits.tolist() == plain.splits.tolist()
        assert boosted.rows.tolist() == plain.rows.tolist()
        assert boosted.scores.tolist() == pytest.approx((plain.scores.astype(np.float64) * factor).tolist(), rel=1e-5)
        pages = [searcher.search(f"({query})^{factor:f}", limit=7, offset=at).hits for at in range(0, len(plain), 7)]
        assert [row for page in pages for row in page.rows.tolist()] == plain.rows.tolist()


def test_a_boost_of_nothing_leaves_rows_in_their_order(layouts):
    hits = layouts[7].searcher.search("message:foo^0", limit=None).hits
    places = list(zip(hits.splits.tolist(), hits.rows.tolist(), strict=True))
    assert places == sorted(places)
    assert not hits.scores.any()


def _open(root: str, refs: bytes, cache: str) -> SplitSearcher:
    return open_searcher(open_store(root), msgspec.msgpack.decode(refs, type=list[SplitRef]), Path(cache) / "cache")


def _collect(root: str, refs: bytes, cache: str, queries: list[str]) -> list[bytes]:
    searcher = _open(root, refs, cache)
    return [msgspec.msgpack.encode(searcher.collect_stats(query)) for query in queries]


def _answer(root: str, refs: bytes, cache: str, queries: list[str], stats: list[bytes]) -> list[dict[int, float]]:
    searcher = _open(root, refs, cache)
    decoded = [msgspec.msgpack.decode(data, type=TermStats) for data in stats]
    return [scores(searcher, query, stat) for query, stat in zip(queries, decoded, strict=True)]
