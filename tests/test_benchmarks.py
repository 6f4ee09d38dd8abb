"""What `make bench` starts is there to be started, and is named with its numbers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from benchmarks.__main__ import found, reaches_inside

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", found())
def test_a_module_that_make_bench_starts_can_be_run(name):
    parsed = ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text())
    assert "run" in {node.name for node in parsed.body if isinstance(node, ast.FunctionDef)}


def test_what_a_user_sees_is_measured_first():
    inner = [reaches_inside(name) for name in found()]
    assert inner == sorted(inner)
    assert {True, False} == set(inner)


@pytest.mark.parametrize("name", found())
def test_the_page_about_performance_says_which_modules_measure_inner_functions(name):
    sections = (ROOT / "docs" / "PERFORMANCE.md").read_text().split("\n## ")[1:]
    parts = [part for section in sections for part in section.split("\n### ")]
    naming = [part for part in parts if f"{name}.py" in part or f"benchmarks {name}" in part]
    assert naming, "no section names it"
    inner = ["(inner functions, for engineers)" in part.splitlines()[0] for part in naming]
    assert any(inner) == reaches_inside(name), [part.splitlines()[0] for part in naming]
