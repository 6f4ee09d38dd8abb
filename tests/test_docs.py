"""Every Python block of the README and the guides runs, in order, file by file, in an empty folder.

A block marked `spark` runs in a Spark session and is tested with Spark. No block is left out.
"""

from __future__ import annotations

import ast
import pkgutil
import re
from pathlib import Path

import pytest

import indextables

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path, *, marked: str) -> list[tuple[int, str]]:
    """Line and text of the blocks with this mark; `""` for those without one."""
    text = path.read_text()
    found = BLOCK.finditer(text)
    return [(text.count("\n", 0, m.start()) + 2, m[2]) for m in found if m[1].strip() == marked]


def pages(*, marked: str) -> list[Path]:
    folders = [ROOT / "docs" / name for name in ("guides", "sql")]
    first = [ROOT / "README.md", ROOT / "docs" / "index.md"]
    candidates = [*first, *(path for folder in folders for path in sorted(folder.glob("*.md")))]
    return [path for path in candidates if path.exists() and blocks(path, marked=marked)]


def run(path: Path, marked: str, names: dict[str, object]) -> None:
    for line, code in blocks(path, marked=marked):
        padded = "\n" * (line - 1) + code
        exec(compile(padded, str(path), "exec"), names)  # noqa: S102 - our own documentation


def name(path: Path) -> str:
    return path.stem


@pytest.mark.usefixtures("with_upkeep")
@pytest.mark.parametrize("path", pages(marked=""), ids=name)
def test_the_examples_of_a_page_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(path, "", {})


@pytest.mark.usefixtures("with_upkeep")
def test_the_examples_of_the_readme_run_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        run(ROOT / "README.md", "", {})


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", pages(marked="spark"), ids=name)
def test_the_spark_examples_of_a_page_run(path, spark, tmp_path):
    run(path, "spark", {"spark": spark, "path": str(tmp_path / "table")})


REFERENCE = re.compile(r"^::: (\S+)\n    options: \{([^\n]*)\}$", re.MULTILINE)


def test_the_reference_is_titled_by_public_names():
    found = [entry for page in sorted((ROOT / "docs" / "reference").glob("*.md")) for entry in titles(page)]
    assert len(found) > 15
    for place, title in found:
        # `indextables.sql` is a package that can be called.
        if title.startswith("indextables.") and title != "indextables.sql":
            assert pkgutil.resolve_name(title) is pkgutil.resolve_name(place), title


def titles(page: Path) -> list[tuple[str, str]]:
    """What each entry describes, and its title; one without a title of its own would show where its code lies."""
    entries = [found for found in REFERENCE.finditer(page.read_text()) if "show_root_heading: false" not in found[2]]
    return [(found[1], re.search(r'heading: "([^"]+)"', found[2])[1]) for found in entries]


def imported(code: str) -> set[str]:
    """Every name of `indextables` that a block imports, or reaches through a name that it has imported."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return {name for name in found if re.fullmatch(r"indextables(\.\w+)*", name)}


@pytest.mark.parametrize("path", sorted({*pages(marked=""), *pages(marked="spark")}), ids=name)
def test_the_examples_of_a_page_use_public_names_only(path):
    public = re.compile(rf"indextables(\.({'|'.join(indextables.__all__)})(\.\w+)?)?")
    used = {used for mark in ("", "spark") for _, code in blocks(path, marked=mark) for used in imported(code)}
    assert [name for name in sorted(used) if not public.fullmatch(name)] == []


def test_no_block_has_a_mark_that_nobody_knows():
    candidates = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    marks = {mark.strip() for path in candidates for mark, _ in BLOCK.findall(path.read_text())}
    assert marks <= {"", "spark"}
