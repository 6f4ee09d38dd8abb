"""Search: raw Tantivy, LanceDB, DuckDB and Polars on the same rows, warm, cold and right after an append.

All times are medians by the wall clock, ours and the peers in turns; run it on a machine that does nothing else.

Ours keeps hits of questions and decoded rows, so that two extremes are told: "new" is a question that was not asked
before, with no row of it in memory (it is parsed, planned and searched, its pages are read and decoded); "again" is the
same question once more.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import duckdb
import lancedb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import tantivy
from lancedb.index import FTS
from tests.servers.s3 import S3Server

from benchmarks import corpus
from benchmarks.harness import Bar
from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.options import Options
from indextables.split.file.ref import SplitRef
from indextables.split.index.cache import IndexCache
from indextables.split.search.answer import IndexShard
from indextables.split.search.hits import SearchMetrics
from indextables.split.search.searcher import SearchMemory, SplitSearcher
from indextables.split.write.writer import write_splits
from indextables.storage import Store, open_store

_OPTIONS = Options(
    {
        "indexing.typemap.message": "text",
        "indexing.typemap.title": "text",
        "indexing.typemap.body": "text",
        "split.targetSize": str(1 << 40),
        "split.memoryBudget": str(3_000_000_000),
        "storage.fsync": "false",
    },
    environ={},
)
_ROUNDS = 25
_STOP_WORDS = {"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no"} | {
    "not",
    "of",
    "on",
    "or",
    "such",
    "that",
    "the",
    "their",
    "then",
    "there",
    "these",
    "they",
    "this",
    "to",
    "was",
    "will",
    "with",
}
"""Words that LanceDB leaves out of its index by default."""


def run(scale: str) -> list[Bar]:
    rows, documents = (1_000_000, 20_000) if scale == "full" else (100_000, 2_000)
    folder = Path(tempfile.mkdtemp(prefix="search-bench-"))
    try:
        logs = corpus.logs(rows)
        bars = _warm(folder / "logs", logs, "logs", 5.0)
        bars += _many(folder / "logs", logs)
        bars += _warm(folder / "documents", corpus.documents(documents), "documents", 8.0)
        bars += _cold(folder / "cold", logs.slice(0, rows // 2))
        bars += _peers(folder / "peers", logs)
    finally:
        shutil.rmtree(folder)
    return bars


def _warm(folder: Path, table: pa.Table, name: str, added_ms: float) -> list[Bar]:
    """One split: what rows, plans and merging add to Tantivy's own time."""
    store, refs = _write(folder / "one", [table])
    searcher = _searcher(store, refs, folder / "cache", table.schema, rows_bytes=1 << 27)
    bare = _searcher(store, refs, folder / "cache", table.schema)
    field = "message" if name == "logs" else "body"
    unique = table.column(field)[table.num_rows // 2].as_py().split()[-1]
    queries = {
        "one hit" if name == "logs" else "a word": f'{field}:"{unique}"' if name == "logs" else f"{field}:{unique}",
        "two terms": f"{field}:timeout AND {field}:lazy",
        "common term": f"{field}:timeout",
    }
    bars = []
    for kind, query in queries.items():
        raw = _raw(searcher, query)
        new, counted = _variants(query), _variants(query)
        times = _interleaved(
            {
                "new": lambda n=new: bare.rows(bare.search(next(n), limit=10).hits, score=True),
                "again": lambda q=query: searcher.rows(searcher.search(q, limit=10).hits, score=True),
                "raw": lambda r=raw: r.index.searcher.search(r.query(scored=True), limit=10, count=False),
                "count": lambda n=counted: searcher.count(next(n)),
                "count again": lambda q=query: searcher.count(q),
                "raw count": lambda r=raw: r.index.searcher.search(r.query(scored=True), limit=10, count=True),
            },
            clock=perf_counter,
        )
        added = times["new"] - times["raw"]
        counting = {"peer_name": "Tantivy with count, no parsing"}
        bars += [
            Bar(f"{name}: top 10 with rows, new, {kind}", times["new"], times["raw"], "ms", peer_name="raw Tantivy"),
            Bar(f"{name}: added to Tantivy, new, {kind}", added, None, "ms", added_ms, absolute=True),
            Bar(f"{name}: the same again, {kind}", times["again"], times["raw"], "ms", peer_name="raw Tantivy"),
            Bar(f"{name}: count, new, {kind}", times["count"], times["raw count"], "ms", **counting),
            Bar(f"{name}: count again, {kind}", times["count again"], times["raw count"], "ms", 1.1, **counting),
        ]
    return bars


def _variants(query: str) -> Iterator[str]:
    """The same work under ever new names: a boost changes all scores alike."""
    return (f"({query})^{1 + number / 4096}" for number in itertools.count(1))


def _many(folder: Path, table: pa.Table) -> list[Bar]:
    """Fifty splits as one virtual index, against the one split that `_warm` has written."""
    one_store = open_store(folder / "one", _OPTIONS)
    step = -(-table.num_rows // 50)
    store, refs = _write(folder / "fifty", [table.slice(start, step) for start in range(0, table.num_rows, step)])
    one_refs = [SplitRef(meta.key) for meta in one_store.list_from("")]
    one = _searcher(one_store, one_refs, folder / "cache", table.schema)
    fifty = _searcher(store, refs, folder / "cache", table.schema)
    bars = []
    for query in ("message:timeout AND message:lazy", "message:timeout", 'message:"timeout error"'):
        first, second = _variants(query), _variants(query)
        calls = {"one": lambda v=first: one.search(next(v)), "fifty": lambda v=second: fifty.search(next(v))}
        times = _interleaved(calls, clock=perf_counter)
        bars.append(
            Bar(f"50 splits less 0.3 ms, {query}", times["fifty"] - 0.3, times["one"], "ms", 1.3, peer_name="one split")
        )
    first, second = _variants(query), _variants(query)
    rows = _interleaved(
        {
            "one": lambda: one.rows(one.search(next(first)).hits),
            "fifty": lambda: fifty.rows(fifty.search(next(second)).hits),
        },
        clock=perf_counter,
    )
    bars.append(Bar("50 splits, with rows of 10 of them", rows["fifty"], rows["one"], "ms", peer_name="one split"))
    return bars


def _cold(folder: Path, table: pa.Table) -> list[Bar]:
    """Nothing local: requests and bytes from an S3 server, per split with and without hits."""
    ambient = SystemAmbient()
    with S3Server() as server:
        store = open_store(server.table_url("cold"), server.options())
        half = table.num_rows // 2
        parts = [table.slice(0, half), table.slice(half)]
        written = [w for part in parts for w in write_splits(store, [part], table.schema, _OPTIONS)]
        refs = [w.ref for w in written]
        token = parts[1].column("message")[7].as_py().split()[-1]
        server.requests.clear()
        cache = IndexCache(folder / "cache", 1 << 34, ambient)
        began = perf_counter()
        env, memory = Env(store, ambient, Options()), SearchMemory(cache)
        searcher = SplitSearcher(env, refs, schema=table.schema, index=_plan(table), memory=memory)
        hits = searcher.search(f'message:"{token}"').hits
        searcher.rows(hits)
        took = perf_counter() - began
        hit = refs[int(hits.splits[0])].key
        reads = [r for r in server.requests if r.method == "GET"]
        per_split = {ref.key: [r for r in reads if r.key.endswith(ref.key)] for ref in refs}
        missed = [key for key in per_split if key != hit]
        first = {w.key: w.range1_length / (w.footer_start - w.index_start) for w in written}
    return [
        Bar("cold: reads of a split without hits", max(len(per_split[k]) for k in missed), None, "", 1, absolute=True),
        Bar("cold: its share of the index bytes", max(first[k] for k in missed), None, "", 0.3, absolute=True),
        Bar("cold: reads of the split with the hit, rows included", len(per_split[hit]), None, "", 3, absolute=True),
        Bar("cold: two splits, one hit, rows included", took * 1e3, None, "ms"),
    ]


def _peers(folder: Path, table: pa.Table) -> list[Bar]:
    """The same question to everybody: ten rows with a word, and a token that one row has."""
    folder.mkdir(parents=True)
    token = table.column("message")[table.num_rows // 3].as_py().split()[-1]
    plain = folder / "plain.parquet"
    pq.write_table(table, plain, compression="zstd")
    lance = lancedb.connect(str(folder / "lance")).create_table("logs", table)
    lance.create_index("message", config=FTS(with_position=True))
    store, refs = _write(folder / "ours", [table])
    searcher = _searcher(store, refs, folder / "cache", table.schema, rows_bytes=1 << 27)
    bare = _searcher(store, refs, folder / "cache", table.schema)

    def duck(text: str) -> Callable[[], object]:
        sql = f"SELECT * FROM '{plain}' WHERE message LIKE '%{text}%' LIMIT 10"  # noqa: S608 - a benchmark's own path
        return lambda: duckdb.sql(sql).fetchall()

    def polars(text: str) -> Callable[[], object]:
        found = pl.scan_parquet(plain).filter(pl.col("message").str.contains(text, literal=True)).head(10)
        return found.collect

    bars: list[Bar] = []
    for name, text in (("one hit", token), ("common word", "timeout")):
        new = _variants(f'message:"{text}"')
        times = _interleaved(
            {
                "new": lambda n=new: bare.rows(bare.search(next(n)).hits, score=True),
                "again": lambda t=text: searcher.rows(searcher.search(f'message:"{t}"').hits, score=True),
                "LanceDB": lambda t=text: lance.search(t, query_type="fts").limit(10).to_arrow(),
                "DuckDB": duck(text),
                "Polars": polars(text),
            },
            rounds=7,
        )
        bars += [
            Bar(f"warm, {name}, ten rows, {ours}", times[ours], times[peer], "ms", 1.0, peer_name=peer)
            for ours in ("new", "again")
            for peer in ("LanceDB", "DuckDB", "Polars")
        ]
    bars += _many_words(bare, lance)
    bars += _first_search(folder, store, refs, table, token, lance, duck(token), polars(token))
    return bars + _after_append(folder, store, refs, table, token, lance, duck(token), polars(token))


def _many_words(searcher: SplitSearcher, lance) -> list[Bar]:
    """Sixty frequent words, each asked once, all columns of ten rows: no answer and no row is there yet."""
    words = iter([w for w in corpus.vocabulary().to_pylist()[:140] if w not in _STOP_WORDS][8:68])
    asked: list[str] = []

    def ours() -> object:
        asked.append(next(words))
        return searcher.rows(searcher.search(f"message:{asked[-1]}").hits, score=True)

    def theirs() -> object:
        return lance.search(asked[-1], query_type="fts").limit(10).to_arrow()

    times = _interleaved({"ours": ours, "LanceDB": theirs}, rounds=59)
    return [
        Bar(
            "warm, sixty frequent words, ten rows, new", times["ours"], times["LanceDB"], "ms", 1.0, peer_name="LanceDB"
        )
    ]


def _after_append(folder, store, refs, table, token, lance, duck, polars) -> list[Bar]:
    """The first search after each of five appends. DuckDB and Polars search the rows without the appended ones."""
    env = Env(store, SystemAmbient(), Options())
    shared = {"schema": table.schema, "memory": SearchMemory(IndexCache(folder / "cache", 1 << 34, env.ambient))}
    SplitSearcher(env, refs, **shared).search(f'message:"{token}"')
    times: dict[str, list[float]] = {"ours": [], "LanceDB": [], "DuckDB": [], "Polars": []}
    for seed in range(9, 14):
        more = corpus.logs(max(1000, table.num_rows // 10), seed=seed)
        lance.add(more)
        refs = [*refs, *_write(folder / "ours", [more])[1]]

        def ours(now: list[SplitRef] = refs) -> object:
            searcher = SplitSearcher(env, now, **shared)
            return searcher.rows(searcher.search(f'message:"{token}"').hits, score=True)

        calls = {
            "ours": ours,
            "LanceDB": lambda: lance.search(token, query_type="fts").limit(10).to_arrow(),
            "DuckDB": duck,
            "Polars": polars,
        }
        for name, call in calls.items():
            began = perf_counter()
            call()
            times[name].append((perf_counter() - began) * 1e3)
    return [
        Bar(
            "first search after an append, one hit",
            median(times["ours"]),
            median(times[peer]),
            "ms",
            1.0,
            peer_name=peer,
        )
        for peer in ("LanceDB", "DuckDB", "Polars")
    ]


def _first_search(folder, store, refs, table, token, lance, duck, polars) -> list[Bar]:
    """A process that knows nothing yet: open and search. Ours has an empty cache and unpacks the index first."""

    def ours() -> object:
        shutil.rmtree(folder / "empty", ignore_errors=True)
        searcher = _searcher(store, refs, folder / "empty", table.schema, prewarm=False)
        return searcher.rows(searcher.search(f'message:"{token}"').hits)

    def lance_again() -> object:
        opened = lancedb.connect(str(folder / "lance")).open_table("logs")
        return opened.search(token, query_type="fts").limit(10).to_arrow()

    del lance
    times = _interleaved({"ours": ours, "LanceDB": lance_again, "DuckDB": duck, "Polars": polars}, rounds=5)
    return [
        Bar("first search, one hit", times["ours"], times[peer], "ms", 1.0, peer_name=peer)
        for peer in ("LanceDB", "DuckDB", "Polars")
    ]


def _raw(searcher: SplitSearcher, query: str) -> IndexShard:
    searcher.search(query)
    (shard,) = searcher.shards(searcher.plan(query), SearchMetrics(), scored=True)
    assert isinstance(shard, IndexShard)
    assert isinstance(shard.index.searcher, tantivy.Searcher)
    return shard


def _interleaved(
    calls: dict[str, Callable[[], object]], rounds: int = _ROUNDS, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """The median milliseconds of each call, all taking turns, so that noise hits everybody."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            began = clock()
            call()
            times[name].append((clock() - began) * 1e3)
    return {name: median(found) for name, found in times.items()}


def _write(folder: Path, tables: list[pa.Table]) -> tuple[Store, list[SplitRef]]:
    store = open_store(folder, _OPTIONS)
    written = [w for table in tables for w in write_splits(store, [table], table.schema, _OPTIONS)]
    return store, [w.ref for w in written]


def _plan(table: pa.Table):
    from indextables.split.index.fields import plan_fields

    return plan_fields(table.schema, _OPTIONS)


def _searcher(
    store: Store, refs: list[SplitRef], cache: Path, schema: pa.Schema, *, prewarm: bool = True, rows_bytes: int = 0
) -> SplitSearcher:
    ambient = SystemAmbient()
    kept = IndexCache(cache, 1 << 34, ambient, rows_bytes)
    searcher = SplitSearcher(Env(store, ambient, Options()), refs, schema=schema, memory=SearchMemory(kept))
    if prewarm:
        searcher.prewarm()
    return searcher
