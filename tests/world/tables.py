"""A table in one line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables

__all__ = ["filled"]


def filled(path: Path | str, batches: Iterable[Any], *, schema: pa.Schema | None = None, **more: Any) -> Any:
    """A table at `path` with one append per batch; `more` goes to `create`. The schema is the first batch's."""
    given = list(batches)
    table = indextables.create(path, given[0] if schema is None else schema, **more)
    for batch in given:
        table.append(batch)
    return table
