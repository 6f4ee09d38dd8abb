r"""What Java says: `java.util.regex.Pattern` asked about many patterns and texts.

    python -m tests.query.java.record

writes `answers.json`, which the tests compare with, from `patterns.txt`, patterns put together by chance and
`texts.json`. It needs a JDK; the tests need none.
"""

from __future__ import annotations

import base64
import json
import pathlib
import random
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
ANSWERS = HERE / "answers.json"

TEXTS: list[str] = json.loads((HERE / "texts.json").read_text())
WRITTEN = (HERE / "patterns.txt").read_text().splitlines()


def invented(seed: int, count: int) -> list[str]:
    """Patterns put together by chance, most of them of the kind that can be kept."""
    chance = random.Random(seed)
    atoms = [
        "a",
        "b",
        "c",
        ".",
        "[ab]",
        "[^a]",
        r"\d",
        r"\w",
        r"\W",
        r"\s",
        "é",
        "😀",
        "[a-c&&[^b]]",
        "[[:alpha:]]",
        r"\n",
        r"\r",
        "x",
    ]
    atoms += [r"\p{L}", r"\P{L}", r"\R", "[^\\n]", "_"]
    places = ["^", "$", r"\b", r"\B", r"\Z", r"\z", r"\A"]
    counts = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "*+", "++", "?+"]

    def pattern(depth: int) -> str:
        parts = []
        for _ in range(chance.randint(1, 3)):
            kind = chance.random()
            if kind < 0.2:
                parts.append(chance.choice(places))
            elif kind < 0.4 and depth < 3:
                opening = chance.choice(["(", "(?:", "(?i:", "(?m:", "(?s:", "(?d:"])
                parts.append(f"{opening}{pattern(depth + 1)}){chance.choice(counts)}")
            else:
                parts.append(chance.choice(atoms) + chance.choice(counts))
        text = "".join(parts)
        return f"{text}|{pattern(depth + 1)}" if chance.random() < 0.15 and depth < 3 else text

    return [chance.choice(["", "", "(?i)", "(?m)", "(?s)", "(?d)"]) + pattern(0) for _ in range(count)]


def ask_java(patterns: list[str], texts: list[str]) -> dict[str, str]:
    """For each pattern `T` or `F` for each text, or `!` if Java refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / name for name in ("patterns", "texts", "answers")]
        for file, lines in zip(files, (patterns, texts), strict=False):
            file.write_text("".join(base64.b64encode(line.encode()).decode() + "\n" for line in lines))
        subprocess.run(["java", str(HERE / "Record.java"), *map(str, files)], check=True)
        return dict(zip(patterns, files[2].read_text().splitlines(), strict=True))


def main() -> None:
    """Write the table anew."""
    patterns = list(dict.fromkeys([*WRITTEN, *invented(12, 600)]))
    rows = ask_java(patterns, TEXTS)
    shown = ",\n".join(f"  {json.dumps(pattern)}: {json.dumps(found)}" for pattern, found in rows.items())
    ANSWERS.write_text(f"{{\n{shown}\n}}\n")


if __name__ == "__main__":
    main()
