"""What does a written value mean for a column? Texts of a query as numbers, instants, days, addresses, bytes.

A date or time may be shortened: `2024`, `2024-01`, `2024-01-05`, `2024-01-05T10`, `...T10:30`, `...T10:30:15` each mean
the whole year, month, day, hour, minute or second; with a fraction it is that instant. So every value is a half-open
interval [low, high) of integers, and a range takes the side of it that its bound includes.
"""

from __future__ import annotations

import calendar
import datetime as dt
import ipaddress
import re
from decimal import Decimal, InvalidOperation

from indextables.query.convert import zone_info

Interval = tuple[int, int]

_INT64 = range(-(2**63), 2**63)
_DAY_US = 86_400_000_000
_INSTANT = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:[Tt ](?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?)?"
    r"\s*(?P<zone>[Zz]|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
_LAST = dt.datetime.max  # noqa: DTZ901 - the zone comes later
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_IPV4_MAPPED = 0xFFFF << 32


def read_int(text: str) -> Interval:
    """A whole number of 64 bits. Raises ValueError."""
    if not re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) or int(text) not in _INT64:
        raise ValueError("a whole number of 64 bits")
    return int(text), int(text) + 1


def read_float(text: str) -> float:
    """A number, `inf`, `-inf` or `nan`. Raises ValueError."""
    if len(text) > 400 or "_" in text:
        raise ValueError("a number")
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def read_decimal(text: str) -> Decimal:
    """A decimal number of at most 76 digits. Raises ValueError."""
    try:
        value = Decimal(text) if len(text) <= 100 and "_" not in text else None
    except InvalidOperation:
        value = None
    if value is None or not value.is_finite() or len(value.as_tuple().digits) > 76 or abs(value.adjusted()) > 76:
        raise ValueError("a decimal number of at most 76 digits")
    return value


def read_bool(text: str) -> bool:
    """`true` or `false`, in any case. Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def read_bytes(text: str) -> bytes:
    """Hexadecimal digits, with or without `0x`. Raises ValueError."""
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise ValueError("bytes in hexadecimal digits") from None


def read_instant(text: str, zone: str | None) -> Interval:
    """Microseconds since the epoch. `zone` serves texts that name none; None is for columns without zone.

    Raises ValueError, and InvalidArgument for a zone that is not known.
    """
    found = _INSTANT.fullmatch(text.strip())
    if found is None:
        raise ValueError("a time such as 2024-01-05T10:30:00Z, or the beginning of one")
    try:
        start, end = _edges(found)
        offset = found["zone"]
        if offset and zone is not None:
            tz: dt.tzinfo = _offset(offset)
        else:
            tz = zone_info(zone) if zone else dt.UTC
        low = _micros(start, tz)
        high = _micros(_LAST, tz) + 1 if end is None else _micros(end, tz)
    except (ValueError, OverflowError):
        raise ValueError("a time that exists, such as 2024-01-05T10:30:00Z") from None
    return low, high


def read_days(text: str) -> Interval:
    """Days since the epoch: a day, month or year. Raises ValueError."""
    try:
        low, high = read_instant(text, None)
    except ValueError:
        raise ValueError("a date such as 2024-01-05, or the beginning of one") from None
    if low % _DAY_US or high % _DAY_US:
        raise ValueError("a date such as 2024-01-05 without a time")
    return low // _DAY_US, high // _DAY_US


def read_addresses(text: str) -> Interval:
    """An IP address or a CIDR block, as numbers of IPv6; IPv4 is mapped. Raises ValueError."""
    try:
        block = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError("an IP address or a block such as 10.0.0.0/8") from None
    base = _IPV4_MAPPED if block.version == 4 else 0
    return base + int(block.network_address), base + int(block.broadcast_address) + 1


def address_text(number: int) -> str:
    """The address of a number of `read_addresses`, as Tantivy reads it."""
    return str(ipaddress.IPv6Address(number))


def _edges(found: re.Match[str]) -> tuple[dt.datetime, dt.datetime | None]:
    """The first moment, and the first one after it; None where that is the year 10000, which has no datetime."""
    year, month, day = int(found["year"]), found["month"], found["day"]
    hour, minute, second, fraction = found["hour"], found["minute"], found["second"], found["fraction"]
    start = dt.datetime(year, int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0))  # noqa: DTZ001 - the zone comes later
    if month is None:
        return start, dt.datetime(year + 1, 1, 1) if year < dt.MAXYEAR else None  # noqa: DTZ001
    if day is None:
        return start, _after(start, dt.timedelta(days=calendar.monthrange(year, start.month)[1]))
    if fraction is not None:
        exact = start + dt.timedelta(microseconds=int(fraction.ljust(6, "0")))
        return exact, _after(exact, dt.timedelta(microseconds=1))
    step = "seconds" if second else "minutes" if minute else "hours" if hour else "days"
    return start, _after(start, dt.timedelta(**{step: 1}))


def _after(moment: dt.datetime, step: dt.timedelta) -> dt.datetime | None:
    return moment + step if _LAST - moment >= step else None


def _offset(text: str) -> dt.tzinfo:
    if text in ("Z", "z"):
        return dt.UTC
    digits = text[1:].replace(":", "")
    delta = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return dt.timezone(-delta if text[0] == "-" else delta)


def _micros(moment: dt.datetime, zone: dt.tzinfo) -> int:
    return (moment.replace(tzinfo=zone) - _EPOCH) // dt.timedelta(microseconds=1)
