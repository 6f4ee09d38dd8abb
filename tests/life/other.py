"""A second process with caches of its own: reads, and now and then writes, the same table.

One JSON line per question on standard input, one per answer on standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Self

import indextables


class Other:
    """The process, from outside."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.life.other"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def ask(self, **question: Any) -> dict[str, Any]:
        """The answer; `error` in it names what was raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def answer(question: dict[str, Any], kept: dict[str, indextables.Table]) -> dict[str, Any]:
    """What one question asks for. A table stays open, as in a server that never restarts."""
    path = question["path"]
    table = kept.get(path)
    if table is None or question["fresh"]:
        kept.clear()
        table = kept[path] = indextables.open(path)
    if question["rows"] is not None:
        return {"version": table.append(question["rows"])}
    seen = table.refresh() if question["version"] is None else table.at(question["version"])
    where = question["where"]
    rows = seen.to_arrow(where=where).to_pylist()
    return {"version": seen.version, "rows": rows, "count": seen.count(where=where), "word": seen.count("alpha")}


def main() -> None:
    kept: dict[str, indextables.Table] = {}
    for line in sys.stdin:
        try:
            told = answer(json.loads(line), kept)
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked is to judge
            told = {"error": type(error).__name__, "message": str(error)}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
