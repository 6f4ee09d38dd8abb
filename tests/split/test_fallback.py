"""An index that is damaged, missing, foreign, incomplete or of another analyzer: same rows, same scores, flagged."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import random
import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from tests.split.search_kinds import any_query
from tests.split.search_world import OPTIONS, SCHEMA, World, build_world, make_rows, open_searcher, words_of

from indextables.errors import IndexTablesError, SplitCorrupt, SplitError
from indextables.options import Options
from indextables.query.parse import parse
from indextables.split.file.layout import crc32c
from indextables.split.file.ref import SplitRef
from indextables.split.index.fields import plan_fields
from indextables.split.search.hits import SearchMetrics
from indextables.split.write.writer import write_splits
from indextables.storage import open_store

FLIPS = int(os.environ.get("INDEXTABLES_SEARCH_FLIPS", "50000"))
FLIP_SEED = int(os.environ.get("INDEXTABLES_SEARCH_FLIPS_SEED", "1"))
QUERIES = [
    "foo bar",
    'message:"foo bar"~2',
    "message:ti* AND NOT host:web-1",
    "attrs.user:foo",
    "status:200",
    "ratio:>0 title:bar",
    "*",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    deleted = frozenset(range(0, 120, 9))
    return build_world(tmp_path_factory.mktemp("fallback"), make_rows(120), 3, deleted=deleted)


def answers(searcher, query):
    hits = searcher.search(query, limit=None).hits
    ids = searcher.rows(hits, ["id"]).column("id").to_pylist()
    return dict(zip(ids, hits.scores.tolist(), strict=True))


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    assert [found[i] for i in found] == pytest.approx([expected[i] for i in found], rel=1e-5)


def damaged_copy(world: World, folder: Path, number: int, change) -> tuple[object, list[SplitRef]]:
    """The same splits in another place, one of them changed."""
    store = open_store(folder / "copy", Options({"storage.fsync": "false"}, environ={}))
    for ref in world.refs:
        data = bytearray(world.store.get(ref.key))
        store.put(ref.key, bytes(change(data, ref)) if ref is world.refs[number] else bytes(data))
    return store, world.refs


def flip(at):
    def change(data: bytearray, ref: SplitRef) -> bytearray:
        data[at(ref)] ^= 0xFF
        return data

    return change


def zero_index(data: bytearray, ref: SplitRef) -> bytearray:
    data[ref.index_start : ref.footer_start] = bytes(ref.footer_start - ref.index_start)
    return data


DAMAGE = {
    "header": flip(lambda ref: ref.index_start),
    "directory": flip(lambda ref: ref.index_start + 40),
    "terms": flip(lambda ref: ref.index_start + ref.range1_length - 10),
    "postings": flip(lambda ref: ref.index_start + ref.range1_length + 10),
    "all zero": zero_index,
}


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted(DAMAGE))
@pytest.mark.parametrize("query", QUERIES)
def test_a_damaged_index_gives_the_same_rows_and_scores_and_is_flagged(world, tmp_path, part, query):
    store, refs = damaged_copy(world, tmp_path, 1, DAMAGE[part])
    more = {"schema": world.searcher.schema, "index": world.searcher.index}
    searcher = open_searcher(store, refs, tmp_path / "cache", **more)
    assert_same(answers(searcher, query), answers(world.searcher, query))
    assert searcher.count(query) == world.searcher.count(query)
    flagged = {f.key for f in searcher.search(query).metrics.fallbacks}
    assert flagged <= {refs[1].key}
    if part != "postings" and query != "*":
        assert flagged == {refs[1].key}
    assert not world.searcher.search(query).metrics.fallbacks


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=any_query())
def test_every_query_is_exact_without_any_index(bare, case):
    from indextables.errors import LimitExceeded

    text, meaning = case
    try:
        assert bare.ids(text) == bare.meant(meaning), text
    except LimitExceeded:
        return


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> World:
    """The same rows, each split as plain Parquet of somebody else."""
    folder = tmp_path_factory.mktemp("bare")
    made = build_world(folder, make_rows(100), 2)
    store = open_store(folder / "plain", Options({"storage.fsync": "false"}, environ={}))
    refs = []
    for ref in made.refs:
        table = pq.read_table(pa.BufferReader(made.store.get(ref.key)))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        store.put(ref.key, sink.getvalue().to_pybytes())
        refs.append(SplitRef(ref.key))
    more = {"schema": made.searcher.schema, "index": made.searcher.index}
    searcher = open_searcher(store, refs, folder / "other", **more)
    assert not any(state.usable for state in searcher.states)
    return World(made.rows, store, refs, searcher, frozenset())


def test_a_foreign_version_of_tantivy_is_not_opened(world, tmp_path):
    searcher = open_searcher(world.store, world.refs, tmp_path)
    state = searcher.states[0]
    foreign = msgspec.structs.replace(state.cached.directory, index_format=6)
    state.split._check(msgspec.structs.replace(state.cached, directory=foreign))
    assert "format 6" in state.reason
    assert_same(answers(searcher, "foo bar"), answers(world.searcher, "foo bar"))
    assert [f.key for f in searcher.search("foo").metrics.fallbacks] == [world.refs[0].key]


def test_another_analyzer_is_answered_as_the_table_says(tmp_path):
    """A column that was indexed by words is now stemmed: old splits answer like new ones."""
    rows = [{"id": i, "message": t} for i, t in enumerate(["running fast", "he runs", "a run", "runner", "walks"])]
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("message")])
    store = open_store(tmp_path / "t", Options({"storage.fsync": "false"}, environ={}))
    table = pa.Table.from_pylist(rows, schema)
    old = Options(OPTIONS, environ={})
    new = Options({**OPTIONS, "indexing.tokenizer.message": "en_stem"}, environ={})
    refs = [w.ref for w in write_splits(store, [table.slice(0, 3)], schema, old)]
    refs += [w.ref for w in write_splits(store, [table.slice(3)], schema, new)]
    plan = plan_fields(schema, new)
    searcher = open_searcher(store, refs, tmp_path / "cache", schema=schema, index=plan)
    assert set(answers(searcher, "message:running")) == {0, 1, 2}
    assert [f.key for f in searcher.search("message:running").metrics.fallbacks] == [refs[0].key]
    whole = [w.ref for w in write_splits(store, [table], schema, new)]
    one = open_searcher(store, whole, tmp_path / "cache", schema=schema, index=plan)
    assert_same(answers(searcher, "message:running message:fast"), answers(one, "message:running message:fast"))


def test_words_longer_than_the_limit_are_found(tmp_path):
    long, longer = "a" * 300, "b" * 70_000
    texts = [f"x {long} y", f"x {longer} y", "x y", f"{long[:255]} z", "x " + "c" * 254]
    rows = [{"id": i, "message": t} for i, t in enumerate(texts)]
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("message")])
    world = build_world(tmp_path, rows, 2, schema=schema)
    assert world.ids(f"message:{long}") == {0}
    assert world.ids("message:x") == {0, 1, 2, 4}
    assert world.ids(f"message:{'c' * 254}") == {4}
    assert world.ids("message:aaaa*") == {0, 3}
    assert world.ids("message:bbb*") == {1}
    assert world.ids("message:/a{256}a*/") == {0}
    assert world.ids(f'message:"x {long} y"') == {0}
    assert world.searcher.search(f"message:{long}").metrics.fallbacks
    assert not world.searcher.search("message:x").metrics.fallbacks


def test_whole_values_longer_than_a_term_are_found(tmp_path):
    huge = "h" * 70_000
    rows = [{"id": 0, "host": huge}, {"id": 1, "host": "h"}, {"id": 2, "host": None}]
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("host")])
    world = build_world(tmp_path, rows, 1, schema=schema)
    assert world.ids(f'host:"{huge}"') == {0}
    assert world.ids("host:h*") == {0, 1}
    assert world.ids("host:*") == {0, 1}
    assert world.ids("-host:h") == {0, 2}


def test_texts_that_are_no_addresses_do_not_match_and_do_not_hide_others(tmp_path):
    rows = [{"id": i, "ip": ip} for i, ip in enumerate(["10.0.0.1", "none", None, "10.0.0.300", "::1"])]
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("ip")])
    world = build_world(tmp_path, rows, 2, schema=schema)
    assert world.ids("ip:10.0.0.0/8") == {0}
    assert world.ids("ip:*") == {0, 1, 3, 4}
    assert world.ids("-ip:10.0.0.0/8") == {1, 2, 3, 4}


def test_a_phrase_prefix_with_too_many_words_is_answered_from_the_column(tmp_path):
    rows = [{"id": i, "message": f"foo word{i:05d}"} for i in range(17_000)]
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("message")])
    world = build_world(tmp_path, rows, 1, schema=schema)
    assert world.searcher.count('message:"foo wor"*') == 17_000
    assert world.searcher.count('message:"foo word0001"*') == 10


def test_rows_that_cannot_be_read_are_an_error_and_not_fewer_rows(world, tmp_path):
    def cut_rows(data: bytearray, ref: SplitRef) -> bytearray:
        data[8 : ref.index_start] = bytes(ref.index_start - 8)
        return data

    store, refs = damaged_copy(world, tmp_path, 0, cut_rows)
    more = {"schema": world.searcher.schema, "index": world.searcher.index}
    searcher = open_searcher(store, refs, tmp_path / "cache", **more)
    assert searcher.count("foo") == world.searcher.count("foo")
    with pytest.raises(SplitError):
        searcher.rows(searcher.search("foo", limit=None).hits)
    with pytest.raises(SplitCorrupt):
        searcher.count("ratio:>0")


WHERE = [
    "status = 200",
    "status <> 200",
    "status NOT IN (200, 404)",
    "NOT (status >= 200 AND host = 'web-1')",
    "host = 'web-1' OR ratio > 0.1",
    "host LIKE 'web%' AND title IS NOT NULL",
    "host LIKE '%1' AND status IN (0, 200)",
    "message = 'foo'",
    "title = 'foo bar'",
    "title <> 'foo'",
    "at >= '2024-01-02' AND at < '2024-01-03T12:00:00Z'",
    "day = DATE '2024-02-01' OR day IS NULL",
    "ok AND NOT ok IS NULL",
    "price BETWEEN -1 AND 1.5",
    "startswith(host, 'db')",
    "NOT (host IN ('web-1', 'web-2'))",
    "attrs.n > 2",
    "length(title) > 10",
]


@pytest.mark.parametrize("text", WHERE)
def test_a_predicate_keeps_exactly_the_rows_for_which_it_is_true(world, text):
    from indextables.query.evaluate import evaluate

    predicate = parse(text, SCHEMA)
    table = pa.Table.from_pylist(world.rows, SCHEMA)
    kept = {i for i, keep in enumerate(evaluate(predicate, table).to_pylist()) if keep} - world.deleted
    for query, meaning in (("*", lambda _: True), ("message:foo", lambda row: "foo" in words_of(row["message"]))):
        expected = {i for i in kept if meaning(world.rows[i])}
        assert world.ids(query, where=predicate) == expected
        assert world.searcher.count(query, where=predicate) == len(expected)
        hits = world.searcher.search(query, where=predicate, limit=None).hits
        assert len(hits) == len(expected)


def test_a_selective_query_reads_only_the_candidates_of_a_filter(tmp_path):
    rows = make_rows(2000)
    rows[1234]["message"] = "needle"
    rows[1234]["ratio"] = 1.5
    world = build_world(tmp_path, rows, 4)
    result = world.searcher.search("message:needle AND ratio:>0")
    assert len(result.hits) == 1
    assert result.metrics.rows_scanned <= 2
    metrics = SearchMetrics()
    world.searcher.shards(world.searcher.plan("ratio:>0"), metrics, scored=False)
    assert metrics.rows_scanned == 2000


@pytest.mark.slow
def test_components_made_to_hurt_cause_typed_errors_or_fallbacks_and_no_crash(world, tmp_path):
    """Bytes with a right checksum and a wrong content: in a process of its own, which must survive."""
    assert _attacked(world, tmp_path, 4) == 4 * len(COMPONENTS)


@pytest.mark.soak
def test_many_components_made_to_hurt_cause_no_crash(world, tmp_path):
    assert _attacked(world, tmp_path, 200) == 200 * len(COMPONENTS)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_search_beside_any_flipped_bit_finds_the_same_or_names_the_split(world, tmp_path):
    store = open_store(f"memory://{tmp_path.name}")
    for ref in world.refs:
        store.put(ref.key, world.store.get(ref.key))
    expected = {query: answers(world.searcher, query) for query in QUERIES}
    more = {"schema": world.searcher.schema, "index": world.searcher.index}
    chance = random.Random(FLIP_SEED)
    blamed: list[bool] = []
    for number in range(FLIPS):
        ref = chance.choice(world.refs)
        data = bytearray(world.store.get(ref.key))
        place, bit = chance.randrange(len(data)), chance.randrange(8)
        data[place] ^= 1 << bit
        store.put(ref.key, bytes(data))
        query = QUERIES[number % len(QUERIES)]
        try:
            searcher = open_searcher(store, world.refs, tmp_path / "flipped", **more)
            found = answers(searcher, query)
            assert searcher.count(query) == len(found), (ref.key, place, bit)
            assert_same(found, expected[query])
        except SplitCorrupt as error:
            blamed.append(error.path == ref.key)
        shutil.rmtree(tmp_path / "flipped")
        store.put(ref.key, world.store.get(ref.key))
    assert blamed
    assert all(blamed)
    assert len(blamed) < FLIPS


COMPONENTS = ("term", "idx", "fieldnorm", "pos", "fast")


def _attacked(world: World, folder: Path, rounds: int) -> int:
    """How many damaged indexes a child process survived. Raises if it died."""
    refs = msgspec.msgpack.encode(world.refs[:1])
    context = multiprocessing.get_context("spawn")
    outcome = context.SimpleQueue()
    child = context.Process(target=_attack, args=(world.store.url, refs, str(folder), rounds, outcome))
    child.start()
    child.join()
    assert child.exitcode == 0
    return outcome.get()


def _attack(root: str, refs: bytes, folder: str, rounds: int, outcome) -> None:
    os.environ["RUST_BACKTRACE"] = "0"
    splits = msgspec.msgpack.decode(refs, type=list[SplitRef])
    store = open_store(root)
    chance = random.Random(rounds)
    survived = 0
    for number, part in itertools.product(range(rounds), COMPONENTS):
        place = Path(folder) / f"{part}{number}"
        searcher = open_searcher(store, splits, place)
        searcher.prewarm()
        (path,) = place.glob(f"entries/*/{part}-????????")
        data = bytearray(path.read_bytes())
        for _ in range(chance.choice([1, 4, 64])):
            data[chance.randrange(len(data) - 100 * (number % 2))] = chance.randrange(256)
        path.unlink()
        path.with_name(f"{part}-{crc32c(bytes(data)):08x}").write_bytes(data)
        searcher = open_searcher(store, splits, place)
        for query in ("foo bar", 'message:"foo bar"~2', "message:ti*", "message:/t.*/", "status:>0", "message:fo~1"):
            with contextlib.suppress(IndexTablesError):
                searcher.search(query)
                searcher.count(query)
        survived += 1
        shutil.rmtree(place)
    outcome.put(survived)


def test_words_that_no_index_holds_do_not_change_the_scores_of_those_it_holds(tmp_path):
    """A split without an index is one more split: what its index would leave out counts in no length."""
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("message")])
    texts = ["foo", "foo bar" + " y" * 3, "foo " + " ".join("x" * (300 + n) for n in range(9)), "bar"] * 3
    table = pa.table({"id": list(range(len(texts))), "message": texts}, schema=schema)
    store = open_store(tmp_path / "t", Options({"storage.fsync": "false"}, environ={}))
    refs = [w.ref for w in write_splits(store, [table], schema, Options(OPTIONS, environ={}))]
    pq.write_table(table, tmp_path / "t" / "plain.parquet")
    more = {"schema": schema, "index": plan_fields(schema, Options(OPTIONS, environ={}))}
    indexed = open_searcher(store, refs, tmp_path / "cache", **more)
    bare = open_searcher(store, [SplitRef("plain.parquet")], tmp_path / "cache", **more)
    assert_same(answers(bare, "message:foo message:bar"), answers(indexed, "message:foo message:bar"))
    assert_same(answers(bare, "message:foo message:ba*"), answers(indexed, "message:foo message:ba*"))
    long = f"message:foo message:{'x' * 300}"
    assert_same(answers(bare, long), answers(indexed, long))
    assert len(answers(bare, f"message:{'x' * 308}")) == 3
