"""A handle that lives long, and others who change the table: once it has looked again, it goes on."""

from __future__ import annotations

import shutil

import msgspec
import pyarrow as pa
import pytest
from tests.table.operate_world import SCHEMA, new_table, orphan, rows
from tests.world.commits import change_metadata

import indextables
from indextables.errors import MetadataChanged
from indextables.log.care.opening import open_log


def two_handles(**more):
    """A table that has been written to through the first handle, and another one in its place."""
    table, clock = new_table(**more)
    table.append(rows(1, d="a"))
    return table, indextables.open(table.url, ambient=clock), clock


def ids(table) -> list[int]:
    return table.refresh().to_arrow()["id"].to_pylist()


def set_property(table, key: str, value: str) -> None:
    log = open_log(table._log.env)
    metadata = log.snapshot().metadata
    change_metadata(log, msgspec.structs.replace(metadata, configuration={**metadata.configuration, key: value}))


def test_an_append_after_another_schema_was_seen():
    table, other, _ = two_handles()
    wider = SCHEMA.append(pa.field("n", pa.int64()))
    other.append(pa.table({"id": [2], "d": ["a"], "n": [7]}, schema=wider), merge_schema=True)
    with pytest.raises(MetadataChanged):
        table.append(rows(0))
    table.refresh().append(pa.table({"id": [3], "d": ["a"], "n": [8]}, schema=wider))
    assert ids(table) == [1, 2, 3]


def test_an_append_after_other_properties_were_seen():
    table, other, _ = two_handles()
    set_property(other, "checkpoint.interval", "7")
    table.refresh().append(rows(2))
    assert ids(table) == [1, 2]


def test_an_overwrite_after_rows_of_others_were_seen():
    table, other, _ = two_handles()
    other.overwrite(rows(2))
    table.refresh().overwrite(rows(3))
    assert ids(table) == [3]


def test_an_overwrite_of_partitions_after_rows_of_others_were_seen():
    table, other, _ = two_handles(partitioned=True)
    other.overwrite(rows(2, d="a"))
    table.refresh().overwrite(rows(3, d="a"), "d = 'a'")
    assert ids(table) == [3]


def test_a_drop_of_partitions_after_rows_of_others_were_seen():
    table, other, _ = two_handles(partitioned=True)
    other.overwrite(rows(2, d="a"))
    assert table.refresh().drop_partitions("d = 'a'").dropped == 1
    assert ids(table) == []


def test_the_history_of_a_purge_after_other_properties_were_seen():
    table, other, clock = two_handles()
    set_property(other, "checkpoint.interval", "7")
    orphan(table, 1)
    clock.advance(days=8)
    assert table.purge().count("split") == 1
    assert table.history(1)["operation"].to_pylist() == ["PURGE"]


@pytest.mark.parametrize("verb", ["append", "overwrite"])
def test_a_handle_goes_on_in_the_table_that_took_the_place_of_its_own(tmp_path, verb):
    """The new table is at the version that the handle wrote last in the old one."""
    path = tmp_path / "t"
    old = indextables.create(path, SCHEMA)
    old.append(rows(1))
    shutil.rmtree(path)
    indextables.create(path, SCHEMA).append(rows(2))
    old.refresh()
    more = rows(3).append_column("new", pa.array([True]))
    assert getattr(old, verb)(more, merge_schema=True) == 2
    assert old.to_arrow()["id"].to_pylist() == ([2, 3] if verb == "append" else [3])
