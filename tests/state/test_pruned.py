"""Opening a table for a filter: only manifests that may match are read, and no matching file is ever missing."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint
from indextables.log.checkpoint.avro.bounds import bounds_of
from indextables.log.checkpoint.avro.layout import chunks, partition_order
from indextables.log.checkpoint.avro.read import read_list
from indextables.log.checkpoint.read import read_pruned, read_state
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.wire.names import MANIFEST_DIR
from indextables.log.wire.schema import schema_from_json
from indextables.log.wire.state import PrunedState, TableState
from indextables.query.parse import parse
from indextables.query.prune import prune
from indextables.storage import open_store
from tests.servers.s3 import S3Server
from tests.state.logs import SCHEMA_JSON, RandomLog, adds_table, environment, rows_of
from tests.state.spy import Spy

SCHEMA = schema_from_json(SCHEMA_JSON)
FILTERS = [
    "day = DATE '2024-01-07'",
    "shard = 3",
    "shard = 10",
    "shard > 9",
    "shard IS NULL",
    "shard IS NOT NULL",
    "day BETWEEN DATE '2024-01-03' AND DATE '2024-01-05' AND shard IN (1, 2)",
    "day = DATE '2024-01-07' OR shard = 11",
    "NOT (shard = 3)",
    "id = 77 AND shard < 5",
    "note = 'b'",
    "shard <=> NULL",
]


def where(text: str):
    return lambda _: parse(text, SCHEMA)


@pytest.fixture(scope="module")
def table() -> tuple[Env, object]:
    env = environment({"state.entriesPerManifest": 40})
    log = RandomLog(env, 1)
    log.append(900)
    ref = write_checkpoint(env, log.state())
    return env, ref


@pytest.mark.parametrize("text", FILTERS)
def test_a_pruned_state_is_the_whole_state_pruned(table, text):
    env, ref = table
    whole = read_state(env, ref)
    found = read_pruned(env, ref, where(text))
    assert isinstance(found, PrunedState)
    assert not isinstance(found, TableState)
    kept = whole.files.filter(prune(whole.files, parse(text, SCHEMA), SCHEMA, ["day", "shard"]))
    assert rows_of(found.files) == rows_of(kept)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_other_formats_prune_entries_alike(kind):
    env = environment({"state.format": kind})
    log = RandomLog(env, 1)
    log.append(100)
    ref = write_checkpoint(env, log.state())
    text = "day = DATE '2024-01-07'"
    found = read_pruned(env, ref, where(text))
    whole = log.state().files
    assert rows_of(found.files) == rows_of(whole.filter(prune(whole, parse(text, SCHEMA), SCHEMA, ["day", "shard"])))


def test_manifests_whose_bounds_exclude_a_match_are_not_fetched(table):
    env, ref = table
    count = len(read_list(env, ref).manifests)
    spy = Spy(env)
    files = read_pruned(spy.env, ref, where("day = DATE '2024-01-07'")).files
    fetched = [key for key in spy.read if key.startswith(MANIFEST_DIR)]
    assert len(files) > 0
    assert 1 <= len(fetched) < count / 10


def test_numbers_are_compared_as_numbers(table):
    env, ref = table
    for info in read_list(env, ref).manifests:
        bounds = info.bounds["shard"]
        if bounds.min is not None:
            assert int(bounds.min) <= int(bounds.max)
    tens = read_pruned(env, ref, where("shard >= 10")).files
    assert {dict(row)["shard"] for row in tens["partitionValues"].to_pylist()} == {"10", "11"}


def test_a_snapshot_for_a_filter_sees_the_tail_too(table):
    env = environment({"state.entriesPerManifest": 40})
    log = RandomLog(env, 1)
    log.append(300)
    checkpoint(env)
    log.step()
    text = "day = DATE '2024-01-09'"
    found = open_log(env).snapshot().files_where(where(text))
    whole = log.state().files
    wanted = whole.filter(prune(whole, parse(text, SCHEMA), SCHEMA, ["day", "shard"]))
    assert set(wanted["path"].to_pylist()) <= set(found["path"].to_pylist()) <= set(whole["path"].to_pylist())


def test_an_unpartitioned_table_has_no_bounds_and_prunes_by_statistics():
    env = environment({"state.entriesPerManifest": 40})
    log = RandomLog(env, 1, partitions=())
    log.append(200)
    ref = write_checkpoint(env, log.state())
    assert all(info.bounds == {} for info in read_list(env, ref).manifests)
    files = read_pruned(env, ref, where("id = 7")).files
    assert 0 < len(files) < 200


@given(st.lists(st.integers(0, 6), max_size=120), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_chunks_cover_all_rows_once_and_keep_to_their_limits(groups, limit):
    groups = sorted(groups)
    cuts = list(chunks(pa.array(groups, pa.int64()).to_numpy(), limit))
    assert [row for start, end in cuts for row in range(start, end)] == list(range(len(groups)))
    assert all(end - start <= limit for start, end in cuts)
    least = max(1, limit // 8)
    for start, end in cuts[:-1]:
        assert end - start == limit or (end - start >= least and groups[end - 1] != groups[end])


@given(st.lists(st.tuples(st.sampled_from(["1", "9", "10", "x", None]), st.sampled_from(["2024-01-01", "nan", None]))))
@settings(max_examples=200, deadline=None)
def test_rows_are_ordered_by_partition_and_bounds_hold_every_value(values):
    rows = [
        {"path": f"{n}", "partitionValues": [("shard", a), ("day", b)], "size": 1, "modificationTime": 1}
        for n, (a, b) in enumerate(values)
    ]
    table = adds_table([{**row, "dataChange": True} for row in rows])
    types = {"shard": pa.int32(), "day": pa.date32()}
    order, groups = partition_order(table, types)
    assert sorted(order.tolist()) == list(range(len(values)))
    seen = [values[at] for at in order]
    assert len({(group, value) for group, value in zip(groups.tolist(), seen, strict=True)}) == len(set(values))
    bounds = bounds_of(table.column("partitionValues"), types)["shard"]
    numbers = [int(a) for a, _ in values if a not in {None, "x"}]
    if any(a == "x" for a, _ in values):
        assert bounds.min is None
    elif numbers:
        assert (int(bounds.min), int(bounds.max)) == (min(numbers), max(numbers))
    assert bounds.has_null == any(a is None for a, _ in values)


def test_requests_of_a_cold_and_a_warm_open():
    with S3Server() as server:
        options = server.options(**{"state.entriesPerManifest": "100"})
        env = Env(open_store(server.table_url("t"), options), SystemAmbient(), options)
        log = RandomLog(env, 1)
        log.append(1000)
        checkpoint(env)
        manifests = sum(1 for _ in env.store.list_from(MANIFEST_DIR))
        reader = open_log(Env(env.store, env.ambient, options))
        reader.invalidate()
        server.requests.clear()
        snapshot = reader.snapshot()
        # The pointer, the next slot, a listing that shows the version file which the state was made of, and the list of
        # the state, once for the header and for the files; then the check file, which the files are held against.
        assert server.count() == 4
        assert snapshot.files.num_rows == 1000
        lists = [seen.key for seen in server.requests if seen.key.endswith("/_manifest.avro")]
        assert len(lists) == 1
        assert server.count() <= 4 + 1 + manifests
        server.requests.clear()
        assert reader.snapshot().files.num_rows == 1000
        assert sum("list-type" in seen.query for seen in server.requests) == 1
        server.requests.clear()
        reader.invalidate()
        some = reader.snapshot().files_where(where("day = DATE '2024-01-07'"))
        assert 0 < some.num_rows < 100
        assert sum(seen.key.endswith("/_manifest.avro") for seen in server.requests) == 1
        assert server.count() < 4 + manifests / 3


def test_random_filters_never_lose_a_file():
    chance = random.Random(5)
    env = environment({"state.entriesPerManifest": 16})
    log = RandomLog(env, 6)
    log.append(200)
    for _ in range(5):
        log.step()
    ref = write_checkpoint(env, log.state())
    whole = log.state().files
    for _ in range(25):
        terms = [
            f"shard {chance.choice(['=', '<', '>=', '<>'])} {chance.randrange(-1, 13)}",
            f"day {chance.choice(['=', '<', '>'])} DATE '2024-01-{chance.randrange(1, 30):02d}'",
            "shard IS NULL",
            f"id > {chance.randrange(200)}",
        ]
        picked = chance.sample(terms, chance.randrange(1, 4))
        text = f" {chance.choice(['AND', 'OR'])} ".join(picked)
        found = read_pruned(env, ref, where(text)).files
        kept = whole.filter(prune(whole, parse(text, SCHEMA), SCHEMA, ["day", "shard"]))
        assert rows_of(found) == rows_of(kept)
