"""Says whether DataFusion's simplifier could merge two IN lists wrongly. Pure.

Its rule `simplify_expressions` makes one list of two over the same expression: of what is in both, or in one only. It
compares items as they are written and takes an empty list for false, so nulls, columns and unknown values are lost.
Without that rule the answer is right, and only constants and casts reach the tables' own filters less often. Whether a
merge can happen is judged from the plan that DataFusion makes without the rule, in which every filter stands where it
would meet the others. Whatever cannot be told counts as a merge.
"""

from __future__ import annotations

import re
from collections import Counter

from indextables.sql.command import QUOTED

__all__ = ["SIMPLIFIER", "has_lists", "may_merge"]

SIMPLIFIER = "simplify_expressions"

_MAKERS = re.compile(r"\b(?:IN|ANY|SOME|ALL)\s*\(|\bOR\b|\b(?:array|list)_|~|\b(?:regexp_|I?LIKE\b)", re.IGNORECASE)
_SHOWN_TEXT = re.compile(r"Utf8(?:View)?\(\"[^\"]*\"\)")
_SHOWN_ZONE = re.compile(r"\b(?:Some\(|Timestamp\(\w+, )\"[^\"]*\"\)")
_NAME = r"(?P<name>[^\s(]*)"
_LITERAL = r"(?:CAST\(\w+\([^()]*\) AS \w+\)|\w+\([^()]*\))"
_LIST = re.compile(rf"{_NAME} (?:NOT )?IN \(\[(?P<items>.*?)\]\)")
_PLAIN_ITEMS = re.compile(rf"{_LITERAL}(?:, {_LITERAL})*")
_CHAIN = re.compile(rf"{_NAME} = {_LITERAL}(?: OR (?P=name) = {_LITERAL})+")
_ONE = re.compile(r"(?P<left>[^\s(]*) (?:=|I?LIKE|~\*?|IS NOT DISTINCT FROM) (?:\w+\([^()]*\) = )?(?P<right>[^\s(),]*)")
_REGULAR = re.compile(rf"{_NAME} !?~\*? |regexp_like\((?P<first>[^\s(),]*)")
_NO_CHAIN = re.compile(r" OR |\bCASE\b|\]\)(?! AND |$)|\bNOT (?!IN \(\[|I?LIKE |NULL\b)|!?~")
_ARRAY = re.compile(r"\b(?:array|list)_\w+\(|\bANY\(|\bALL\(")


def has_lists(text: str) -> bool:
    """False if a statement surely has no two conditions that could become lists of values."""
    return len(_MAKERS.findall(QUOTED.sub("", text))) > 1


def may_merge(plan: str) -> bool:
    """Whether lists could be merged wrongly in `plan`, as DataFusion shows it, optimized without its simplifier."""
    shown = _SHOWN_ZONE.sub("zoned", _SHOWN_TEXT.sub("Utf8(_)", plan))
    if '"' in shown:
        return True
    total, strange = 0, False
    for line in shown.splitlines():
        lists, is_strange = _lists(line)
        arrays = len(_ARRAY.findall(line))
        meets = max(lists.values(), default=0) > 1 and not _is_chain(line)
        if meets or (arrays and arrays + lists.total() > 1):
            return True
        total += lists.total()
        strange = strange or is_strange
    return strange and total > 1


def _is_chain(line: str) -> bool:
    """Whether a line is conditions joined by AND alone: there false and unknown are one, and constants merge right."""
    return line.strip().startswith("Filter: ") and _NO_CHAIN.search(line.rstrip()) is None


def _lists(line: str) -> tuple[Counter[str], bool]:
    """How many lists each expression is compared with, by its last word, and whether one holds more than constants."""
    line = _CHAIN.sub(lambda found: f"{found['name']} IN ([Int64(0)])", line)
    lists: Counter[str] = Counter()
    strange = False
    for found in _LIST.finditer(line):
        lists[found["name"]] += 1
        items = found["items"]
        strange = strange or "NULL" in items or _PLAIN_ITEMS.fullmatch(items) is None
    line = _LIST.sub("", line)
    lists.update(found["name"] or found["first"] or "" for found in _REGULAR.finditer(line))
    if " OR " in line or lists:
        single = {side for found in _ONE.finditer(line) for side in (found["left"], found["right"])}
        lists.update(name for name in single if name in lists)
    return lists, strange
