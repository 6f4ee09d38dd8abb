"""Which time zone does a name mean? Names such as Europe/Berlin and offsets such as +05:30."""

from __future__ import annotations

import datetime as dt
import re

__all__ = ["ahead_of_utc", "zone_info"]

_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-8]):([0-5][0-9])")


def zone_info(name: str) -> dt.tzinfo:
    """The time zone. Raises ValueError for a name that this machine does not know."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    ahead = ahead_of_utc(name)
    if ahead is not None:
        return dt.timezone(ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as cause:
        raise ValueError(f"time zone {name!r} is not known") from cause


def ahead_of_utc(name: str) -> dt.timedelta | None:
    """How far an offset is ahead of UTC; None for a name."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return None
    ahead = dt.timedelta(hours=int(found[2]), minutes=int(found[3]))
    return -ahead if found[1] == "-" else ahead
