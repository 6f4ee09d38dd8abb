"""How long does a table of ten thousand to a million files take to open, to append to and to compact?"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from tests.servers.s3 import S3Server

from benchmarks.harness import Bar, best_of
from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit import resolve as write
from indextables.log.wire.actions import CommitInfo, Metadata
from indextables.log.wire.arrays import int64_array
from indextables.log.wire.codec import encode_version
from indextables.log.wire.files import FILES_SCHEMA
from indextables.log.wire.names import MANIFEST_DIR, version_key
from indextables.log.wire.protocol import new_table_protocol
from indextables.log.wire.schema import schema_from_json
from indextables.log.wire.state import TableState, TokenWindow
from indextables.options import Options
from indextables.query.parse import parse
from indextables.storage import open_store

DAYS = 30
PER_PARTITION = 1000

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (
                ("id", "long"),
                ("day", "string"),
                ("shard", "integer"),
                ("ts", "long"),
                ("note", "string"),
            )
        ],
    }
)


def run(scale: str) -> list[Bar]:
    sizes = (10_000, 100_000) if scale == "small" else (10_000, 100_000, 1_000_000)
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as folder:
        tables = {count: _Tables(Path(folder) / str(count), count) for count in sizes}
        bars += [bar for count in sizes for bar in _opens(tables[count])]
        if scale != "small":
            bars += _partition_growth(tables[sizes[-2]], tables[sizes[-1]])
        bars += _append_growth(tables[sizes[0]], tables[sizes[-1]])
        bars += _compaction(tables[sizes[-1]])
    bars += _requests(10_000)
    return bars


class _Tables:
    """The same files as a table of ours and as a Delta table, each with a checkpoint of version 1."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.ours = folder / "ours"
        self.delta = folder / "delta"
        files = make_files(count)
        write_ours(environment(self.ours), files)
        write_delta(self.delta, files)

    def env(self, **options: object) -> Env:
        return environment(self.ours, **options)


def environment(place: Path | str, **options: object) -> Env:
    given = Options({"transaction.cache.enabled": "false", **options})
    return Env(open_store(place, given), SystemAmbient(), given)


def make_files(count: int, start: int = 0) -> pa.Table:
    """Entries with two partition columns and statistics on three more."""
    number = np.arange(start, start + count)
    day = [f"2024-01-{at + 1:02d}" for at in range(DAYS)]
    days = pa.array(day).take(pa.array(number % DAYS))
    shards = pa.array(number // DAYS // PER_PARTITION).cast(pa.string())
    ids = pa.array(number).cast(pa.string())
    names = pa.compute.binary_join_element_wise(
        pa.compute.binary_join_element_wise("day=", days, "/shard=", shards, "/splits/split-", ""),
        pa.compute.utf8_lpad(ids, 32, "0"),
        ".split",
        "",
    )
    high = pa.array(number + 1000).cast(pa.string())
    columns = {
        "path": names,
        "partitionValues": _maps({"day": days, "shard": shards}),
        "size": pa.array(number + 1_000_000),
        "modificationTime": pa.array(np.full(count, 1_700_000_000_000)),
        "dataChange": pa.array(np.ones(count, dtype=bool)),
        "minValues": _maps({"id": ids, "ts": ids, "note": ids}),
        "maxValues": _maps({"id": high, "ts": high, "note": high}),
        "numRecords": pa.array(np.full(count, 1000)),
        "hasFooterOffsets": pa.array(np.zeros(count, dtype=bool)),
        "addedAtVersion": pa.array(np.full(count, 1)),
        "addedAtLine": pa.array(number + 2),
        "addedAtTimestamp": pa.array(np.full(count, 1_700_000_000_000)),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in FILES_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=FILES_SCHEMA)


def metadata() -> Metadata:
    return Metadata(id="00000000-0000-0000-0000-00000000000a", schemaString=SCHEMA, partitionColumns=["day", "shard"])


def state_of(files: pa.Table, version: int = 1) -> TableState:
    tokens = TokenWindow(first=0, tokens=tuple(f"{at + 1:032x}" for at in range(version + 1)))
    return TableState(
        version=version,
        protocol=new_table_protocol(),
        metadata=metadata(),
        files=files,
        tokens=tokens,
        in_commit_timestamp=1_700_000_000_000,
    )


def write_ours(env: Env, files: pa.Table) -> None:
    for version in (0, 1):
        info = CommitInfo(inCommitTimestamp=1_700_000_000_000, tableId=metadata().id, token=f"{version + 1:032x}")
        actions = [info, new_table_protocol(), metadata()] if version == 0 else [info]
        env.store.put_if_absent(version_key(version), encode_version(actions, compress=True))
    write_checkpoint(env, state_of(files))


def write_delta(folder: Path, files: pa.Table) -> None:
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    meta = {
        "id": metadata().id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": ["day", "shard"],
        "configuration": {},
        "createdTime": 1,
    }
    first = "".join(json.dumps(line) + "\n" for line in ({"protocol": protocol}, {"metaData": meta}))
    (log / f"{0:020d}.json").write_text(first)
    (log / f"{1:020d}.json").write_text(json.dumps({"commitInfo": {"timestamp": 1}}) + "\n")
    count = len(files)
    ids = files.column("addedAtLine").combine_chunks().cast(pa.string())
    stats = pa.compute.binary_join_element_wise(
        '{"numRecords":1000,"minValues":{"id":',
        ids,
        ',"ts":',
        ids,
        ',"note":"',
        ids,
        "",
    )
    stats = pa.compute.binary_join_element_wise(
        stats,
        '"},"maxValues":{"id":',
        ids,
        ',"ts":',
        ids,
        ',"note":"',
        ids,
        '"},"nullCount":{"id":0,"ts":0,"note":0}}',
        "",
    )
    adds = pa.StructArray.from_arrays(
        [
            files.column("path").combine_chunks(),
            files.column("partitionValues").combine_chunks(),
            files.column("size").combine_chunks(),
            files.column("modificationTime").combine_chunks(),
            files.column("dataChange").combine_chunks(),
            stats,
        ],
        names=["path", "partitionValues", "size", "modificationTime", "dataChange", "stats"],
    )
    kinds = {
        "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        "metaData": pa.struct(
            [
                ("id", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
                ("schemaString", pa.string()),
                ("partitionColumns", pa.list_(pa.string())),
                ("configuration", pa.map_(pa.string(), pa.string())),
                ("createdTime", pa.int64()),
            ]
        ),
        "add": adds.type,
    }
    heads = pa.Table.from_pylist(
        [
            {"protocol": protocol},
            {"metaData": {**meta, "configuration": [], "format": {"provider": "parquet", "options": []}}},
        ],
        schema=pa.schema(list(kinds.items())),
    )
    body = pa.table(
        {"protocol": pa.nulls(count, kinds["protocol"]), "metaData": pa.nulls(count, kinds["metaData"]), "add": adds}
    )
    pq.write_table(pa.concat_tables([heads, body]), log / f"{1:020d}.checkpoint.parquet", compression="snappy")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": count + 2}))


def open_all(env: Env) -> int:
    return open_log(env).snapshot().files.num_rows


def open_where(env: Env, text: str) -> pa.Table:
    schema = schema_from_json(SCHEMA)
    return open_log(env).snapshot().files_where(lambda _: parse(text, schema))


def _opens(tables: _Tables) -> list[Bar]:
    env = tables.env()
    assert open_all(env) == tables.count
    rounds = 5 if tables.count < 1_000_000 else 3
    ours, peer = _interleaved(rounds, lambda: open_all(env), lambda: DeltaTable(tables.delta))
    name = f"{tables.count:,} files"
    bars = [
        Bar(f"full open, {name}", ours[0], peer[0], "s", 0.8, peer_name="delta-rs"),
        Bar(f"full open, {name}, CPU", ours[1], peer[1], "s CPU", peer_name="delta-rs"),
    ]
    day = "day = '2024-01-07'"
    found = open_where(env, day)
    assert len(found) in (tables.count // DAYS, tables.count // DAYS + 1)

    def filtered() -> list[str]:
        return DeltaTable(tables.delta).file_uris([("day", "=", "2024-01-07")])

    assert len(filtered()) == len(found)
    one, slow = _interleaved(rounds, lambda: open_where(env, day), filtered)
    at_least = 20 if tables.count == 1_000_000 else None
    claim = f"one partition of {DAYS}, {name}: delta-rs / ours"
    bars.append(Bar(claim, slow[0], one[0], "s", at_least, "at least", peer_name="ours"))
    bars.append(Bar(f"{claim}, CPU", slow[1], one[1], "s CPU", peer_name="ours"))
    return bars


def _interleaved(
    rounds: int, ours: Callable[[], object], peer: Callable[[], object]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The least wall-clock and CPU seconds of each, turn by turn, so that a busy machine is busy for both."""
    seen: list[list[tuple[float, float]]] = [[], []]
    for _ in range(rounds):
        for at, call in enumerate((ours, peer)):
            began, spent = time.perf_counter(), time.process_time()
            call()
            seen[at].append((time.perf_counter() - began, time.process_time() - spent))
    mine, other = ((min(t for t, _ in times), min(c for _, c in times)) for times in seen)
    return mine, other


def _partition_growth(small: _Tables, large: _Tables) -> list[Bar]:
    text = "day = '2024-01-07' AND shard = 1"
    times = []
    for tables in (small, large):
        env = tables.env()
        assert len(open_where(env, text)) == PER_PARTITION
        times.append(best_of(7, lambda env=env: open_where(env, text)))
    claim = f"open a partition of {PER_PARTITION:,}: {large.count:,} against {small.count:,} files"
    return [Bar(claim, times[1], times[0], "s", 2)]


def _append_growth(small: _Tables, large: _Tables) -> list[Bar]:
    measured = []
    for tables in (small, large):
        times, sizes = [], []
        for _ in range(5):
            env = tables.env(**{"checkpoint.interval": 1})
            log = open_log(env)
            before = _bytes_of(tables.ours)
            rows = make_files(100, start=10_000_000 + 1000 * len(times))
            began = time.perf_counter()
            write.append(log, rows.select([name for name in rows.column_names if not name.startswith("addedAt")]))
            times.append(time.perf_counter() - began)
            sizes.append(_bytes_of(tables.ours) - before)
        measured.append((min(times), min(sizes)))
    (fast, few), (slow, many) = measured
    claim = f"append 100 files with its checkpoint: {large.count:,} against {small.count:,} files"
    return [Bar(f"{claim}, time", slow, fast, "s", 1.5), Bar(f"{claim}, bytes", many, few, "B", 1.5)]


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _compaction(tables: _Tables) -> list[Bar]:
    """In a process of its own, so that its peak memory is its own."""
    write.append(
        open_log(tables.env(**{"checkpoint.enabled": "false"})),
        make_files(10, start=20_000_000).select(["path", "partitionValues", "size", "modificationTime", "dataChange"]),
    )
    script = f"from benchmarks.state import compact_once; compact_once({str(tables.ours)!r})"
    answer = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    seconds, cpu, peak = map(float, answer.stdout.split()[-3:])
    _delta_commit(tables.delta, 2)
    began = time.perf_counter()
    table = DeltaTable(tables.delta)
    opened = time.perf_counter() - began
    spent = time.process_time()
    peer = best_of(1, table.create_checkpoint)
    spent = time.process_time() - spent
    claim = f"full compaction of {tables.count:,} entries"
    return [
        Bar(claim, seconds, peer, "s", 1, peer_name="delta-rs checkpoint"),
        Bar(f"{claim}, both from disk", seconds, opened + peer, "s", peer_name="delta-rs open and checkpoint"),
        Bar(f"{claim}, CPU", cpu, spent, "s CPU", peer_name="delta-rs checkpoint"),
        Bar("peak memory of that process", peak, None, "MiB", 1536, absolute=True),
    ]


def _delta_commit(folder: Path, version: int) -> None:
    """One more version, so that there is something to checkpoint."""
    add = {
        "path": "day=2024-01-01/shard=0/last.parquet",
        "partitionValues": {"day": "2024-01-01", "shard": "0"},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
        "stats": '{"numRecords":1}',
    }
    (folder / "_delta_log" / f"{version:020d}.json").write_text(json.dumps({"add": add}) + "\n")


def compact_once(place: str) -> None:
    env = environment(place)
    began, spent = time.perf_counter(), time.process_time()
    checkpoint(env, compact="full")
    print(
        time.perf_counter() - began,
        time.process_time() - spent,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def _requests(count: int) -> list[Bar]:
    """Requests as the server counts them: cold in a new process' place, warm with the same log once more."""
    with S3Server() as server:
        options = server.options()
        url = server.table_url("state")
        env = Env(open_store(url, options), SystemAmbient(), options)
        write_ours(env, make_files(count))
        log = open_log(env)
        before = server.count()
        assert log.snapshot().files.num_rows == count
        cold = server.count() - before
        manifests = sum(1 for meta in env.store.list_from(MANIFEST_DIR))
        server.requests.clear()
        assert log.snapshot().files.num_rows == count
        warm = server.count()
        listings = sum("list-type" in seen.query for seen in server.requests)
    return [
        Bar("requests of a cold open", float(cold), None, "requests", 4 + manifests, absolute=True),
        Bar("listings of a warm open", float(listings), None, "listings", 1, absolute=True),
        Bar("requests of a warm open", float(warm), None, "requests"),
    ]


def _maps(columns: dict[str, pa.Array]) -> pa.Array:
    """A map column with these keys in every row, without a row in Python."""
    count = len(next(iter(columns.values())))
    width = len(columns)
    places = np.arange(count * width).reshape(count, width)
    keys = pa.array(list(columns)).take(pa.array(np.tile(np.arange(width), count)))
    stacked = pa.concat_arrays([column.cast(pa.string()) for column in columns.values()])
    order = (places % width) * count + places // width
    items = stacked.take(int64_array(order.reshape(-1)))
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.MapArray.from_arrays(offsets, keys, items)
