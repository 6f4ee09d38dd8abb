"""The corpora of the benchmarks, the same bytes on every machine: "logs" and long documents.

`logs(n)`: ts, host of 200, level of 5, status, latency, message of about 13 words from a Zipf vocabulary of 20,000
plus one unique request token per line. `documents(n)`: an id, a title and a body of about 2,000 words.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VOCABULARY = 20_000
_LEVELS = ["INFO", "DEBUG", "WARN", "ERROR", "FATAL"]
_STATUS = [200, 404, 500, 302, 201]
_EPOCH_US = 1_700_000_000_000_000

QUIET = {"mergeOnWrite.enabled": "false"}
"""Properties of a table that is to keep the splits that it was given."""

LOGS_SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("host", pa.string()),
        ("level", pa.string()),
        ("status", pa.int32()),
        ("latency", pa.int64()),
        ("message", pa.string()),
    ]
)
DOCUMENTS_SCHEMA = pa.schema([("id", pa.int64()), ("title", pa.string()), ("body", pa.string())])


def vocabulary() -> pa.Array:
    """Words by rank: short ones first, as in a language, all different."""
    rng = np.random.default_rng(7)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    weights = np.linspace(3.0, 0.4, 26)
    weights /= weights.sum()
    words: list[str] = ["timeout", "error", "connection", "request", "database", "user", "quick", "lazy"]
    seen = set(words)
    while len(words) < VOCABULARY:
        length = int(2 + min(10, len(words) ** 0.21 + rng.integers(0, 4)))
        word = "".join(rng.choice(letters, size=length, p=weights))
        if word not in seen:
            seen.add(word)
            words.append(word)
    return pa.array(words)


def logs(rows: int, *, seed: int = 1) -> pa.Table:
    """`rows` log lines in order of time."""
    rng = np.random.default_rng(seed)
    ts = _EPOCH_US + np.cumsum(rng.integers(100, 5_000, rows))
    host = pa.array([f"host-{i:03d}.example.net" for i in range(200)]).take(pa.array(rng.integers(0, 200, rows)))
    level = pa.array(_LEVELS).take(pa.array(rng.choice(5, rows, p=[0.7, 0.15, 0.1, 0.04, 0.01])))
    status = pa.array(np.array(_STATUS, np.int32)[rng.choice(5, rows, p=[0.8, 0.08, 0.04, 0.05, 0.03])])
    latency = pa.array((rng.lognormal(3.5, 1.2, rows) * 10).astype(np.int64))
    text = _sentences(rng, rng.integers(10, 17, rows), vocabulary())
    token = pa.array([f"req-{v:016x}" for v in rng.permutation(rows).astype(np.uint64) * 2654435761 + seed])
    message = pc.binary_join_element_wise(text, token, " ")
    columns = [pa.array(ts).cast(LOGS_SCHEMA.field("ts").type), host, level, status, latency, message]
    return pa.table([c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns], schema=LOGS_SCHEMA)


def documents(count: int, *, words: int = 2_000, seed: int = 2) -> pa.Table:
    """`count` documents of about `words` words."""
    rng = np.random.default_rng(seed)
    vocab = vocabulary()
    titles = _sentences(rng, rng.integers(4, 9, count), vocab)
    body = _sentences(rng, rng.integers(words * 3 // 4, words * 5 // 4 + 1, count), vocab)
    return pa.table([pa.array(np.arange(count)), titles, body], schema=DOCUMENTS_SCHEMA)


def types(rows: int, *, seed: int = 3) -> pa.Table:
    """A column of each type of field: values as logs have them, of low and high cardinality."""
    rng = np.random.default_rng(seed)
    words = _sentences(rng, rng.integers(10, 17, rows), vocabulary())
    names = pa.array([f"user-{n}" for n in rng.integers(0, rows // 10 + 1, rows)])
    numbers = pa.array((rng.lognormal(8, 2, rows)).astype(np.int64))
    stamps = pa.array(_EPOCH_US + np.cumsum(rng.integers(100, 5_000, rows)))
    days = pa.array(np.sort(rng.integers(19_000, 20_000, rows)).astype(np.int32)).cast(pa.date32())
    floats = pa.array(rng.normal(size=rows))
    address = pa.array([f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in rng.integers(0, 1 << 20, rows)])
    attrs = pa.StructArray.from_arrays([names, pa.array(rng.integers(0, 100, rows))], ["user", "retries"])
    return pa.table(
        {
            "text": words,
            "text_without_positions": words,
            "string": names,
            "string_fast": names,
            "int": numbers,
            "float": floats,
            "decimal": pa.array(rng.integers(0, 10**6, rows)).cast(pa.decimal128(19, 0)),
            "date": days,
            "timestamp": stamps.cast(pa.timestamp("us", tz="UTC")),
            "bool": pa.array(rng.random(rows) < 0.2),
            "ip": address,
            "json": attrs,
            "list_of_strings": pa.ListArray.from_arrays(
                pa.array(np.arange(0, 2 * rows + 1, 2, dtype=np.int32)), pa.concat_arrays([names, names])
            ),
            "binary": names.cast(pa.binary()),
        }
    )


def _sentences(rng: np.random.Generator, lengths: np.ndarray, vocab: pa.Array) -> pa.Array:
    """One string of `lengths[i]` words per row; word ranks follow a Zipf law."""
    weights = 1.0 / np.arange(1, len(vocab) + 1)
    bounds = np.cumsum(weights / weights.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ranks = np.searchsorted(bounds, rng.random(int(offsets[-1])))
    words = vocab.take(pa.array(np.minimum(ranks, len(vocab) - 1)))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), words), " ")


def lengthen(url: str, versions: int, options: dict[str, str], *, at: tuple[int, ...]) -> None:
    """Give the table at `url` so many versions that change nothing; every tenth near those in `at` has a checkpoint."""
    from tests.world.tables import lengthened

    from indextables.table.environment import open_env

    env = open_env(url, {"storage.fsync": "false", **options})
    wanted = [number for number in range(10, versions + 1, 10) if any(abs(number - place) <= 100 for place in at)]
    lengthened(env, versions, checkpoints=wanted)


def enlarge(path: Path, count: int) -> None:
    """Make a table of `count` splits: ten real ones in partition p0, of the others only the entries in the log."""
    import indextables
    from indextables.log.care.opening import open_log
    from indextables.log.care.schedule import checkpoint
    from indextables.log.commit.transaction import Transaction
    from indextables.table.environment import open_env

    rows = pa.table({"id": list(range(100)), "part": ["p0"] * 100})
    table = indextables.create(path, rows.schema, partition_by=["part"])
    for number in range(10):
        table.append(rows.slice(number * 10, 10))
    log = open_log(open_env(path))
    snapshot = log.snapshot()
    first = snapshot.files.slice(0, 1)
    others = np.arange(count - 10)
    parts = pa.array([f"p{1 + number // 10}" for number in others])
    entries = {name: first[name].take(pa.array(np.zeros(len(others), np.int64))) for name in first.column_names}
    paths = [f"part=p{1 + number // 10}/splits/split-{number:032x}.split" for number in others]
    values = pa.MapArray.from_arrays(
        pa.array(np.arange(len(others) + 1, dtype=np.int32)), pa.array(["part"] * len(others)), parts
    )
    entries.update({"path": pa.array(paths), "partitionValues": values})
    Transaction(log, snapshot, operation="WRITE").add(pa.table(entries, schema=first.schema)).commit_or_raise()
    checkpoint(open_env(path), compact="full")
