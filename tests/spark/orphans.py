"""A table with files that nobody refers to."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

import indextables

ROWS = pa.table({"id": list(range(6)), "m": ["alpha beta"] * 6, "p": ["a", "b"] * 3})


def with_orphans(path: Path, count: int) -> indextables.Table:
    """A table with rows, and data files a month old that no version names."""
    table = indextables.create(path, ROWS.schema, indexing={"m": "text"})
    table.append(ROWS)
    old = time.time() - 30 * 86_400
    for number in range(count):
        orphan = path / "splits" / f"split-{number:032x}.split"
        orphan.touch()
        os.utime(orphan, (old, old))
    return table
