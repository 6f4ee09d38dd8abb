"""Pruning: which of a million files may match, by partition values and by bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Bar, best_of
from indextables.query.parse import parse
from indextables.query.prune import prune

MAP = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [("day", pa.date32()), ("hour", pa.int64()), ("a", pa.int64()), ("b", pa.float64()), ("s", pa.string())]
)
PARTITIONED = ["day", "hour"]


def run(scale: str) -> list[Bar]:
    files = file_set(1_000_000 if scale == "full" else 50_000)
    bars = []
    for what, where in {
        "one partition of 30": "day = '2024-01-01'",
        "bounds of one column": "a = 5000",
        "bounds of three columns, none of them selective": "a >= 0 and b >= 0 and s >= '0'",
        "one partition, then bounds": "day = '2024-01-01' and hour = 5 and a > 10",
    }.items():
        expr = parse(where, SCHEMA)
        seconds = best_of(3, lambda expr=expr: prune(files, expr, SCHEMA, PARTITIONED))
        bars.append(Bar(f"{files.num_rows:,} files, {what}", seconds, None, "s"))
    lookup = best_of(2, lambda: naive(files))
    bars.append(
        Bar("three columns of bounds, typed", best_of(3, lambda: ours(files)), lookup, "s", 0.5, peer_name="map_lookup")
    )
    return bars


def file_set(count: int) -> pa.Table:
    rows = np.arange(count)

    def texts(values: np.ndarray) -> pa.Array:
        return pc.cast(pa.array(values), pa.string())

    days = pc.cast(pa.array((rows % 30 + 19_700).astype("int32")).cast(pa.date32()), pa.string())
    low = [texts(rows * 10), texts(rows * 0.5), texts(rows + 10**6)]
    high = [texts(rows * 10 + 9), texts(rows * 0.5 + 0.4), texts(rows + 10**6)]
    return pa.table(
        {
            "partitionValues": maps(["day", "hour"], [days, texts(rows % 24)]),
            "minValues": maps(["a", "b", "s"], low),
            "maxValues": maps(["a", "b", "s"], high),
            "numRecords": pa.array(rows),
            "stats": pa.nulls(count, pa.string()),
        }
    )


def maps(keys: list[str], values: list[pa.Array]) -> pa.MapArray:
    count, width = len(values[0]), len(keys)
    places = np.tile(np.arange(width) * count, count) + np.repeat(np.arange(count), width)
    offsets = pa.array(np.arange(0, width * count + 1, width, dtype=np.int32))
    names = pa.array(keys).take(pa.array(np.tile(np.arange(width), count)))
    return pa.MapArray.from_arrays(offsets, names, pa.concat_arrays(values).take(pa.array(places)))


def ours(files: pa.Table) -> object:
    from indextables.query.stats import OURS, map_values, typed_bounds

    return [
        typed_bounds(
            map_values(files["minValues"], name), map_values(files["maxValues"], name), SCHEMA.field(name).type, OURS
        )
        for name in ("a", "b", "s")
    ]


def naive(files: pa.Table) -> object:
    return [
        pc.cast(pc.map_lookup(files[side], pa.scalar(name), "first"), SCHEMA.field(name).type)
        for name in ("a", "b", "s")
        for side in ("minValues", "maxValues")
    ]
