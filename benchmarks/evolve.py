"""What do changes of a table and its rules cost? ALTER on many files, a constraint on a write, a rename on a scan.

The peer of each is ours without it: fewer files, no constraint, no rename. Only the many files are made from inside:
rows of a million files would take a day to write, and ALTER opens none of them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import indextables
from benchmarks.harness import Bar, cpu_of
from benchmarks.state import environment, make_files, write_ours

_FILES = {"small": 50_000, "full": 1_000_000, "soak": 1_000_000}
_ROWS = {"small": 50_000, "full": 200_000, "soak": 2_000_000}
_TURNS = 9


def run(scale: str) -> list[Bar]:
    folder = Path(tempfile.mkdtemp(prefix="evolve-bench-"))
    try:
        return [*_alters(folder, _FILES[scale]), *_constraint(folder, _ROWS[scale]), *_rename(folder, _ROWS[scale])]
    finally:
        shutil.rmtree(folder)


def _alters(folder: Path, many: int) -> list[Bar]:
    few = 1_000
    tables = {count: _with_files(folder / f"files{count}", count) for count in (few, many)}
    bars = []
    verbs: dict[str, Callable[[indextables.Table, int], object]] = {
        "ADD COLUMNS": lambda table, turn: table.add_columns(f"c{turn} int"),
        "RENAME COLUMN": lambda table, turn: table.rename_column("id" if turn == 0 else f"id{turn - 1}", f"id{turn}"),
        "SET TBLPROPERTIES": lambda table, turn: table.set_properties({"team": f"{turn}"}),
    }
    for name, verb in verbs.items():
        spent: dict[int, list[float]] = {few: [], many: []}
        for turn in range(_TURNS):
            for count, table in tables.items():
                spent[count].append(cpu_of(lambda t=table, n=turn, v=verb: v(t, n)) * 1_000)
        ours, peer = median(spent[many]), median(spent[few])
        bars.append(Bar(f"{name} on {many:,} files, CPU", ours, peer, "ms", 1.2, peer_name=f"on {few:,}"))
    return bars


def _with_files(place: Path, count: int) -> indextables.Table:
    write_ours(environment(place), make_files(count))
    return indextables.open(place, options={"checkpoint.interval": 1_000_000})


def _constraint(folder: Path, count: int) -> list[Bar]:
    rows = _rows(count)
    plain = indextables.create(folder / "plain", rows.schema, indexing={"message": "text"})
    ruled = indextables.create(
        folder / "ruled",
        rows.schema,
        indexing={"message": "text"},
        constraints={"sane": "amount >= 0 AND amount < 1e9 AND message IS NOT NULL"},
    )
    ours, peer = _in_turns(lambda: ruled.append(rows), lambda: plain.append(rows))
    claim = f"an append of {count:,} rows with a CHECK constraint, CPU"
    return [Bar(claim, ours, peer, "ms", 1.03, peer_name="without it")]


def _rename(folder: Path, count: int) -> list[Bar]:
    rows = _rows(count)
    tables = [indextables.create(folder / name, rows.schema) for name in ("renamed", "as it was")]
    for table in tables:
        table.append(rows)
    tables[0].rename_column("message", "words")
    tables[0].rename_column("amount", "size")
    found = [indextables.open(table.url) for table in tables]
    ours, peer = _in_turns(found[0].to_arrow, found[1].to_arrow)
    claim = f"a scan of {count:,} rows with two renamed columns, CPU"
    return [Bar(claim, ours, peer, "ms", 1.02, peer_name="without")]


def _in_turns(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """The least milliseconds of CPU of each, which take turns; the first of both counts for nothing."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(_TURNS + 1):
        for call, times in zip((one, other), spent, strict=True):
            times.append(cpu_of(call) * 1_000)
    return min(spent[0][1:]), min(spent[1][1:])


def _rows(count: int) -> pa.Table:
    dice = np.random.default_rng(7)
    words = np.array(["timeout", "refused", "slow", "retried", "done", "disk", "full", "all", "is", "fine"])
    texts = [" ".join(words[dice.integers(0, 10, 8)]) for _ in range(1_000)]
    return pa.table(
        {
            "id": np.arange(count),
            "amount": dice.random(count) * 1_000,
            "message": [texts[place] for place in dice.integers(0, 1_000, count)],
        }
    )
