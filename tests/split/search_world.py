"""A corpus with every searchable type, written as splits in any layout, and a plain-Python meaning of each query.

The meaning is independent of the library on purpose: texts are cut by a regular expression, values are compared as
Python values, nothing is imported from `indextables.split` but the writer and the searcher.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import itertools
import random
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.ambient import Ambient, SystemAmbient
from indextables.env import Env
from indextables.options import Options
from indextables.split.file import dv
from indextables.split.file.ref import SplitRef
from indextables.split.index.cache import IndexCache
from indextables.split.search.searcher import SearchMemory, SplitSearcher
from indextables.split.write.writer import write_splits
from indextables.storage import Store, open_store

WORDS = ["alpha", "beta", "gamma", "delta", "tim", "time", "timer", "foo", "bar", "baz", "naïve", "x1", "x12", "zoo"]
HOSTS = ["web-1", "web-2", "db 1", "", "ÄÖ", "Web-1"]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("message", pa.string()),
        ("title", pa.string()),
        ("host", pa.string()),
        ("status", pa.int32()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("ip", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("attrs", pa.struct([("user", pa.string()), ("n", pa.int64()), ("deep", pa.struct([("x", pa.float64())]))])),
        ("labels", pa.map_(pa.string(), pa.string())),
        ("blob", pa.binary()),
    ]
)
OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.title": "text",
    "indexing.typemap.ip": "ip",
}
EPOCH = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
Row = dict[str, Any]


def make_rows(count: int, seed: int = 7) -> list[Row]:
    """Deterministic rows with nulls in every column but `id`."""
    chance = random.Random(seed)

    def maybe(value: Any, missing: float = 0.1) -> Any:
        return None if chance.random() < missing else value

    rows = []
    for number in range(count):
        words = [chance.choice(WORDS) for _ in range(chance.randint(0, 14))]
        text = chance.choice([" ", "  ", ", "]).join(w.upper() if chance.random() < 0.1 else w for w in words)
        rows.append(
            {
                "id": number,
                "message": maybe(text),
                "title": maybe(" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 4)))),
                "host": maybe(chance.choice(HOSTS)),
                "status": maybe(chance.choice([-1, 0, 200, 404, 500, 2**31 - 1])),
                "ratio": maybe(chance.choice([0.0, -0.0, 0.25, 1.5, float("nan"), float("inf"), -3.0])),
                "price": maybe(Decimal(chance.randint(-500, 500)) / 100),
                "ok": maybe(chance.random() < 0.5),
                "at": maybe(EPOCH + dt.timedelta(minutes=number * 37, microseconds=chance.choice([0, 1, 999_999]))),
                "day": maybe((EPOCH + dt.timedelta(days=chance.randint(0, 90))).date()),
                "ip": maybe(chance.choice(["10.0.0.1", "10.0.1.2", "192.168.7.9", "2001:db8::1", "::1"])),
                "tags": maybe([chance.choice(["red", "green", "Blue ish"]) for _ in range(chance.randint(0, 3))]),
                "attrs": maybe(
                    {
                        "user": maybe(" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 3)))),
                        "n": maybe(chance.randint(-2, 5)),
                        "deep": maybe({"x": maybe(chance.random())}),
                    }
                ),
                "labels": maybe([(k, chance.choice(WORDS)) for k in ("k1", "k.2") if chance.random() < 0.5]),
                "blob": maybe(bytes([chance.randint(0, 3)])),
            }
        )
    return rows


class World(NamedTuple):
    """Rows as a list, the same rows as splits, and a searcher over them. `deleted` are row ids."""

    rows: list[Row]
    store: Store
    refs: list[SplitRef]
    searcher: SplitSearcher
    deleted: frozenset[int]

    def __repr__(self) -> str:
        return f"World({len(self.rows)} rows, {len(self.refs)} splits)"

    def ids(self, query: str, **more: Any) -> set[int]:
        """The ids of all rows that the library finds."""
        hits = self.searcher.matches(query, **more).hits
        return set(self.searcher.rows(hits, ["id"]).column("id").to_pylist())

    def meant(self, test: Callable[[Row], bool]) -> set[int]:
        """The ids of all rows that should be found."""
        return {row["id"] for row in self.rows if row["id"] not in self.deleted and test(row)}


def build_world(
    folder: Path,
    rows: list[Row],
    pieces: int = 1,
    *,
    deleted: frozenset[int] = frozenset(),
    options: dict[str, str] | None = None,
    schema: pa.Schema = SCHEMA,
) -> World:
    """Write the rows as `pieces` splits and open a searcher on them."""
    # A table of a test need not survive a power loss.
    store = open_store(folder / "table", Options({"storage.fsync": "false"}, environ={}))
    given = Options({**OPTIONS, **(options or {})}, environ={})
    table = pa.Table.from_pylist(rows, schema)
    refs: list[SplitRef] = []
    for start, end in cut(len(rows), pieces):
        written = write_splits(store, [table.slice(start, end - start)], schema, given)
        local = [row - start for row in sorted(deleted) if start <= row < end]
        vector = dv.encode(local) if local else None
        refs += [with_vector(w.ref, vector) for w in written]
    return World(rows, store, refs, open_searcher(store, refs, folder / "cache"), deleted)


def open_searcher(store: Store, refs: Sequence[SplitRef], cache: Path, **more: Any) -> SplitSearcher:
    """`opened` and `states` are what it shares with others, all else is as `SplitSearcher` takes it."""
    env = env_of(store)
    shared = {name: more.pop(name) for name in ("opened", "states") if name in more}
    memory = SearchMemory(IndexCache(cache, 1 << 30, env.ambient, 1 << 24), **shared)
    return SplitSearcher(env, refs, memory=memory, **more)


def env_of(store: Store, ambient: Ambient | None = None, options: Options | None = None) -> Env:
    return Env(store, ambient or SystemAmbient(), options or Options())


def with_vector(ref: SplitRef, vector: bytes | None) -> SplitRef:
    return SplitRef(
        ref.key,
        ref.size,
        ref.num_rows,
        ref.footer_start,
        ref.footer_end,
        ref.index_start,
        ref.range1_length,
        ref.id,
        vector,
    )


def cut(count: int, pieces: int) -> list[tuple[int, int]]:
    """Uneven pieces: the first ones are larger."""
    edges = [round(count * (i / pieces) ** 0.8) for i in range(pieces + 1)]
    return [(a, b) for a, b in itertools.pairwise(edges) if b > a]


def words_of(text: str | None) -> list[str]:
    return [] if text is None else re.findall(r"[^\W_]+", text.lower())


def has_phrase(text: str | None, phrase: list[str], slop: int = 0) -> bool:
    """Two words may be `slop` moves from their order; more words must follow each other."""
    words = words_of(text)
    if slop and len(phrase) == 2:
        first = [i for i, w in enumerate(words) if w == phrase[0]]
        second = [i for i, w in enumerate(words) if w == phrase[1]]
        return any(abs(b - a - 1) <= slop for a in first for b in second)
    return any(words[i : i + len(phrase)] == phrase for i in range(len(words)))


def edits(left: str, right: str) -> int:
    """Optimal string alignment: insert, delete, substitute, swap neighbours."""
    table = {(i, 0): i for i in range(len(left) + 1)} | {(0, j): j for j in range(len(right) + 1)}
    for i in range(1, len(left) + 1):
        for j in range(1, len(right) + 1):
            change = left[i - 1] != right[j - 1]
            best = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + change)
            if i > 1 and j > 1 and left[i - 1] == right[j - 2] and left[i - 2] == right[j - 1]:
                best = min(best, table[i - 2, j - 2] + 1)
            table[i, j] = best
    return table[len(left), len(right)]


def address(text: str | None) -> int | None:
    if text is None:
        return None
    parsed = ipaddress.ip_address(text)
    return int(parsed) + (0xFFFF << 32 if parsed.version == 4 else 0)
