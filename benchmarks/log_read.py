"""Version files: bytes to Arrow against delta-rs opening the same adds from one JSON commit, and the fold after it."""

from __future__ import annotations

import json
import random
import tempfile
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.harness import Bar, best_of, cpu_of
from indextables.log.read.folding import replay
from indextables.log.wire.actions import CommitInfo, Metadata
from indextables.log.wire.codec import decode_version, encode_version
from indextables.log.wire.sethash import set_hash

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "host", "type": "string", "nullable": True, "metadata": {}},
            {"name": "date", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)


def run(scale: str) -> list[Bar]:
    sizes = {"small": (1_000, 10_000, 100_000), "full": (10_000, 100_000, 1_000_000)}.get(scale, (10_000, 100_000))
    bars: list[Bar] = []
    per_add: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in sizes:
            path = _delta_log(Path(folder) / str(count), count)
            data = path.read_bytes()
            repeats = 5 if count <= 100_000 else 2
            ours = best_of(repeats, lambda p=path: decode_version(p.read_bytes(), 0))
            peer = best_of(repeats, lambda p=path: DeltaTable(str(p.parent.parent)))
            per_add.append(ours / count)
            bar = 1 / 1.25 if count == 100_000 else None
            bars.append(Bar(f"{count:,} adds, bytes to Arrow", ours, peer, "s", bar, peer_name="delta-rs open"))
            ours_cpu = min(cpu_of(lambda p=path: decode_version(p.read_bytes(), 0)) for _ in range(repeats))
            peer_cpu = min(cpu_of(lambda p=path: DeltaTable(str(p.parent.parent))) for _ in range(repeats))
            bars.append(Bar(f"{count:,} adds, CPU time", ours_cpu, peer_cpu, "s", peer_name="delta-rs open"))
            gzipped = encode_version([], adds=decode_version(data, 0).adds, compress=True)
            packed = best_of(repeats, lambda d=gzipped: decode_version(d, 0))
            bars.append(Bar(f"{count:,} adds, the same from gzip", packed, peer, "s", peer_name="delta-rs open, plain"))
    bars.append(Bar("time per add, largest against smallest", per_add[-1], per_add[0], "s", 1.5, peer_name="smallest"))
    return [*bars, *_fold(1_000_000 if scale == "full" else 100_000)]


def _fold(count: int) -> list[Bar]:
    """The columnar fold: adds, and a tenth of them removed."""
    lines = b"".join(_line(i) for i in range(count))
    adds = decode_version(lines, 1)
    first = decode_version(encode_version([CommitInfo(token="0" * 32), Metadata("t", SCHEMA)], compress=False), 0)
    every_tenth = pa.array(np.arange(0, count, 10))
    gone = pa.table(
        {
            "path": adds.adds["path"].combine_chunks().take(every_tenth),
            "dataChange": pa.array([True] * len(every_tenth)),
        }
    )
    removes = decode_version(encode_version([], removes=gone, compress=False), 2)
    base = replay(None, [first, adds])
    return [
        Bar(
            f"replay {count:,} adds, {count // 10:,} removes",
            best_of(3, lambda: replay(None, [first, adds, removes])),
            None,
            "s",
        ),
        Bar(f"state of {count:,} + {count // 10:,} removes", best_of(3, lambda: replay(base, [removes])), None, "s"),
        Bar(f"set hash of {count:,} files", best_of(3, lambda: set_hash(adds.adds)), None, "s"),
    ]


def _delta_log(folder: Path, count: int) -> Path:
    path = folder / "_delta_log" / f"{0:020d}.json"
    path.parent.mkdir(parents=True)
    head = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": str(uuid.UUID(int=1)),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": SCHEMA,
                "partitionColumns": ["date"],
                "configuration": {},
                "createdTime": 1,
            }
        },
    ]
    with path.open("wb") as out:
        out.writelines(json.dumps(line).encode() + b"\n" for line in head)
        out.writelines(_line(i) for i in range(count))
    return path


def _line(number: int) -> bytes:
    name = uuid.UUID(int=random.Random(number).getrandbits(128))
    date = f"2024-01-{number % 28 + 1:02d}"
    stats = {
        "numRecords": 1000,
        "minValues": {"id": number * 1000, "host": "host-001"},
        "maxValues": {"id": number * 1000 + 999, "host": "host-199"},
        "nullCount": {"id": 0, "host": 3},
    }
    add = {
        "path": f"date={date}/splits/split-{name}.split",
        "partitionValues": {"date": date},
        "size": 1_000_000 + number,
        "modificationTime": 1_700_000_000_000 + number,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }
    return json.dumps({"add": add}, separators=(",", ":")).encode() + b"\n"
