"""The pages about commands: every example runs, and every table of columns is that of the answer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables
from indextables.sql.command.grammar import SYNTAX

PAGES = Path(__file__).parent.parent.parent / "docs" / "sql"
BLOCK = re.compile(r"^```sql\n(.*?)^```\n(?:\n((?:\|[^\n]*\n)+))?", re.MULTILINE | re.DOTALL)
COMMANDS = sorted(page for page in PAGES.glob("*.md") if BLOCK.search(page.read_text()))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "logs"
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("message", pa.string())])
    table = indextables.create(path, schema, partition_by=["day"], indexing={"message": "text"})
    for number in range(4):
        table.append([{"id": number, "day": f"2026-01-0{1 + number % 2}", "message": f"row {number}"}])
    (path.parent / "lines").mkdir()
    pq.write_table(table.to_arrow(), path.parent / "lines" / "lines.parquet")
    return path


@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_and_answer_with_its_columns(page, template, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(template, tmp_path / "logs")
    shutil.copytree(template.parent / "lines", tmp_path / "lines")
    session = indextables.LocalSession({"logs": str(tmp_path / "logs")}, {"cache.directory": str(tmp_path / "cache")})
    for block in BLOCK.finditer(page.read_text()):
        answer = None
        for statement in filter(str.strip, re.split(r";\s*\n", block[1])):
            answer = session.run(statement)
        if block[2] is not None:
            documented = [line.split("|")[1].strip().strip("`") for line in block[2].splitlines()[2:]]
            assert documented == answer.column_names


def test_every_grammar_is_documented():
    shown = " ".join(re.sub(r"\s+", " ", page.read_text()) for page in PAGES.glob("*.md"))
    for syntax in SYNTAX.values():
        assert syntax in shown


def test_every_page_is_linked_and_in_the_navigation():
    index = (PAGES / "index.md").read_text()
    navigation = (PAGES.parent.parent / "mkdocs.yml").read_text()
    for page in PAGES.glob("*.md"):
        assert page.stem == "index" or f"({page.name})" in index
        assert f"sql/{page.name}" in navigation
