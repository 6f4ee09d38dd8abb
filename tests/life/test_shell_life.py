"""A life through the command line: what is printed is what each version holds."""

from __future__ import annotations

import pytest

import indextables
from indextables.cli.app import COMMANDS, commands_named
from indextables.cli.declared import Option, parameters_of
from tests.life.book import BY_PLACE, WHERES
from tests.life.shell import Shell
from tests.life.test_life import draft, live


@pytest.fixture
def shell(scratch):
    return type("OneShell", (Shell,), {"folder": scratch, "used": set()})


def everything_once(machine) -> None:
    """One life that runs each command with each flag, so that no chance decides whether they are known."""
    for how in ("--like", "--schema", "ingest"):
        one = machine()
        one.born(True, True, {"checkpoint.interval": "2"}, how, [draft(0), draft(1)])
        one.ingest([draft(0), draft(3)], "jsonl", once=how == "ingest", forget=False)
        one.ingest([draft(0)], "parquet", once=False, forget=True)
        one.ingest([draft(1)], "jsonl", once=False, forget=True)
        if how != "ingest":
            one.teardown()
    for order in (0, 1, 2):
        one.ingest([draft(0), draft(1)], "jsonl", once=False, forget=False)
        one.merge_splits(order, dry=order == 0, as_sql=False, where=BY_PLACE[0])
    for yes in (False, True):
        one.reindex(yes, WHERES[0])
        one.convert(quiet=yes)
        one.read(1, yes, WHERES[0], "alpha", forget=yes)
        one.select(1, yes, WHERES[0], "alpha", forget=yes)
        one.drop_partitions(BY_PLACE[0], dry=not yes, as_sql=False)
        one.drop_partitions(BY_PLACE[3], dry=False, as_sql=yes)
        one.restore(2, by_time=yes)
        for how in range(4):
            one.ingest([draft(how % 2), draft(3)], "parquet", once=False, forget=False)
            one.upsert([draft(0), draft(1)], "jsonl" if yes else "parquet", how)
            one.update(WHERES[0] if how else None, "alpha" if yes else None, how, as_sql=False)
            one.delete(WHERES[9] if how else None, "alpha" if yes else None, how, as_sql=False)
        one.ingest([draft(0), draft(1)], "parquet", once=False, forget=False)
        one.merge_rows([draft(0), draft(1), draft(3), draft(4, n=0), draft(2, n=3)])
        one.update(WHERES[0], "alpha", 0, as_sql=yes)
        one.delete(WHERES[0] if yes else None, "alpha" if yes else None, 0, as_sql=True)
        one.warm(WHERES[0], flush=yes)
        one.mend(rebuilt=yes)
        one.checkpoint("json", "compact" if yes else "checkpoint")
        one.clean_up(at_once=yes, dry=not yes)
        one.purge(at_once=yes, dry=not yes)
        one.history(2 if yes else None)
        one.changes(3, net=yes)
        one.truncate(dry=not yes)
    for what in ("", "--files", "--columns"):
        one.describe(0, what == "", what)
    one.lines("doctor")
    other = str(one.path.with_suffix(".altered"))
    one.run("create", other, "--schema", "id bigint, message string")
    for change in (["ADD COLUMNS (n int DEFAULT 3)"], ["--quiet", "RENAME", "COLUMN", "n", "TO", "m"]):
        one.run("alter", other, *change, "--option", "commit.user=me")
    assert indextables.open(other).schema.names == ["id", "message", "m"]
    one.teardown()


def _flags(declared) -> list[str]:
    """The first way to write an option; of a flag with an opposite, the opposite."""
    return declared.flags[0].split("/")[-1:] if isinstance(declared, Option) else []


def test_a_life_that_runs_every_command_with_every_flag_once(shell):
    everything_once(shell)
    known = {
        (name, flag)
        for name, command in commands_named(COMMANDS).items()
        for parameter in parameters_of(command)
        for flag in ("", *_flags(parameter.declared))
    }
    forgotten = sorted(known - shell.used)
    assert not forgotten, f"the life does not know these commands or flags: {forgotten}"


def test_commands_tell_the_rows_of_each_version_whatever_was_run_before(shell):
    live(shell, lives=10, steps=25)


@pytest.mark.soak
def test_long_lives_of_commands(shell):
    live(shell, lives=500, steps=60)
