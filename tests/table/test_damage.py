"""A damaged table gives the right answer or a typed error, never another answer."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from tests.table.damage import FORMS, KINDS, answers, build, files_of, harms

from indextables.errors import IndexTablesError

_SMALL = 2
"""Harms of each kind of file that `make test` does to a table of each form."""


@pytest.fixture(scope="module", params=FORMS)
def world(request, tmp_path_factory) -> tuple[Path, Path, dict[str, object]]:
    """A table, its sister, and the answers of the table."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("INDEXTABLES_STORAGE_FSYNC", "false")
        return made(folder, request.param)


def made(folder: Path, form: str) -> tuple[Path, Path, dict[str, object]]:
    table = build(folder / "table", form, 0)
    sister = build(folder / "sister", form, 1_000)
    right = answers(table)
    assert not [said for said in right.values() if isinstance(said, IndexTablesError)], right
    return table, sister, right


def wrong(world: tuple[Path, Path, dict[str, object]], at: Path, name: str, damaged: bytes) -> dict[str, object]:
    """The answers of the damaged table that are neither right nor refused, with the right ones."""
    table, _, right = world
    shutil.copytree(table, at)
    (at / name).write_bytes(damaged)
    said = answers(at)
    shutil.rmtree(at)
    return {
        verb: (answer, right[verb])
        for verb, answer in said.items()
        if answer != right[verb] and not isinstance(answer, IndexTablesError)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_to_one_file_gives_another_answer(world, kind, tmp_path):
    table, sister, _ = world
    done = [(name, *harm) for name in files_of(table)[kind] for harm in harms(table, sister, kind, name)]
    chance = random.Random(f"{kind} {table.parent.name}")
    for number, (name, what, damaged) in enumerate(chance.sample(done, min(_SMALL, len(done)))):
        assert not wrong(world, tmp_path / str(number), name, damaged), f"{name} {what}"


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_at_all_gives_another_answer(world, kind, tmp_path):
    """Every harm to every file; `INDEXTABLES_DAMAGE_EVERY` takes one of so many."""
    table, sister, _ = world
    every = int(os.environ.get("INDEXTABLES_DAMAGE_EVERY", "1"))
    done = [(name, *harm) for name in files_of(table)[kind] for harm in harms(table, sister, kind, name)]
    for number, (name, what, damaged) in enumerate(done[::every]):
        assert not wrong(world, tmp_path / str(number), name, damaged), f"{name} {what}"
