"""Says where DataFusion would take a minimum or maximum over NaN and lose numbers. Pure.

With GROUP BY its `min` and `max` forget what they had when they meet NaN. Which columns hold NaN is known only when
they are read: the plan tells which ones matter, and reading refuses the first NaN in one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import NotSupported

__all__ = ["check_ends", "columns_with_ends"]

_GROUPED = re.compile(r"Aggregate: groupBy=\[\[(?!\]\])")
_SAFE = r" FILTER \(WHERE (?:__common_expr_\d+ AS )?NOT isnan\("
_ENDS = re.compile(rf"\b(?:min|max)\((?:DISTINCT )?(?:(?P<column>[^()]*)\))?(?P<safe>{_SAFE})?")
_WITHOUT_NAN = re.compile(r"Filter: .*\bNOT isnan\(")


def columns_with_ends(plan: str, schemas: Iterable[pa.Schema]) -> frozenset[str]:
    """The names, in lower case, of floating-point columns that `plan`, as shown, takes grouped ends of.

    All of them where it takes ends of something that is no column of a table. None where a filter leaves NaN out.
    """
    fields = [field for schema in schemas for field in schema]
    floats = frozenset(field.name.lower() for field in fields if pa.types.is_floating(field.type))
    others = frozenset(field.name.lower() for field in fields) - floats
    if not floats or _WITHOUT_NAN.search(plan):
        return frozenset()
    found: set[str] = set()
    for line in plan.splitlines():
        for end in _ENDS.finditer(line) if _GROUPED.search(line) else ():
            name = (end["column"] or "").rpartition(".")[2].strip('"').lower()
            if not end["safe"] and name not in others:
                found |= {name} if name in floats else floats
    return frozenset(found)


def check_ends(name: str, values: pa.Array) -> None:
    """Raises NotSupported if a column that grouped ends are taken of holds NaN."""
    if pc.any(pc.is_nan(values)).as_py():
        message = (
            f"{name} holds NaN, over which min and max with GROUP BY are not offered: write "
            f"min({name}) FILTER (WHERE NOT isnan({name})), or leave NaN out with WHERE NOT isnan({name})"
        )
        raise NotSupported(message, column=name)
