"""Tables for the tests of the split layer: every type Spark has, with the values that go wrong."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

SHA = "a" * 64
LONG = "b" * 300

EVERY_TYPE = pa.schema(
    [
        ("text", pa.string()),
        ("name", pa.string()),
        ("addr", pa.string()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("at_ntz", pa.timestamp("us")),
        ("price", pa.decimal128(20, 4)),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("numbers", pa.list_(pa.int64())),
        ("person", pa.struct([("name", pa.string()), ("age", pa.int32()), ("blob", pa.binary())])),
        ("props", pa.map_(pa.string(), pa.string())),
        ("counts", pa.map_(pa.int32(), pa.float64())),
        ("people", pa.list_(pa.struct([("name", pa.string()), ("born", pa.date32())]))),
        ("matrix", pa.list_(pa.list_(pa.int32()))),
        ("large", pa.large_string()),
        ("nothing", pa.null()),
    ]
)

OPTIONS = {
    "indexing.typemap.text": "text",
    "indexing.typemap.addr": "ip",
    "indexing.fastfields": "name",
}


def every_type() -> pa.Table:
    """Rows with nulls everywhere, empty values, extremes, NaN, both zeros and long tokens."""
    day, stamp = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=dt.UTC)
    full = {
        "text": f"Hello World {SHA} {LONG}",
        "name": "alice",
        "addr": "10.0.0.1",
        "i8": -128,
        "i16": 32767,
        "i32": -(2**31),
        "i64": 2**63 - 1,
        "f32": 1.5,
        "f64": float("nan"),
        "flag": True,
        "day": day,
        "at": stamp,
        "at_ntz": stamp.replace(tzinfo=None),
        "price": Decimal("12345678901234.5678"),
        "raw": b"\x00\xff",
        "tags": ["a", None, "", "b"],
        "numbers": [1, None, -5],
        "person": {"name": "Bob", "age": None, "blob": b"x"},
        "props": [("k", "v"), ("n", None)],
        "counts": [(1, 0.5), (2, float("inf"))],
        "people": [{"name": "Eve", "born": day}, None, {"name": None, "born": None}],
        "matrix": [[1, 2], None, []],
        "large": "large one",
        "nothing": None,
    }
    zeros = full | {
        "text": "",
        "name": "",
        "addr": "fe80::1",
        "f64": -0.0,
        "f32": 0.0,
        "i64": -(2**63),
        "tags": [],
        "numbers": [],
        "person": {"name": "", "age": 0, "blob": None},
        "props": [],
        "counts": [],
        "people": [],
        "matrix": [],
        "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        "at_ntz": dt.datetime.max.replace(tzinfo=dt.UTC).replace(tzinfo=None),
        "day": dt.date(1, 1, 1),
    }
    strange = full | {
        "text": "naïve Straße 東京 \u2028 \x00 \n",
        "addr": "not an address",
        "f64": float("-inf"),
        "raw": b"",
        "name": "x" * 70_000,
    }
    empty = dict.fromkeys(full)
    return pa.Table.from_pylist([full, empty, zeros, strange, empty, full], schema=EVERY_TYPE)


def lines(count: int, start: int = 0) -> pa.Table:
    """Small log lines, all different."""
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "level": pa.array([("INFO", "WARN", "ERROR")[i % 3] for i in numbers]),
            "message": pa.array([f"request {i} took {i % 97} ms on host{i % 7}" for i in numbers]),
            "tags": pa.array([[f"t{i % 5}"] * (i % 4) for i in numbers], pa.list_(pa.string())),
        }
    )
