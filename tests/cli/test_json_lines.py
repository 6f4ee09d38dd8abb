"""Lines that would end the process inside Arrow do not get there."""

import codecs
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.cli.input.json_lines import NullLine, ObjectLines

PIECES = [
    b"null",
    b"nul",
    b"n",
    b"\n",
    b" ",
    b"\t",
    b"\r",
    b"{}",
    b'{"a":null}',
    b"\xef\xbb\xbf",
    b"\xef",
    b"xnull",
    b",",
]


class Parts(io.RawIOBase):
    """A stream that gives its bytes in parts of its own sizes, as a pipe does."""

    def __init__(self, parts):
        super().__init__()
        self._parts = list(parts)

    def read(self, _size=-1):
        return self._parts.pop(0) if self._parts else b""


def is_utf8(text):
    """Whether it begins a text, of which the last letter may not be complete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return False
    return True


@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map(b"".join), max_size=6))
def test_a_line_that_begins_with_null_is_refused_however_it_comes(parts):
    lines = ObjectLines(Parts(parts))
    text = b"".join(parts)
    begins = any(line.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r").startswith(b"null") for line in text.split(b"\n"))
    if not is_utf8(text):
        with pytest.raises((NullLine, UnicodeDecodeError)):
            [lines.read(10) for _ in parts]
    elif begins:
        with pytest.raises(NullLine):
            [lines.read(10) for _ in parts]
    else:
        assert b"".join(lines.read(10) for _ in parts) == text
