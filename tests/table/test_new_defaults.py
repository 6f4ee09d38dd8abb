"""A new table whose columns have defaults: as an argument, in a schema of words, by SQL and the shell."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import indextables
from indextables.cli import main
from indextables.errors import InvalidArgument, SchemaInvalid

SCHEMA = pa.schema([("id", pa.int64()), ("host", pa.string()), ("day", pa.date32()), ("size", pa.decimal128(6, 2))])
WORDS = (
    "id bigint NOT NULL, host string DEFAULT 'it''s {a}' COMMENT 'who', day date DEFAULT DATE '2026-01-31', "
    "size decimal(6,2) DEFAULT 1.5"
)
FILLED = {"id": 1, "host": "it's {a}", "day": dt.date(2026, 1, 31), "size": 1.5}
DEFAULTS = {"HOST": "'it''s {a}'", "day": "DATE '2026-01-31'", "size": "1.5"}


def by_argument(path):
    indextables.create(path, SCHEMA, defaults=DEFAULTS)


def by_property(path):
    indextables.create(path, SCHEMA, properties={f"default.{name}": text for name, text in DEFAULTS.items()})


def by_shell(path):
    assert main(["create", str(path), "--schema", WORDS]) == 0


def by_sql(path):
    indextables.LocalSession({}).run(f"CREATE INDEXTABLE '{path}' ({WORDS})")


@pytest.mark.parametrize("make", [by_argument, by_property, by_shell, by_sql])
def test_rows_that_do_not_bring_a_column_hold_its_default(tmp_path, make):
    make(tmp_path / "t")
    table = indextables.open(tmp_path / "t")
    assert "columnDefaults" in table.protocol.writerFeatures
    table.append([{"id": 1}])
    table.append([{"id": 2, "host": None, "day": None, "size": None}])
    assert table.scan().read_all().to_pylist() == [FILLED, {"id": 2, "host": None, "day": None, "size": None}]
    table.merge([{"id": 3}], "t.id = s.id").when_not_matched_insert({"id": "s.id"}).execute()
    assert table.scan(where="id = 3").read_all().to_pylist() == [{**FILLED, "id": 3}]
    assert table.count(where="size = 1.5 AND day = DATE '2026-01-31'") == 2
    table.alter_column("host", default=None)
    table.append([{"id": 4}])
    assert table.scan(where="id = 4", columns=["host"]).read_all().to_pylist() == [{"host": None}]


def test_a_statement_that_is_shown_makes_the_same_table(tmp_path):
    session = indextables.LocalSession({})
    session.run(f"CREATE INDEXTABLE t LOCATION '{tmp_path / 't'}' ({WORDS})")
    ((made,),) = session.run("SHOW CREATE TABLE t").to_pydict().values()
    assert "size decimal(6,2) DEFAULT" in made
    columns = made[made.index("(") + 1 : made.index("USING")].strip().removesuffix(")")
    session.run(f"CREATE INDEXTABLE again LOCATION '{tmp_path / 'again'}' ({columns})")
    first, second = (indextables.open(tmp_path / name).schema for name in ("t", "again"))
    assert first.equals(second, check_metadata=True)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"defaults": {"gone": "1"}}, "gone"),
        ({"defaults": {"id": "host"}}, "no constant"),
        ({"defaults": {"id": "'x'"}}, "no value of type"),
        ({"defaults": {"id": "1"}, "generated": {"id": "size + 1"}}, "generated"),
        ({"defaults": {"id": 1}}, "default of id"),
    ],
)
def test_a_default_that_no_column_can_have_makes_no_table(tmp_path, made, reason):
    schema = pa.schema([("id", pa.int64()), ("host", pa.string()), ("size", pa.int64())])
    with pytest.raises(InvalidArgument, match=reason):
        indextables.create(tmp_path / "t", schema, **made)
    assert not (tmp_path / "t").exists()


def test_a_default_is_told_as_a_property_of_new_tables_alone(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, defaults=DEFAULTS)
    with pytest.raises(InvalidArgument, match="SET DEFAULT"):
        table.set_properties({"default.host": "'x'"})
    assert not any(key.startswith("default.") for key in table.metadata.configuration)
    # The schema of a table brings its defaults along no more than its ids.
    copied = indextables.create(tmp_path / "copy", table.schema)
    copied.append([{"id": 1}])
    assert copied.scan().read_all().to_pylist() == [{"id": 1, "host": None, "day": None, "size": None}]
    with pytest.raises(SchemaInvalid, match="not offered"):
        table.alter_column("id", type="bigint DEFAULT 3")
