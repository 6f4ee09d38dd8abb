"""The planted bugs have not lost touch with the code: `make mutants` takes hours, this takes seconds."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.every import EVERY
from tests.mutants.planted import Bug

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", EVERY, ids=lambda bug: bug.name)
def test_a_planted_bug_has_its_place_and_changes_what_runs(bug: Bug):
    source = (ROOT / "src" / bug.file).read_text()
    assert source.count(bug.old) == 1, f"{bug.name!r}: its place in {bug.file} is gone or not unique"
    sound, planted = ast.parse(source), ast.parse(source.replace(bug.old, bug.new))
    # Comments and layout do not show in the tree: a change of them plants nothing.
    assert ast.dump(planted) != ast.dump(sound), f"{bug.name!r} changes nothing that runs"
    # A NameError would be caught by any test: it is no bug that anybody would write.
    assert not _unbound(planted) - _unbound(sound), f"{bug.name!r} uses names that {bug.file} does not know"


@pytest.mark.parametrize("tests", sorted({tests for bug in EVERY for tests in bug.tests}))
def test_what_has_to_catch_a_planted_bug_is_there(tests: str):
    path, *names = tests.split("::")
    tree = ast.parse((ROOT / path).read_text())
    there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    assert there >= {name.partition("[")[0] for name in names[-1:]}
    assert there, f"{path} has no tests"


def test_planted_bugs_have_names_of_their_own():
    names = Counter(bug.name for bug in EVERY)
    assert not [name for name, count in names.items() if count > 1]


def _unbound(tree: ast.Module) -> set[str]:
    """The names that are used and bound nowhere in a module."""
    used, bound = set(), set(dir(builtins))
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Load()):
                used.add(name)
            case ast.Name(name) | ast.arg(name) | ast.FunctionDef(name) | ast.ClassDef(name):
                bound.add(name)
            case ast.alias(name, as_name):
                bound.add(as_name or name.partition(".")[0])
            case ast.ExceptHandler(_, str(name)) | ast.MatchAs(_, str(name)) | ast.MatchStar(str(name)):
                bound.add(name)
    return used - bound
