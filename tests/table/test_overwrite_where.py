"""A partial overwrite replaces exactly the rows for which its predicate is true: unknown is not true."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument, NotSupported, QueryInvalid

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
ROWS = [{"id": i, "p": p} for i, p in enumerate(["a", "B", None, "", "abc"])]


def ids(table) -> set[int]:
    return set(table.to_arrow()["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        "p = 'a'",
        "upper(p) = 'A'",
        "p like '%c'",
        "length(p) = 1",
        "p <> 'a'",
        "not (p = 'a')",
        "p is null",
        "p = ''",
        "true",
        "false",
        "null",
        "1 = 0",
        "1 = 1",
        "1 > null",
        "p = 'a' and 1 = 0",
        "p = 'a' and null",
        "p = 'a' or 1 = 0",
        "p = 'a' or length('x') = 2",
        "length('x') = 2",
        "not (1 = 1)",
        "p in ('a', null)",
        "p not in ('a')",
        "p not in ('a', null)",
        "p is null and p is not null",
        "p <=> null",
        "p = null",
        "coalesce(p, 'x') = 'x'",
    ],
)
def test_exactly_the_rows_that_a_read_selects_are_replaced(tmp_path, where):
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["p"])
    table.append(ROWS)
    kept = ids(table) - set(table.to_arrow(where=where)["id"].to_pylist())
    table.overwrite(SCHEMA.empty_table(), where=where)
    assert ids(table) == kept


@pytest.mark.parametrize(("where", "left"), [("1 = 0", 5), ("false", 5), ("null", 5), ("1 = 1", 0), ("true", 0)])
def test_a_constant_predicate_holds_for_tables_without_partitions(tmp_path, where, left):
    table = indextables.create(tmp_path / "t", SCHEMA)
    table.append(ROWS)
    table.overwrite(SCHEMA.empty_table(), where=where)
    assert table.count() == left


def test_a_predicate_that_cannot_be_computed_replaces_nothing_and_leaves_no_file(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["p"])
    table.append(ROWS)
    files = set(tmp_path.rglob("*.split")) | set(tmp_path.rglob("*.parquet"))
    for where, data in (("cast(p as int) = 1", SCHEMA.empty_table()), ("cast(p as int) = 1", [{"id": 9, "p": "1"}])):
        with pytest.raises(QueryInvalid):
            table.overwrite(data, where=where)
    assert indextables.open(tmp_path / "t").count() == len(ROWS)
    assert set(tmp_path.rglob("*.split")) | set(tmp_path.rglob("*.parquet")) == files


def test_the_history_tells_how_much_was_replaced(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["p"])
    table.append(ROWS)
    size = table.files("p = 'a'")["size"].to_pylist()
    table.overwrite([{"id": 9, "p": "a"}], "p = 'a'")
    told = dict(table.history(1)["operationMetrics"].to_pylist()[0])
    assert (told["numFiles"], told["numRemovedFiles"], told["numRemovedBytes"]) == ("1", "1", str(size[0]))
    table.overwrite([])
    told = dict(table.history(1)["operationMetrics"].to_pylist()[0])
    assert (told["numFiles"], told["numRemovedFiles"]) == ("0", "5")


def test_other_columns_and_rows_outside_are_refused(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["p"])
    table.append(ROWS)
    with pytest.raises(NotSupported, match="id"):
        table.overwrite([], where="id = 1 and p = 'a'")
    with pytest.raises(InvalidArgument, match="do not satisfy"):
        table.overwrite([{"id": 1, "p": "b"}], where="p = 'a'")
    assert indextables.open(tmp_path / "t").count() == len(ROWS)
