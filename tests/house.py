"""The rules of the house that no linter knows: `python -m tests.house` prints each breach and fails."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from tests import rooms

ROOT = Path(__file__).parent.parent
MODULE_LINES = 500
FUNCTION_LINES = 60
DECODE_BY_TYPE = re.compile(r"\bdecode\([^\n]*\btype=|^[ \t]+[^\n]*\bDecoder\(_?[A-Z]", re.MULTILINE)
# No registry, and no folder of the machine it was written on, may stand in a file.
ADDRESS = re.compile(r"https?://(files\.pythonhosted|pypi\.|registry\.npmjs|repo1?\.maven|proxy\.golang|crates\.io)")


def main() -> int:
    breaches: list[str] = []
    home = re.compile("|".join(re.escape(f"{p}/") for p in {ROOT.parent, Path.home()} if len(p.parts) > 1))
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    ):
        path = ROOT / name
        if not name or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if ADDRESS.search(text):
            breaches.append(f"{name}: a registry's address")
        if home.search(text):
            breaches.append(f"{name}: a path of this machine")
        if name.startswith("src/") and name.endswith(".py"):
            breaches += _size(name, text)
            if DECODE_BY_TYPE.search(text):
                breaches.append(
                    f"{name}: decoding by a type crashes when two threads are first; make a Decoder at import"
                )
    breaches += rooms.breaches()
    for breach in breaches:
        print(breach)
    print(f"house: {len(breaches)} breaches" if breaches else "house: ok")
    return int(bool(breaches))


def _size(name: str, text: str) -> list[str]:
    lines = text.count("\n")
    breaches = [f"{name}: {lines} lines, at most {MODULE_LINES}"] if lines > MODULE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno
            if length > FUNCTION_LINES:
                breaches.append(f"{name}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES}")
    return breaches


if __name__ == "__main__":
    sys.exit(main())
