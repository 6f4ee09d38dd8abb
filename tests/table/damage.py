"""Damaged tables: every kind of file of a table, with the bytes of another, cut, or edited so that it still reads.

`world` makes a small table with all kinds of files, and a sister with other rows. `harms` says what can be done to one
of its files, `answers` asks every read verb. What is right is known from before the damage.
"""

from __future__ import annotations

import gzip
import io
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from tests.table.merge_world import delete_rows, log_of

import indextables
from indextables.errors import IndexTablesError

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("body", pa.string())])
FORMS = ("avro", "json", "json-parts", "parquet")
KINDS = {
    "version": r"_transaction_log/\d{20}\.json",
    "crc": r"_transaction_log/\d{20}\.crc",
    "state": r"_transaction_log/state-v\d+/_manifest\.avro",
    "manifest": r"_transaction_log/manifests/.*\.avro",
    "json": r"_transaction_log/\d{20}\.checkpoint\..*json",
    "parquet": r"_transaction_log/\d{20}\.checkpoint\..*parquet",
    "pointer": r"_transaction_log/_last_checkpoint",
    "split": r".*\.split",
    "vector": r".*deletion_vector_.*\.bin",
}

Harm = Callable[[bytes, random.Random], bytes]


def build(path: Path, form: str, first: int) -> Path:
    """Partitions, vectors, an overwrite, a merge, checkpoints of one form, and versions above the newest of them."""
    options: dict[str, object] = {"storage.fsync": False, "checkpoint.interval": 1000}
    options["state.format"] = form.partition("-")[0]
    if form.endswith("parts"):
        options["checkpoint.maxFileSize"] = 2_000
    table = indextables.create(
        path, SCHEMA, partition_by=["p"], properties={"indexing.typemap.body": "text"}, options=options
    )
    for number in range(3):
        table.append(rows(first + 10 * number, 8))
    delete(path, options)
    table = indextables.open(path, options=options)
    table.checkpoint()
    table.append(rows(first + 40, 6))
    table.overwrite(rows(first + 50, 4, "b"), where="p = 'b'")
    table.merge_splits()
    table.checkpoint()
    table.append(rows(first + 60, 5))
    table.append(rows(first + 70, 5))
    delete(path, options)
    return path


def rows(first: int, count: int, only: str | None = None) -> pa.Table:
    ids = range(first, first + count)
    body = [f"word{i % 3} common text {i % 5}" for i in ids]
    return pa.table({"id": ids, "p": [only or "ab"[i % 2] for i in ids], "body": body}, schema=SCHEMA)


def delete(path: Path, options: dict[str, object]) -> None:
    """Rows of two files: one vector in a file of its own, one in the log."""
    table = indextables.open(path, options=options)
    paths = sorted(table.files()["path"].to_pylist())
    delete_rows(log_of(table), {paths[0]: [0]}, as_file=True)
    delete_rows(log_of(table), {paths[-1]: [1]})


def files_of(root: Path) -> dict[str, list[str]]:
    """The files of a table by kind."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for file in sorted(p for p in root.rglob("*") if p.is_file() and ".indextables-tmp" not in p.parts):
        name = file.relative_to(root).as_posix()
        kind = next(kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, name))
        found[kind].append(name)
    return found


def harms(root: Path, sister: Path, kind: str, name: str) -> Iterator[tuple[str, bytes]]:
    """What can happen to one file, by name; the bytes that lie there afterwards. None of it is what was there."""
    data = (root / name).read_bytes()
    chance = random.Random(f"{kind} {name}")
    others = [other for other in files_of(root)[kind] if other != name]
    ours = chance.sample(others, min(2, len(others)))
    theirs = chance.choice(files_of(sister)[kind])
    done = {
        **{f"with the bytes of {other}": (root / other).read_bytes() for other in ours},
        "with the bytes of another table's": (sister / theirs).read_bytes(),
        "cut": data[: chance.randrange(len(data))],
        "flipped": flipped(data, chance),
        "grown": data + data[-20:],
        **edits(kind, data, chance),
    }
    for what, damaged in done.items():
        if damaged != data:
            yield what, damaged


def flipped(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def edits(kind: str, data: bytes, chance: random.Random) -> dict[str, bytes]:
    """Bytes that still read as a file of this kind, and say something else."""
    if kind == "parquet":
        return {"edited": edited_parquet(data)}
    if kind not in {"version", "crc", "json", "pointer"}:
        return {}
    packed = data[:2] == b"\x1f\x8b"
    lines = [msgspec.json.decode(line) for line in (gzip.decompress(data) if packed else data).splitlines()]

    def pack(changed: list[Any]) -> bytes:
        text = b"".join(msgspec.json.encode(line) + b"\n" for line in changed)
        return gzip.compress(text, mtime=0) if packed else text

    found = {}
    for number, place in enumerate(chance.sample(places := list(values(lines)), min(3, len(places)))):
        found[f"edited {number} at {place}"] = pack(edited(lines, place))
    for key in ("numRecords", "minValues", "partitionValues", "size"):
        told = [place for place in places if key in place]
        if told:
            found[f"edited {key}"] = pack(edited(lines, chance.choice(told)))
    if len(lines) > 2:
        found["without a line"] = pack(lines[:-1])
    return found


def values(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers and texts."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        if isinstance(value, (dict, list)):
            yield from values(value, (*at, key))
        elif isinstance(value, (int, str)):
            yield (*at, key)


def edited(lines: list[Any], place: tuple[Any, ...]) -> list[Any]:
    copy = msgspec.json.decode(msgspec.json.encode(lines))
    node = copy
    for key in place[:-1]:
        node = node[key]
    old = node[place[-1]]
    node[place[-1]] = not old if isinstance(old, bool) else old + 6 if isinstance(old, int) else old + "z"
    return copy


def edited_parquet(data: bytes) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    changed = table.to_pylist()
    for row in changed:
        if row["add"] is not None:
            row["add"]["numRecords"] = (row["add"]["numRecords"] or 0) + 6
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(changed, schema=table.schema), out)
    return out.getvalue()


def answers(path: Path) -> dict[str, object]:
    """What every read verb says; an error of ours in its place where it refuses."""
    # Whatever was decoded before the damage is forgotten; indexes are cached by the path and the time of a file.
    indextables.invalidate_caches()
    said: dict[str, object] = {}
    for name, ask in READS.items():
        try:
            said[name] = ask(path)
        except IndexTablesError as error:
            said[name] = error
    return said


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def _history(path: Path) -> list[dict[str, Any]]:
    told = indextables.open(path).history().to_pylist()
    return [{key: row[key] for key in ("version", "timestamp", "operation", "operationMetrics")} for row in told]


def _files(path: Path) -> list[dict[str, Any]]:
    return sorted(indextables.open(path).files().to_pylist(), key=lambda row: row["path"])


READS: dict[str, Callable[[Path], object]] = {
    "count": lambda path: indextables.open(path).count(),
    "count of a query": lambda path: indextables.open(path).count("body:word1"),
    "count of a predicate": lambda path: indextables.open(path).count(where="id > 45"),
    "to_arrow": lambda path: _rows(indextables.open(path).to_arrow()),
    "where": lambda path: _rows(indextables.open(path).to_arrow(where="p = 'b' AND id > 20")),
    "search": lambda path: _rows(indextables.open(path).search("body:word2", limit=None)),
    "sql": lambda path: (
        indextables.open(path).sql("SELECT p, count(*), sum(id) FROM t GROUP BY p ORDER BY p").to_pylist()
    ),
    "files": _files,
    "history": _history,
    "version 2": lambda path: _rows(indextables.open(path).at(version=2).to_arrow()),
    "version 6": lambda path: indextables.open(path).at(version=6).count(),
}
