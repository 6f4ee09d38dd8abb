"""Draws a search in a notebook, light and dark: `python examples/notebook.py FOLDER`. The cells are run for it."""

from __future__ import annotations

import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables

LOGS = [
    {"time": "10:00:03", "host": "db7", "level": "ERROR", "message": "query timeout after 30 s, connection closed"},
    {"time": "10:00:07", "host": "db7", "level": "WARN", "message": "timeout of a lock, query is tried again"},
    {"time": "10:00:09", "host": "web1", "level": "ERROR", "message": "upstream timeout, 3 requests lost"},
    {"time": "10:01:12", "host": "db7", "level": "INFO", "message": "connection accepted"},
    {"time": "10:01:15", "host": "web2", "level": "INFO", "message": "request served in 12 ms"},
]
CELLS = [
    't = indextables.create(path, logs.schema, indexing={"message": "text"})\nt.append(logs)',
    't.search("message:timeout AND host:db7", highlight=["message"]).to_pandas()',
    't.aggregate("message:timeout", {"hosts": {"terms": {"field": "host"}}})["hosts"]["buckets"]',
]
SHOWN = {"time": 90, "host": 60, "level": 70, "_highlight_message": 400, "_score": 70}
"""Columns of the picture, and their widths."""
LIGHT = {
    "ground": "#ffffff",
    "cell": "#f6f8fa",
    "text": "#1f2328",
    "faint": "#59636e",
    "line": "#d1d9e0",
    "mark": "#9a6700",
}
DARK = {
    "ground": "#0d1117",
    "cell": "#151b23",
    "text": "#f0f6fc",
    "faint": "#9198a1",
    "line": "#3d444d",
    "mark": "#d29922",
}
WIDTH, LINE, LEFT = 860, 20, 70
MONO = "font-family='ui-monospace, Menlo, Consolas, monospace' font-size='12' xml:space='preserve'"


def main() -> None:
    folder = Path(sys.argv[1])
    answers = run()
    for name, colours in (("light", LIGHT), ("dark", DARK)):
        (folder / f"notebook-{name}.svg").write_text(draw(answers, colours))


def draw(answers: list[Any], colours: dict[str, str]) -> str:
    """The cells with what they answered, as a notebook shows them."""
    lines: list[str] = []
    y = 16
    for number, (cell, answer) in enumerate(zip(CELLS, answers, strict=True), 1):
        code = cell.split("\n")
        height = len(code) * LINE + 14
        lines += [
            text(10, y + 22, f"In [{number}]:", colours["faint"]),
            f"<rect x='{LEFT}' y='{y}' width='{WIDTH - LEFT - 16}' height='{height}' rx='4' fill='{colours['cell']}'/>",
            *(text(LEFT + 12, y + 22 + place * LINE, line, colours["text"]) for place, line in enumerate(code)),
            text(4, y + height + 22, f"Out[{number}]:", colours["faint"]),
        ]
        y += height + 22
        if hasattr(answer, "columns"):
            y = grid(answer, y, lines, colours)
        else:
            lines.append(text(LEFT + 12, y, repr(answer), colours["text"]))
            y += 16
    size = f"width='{WIDTH}' height='{y}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {y}' role='img'>"
    return "\n".join([head, f"<rect {size} rx='8' fill='{colours['ground']}'/>", *lines, "</svg>", ""])


def grid(frame: Any, y: int, lines: list[str], colours: dict[str, str]) -> int:
    """The rows of a frame; what was found is marked. Returns where it ends."""
    rows = [dict.fromkeys(SHOWN), *frame.to_dict("records")]
    for place, row in enumerate(rows):
        x = LEFT + 12
        for name, width in SHOWN.items():
            if place == 0:
                lines.append(text(x, y, name, colours["text"], weight="600"))
            else:
                value = row[name] if isinstance(row[name], str) else f"{row[name]:.4f}"
                lines.append(text(x, y, value, colours["text"], mark=colours["mark"]))
            x += width
        lines.append(f"<line x1='{LEFT + 8}' y1='{y + 7}' x2='{WIDTH - 24}' y2='{y + 7}' stroke='{colours['line']}'/>")
        y += LINE + 4
    return y


def text(x: int, y: int, value: str, colour: str, *, weight: str = "400", mark: str = "") -> str:
    shown = escape(value, quote=False)
    if mark:
        found = f"<tspan fill='{mark}' font-weight='700'>"
        shown = shown.replace("&lt;em&gt;", found).replace("&lt;/em&gt;", "</tspan>")
    return f"<text x='{x}' y='{y}' {MONO} font-weight='{weight}' fill='{colour}'>{shown}</text>"


def run() -> list[Any]:
    """What each cell answers."""
    with tempfile.TemporaryDirectory(prefix="indextables-notebook-") as folder:
        names: dict[str, Any] = {
            "indextables": indextables,
            "path": f"{folder}/logs",
            "logs": pa.Table.from_pylist(LOGS),
        }
        answers = []
        for cell in CELLS:
            *before, last = cell.split("\n")
            for line in before:
                exec(line, names)  # noqa: S102 - the cells above
            answers.append(eval(last, names))  # noqa: S307 - the cells above
        return answers


if __name__ == "__main__":
    main()
