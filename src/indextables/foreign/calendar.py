"""Finds dates and instants that a file counts in another calendar than ours. Pure.

Spark before 3.0, and later releases that were told to, write days before October 1582 in the Julian calendar, and
instants before 1900 by local times of those days. Which day such a number means depends on more than the file says.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from indextables.errors import NotSupported
from indextables.lazy import pc

__all__ = ["check_calendar", "is_old_calendar"]

_VERSION = b"org.apache.spark.version"
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_FIRST = b"3.0.0"
_FIRST_DAY = -141_427
"""15 October 1582, in days since the epoch."""
_FIRST_MICROS = -2_208_988_800_000_000
"""The year 1900 in UTC, in microseconds since the epoch."""


def is_old_calendar(metadata: Mapping[bytes, bytes] | None) -> bool:
    """True if the footer of a file says that its writer counted old dates in another calendar."""
    told = metadata or {}
    version = told.get(_VERSION)
    return version is not None and (version < _FIRST or any(key in told for key in _LEGACY))


def check_calendar(values: pa.Array, column: str, path: str) -> None:
    """Raises NotSupported if there is a date or an instant, on any level, before the calendars meet."""
    kind = values.type
    if pa.types.is_struct(kind):
        for field, child in zip(kind, values.flatten(), strict=True):
            check_calendar(child, f"{column}.{field.name}", path)
    elif pa.types.is_map(kind):
        check_calendar(values.keys, column, path)
        check_calendar(values.items, column, path)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        check_calendar(values.flatten(), column, path)
    elif pa.types.is_date32(kind):
        _check(values.cast(pa.int32()), _FIRST_DAY, column, path)
    elif pa.types.is_timestamp(kind):
        micros = pc.cast(values, pa.timestamp("us", kind.tz), safe=False)
        _check(micros.cast(pa.int64()), _FIRST_MICROS, column, path)


def _check(numbers: pa.Array, first: int, column: str, path: str) -> None:
    oldest = pc.min(numbers).as_py()
    if oldest is not None and oldest < first:
        message = (
            f"{path} has dates or instants in column {column} that are so old that Spark wrote them in another "
            "calendar: rewrite the file with Spark 3 or later, which knows how to read them"
        )
        raise NotSupported(message, path=path, column=column)
