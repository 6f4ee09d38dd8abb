"""Draws cells in columns: with colours where a terminal shows them, as plain lines in a pipe."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

__all__ = ["Spans", "show", "show_tall"]

Spans: TypeAlias = list[tuple[str, str]]
"""The text of one cell in pieces, each with its style."""

_NO_WIDTH = 1_000_000


def show(numeric: Mapping[str, bool], cells: Iterable[Sequence[Spans]]) -> None:
    """Write the rows below the names of their columns; numbers stand to the right."""
    if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        _styled(numeric, cells)
    else:
        _plain(numeric, cells)


def show_tall(names: Sequence[str], cells: Iterable[Sequence[Spans]]) -> None:
    """Write each row as lines, one per column."""
    width = max(map(_width, names), default=0)
    write = _writer()
    for number, row in enumerate(cells, start=1):
        write([(f"-[ row {number:,} ]".ljust(width + 2, "-"), "dim")])
        for name, spans in zip(names, row, strict=True):
            # What follows a line break stands below the value, not below the name.
            inside = [(text.replace("\n", f"\n{' ' * width} | "), style) for text, style in spans]
            write([(f"{name}{' ' * (width - _width(name))}", "bold"), (" | ", ""), *inside])


def _writer() -> Callable[[Spans], None]:
    """Writes one line of styled pieces, in colours where a terminal shows them."""
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        return lambda spans: print("".join(text for text, _ in spans))  # noqa: T201 - as plain lines go
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    return lambda spans: console.print(Text.assemble(*spans))


def _styled(numeric: Mapping[str, bool], cells: Iterable[Sequence[Spans]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    edges = box.SIMPLE_HEAD if is_terminal else box.ASCII2
    grid = Table(header_style="bold", show_edge=False, pad_edge=False, box=edges)
    for name, is_number in numeric.items():
        grid.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        grid.add_row(*(Text.assemble(*spans) for spans in row))
    # A pipe has no width: what reads it wants whole lines.
    Console(width=None if is_terminal else _NO_WIDTH, soft_wrap=False).print(grid)


def _plain(numeric: Mapping[str, bool], cells: Iterable[Sequence[Spans]]) -> None:
    """As above, without styles and whatever loads them."""
    names = [_lines(name) for name in numeric]
    rows = [[_lines("".join(text for text, _ in spans)) for spans in row] for row in cells]
    widths = [max(map(_width, column), default=0) for column in _by_column([names, *rows])]
    to_the_right = list(numeric.values())
    _write(names, widths, to_the_right)
    sys.stdout.write("-+-".join("-" * width for width in widths) + "\n")
    for row in rows:
        _write(row, widths, to_the_right)


def _lines(text: str) -> list[str]:
    return text.expandtabs().split("\n")


def _by_column(rows: Sequence[Sequence[list[str]]]) -> list[list[str]]:
    """The lines of each column."""
    return [[line for lines in column for line in lines] for column in zip(*rows, strict=True)]


def _write(row: Sequence[list[str]], widths: Sequence[int], to_the_right: Sequence[bool]) -> None:
    for number in range(max(map(len, row), default=0)):
        parts = []
        for lines, width, is_right in zip(row, widths, to_the_right, strict=True):
            text = lines[number] if number < len(lines) else ""
            space = " " * (width - _width(text))
            parts.append(space + text if is_right else text + space)
        sys.stdout.write(" | ".join(parts).rstrip() + "\n")


def _width(text: str) -> int:
    """The places that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
