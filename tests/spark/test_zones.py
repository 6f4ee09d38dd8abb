"""Which instant a time without a zone means to Spark, and what its zones are called elsewhere."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

from indextables.errors import InvalidArgument
from indextables.spark.session.zones import instant_ms, named_zone

MOMENT = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        ("UTC", "UTC"),
        ("Z", "UTC"),
        ("+00:00", "UTC"),
        ("GMT0", "UTC"),
        ("+01:00", "Etc/GMT-1"),
        ("-5", "Etc/GMT+5"),
        ("GMT+1", "Etc/GMT-1"),
        ("UTC-08:00", "Etc/GMT+8"),
        ("+14:00", "Etc/GMT-14"),
        ("PST", "America/Los_Angeles"),
        ("EST", "EST"),
        ("Europe/Berlin", "Europe/Berlin"),
        ("+05:30", "+05:30"),
        ("GMT-3:30", "-03:30"),
        ("+0545", "+05:45"),
        ("-13:00", "-13:00"),
    ],
)
def test_zones_of_spark_by_name(zone, name):
    assert named_zone(zone) == name


@given(some.integers(-12, 14))
def test_an_offset_means_that_offset(hours):
    zone = ZoneInfo(named_zone(f"{hours:+03d}:00"))
    assert zone.utcoffset(MOMENT.replace(tzinfo=None)) == dt.timedelta(hours=hours)


def test_instants():
    noon = 1_782_907_200_000
    assert instant_ms(MOMENT, None) == noon
    assert instant_ms(noon, None) == noon
    assert instant_ms("2026-07-01T12:00:00Z", "Asia/Tokyo") == noon
    assert instant_ms("2026-07-01 14:00:00", "Europe/Berlin") == noon
    # As Spark hands instants to Python.
    assert instant_ms(dt.datetime.fromtimestamp(noon / 1000), "Asia/Tokyo") == noon  # noqa: DTZ006


@pytest.mark.parametrize("when", ["", "tomorrow", "2026-07-01 12:00:00", None, 1.5, True])
def test_what_is_no_instant_is_told(when):
    with pytest.raises(InvalidArgument):
        instant_ms(when, None)
