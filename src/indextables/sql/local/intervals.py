"""Finds hours that a statement adds to dates, where DataFusion drops them: `day + INTERVAL '1 hour'` is `day` to it.

Which side of a sum is a date only DataFusion knows. So the statement is planned once more with durations in place of
such intervals: those it adds to timestamps, and refuses to add to dates. Pure.
"""

from __future__ import annotations

import re

from indextables.errors import NotSupported

__all__ = ["hours_dropped", "with_durations"]

_UNIT = r"(?:years?|yrs?|y|months?|mons?|quarters?|weeks?|w|days?|d)"
_WHOLE_DAYS = re.compile(rf"(?:\s*[+-]?\d+\s*{_UNIT})+\s*\Z", re.IGNORECASE)
_TEXT = r"'[^']*'"
_INTERVAL = (
    rf"(?:INTERVAL\s+{_TEXT}(?:\s+(?:YEAR|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND)S?\b)?"
    rf"|CAST\s*\(\s*{_TEXT}\s+AS\s+INTERVAL\s*\)|{_TEXT}\s*::\s*INTERVAL\b)"
)
_ONE = re.compile(_INTERVAL, re.IGNORECASE)
_SUM = rf"{_INTERVAL}(?:[\s)]*[+-][\s(]*{_INTERVAL})*"
_ADDED = re.compile(rf"(?P<before>[+-][\s(]*)(?P<sum>{_SUM})|(?P<first>{_SUM})(?=[\s)]*\+)", re.IGNORECASE)
_DURATION = "arrow_cast(0, 'Duration(Microsecond)')"
_REFUSED = re.compile(r"Cannot coerce arithmetic expression (?:Date\d+ [+-] Duration|Duration\(.*?\) [+-] Date)")


def with_durations(text: str) -> str | None:
    """`text` with durations in place of the intervals that are added and may have hours; None if it has none."""

    def changed(found: re.Match[str]) -> str:
        intervals = found["sum"] or found["first"]
        if all(_is_whole_days(one.group()) for one in _ONE.finditer(intervals)):
            return found.group()
        return (found["before"] or "") + _ONE.sub(_DURATION, intervals)

    probe = _ADDED.sub(changed, text)
    return None if probe == text else probe


def _is_whole_days(interval: str) -> bool:
    _, written, unit = interval.split("'")
    unit = "" if re.search("interval", unit, re.IGNORECASE) else unit
    return _WHOLE_DAYS.match(f"{written}{unit}") is not None


def hours_dropped(text: str, cause: str) -> NotSupported | None:
    """What to say about `text` if its variant with durations failed because it adds them to a date."""
    if not _REFUSED.search(cause):
        return None
    message = (
        "an interval with hours is added to a date, which would stay a date without them: write CAST(day AS TIMESTAMP) "
        "+ INTERVAL '1 hour'"
    )
    return NotSupported(message, query=text, position=0)
