"""Draws the bars of a benchmark as SVG, light and dark: how much of the peer's time, bytes or CPU ours takes.

Only claims with a peer are drawn. The scale is logarithmic: half as much and twice as much are equally long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Bar

__all__ = ["draw", "save"]

_WIDTH, _LABEL, _ROW, _TOP, _END = 860, 330, 30, 74, 150
_FONT = "font-family='system-ui, sans-serif'"


class _Colours(NamedTuple):
    ground: str
    text: str
    faint: str
    line: str
    good: str
    short: str
    plain: str


_LIGHT = _Colours("#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#1a7f37", "#bc4c00", "#0969da")
_DARK = _Colours("#0d1117", "#f0f6fc", "#9198a1", "#3d444d", "#3fb950", "#db6d28", "#4493f8")


def save(folder: Path, name: str, title: str, where: str, bars: Sequence[Bar]) -> list[Path]:
    """Write `bench-<name>-light.svg` and `-dark.svg`; nothing if no claim has a peer."""
    if not any(_is_drawn(bar) for bar in bars):
        return []
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for mode in ("light", "dark"):
        file = folder / f"bench-{name}-{mode}.svg"
        file.write_text(draw(title, where, bars, dark=mode == "dark"))
        found.append(file)
    return found


def draw(title: str, where: str, bars: Sequence[Bar], *, dark: bool = False) -> str:
    """The claims that have a peer as one picture. `where` names the machine and the day."""
    shown = [bar for bar in bars if _is_drawn(bar)]
    colours = _DARK if dark else _LIGHT
    height = _TOP + _ROW * len(shown) + 20
    most = max([1.0, *(abs(math.log2(bar.ours / bar.peer)) for bar in shown if bar.peer)])
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' role='img'>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{_WIDTH}' height='{height}' rx='8' fill='{colours.ground}'/>",
        _text(20, 28, title, colours.text, size=16, weight="600"),
        _text(20, 50, f"Ours as a multiple of the peer; {where}", colours.faint, size=12),
    ]
    middle = _at(1.0, most)
    end = height - 12
    lines.append(f"<line x1='{middle}' y1='{_TOP - 8}' x2='{middle}' y2='{end}' stroke='{colours.line}'/>")
    for place, bar in enumerate(shown):
        lines += _row(bar, _TOP + place * _ROW, most, colours)
    return "\n".join([*lines, "</svg>", ""])


def _row(bar: Bar, y: int, most: float, colours: _Colours) -> list[str]:
    ratio = bar.ours / (bar.peer or 1.0)
    one, other = sorted((_at(ratio, most), _at(1.0, most)))
    colour = {"pass": colours.good, "short": colours.short}.get(bar.verdict, colours.plain)
    values = f"{bar.ours:.3g} against {bar.peer:.3g} {bar.unit}".strip()
    label = bar.claim if len(bar.claim) <= 52 else f"{bar.claim[:51]}…"
    return [
        f"<g><title>{escape(f'{bar.claim}: {values} {bar.peer_name}'.strip())}</title>",
        _text(20, y + 14, label, colours.text, size=12),
        f"<rect x='{one}' y='{y + 2}' width='{max(2, round(other - one, 1))}' height='16' rx='3' fill='{colour}'/>",
        _text(_WIDTH - _END + 8, y + 10, f"{ratio:.2f}x {bar.peer_name}"[:30], colours.text, size=11),
        _text(_WIDTH - _END + 8, y + 22, values, colours.faint, size=9),
        "</g>",
    ]


def _is_drawn(bar: Bar) -> bool:
    return bar.peer is not None and bar.peer > 0 and bar.ours > 0


def _at(ratio: float, most: float) -> float:
    """Where a ratio stands; 1 is in the middle."""
    half = (_WIDTH - _LABEL - _END) / 2
    return round(_LABEL + half + half * math.log2(ratio) / most, 1)


def _text(x: float, y: float, text: str, colour: str, *, size: int, weight: str = "400") -> str:
    style = f"{_FONT} font-size='{size}' font-weight='{weight}' fill='{colour}'"
    return f"<text x='{x}' y='{y}' {style}>{escape(text)}</text>"
