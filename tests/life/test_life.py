"""Any order of any verbs, in one process with several handles and beside another one: no wrong row, no lost row."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import indextables
from indextables.embedded.merging import MergeBuilder
from tests.life.book import BY_PLACE, PLACES, WHERES
from tests.life.life import Life
from tests.life.other import Other
from tests.life.reading import FRESH, HOW
from tests.life.told import surface_of, surface_of_module

ELSEWHERE = {
    "indextables.IdentityGenerator": "a value for Spark's builder",
    "indextables.IndexTable": "the handle of Spark",
    "indextables.write": "writes a DataFrame",
    "indextables.enable": "a session of Spark",
    "indextables.functions": "Columns of Spark",
    "indextables.disable": "a session of Spark",
    "indextables.sql": "a session of Spark",
    "indextables.IndexTablesError": "a type",
    "indextables.LocalSession": "SQL by its text, which `tests/sql` drives",
    "indextables.Table": "a type, whose methods are driven",
    "indextables.errors": "types",
    **dict.fromkeys(
        (
            f"Table.{verb}"
            for verb in (
                "add_columns",
                "add_constraint",
                "alter",
                "alter_column",
                "drop_columns",
                "drop_constraint",
                "rename_column",
                "set_description",
                "set_indexing",
                "set_name",
                "enable_row_tracking",
                "set_properties",
                "unset_properties",
                "upgrade_protocol",
            )
        ),
        "the lives of `tests/table/test_altering.py`, whose columns change all the time",
    ),
}
"""What this life does not drive, and why; `test_spark_life` drives what is Spark's."""

NOT_DRIVEN = {
    ("indextables.create", "ambient"): "time and chance of simulations",
    ("indextables.create", "constraints"): "as of add_constraint",
    ("indextables.create", "generated"): "`tests/table/test_generated.py`, where rows change in every way",
    ("indextables.create", "defaults"): "as of alter_column",
    ("indextables.open", "ambient"): "as of create",
    ("Table.append", "indexing"): "as of set_indexing",
}


@pytest.fixture
def life(scratch):
    """The machine, with a folder and another process of its own."""
    with Other() as other:
        yield type("OneLife", (Life,), {"folder": scratch, "other": other, "used": set()})


def live(machine, *, lives: int, steps: int) -> None:
    chosen = settings(
        max_examples=lives,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    run_state_machine_as_test(machine, settings=chosen)


def draft(place: int, **more):
    return {"p": PLACES[place], "words": ["alpha"], "n": place, "extra": "x", "size": 1.5, **more}


def everything_once(machine) -> None:
    """One life that uses each verb and each parameter, so that no chance decides whether they are known."""
    one = machine()
    one.born(partitioned=True, narrow=True, given={"checkpoint.interval": "2"}, drawn=[])
    rows = [draft(0), draft(1), draft(3)]
    for place, form in enumerate(("dicts", "iterator", "arrow", "batches", "reader", "pandas", "polars")):
        one.append(0, [draft(place % 5)], form, "a note")
    one.append_once(0, rows, "app", 1, all_rows=False)
    one.append_once(0, rows, "app", 2, all_rows=True)
    one.append_once(0, rows, "app", 1, all_rows=False)
    for column in ("extra", "n"):
        one.grow(12, rows, column, all_rows=column == "n")
    one.open({"transaction.useOptimized": "false"})
    one.overwrite(1, rows, "arrow", "a note")
    one.overwrite_where(1, rows, BY_PLACE[0])
    one.overwrite_dynamic(1, rows)
    for how in HOW:
        for fresh, where in zip(FRESH, (None, WHERES[0], WHERES[12], WHERES[15], WHERES[6]), strict=True):
            one.read(0, fresh, how, where, "alpha", some=where is not None)
    one.create_again({"transaction.cache.enabled": "false"})
    for by_time in (False, True):
        one.open_older(1, by_time, 1)
        one.restore(0, 2, by_time, 2)
        one.drop_partitions(0, BY_PLACE[by_time], dry=by_time)
    one.delete(0, WHERES[9], "alpha", dry=True, note=None)
    one.delete(0, None, "alpha", dry=False, note="a note")
    one.append(0, rows, "arrow", None)
    for batch in (8, 8, 9):
        one.delete_once(1, WHERES[9], "app", batch)
    one.delete_as_read(0, WHERES[0])
    one.append(0, rows, "arrow", None)
    for how in (0, 1, 1, 2, 3):
        one.update(0, WHERES[9] if how else None, "alpha" if how == 3 else None, how)
    for how in (0, 1, 1, 2, 3):
        one.upsert(0, [draft(0), draft(1), draft(4, n=0)], "arrow", how)
        one.merge(0, [draft(0), draft(1), draft(3), draft(4, n=0), draft(2, n=3)], how)
    one.travel(0, 1)
    one.travel_by_time(0, 2, 1, 1)
    one.read_all(0, "opened without caches")
    one.overwrite_schema(0, rows, narrow=False, partitioned=True)
    for order in (0, 1, 2):
        one.append(0, rows, "arrow", None)
        one.merge_splits(0, None if order else BY_PLACE[0], False, order)
    one.reindex(0, WHERES[0], force=True)
    one.prewarm(0, WHERES[0])
    one.mirror(0, stop=True)
    one.mirror(0, stop=False)
    one.protect(1)
    for state, anew in ((None, False), ("json in parts", True), ("parquet", False)):
        one.checkpoint(0, state, anew)
    one.clean_up(0, dry=False, at_once=True)
    one.let_go()
    one.purge(0, at_once=True, dry=False)
    for whole in (False, True):
        one.convert(whole)
    for rebuilt in (False, True):
        one.repair(rebuilt, in_place=rebuilt)
        one.repair(rebuilt, in_place=False)
        one.verify(0, module=rebuilt)
        one.forget_everything(all_tables=rebuilt)
        one.look(0, int(rebuilt))
    one.pass_on(0)
    one.forget(0)
    one.flush_caches(0)
    one.skips(0)
    one.state(0)
    one.recreate_pointer()
    one.another_process_appends(True, rows)
    one.another_process_reads(False, 0, WHERES[0])
    one.refresh(0)
    one.history(0, None)
    one.history(0, 3)
    one.changes(0, 2, 2, net=False, by_time=False)
    one.changes(0, 6, 6, net=True, by_time=True)
    one.truncate(0, dry=False)
    one.teardown()


def test_a_life_that_uses_every_verb_and_every_parameter_once(life):
    everything_once(life)
    known = surface_of(indextables.Table, "Table") | surface_of(MergeBuilder, "Merge") | surface_of_module()
    forgotten = sorted(use for use in known - life.used - set(NOT_DRIVEN) if use[0] not in ELSEWHERE)
    assert not forgotten, f"the machine does not know these verbs or parameters: {forgotten}"


def test_a_table_shows_the_rows_of_each_version_whatever_was_done_to_it(life):
    live(life, lives=18, steps=30)


@pytest.mark.soak
def test_long_lives(life):
    live(life, lives=3000, steps=80)
