"""One small split per format version, kept as text. They are never written again: every later reader must read them.

`python -m tests.golden.split NAME` writes a new one, for a new format version only; `--ids` gives its columns ids.
"""

from __future__ import annotations

import base64
import datetime as dt
import textwrap
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

FOLDER = Path(__file__).parent

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("message", pa.string()),
        ("host", pa.string()),
        ("addr", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("attrs", pa.struct([("user", pa.string()), ("n", pa.int32())])),
        ("props", pa.map_(pa.string(), pa.int64())),
    ]
)

OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.addr": "ip",
    "indexing.fastfields": "host",
}


def rows() -> pa.Table:
    """What the golden splits hold."""
    noon = dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.UTC)
    return pa.Table.from_pylist(
        [
            {
                "id": 1, "message": "Timeout while reading the database", "host": "web-1", "addr": "10.0.0.1",
                "at": noon, "day": noon.date(), "ok": True, "ratio": 0.5, "price": Decimal("9.99"), "raw": b"\x00\xff",
                "tags": ["a", "b"], "attrs": {"user": "alice", "n": 7}, "props": [("k", 1)],
            },
            {"id": 2},
            {
                "id": -3, "message": "", "host": "", "addr": "::1", "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
                "day": dt.date(1969, 12, 31), "ok": False, "ratio": float("-inf"), "price": Decimal("-0.01"),
                "raw": b"", "tags": [], "attrs": {"user": None, "n": -1}, "props": [],
            },
            {"id": 4, "message": "naïve Straße 東京", "host": "web-2", "tags": ["a", None]},
        ],
        schema=SCHEMA,
    )  # fmt: skip


def read(name: str) -> bytes:
    """The bytes of a golden file."""
    return base64.b64decode((FOLDER / name).read_text())


def keep(name: str, data: bytes) -> None:
    """Write a golden file."""
    (FOLDER / name).write_text("\n".join(textwrap.wrap(base64.b64encode(data).decode(), 120)) + "\n")
