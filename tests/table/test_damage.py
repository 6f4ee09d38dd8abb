"""A damaged table gives the right answer or a typed error, never another answer."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.table.damage import FORMS, KINDS, answers, build, files_of, harms

from indextables.errors import IndexTablesError

CASES = [
    *(("avro", kind) for kind in KINDS if kind not in {"json", "parquet"}),
    *((form, kind) for form, kind in (("json", "json"), ("json-parts", "json"), ("parquet", "parquet"))),
    *((form, "version") for form in FORMS if form != "avro"),
]
"""Forms of checkpoints, and kinds of files of such a table. Most kinds are the same whatever the form."""


World = tuple[Path, Path, dict[str, object]]
"""A table, its sister, and the answers of the table."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory) -> dict[str, World]:
    """One of each form."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("INDEXTABLES_STORAGE_FSYNC", "false")
        return {form: made(tmp_path_factory.mktemp(form), form) for form in FORMS}


@pytest.fixture
def world(worlds, form) -> World:
    return worlds[form]


def made(folder: Path, form: str) -> World:
    table = build(folder / "table", form, 0)
    sister = build(folder / "sister", form, 1_000)
    right = answers(table)
    assert not [said for said in right.values() if isinstance(said, IndexTablesError)], right
    return table, sister, right


def wrong(world: World, at: Path, name: str, damaged: bytes) -> dict[str, object]:
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


@pytest.mark.slow
@pytest.mark.parametrize(("form", "kind"), CASES)
def test_no_damage_to_one_file_gives_another_answer(world, kind, tmp_path):
    """One harm of each sort: the bytes of another file, an edit that still reads, and what no longer reads."""
    done = list(all_harms(world, kind))
    chance = random.Random(f"{kind} {world[0].parent.name}")
    sorts = (
        [harm for harm in done if "bytes of" in harm[1]],
        [harm for harm in done if "edited" in harm[1] or "line" in harm[1]],
        [harm for harm in done if harm[1] in {"cut", "flipped", "grown"}],
    )
    for number, sort in enumerate(sorts):
        if sort:
            name, what, damaged = chance.choice(sort)
            assert not wrong(world, tmp_path / str(number), name, damaged), f"{name} {what}"


@pytest.mark.soak
@pytest.mark.parametrize(("form", "kind"), CASES)
def test_no_damage_at_all_gives_another_answer(world, kind, tmp_path):
    """Every harm to every file; `INDEXTABLES_DAMAGE_EVERY` takes one of so many."""
    every = int(os.environ.get("INDEXTABLES_DAMAGE_EVERY", "1"))
    for number, (name, what, damaged) in enumerate(list(all_harms(world, kind))[::every]):
        assert not wrong(world, tmp_path / str(number), name, damaged), f"{name} {what}"


def all_harms(world: World, kind: str) -> Iterator[tuple[str, str, bytes]]:
    table, sister, _ = world
    names = files_of(table)[kind]
    assert names, kind
    found = ((name, *harm) for name in names for harm in harms(table, sister, kind, name))
    return iter(found)
