"""Splits: writing against the same Parquet plus bare Tantivy, scanning against pyarrow, size, rows by number."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tantivy

from benchmarks import corpus
from benchmarks.harness import Bar, best_of, cpu_of, median_of
from indextables.ambient import SystemAmbient
from indextables.options import Options
from indextables.split.file.reader import SplitReader
from indextables.split.file.scanning import scan
from indextables.split.index.fields import plan_fields
from indextables.split.index.sizes import ROWS, field_sizes
from indextables.split.write.rows import RowsWriter
from indextables.split.write.writer import WrittenSplit, write_splits
from indextables.storage import Store, open_store

_TEXT = {"message": "text", "title": "text", "body": "text"}


def run(scale: str) -> list[Bar]:
    rows, documents = (1_000_000, 20_000) if scale == "full" else (100_000, 2_000)
    bars: list[Bar] = []
    folder = Path(tempfile.mkdtemp(prefix="split-bench-"))
    try:
        for name, table in (("logs", corpus.logs(rows)), ("documents", corpus.documents(documents))):
            bars += _corpus(folder / name, name, table)
        bars += _types(folder / "types", rows // 5)
        bars.append(_memory(scale))
    finally:
        shutil.rmtree(folder)
    return bars


def _corpus(folder: Path, name: str, table: pa.Table) -> list[Bar]:
    folder.mkdir()
    store = open_store(folder / "store")
    options = _options(table.schema)
    plain = folder / "plain.parquet"
    pq.write_table(table, plain, compression="zstd")
    splits: list[WrittenSplit] = []
    bare, ours = [], []
    for attempt in range(2):
        bare.append(cpu_of(lambda n=attempt: _bare(folder / f"bare{n}", table, options)))
        ours.append(cpu_of(lambda: splits.extend(_write(store, table, options))))
    split = splits[-1]
    bars = [
        Bar(f"{name}: CPU to write", min(ours), min(bare), "s", 1.15, peer_name="Parquet + bare Tantivy"),
        Bar(f"{name}: size", split.size / 1e6, plain.stat().st_size / 1e6, "MB", 1.75 if name == "logs" else None),
    ]
    bars += [
        Bar(f"{name}: of it {part}", size / 1e6, split.size / 1e6, "MB", peer_name="of all")
        for part, size in split.component_bytes.items()
    ]
    bars += [
        Bar(f"{name}: index of {column}", size / 1e6, rows / 1e6, "MB", peer_name="its rows")
        for column, (rows, size, _) in _by_column(store, split).items()
    ]
    return bars + _scans(store, split, plain, name) + _fetches(store, split, plain, name, table)


def _types(folder: Path, rows: int) -> list[Bar]:
    """What each type of field adds to its rows, in bytes per row: one column each, indexed, fast, both or neither."""
    table = corpus.types(rows)
    store = open_store(folder)
    settings = {
        "indexing.typemap.text": "text",
        "indexing.typemap.text_without_positions": "text",
        "indexing.indexrecordoption.text_without_positions": "freq",
        "indexing.typemap.ip": "ip",
        "indexing.fastfields": "string_fast",
        "split.targetSize": "100000000000",
    }
    (split,) = write_splits(store, table.to_batches(65_536), table.schema, Options(settings, environ={}))
    bars = []
    for column, (own, index, parts) in _by_column(store, split).items():
        shown = ", ".join(f"{name} {size / rows:.2f}" for name, size in parts.items()) or "not in the index"
        claim = f"type {column}: index bytes a row ({shown})"
        bars.append(Bar(claim, index / rows, own / rows, "B", peer_name="its rows"))
    return bars


def _by_column(store: Store, split: WrittenSplit) -> dict[str, tuple[int, int, dict[str, int]]]:
    """For each column the bytes of its rows, of its index, and of the latter by component."""
    found: dict[str, tuple[int, int, dict[str, int]]] = {}
    for row in field_sizes(SplitReader(store, split.ref)).to_pylist():
        if row["column"] is not None and row["bytes"]:
            rows, index, parts = found.get(row["column"], (0, 0, {}))
            if row["component"] == ROWS:
                rows += row["bytes"]
            else:
                index += row["bytes"]
                parts[row["component"]] = row["bytes"]
            found[row["column"]] = rows, index, parts
    return found


def _options(schema: pa.Schema) -> Options:
    kinds = {f"indexing.typemap.{n}": k for n, k in _TEXT.items() if n in schema.names}
    return Options(kinds | {"split.targetSize": "100000000000"}, environ={})


def _write(store: Store, table: pa.Table, options: Options) -> list[WrittenSplit]:
    return write_splits(store, table.to_batches(65_536), table.schema, options)


def _bare(folder: Path, table: pa.Table, options: Options) -> None:
    """The same Parquet file, and the same documents through `from_dict`, nothing else."""
    folder.mkdir()
    rows = RowsWriter(folder / "rows.parquet", table.schema)
    plan = plan_fields(table.schema, options)
    schema = plan.schema()
    (folder / "index").mkdir()
    index = tantivy.Index(schema, path=str(folder / "index"), reuse=False)
    plan.register_analyzers(index)
    writer = index.writer(4_000_000_000, 1)
    names = [f.column for f in plan.fields]
    fed = table.select(names)
    for place, field in enumerate(fed.schema):
        if pa.types.is_timestamp(field.type):
            fed = fed.set_column(place, field.name, fed[field.name].cast(pa.int64()))
    for batch, whole in zip(fed.to_batches(8_192), table.to_batches(8_192), strict=True):
        for row in batch.to_pylist():
            writer.add_document(tantivy.Document.from_dict(row, schema))
        rows.write(pa.Table.from_batches([whole]))
    writer.commit()
    writer.wait_merging_threads()
    rows.close()
    shutil.rmtree(folder)


def _scans(store: Store, split: WrittenSplit, plain: Path, name: str) -> list[Bar]:
    ambient = SystemAmbient()

    def ours(columns: list[str] | None, threads: SystemAmbient | None = ambient) -> int:
        return sum(b.num_rows for b in scan(SplitReader(store, split.ref), columns, ambient=threads))

    def theirs(columns: list[str] | None) -> int:
        with pq.ParquetFile(plain) as file:
            return sum(b.num_rows for b in file.iter_batches(131_072, columns=columns))

    bars = []
    text = "message" if name == "logs" else "body"
    million = split.num_rows / 1e6
    for columns, what in ((None, "all columns"), ([text], text)):
        # In turns, and the best of each: on a busy machine only the least disturbed runs compare.
        calls = (partial(theirs, columns), partial(ours, columns), partial(ours, columns, None))
        turns = [[_cost(call) for call in calls] for _ in range(7)]
        wall = [min(turn[side][0] for turn in turns) for side in (1, 0)]
        cpu = [min(turn[side][1] for turn in turns) for side in (1, 0, 2)]
        rate = (million / wall[0], million / wall[1])
        spent = (million / cpu[0], million / cpu[1])
        alone = (million / cpu[2], million / cpu[1])
        bars.append(Bar(f"{name}: scan, {what}", *rate, "M rows/s", 0.9, "at least", "pyarrow, plain Parquet"))
        bars.append(Bar(f"{name}: scan, {what}, by CPU", *spent, "M rows/CPU s", 0.9, "at least", "the same"))
        claim = f"{name}: scan, {what}, by CPU, in one thread"
        bars.append(Bar(claim, *alone, "M rows/CPU s", 0.9, "at least", "the same"))
    return bars


def _cost(call: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one call."""
    wall: list[float] = []
    cpu = cpu_of(lambda: wall.append(best_of(1, call)))
    return wall[0], cpu


def _fetches(store: Store, split: WrittenSplit, plain: Path, name: str, table: pa.Table) -> list[Bar]:
    rng = np.random.default_rng(9)
    reader = SplitReader(store, split.ref)
    bars = []
    with pq.ParquetFile(plain) as file:
        for count in (10, 100, 1_000):
            wanted = [np.sort(rng.choice(split.num_rows, count, replace=False)) for _ in range(9)]
            assert reader.fetch(wanted[0]).equals(table.take(pa.array(wanted[0])))
            turns = iter(wanted)
            ours = median_of(9, lambda t=turns: reader.fetch(next(t)))
            turns = iter(wanted)
            peer = median_of(3, lambda t=turns: _by_group(file, next(t)))
            claim = f"{name}: {count} rows by number, all columns"
            bars.append(Bar(claim, ours * 1e3, peer * 1e3, "ms", peer_name="pyarrow by row group"))
    return bars


def _by_group(file: pq.ParquetFile, rows: np.ndarray) -> pa.Table:
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    starts = np.cumsum([0, *sizes])
    group_of = np.searchsorted(starts, rows, side="right") - 1
    found = [file.read_row_group(int(g)).take(pa.array(rows[group_of == g] - starts[g])) for g in np.unique(group_of)]
    return pa.concat_tables(found)


def _memory(scale: str) -> Bar:
    """Peak memory above the start of a process that writes logs in a stream, for a budget of 256 MB."""
    rows = 2_000_000 if scale == "full" else 300_000
    code = f"from benchmarks.split_write import peak_of_writing; print(peak_of_writing({rows}, 268435456))"
    peak = float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    claim = f"peak memory while writing {rows} lines as a stream"
    return Bar(claim, peak, 256.0, "MiB", 2.5, peer_name="split.memoryBudget")


def peak_of_writing(rows: int, budget: int) -> float:
    """MiB above what the process held before it began to write."""
    options = Options({"indexing.typemap.message": "text", "split.memoryBudget": str(budget)}, environ={})
    schema = corpus.LOGS_SCHEMA
    folder = Path(tempfile.mkdtemp(prefix="split-bench-"))
    tables = [corpus.logs(50_000, seed=seed) for seed in range(4)]
    # Writing 5 makes the kernel forget the peak so far.
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_mib()
    try:
        batches = (b for turn in range(rows // 50_000) for b in tables[turn % 4].to_batches())
        write_splits(open_store(folder), batches, schema, options)
    finally:
        shutil.rmtree(folder)
    return _peak_mib() - before


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
