"""How far a long verb is, as people see it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.options import Options
from indextables.table.progress import NotebookBar, TerminalBar, progress_of, shown_as
from indextables.table.running import Step


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_a_line_tells_rows_bytes_splits_and_speed():
    line = shown_as(Step("merge splits", 5, 10, rows=1_234_567, bytes=3 << 20, files=12), 2.0, cells=4)
    assert line == "merge splits  ██░░  5/10  1.23 M rows  3 MB  12 splits  617 k rows/s, 1.5 MB/s"
    assert shown_as(Step("list", 3), 0.0) == "list  3"
    assert shown_as(Step("x", 1, 1, files=1, bytes=500), 0.0, cells=2, marks="#.") == "x  ##  1/1  500 B  1 split"


@given(st.builds(Step, st.just("w"), st.integers(0, 2**62), st.none() | st.integers(0, 2**62), st.integers(0, 2**62)))
def test_every_step_can_be_shown(step):
    assert "\n" not in shown_as(step, 1.0)


def test_a_terminal_shows_one_line_per_phase_and_nothing_for_what_ends_at_once():
    clock, screen = Clock(), Terminal()
    bar = TerminalBar(screen, clock.monotonic)
    bar(Step("quick", 0, 1))
    bar(Step("quick", 1, 1))
    assert screen.getvalue() == ""
    for done in range(4):
        bar(Step("merge", done, 3, rows=done))
        clock.now += 1
    bar(Step("log", 0, 2))
    clock.now += 1
    bar(Step("log", 1, 2))
    bar(Step("log", 2, 2))
    text = screen.getvalue()
    assert text.count("\n") == 2
    assert [part.split("  ")[2].strip() for part in text.split("\r\x1b[K")[1:]] == ["1/3", "2/3", "3/3", "1/2", "2/2"]


def test_a_phase_that_does_not_end_leaves_its_line():
    clock, screen = Clock(), Terminal()
    bar = TerminalBar(screen, clock.monotonic)
    bar(Step("a", 0))
    clock.now = 1
    bar(Step("a", 5))
    bar(Step("b", 0))
    assert screen.getvalue() == "\r\x1b[Ka  5\n"


def test_a_notebook_replaces_what_it_shows():
    clock, shown = Clock(), []

    class Handle:
        def update(self, data, raw):
            shown.append(("update", data["text/html"]))

    def display(data, raw, display_id):
        shown.append(("new", data["text/html"]))
        return Handle()

    bar = NotebookBar(display, clock.monotonic)
    for done in range(3):
        bar(Step("<merge>", done, 2))
        clock.now += 1
    assert [kind for kind, _ in shown] == ["new", "update"]
    assert shown[0][1].startswith("<code>&lt;merge&gt;")


@pytest.mark.parametrize(
    ("wanted", "stream", "expected"),
    [
        ("auto", Terminal(), TerminalBar),
        ("auto", io.StringIO(), type(None)),
        ("always", io.StringIO(), TerminalBar),
        ("never", Terminal(), type(None)),
    ],
)
def test_bars_are_shown_where_somebody_looks(wanted, stream, expected):
    assert type(progress_of(Options({"progress": wanted}, environ={}), Clock(), stream)) is expected
