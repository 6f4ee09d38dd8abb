"""Says of a file that cannot be read where and why."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from indextables.cli.input.aside import BadRecords
from indextables.cli.input.json_lines import BadMap, NullLine
from indextables.cli.input.reasons import reason_of
from indextables.cli.input.whole_numbers import InexactNumber
from indextables.errors import InvalidArgument, SchemaMismatch

__all__ = ["UNREADABLE", "Fault", "unreadable", "why_bad"]

UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError, NullLine, InexactNumber, BadMap)
"""What readers raise for bytes that are not what their format says."""
_OF_A_LINE = (pa.ArrowInvalid, UnicodeDecodeError, NullLine, InexactNumber, BadMap)
Fault = tuple[int, str | None, Exception]
"""The row, its column if it is known, and what is wrong with it."""


def unreadable(
    name: str, cause: Exception, rows_before: int = 0, fault: Callable[[], Fault | None] = lambda: None
) -> InvalidArgument:
    """The error for a file that cannot be read. `fault` finds the row, which the cause often does not name."""
    # Arrow counts values, of which a line may hold more than one.
    found = fault() if isinstance(cause, _OF_A_LINE) else None
    if found is None:
        return InvalidArgument(f"{name}: {reason_of(cause, rows_before)}", path=name)
    row, column, reason = found
    where = {"row": row} if column is None else {"row": row, "column": column}
    return InvalidArgument(f"{name}: {reason_of(reason, row=row, column=column)}", path=name, **where)


def why_bad(cause: Exception, name: str) -> str | None:
    """What is wrong with the one record that could not be read, in words; None if it is not the record's fault."""
    if isinstance(cause, SchemaMismatch):
        text = str(cause).removeprefix(f"{name}: ")
        return text.split(": ", 1)[1] if text.startswith("row ") else text
    if isinstance(cause, BadRecords):
        return str(cause)
    if isinstance(cause, InvalidArgument):
        return str(cause).removeprefix(f"{name}: ")
    if isinstance(cause, _OF_A_LINE):
        return re.sub(r"^row [0-9,]+ has", "it has", reason_of(cause).removesuffix(", in row 1"))
    return None
