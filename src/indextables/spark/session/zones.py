"""Which instant does a time mean that names no zone? In Spark: one in the zone of the session.

Spark takes offsets and old abbreviations for zones, the rest of this package takes names. An instant that Python gets
from Spark is a `datetime` without a zone that shows the clock of the Python process.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

from indextables.errors import InvalidArgument
from indextables.query.convert import zone_info
from indextables.table.arguments import millis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["instant_ms", "named_zone", "session_zone"]

_SESSION_ZONE = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?00)?)?\Z")
_UTC = frozenset({"Z", "UT", "UTC", "GMT", "GMT0"})
_EAST, _WEST = 14, 12
"""Whole hours that have a name of their own."""

# As Java has them (`ZoneId.SHORT_IDS`), where Python has none of that name.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}


def session_zone(spark: SparkSession) -> str | None:
    """The zone of the session by name, where it has one; None if the session tells none."""
    zone: str | None = spark.conf.get(_SESSION_ZONE, None)
    return named_zone(zone) if zone else None


def named_zone(zone: str) -> str:
    """The name of a zone as Spark spells it; an offset as +05:30 if there is none; what is no zone, as it is."""
    if zone in _UTC:
        return "UTC"
    found = _OFFSET.match(zone)
    if found is None:
        return _SHORT.get(zone, zone)
    hours, minutes = int(found[2]), int(found[3] or 0)
    if minutes or hours > (_EAST if found[1] == "+" else _WEST):
        return f"{found[1]}{hours:02}:{minutes:02}"
    # Names of this family count to the west.
    return f"Etc/GMT{'-' if found[1] == '+' else '+'}{hours}" if hours else "UTC"


def instant_ms(when: dt.datetime | str | int, zone: str | None) -> int:
    """Milliseconds since the epoch. A text without a zone is in `zone`, a datetime in that of this process.

    Raises InvalidArgument for what is not a time, and for a text without a zone if `zone` is None.
    """
    if isinstance(when, dt.datetime) and when.tzinfo is None:
        return millis(when.astimezone())
    if isinstance(when, str):
        try:
            read = dt.datetime.fromisoformat(when)
        except ValueError as cause:
            raise InvalidArgument(f"{when!r} is not a time; give 2024-01-31T23:59:59Z") from cause
        if read.tzinfo is None and zone is None:
            message = (
                f"{when!r} names no zone, and a worker of Spark does not see that of the session: write "
                "2024-01-31T23:59:59Z or 2024-01-31T23:59:59+01:00, or give the option timeZone"
            )
            raise InvalidArgument(message)
        return millis(read if read.tzinfo is not None else read.replace(tzinfo=zone_info(zone or "UTC")))
    return millis(when)
