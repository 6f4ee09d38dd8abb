"""Lines on their way to Arrow's JSON reader, which must not see some of them.

A block of JSON lines that begins with `null` ends the process inside Arrow. Blocks begin with a line, so that a line
which begins with it is refused before it gets there.
"""

from __future__ import annotations

import io
import re
from typing import Any

__all__ = ["NullLine", "ObjectLines"]

_NULL_LINE = re.compile(rb"\n(?:\xef\xbb\xbf)?[ \t\r]*null")
_BEGINNING = re.compile(rb"\n(?:\xef(?:\xbb\xbf?)?)?[ \t\r]*(?:nu?l?)?")


class NullLine(ValueError):
    """A line is `null`, or begins with it."""

    def __init__(self) -> None:
        super().__init__("a line is null where one JSON object belongs")


class ObjectLines(io.RawIOBase):
    """The bytes of a stream; NullLine is raised instead of the part in which such a line is seen."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._line = b"\n"
        """The last line so far, if it may yet begin with null."""

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, all by default. Raises NullLine, and what the stream raises."""
        data = bytes(self._stream.read(size))
        seen = self._line + data
        if _NULL_LINE.search(seen):
            raise NullLine
        last = seen[seen.rfind(b"\n") :] if b"\n" in data or self._line else b""
        # Spaces say nothing, and there may be any number of them.
        self._line = b"\n" + last.strip() if _BEGINNING.fullmatch(last) else b""
        return data
