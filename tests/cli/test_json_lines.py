"""Lines that would end the process inside Arrow do not get there."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.cli.input.json_lines import NullLine, check_objects, count_rows

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


def is_utf8(text, *, ended):
    """Whether it is a text; of one that has not ended the last letter may not be complete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text, final=ended)
    except UnicodeDecodeError:
        return False
    return True


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.booleans())
def test_a_line_that_begins_with_null_is_refused(text, ended):
    begins = any(line.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r").startswith(b"null") for line in text.split(b"\n"))
    if not is_utf8(text, ended=ended):
        with pytest.raises(UnicodeDecodeError):
            check_objects(text, ended=ended)
    elif begins:
        with pytest.raises(NullLine):
            check_objects(text, ended=ended)
    else:
        check_objects(text, ended=ended)


@given(st.lists(st.sampled_from([*PIECES, b"\x0b", b"\r\n", b"\n\n"]), max_size=12).map(b"".join))
def test_lines_are_counted_but_for_blank_ones(text):
    assert count_rows(text) == sum(1 for line in text.split(b"\n") if line.strip())
