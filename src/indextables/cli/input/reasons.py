"""Explains complaints of Arrow's file readers to whoever has the file. Pure."""

from __future__ import annotations

import re

__all__ = ["NOT_UTF8", "reason_of"]

NOT_UTF8 = "not UTF-8; convert the file first (from Latin-1: `iconv -f LATIN1 -t UTF-8 FILE`)"

_ROW = re.compile(r"\.? in row (\d+)$")
_CHANGED = re.compile(r"JSON parse error: Column\((?P<path>[^)]*)\) changed from (?P<was>[\w/]+) to (?P<now>[\w/]+)")
_TWICE = re.compile(r"JSON parse error: Column\(/?(?P<path>[^)]*)\) was specified twice")
_WIDTH = re.compile(
    r"CSV parse error: (?:Row #(?P<row>\d+): )?Expected (?P<want>\d+) columns, got (?P<got>\d+): (?P<line>.*)$"
)
_NO_VALUE = re.compile(r"Failed to convert JSON to (?P<kind>.+), couldn't parse: ?(?P<value>.*)$")
_SCALE = re.compile(r"Failed to convert JSON to (?P<kind>decimal\w*\(.+\)): (?P<value>\S+) requires (?P<needs>.+)$")
_EXCERPT = 60
_NEW_FIELD = (
    "a line has a field that the table (or the start of the file) does not have; --merge-schema adds columns, "
    "of a pipe those of its first 16 MiB"
)
_NO_OBJECT = "what should be a line with one JSON object is {now}; `jq -c '.[]'` makes lines of an array"


def reason_of(cause: Exception, rows_before: int = 0, row: int | None = None, column: str | None = None) -> str:
    """One sentence. `rows_before` are the rows that were read before the block that the cause speaks of.

    Where `row`, and perhaps `column`, are known they are told, unless the cause tells them itself.
    """
    text = " ".join(str(cause).split())
    detail = re.search(r"Detail: \[errno \d+\] (.+)$", text)
    if detail:
        return detail[1]
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    told = _ROW.search(text)
    if isinstance(cause, UnicodeDecodeError):
        text = f"the text {cause.object[:_EXCERPT]!r} is {NOT_UTF8}"
    text = _meaning(_ROW.sub("", text))
    if column is not None and not text.startswith("column "):
        text = f"column {column}: {text}"
    if row is None and told:
        row = rows_before + int(told[1]) + 1
    if f"in row {row:,}" in text if row else "in row " in text:
        return text
    return f"{text}, in row {row:,}" if row else f"{text}, after row {rows_before:,}" if rows_before else text


def _meaning(text: str) -> str:
    if "unexpected field" in text:
        return _NEW_FIELD
    if found := _CHANGED.search(text):
        if not found["path"]:
            return _NO_OBJECT.format(now=f"{_article(found['now'])} {found['now']}")
        path = _dotted(found["path"])
        return f"{path} is {found['was']} in the table (or further up in the file), here it is {found['now']}"
    if found := _TWICE.search(text):
        return f"an object has {_dotted(found['path'])!r} twice"
    if found := _NO_VALUE.search(text):
        return f"{found['value'][:_EXCERPT]!r} is not of type {found['kind']}"
    if found := _SCALE.search(text):
        return f"{found['value'][:_EXCERPT]!r} is not of type {found['kind']}: it needs {found['needs']}"
    if found := _WIDTH.search(text):
        # Arrow counts the header.
        row = f"row {int(found['row']) - 1:,}" if found["row"] else "a row"
        return f"{row} has {found['got']} columns, the header {found['want']}: {_excerpt(found['line'])}"
    return text


def _dotted(path: str) -> str:
    return path.strip("/").replace("/", ".").replace(".[]", "[]")


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= _EXCERPT else text[:_EXCERPT] + "...")
