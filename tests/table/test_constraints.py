"""CHECK constraints in one process: every door evaluates them on every row, and nothing of a bad write stays."""

from __future__ import annotations

import datetime as dt
import json
import logging

import pyarrow as pa
import pytest
from tests.foreign.delta_world import DeltaWorld

import indextables
from indextables.cli import main
from indextables.errors import (
    CommitConflict,
    ConstraintViolation,
    IndexTablesError,
    InvalidArgument,
    MetadataChanged,
    ProtocolUnsupported,
)
from indextables.log.wire import protocol
from indextables.sql.local.session import LocalSession

COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("name", pa.string())])
RULE = {"sane": "id >= 0 AND id < 100"}


def row(number, name="x", day="a"):
    return {"id": number, "day": day, "name": name}


def splits(path):
    return sorted(path.rglob("*.split"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t"


@pytest.fixture
def table(path):
    made = indextables.create(path, COLUMNS, partition_by=["day"], constraints=RULE)
    made.append([row(number) for number in range(3)])
    return made


def ids(table):
    return sorted(one["id"] for one in indextables.open(table.url).to_arrow(columns=["id"]).to_pylist())


BATCHES = pa.table({"id": [1, 2], "day": ["b", "b"], "name": ["x", "x"]}).to_batches(max_chunksize=1)
BAD_LAST = [*BATCHES, *pa.table({"id": [500], "day": ["c"], "name": ["x"]}).to_batches()]
DOORS = {
    "append": lambda t: t.append([row(1), row(500)]),
    "a later batch": lambda t: t.append(iter(BAD_LAST)),
    "null": lambda t: t.append([row(1), row(None)]),
    "a missing column": lambda t: t.append([{"day": "a"}]),
    "another column comes too": lambda t: t.append([{**row(500), "extra": 1}], merge_schema=True),
    "overwrite": lambda t: t.overwrite([row(500)]),
    "overwrite where": lambda t: t.overwrite([row(500)], "day = 'a'"),
    "overwrite of partitions": lambda t: t.overwrite([row(500)], partitions="dynamic"),
    "overwrite of the schema": lambda t: t.overwrite(pa.table({"id": [500]}), overwrite_schema=True, partition_by=[]),
    "update": lambda t: t.update({"id": "id + 98"}),
    "update to null": lambda t: t.update({"id": None}, "id = 1"),
    "upsert of a known key": lambda t: (
        t.upsert([row(500, "x")], on="name") if ids(t) == [0] else t.upsert([row(-1)], "id")
    ),
    "merge, matched": lambda t: t.merge([row(1)], "t.id = s.id").when_matched_update({"id": "t.id * 500"}).execute(),
    "merge, not matched": lambda t: t.merge([row(500)], "t.id = s.id").when_not_matched_insert_all().execute(),
    "SQL": lambda t: LocalSession({"t": t.url}).run("UPDATE t SET id = -1 WHERE id = 2"),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_lets_a_bad_row_in_and_nothing_of_it_stays(table, path, door):
    before, files = table.version, splits(path)
    with pytest.raises(ConstraintViolation) as caught:
        DOORS[door](table)
    assert caught.value.constraint == "sane"
    assert caught.value.expression == RULE["sane"]
    assert set(caught.value.row) >= {"id"}
    assert "sane (id >= 0 AND id < 100)" in str(caught.value)
    assert indextables.open(path).version == before
    assert splits(path) == files
    assert ids(table) == [0, 1, 2]


def test_good_rows_go_through_every_door(table):
    table.append([row(3)])
    table.update({"id": "id + 10"}, "id = 3")
    table.upsert([row(13, "y"), row(14)], on="id")
    table.overwrite([row(5, day="b")], partitions="dynamic")
    table.merge_splits()
    table.delete("id = 0")
    assert ids(table) == [1, 2, 5, 13, 14]


def test_the_first_bad_row_is_told(table):
    with pytest.raises(ConstraintViolation, match="id = 500, day = 'c', name = 'q'") as caught:
        table.append([row(1), row(500, "q", "c"), row(600)])
    assert caught.value.row == row(500, "q", "c")
    with pytest.raises(ConstraintViolation, match="null, which is not true"):
        table.append([row(None)])


def test_a_first_write_that_breaks_a_rule_leaves_no_table(tmp_path, capsys):
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"id": 1}\n{"id": 500}\n')
    made = ["ingest", str(tmp_path / "new"), str(lines), "--property", "constraints.Sane=id < 100"]
    assert main(made) == 2
    assert "sane (id < 100)" in capsys.readouterr().err
    with pytest.raises(indextables.errors.TableNotFound):
        indextables.open(tmp_path / "new")


def test_the_shell_ingests_by_the_rules_and_alters_them(table, path, tmp_path, capsys):
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"id": 1, "day": "a"}\n{"id": -5, "day": "a"}\n')
    assert main(["ingest", str(path), str(lines)]) == 2
    assert "id = -5" in capsys.readouterr().err
    assert main(["alter", str(path), "DROP CONSTRAINT sane"]) == 0
    assert main(["ingest", str(path), str(lines)]) == 0
    assert main(["alter", str(path), "ADD CONSTRAINT sane CHECK (id > 0)"]) == 2
    assert "2 rows that are there" in capsys.readouterr().err
    assert main(["delete", str(path), "--where", "id <= 0", "--yes"]) == 0
    assert main(["alter", str(path), "ADD", "CONSTRAINT", "sane", "CHECK", "(id > 0)"]) == 0
    assert indextables.open(path).metadata.configuration["constraints.sane"] == "id > 0"


def test_a_constraint_looks_at_the_rows_that_are_there_and_holds_afterwards(path):
    table = indextables.create(path, COLUMNS)
    table.append([row(1, "a"), row(2, None), row(3, "c")])
    with pytest.raises(ConstraintViolation, match="2 rows that are there, among them id = 1") as caught:
        table.add_constraint("named", "name > 'b'")
    assert (caught.value.rows, caught.value.row["id"]) == (2, 1)
    assert "checkConstraints" not in indextables.open(path).protocol.writerFeatures
    table.delete("id < 3")
    version = table.add_constraint("Named", "name > 'b'", user_metadata="why")
    assert table.add_constraint("NAMED", "name > 'b'") == version
    assert "checkConstraints" in table.protocol.writerFeatures
    assert "checkConstraints" not in table.protocol.readerFeatures
    with pytest.raises(ConstraintViolation):
        table.append([row(4, "a")])
    told = table.history(1).to_pylist()[0]
    assert (told["operation"], told["userMetadata"]) == ("ADD CONSTRAINT", "why")
    table.drop_constraint("named")
    table.append([row(4, "a")])
    with pytest.raises(InvalidArgument, match="no constraint named"):
        table.drop_constraint("named")
    assert table.drop_constraint("named", if_exists=True) == table.version


def test_statistics_spare_the_files_that_they_prove(path):
    table = indextables.create(path, COLUMNS, partition_by=["day"])
    for number, day in ((1, "a"), (50, "b")):
        table.append([row(number, day=day), row(number + 1, day=day)])
    table.delete("id = 50")
    for file in splits(path):
        file.chmod(0)
        file.rename(file.with_suffix(".away"))
    table.add_constraint("low", "id >= 1 AND id < 60")
    table.add_constraint("known", "day IN ('a', 'b')")
    table.add_constraint("named", "name IS NOT NULL")
    table.alter_column("id", nullable=False)
    with pytest.raises(indextables.IndexTablesError):
        table.add_constraint("odd", "id % 2 = 1")


REFUSED = {
    "no predicate": ("id + 1", "true or false|predicate"),
    "no column": ("1 = 1", "name a column"),
    "another column": ("nope > 1", "nope"),
    "a query": ("id IN (SELECT 1)", "cannot be evaluated"),
    "nothing": (" ", "cannot be evaluated|empty"),
    "an aggregate": ("sum(id) > 1", "cannot be evaluated"),
    "a search": ("TEXTSEARCH(name, 'x')", "cannot be evaluated"),
    "another text": ("id > 1", "there is a constraint sane already"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_rule_is_refused_in_words_and_leaves_no_version(table, path, what):
    text, said = REFUSED[what]
    version = table.version
    with pytest.raises(InvalidArgument, match=said):
        table.add_constraint("sane" if what == "another text" else "other", text)
    if what != "another text":
        with pytest.raises(InvalidArgument, match=said):
            indextables.create(path.with_name("new"), COLUMNS, constraints={"other": text})
        assert not path.with_name("new").exists()
    assert indextables.open(path).version == version


@pytest.mark.parametrize(
    "change",
    ["RENAME COLUMN id TO key", "DROP COLUMN id", "SET TBLPROPERTIES ('delta.constraints.a' = 'id > 1')"],
)
def test_what_would_break_a_rule_or_go_around_it_is_refused(table, change):
    with pytest.raises(InvalidArgument, match=r"constraint|CONSTRAINT"):
        table.alter(change)
    with pytest.raises(InvalidArgument, match="DROP CONSTRAINT"):
        table.alter("UNSET TBLPROPERTIES ('constraints.sane')")
    table.rename_column("name", "title")
    table.drop_columns("title")
    assert table.schema.names == ["id", "day"]
    with pytest.raises(InvalidArgument, match="sane"):
        table.overwrite(pa.table({"other": [1]}), overwrite_schema=True, partition_by=[])
    with pytest.raises(ConstraintViolation):
        table.append([{"id": 500}])


def test_a_column_that_is_widened_keeps_its_rule(path):
    table = indextables.create(path, pa.schema([("n", pa.int32())]), constraints={"low": "n < 10"})
    table.alter_column("n", type="bigint")
    table.append([{"n": 9}])
    with pytest.raises(ConstraintViolation):
        table.append([{"n": 2**40}])


def test_an_append_in_flight_does_not_bypass_a_new_constraint(path):
    table = indextables.create(path, COLUMNS)
    table.append([row(1)])
    late, later = indextables.open(path), indextables.open(path)
    late.append([row(500)])
    late.delete("id = 500")
    table.add_constraint("sane", "id < 100")
    for other in (late, later):
        with pytest.raises(CommitConflict):
            other.append([row(500)])
        with pytest.raises(ConstraintViolation):
            other.refresh().append([row(500)])
    other = indextables.open(path)
    table.add_constraint("named", "name IS NOT NULL")
    with pytest.raises(MetadataChanged):
        other.append([row(5, None)])
    assert ids(table) == [1]
    assert len(splits(path)) == 2


def test_properties_of_delta_make_constraints_of_a_new_table(path):
    table = indextables.create(path, COLUMNS, properties={"delta.constraints.Sane": "id < 100"})
    assert table.metadata.configuration["constraints.sane"] == "id < 100"
    assert "checkConstraints" in table.protocol.writerFeatures
    with pytest.raises(ConstraintViolation):
        table.append([row(100)])
    twice = {"delta.constraints.a": "id < 1", "constraints.A": "id < 2"}
    with pytest.raises(InvalidArgument, match="twice"):
        indextables.create(path.with_name("other"), COLUMNS, properties=twice)


def test_a_library_that_does_not_know_constraints_reads_and_does_not_write(table, monkeypatch):
    monkeypatch.setattr(protocol, "FEATURES", protocol.FEATURES - {"checkConstraints"})
    old = indextables.open(table.url)
    assert old.count() == 3
    for write in (lambda: old.append([row(5)]), lambda: old.delete("id = 1"), lambda: old.set_name("x")):
        with pytest.raises(ProtocolUnsupported, match="checkConstraints"):
            write()


def test_times_without_a_zone_mean_the_same_for_every_writer(path):
    schema = pa.schema([("ts", pa.timestamp("us", "UTC"))])
    indextables.create(path, schema, constraints={"new": "ts >= TIMESTAMP '2026-01-01 00:00:00'"})
    table = indextables.open(path, options={"timeZone": "Pacific/Honolulu"})
    table.append([{"ts": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}])
    with pytest.raises(ConstraintViolation):
        table.append([{"ts": dt.datetime(2025, 12, 31, 23, tzinfo=dt.UTC)}])


def test_no_value_of_a_personal_column_stands_in_an_error_or_a_log(path, caplog):
    table = indextables.create(
        path,
        COLUMNS,
        properties={"indexing.personal": "name"},
        constraints={"short": "length(name) < 5", "whole": "CAST(name AS INT) > 0"},
    )
    with caplog.at_level(logging.DEBUG), pytest.raises(ConstraintViolation) as caught:
        table.append([row(1, "ada@example.org")])
    assert caught.value.row == row(1, "(personal)")
    with pytest.raises(ConstraintViolation) as other:
        table.append([row(1, "ada")])
    assert "ada" not in str(caught.value) + str(other.value) + caplog.text
    assert other.value.__cause__ is None
    table.drop_constraint("short")
    table.drop_constraint("whole")
    table.append([row(1, "ada@example.org")])
    with pytest.raises(ConstraintViolation) as third:
        table.add_constraint("short", "length(name) < 5")
    assert "ada" not in str(third.value) + json.dumps(third.value.row)


def test_a_restore_brings_the_rules_of_its_version(table):
    with_rule = table.version
    table.drop_constraint("sane")
    table.append([row(500)])
    table.restore(version=with_rule)
    assert ids(table) == [0, 1, 2]
    with pytest.raises(ConstraintViolation):
        table.append([row(500)])
    table.restore(version=with_rule + 2)
    table.append([row(600)])
    assert ids(table) == [0, 1, 2, 500, 600]


def test_describe_and_sql_tell_the_rules(table):
    assert table.detail()["properties"]["constraints.sane"] == RULE["sane"]
    session = LocalSession({"t": table.url})
    told = session.run("DESCRIBE INDEXTABLES DETAIL t").to_pylist()[0]
    assert RULE["sane"] in json.dumps(told, default=str)


def test_a_delta_mirror_tells_the_rules_to_its_readers(table, path):
    from deltalake import DeltaTable

    table.mirror()
    table.append([row(7)])
    delta = DeltaTable(str(path))
    assert delta.metadata().configuration["delta.constraints.sane"] == RULE["sane"]
    assert "checkConstraints" in delta.protocol().writer_features
    assert sorted(delta.to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 7]
    table.drop_constraint("sane")
    assert "delta.constraints.sane" not in DeltaTable(str(path)).metadata().configuration


def test_a_conversion_takes_the_rules_of_a_delta_table_over_or_refuses_them_by_name(tmp_path):
    world = DeltaWorld(tmp_path / "delta")
    rules = {"delta.constraints.sane": "id < 100", "delta.constraints.odd": "xxhash64(id) > 0"}
    world.create(pa.schema([("id", pa.int64())]), configuration=rules)
    world.commit(world.add(pa.table({"id": [1, 2]})))
    with pytest.raises(InvalidArgument, match=r"odd \(xxhash64\(id\) > 0\)"):
        indextables.convert(tmp_path / "delta", tmp_path / "t")
    assert not (tmp_path / "t").exists()
    indextables.convert(tmp_path / "delta", tmp_path / "t", properties={"constraints.odd": "id > 0"})
    table = indextables.open(tmp_path / "t")
    told = {key: text for key, text in table.metadata.configuration.items() if key.startswith("constraints.")}
    assert told == {"constraints.sane": "id < 100", "constraints.odd": "id > 0"}
    world.commit(world.add(pa.table({"id": [3, 500]})))
    with pytest.raises(ConstraintViolation, match="id = 500"):
        indextables.convert(tmp_path / "delta", tmp_path / "t", properties={"constraints.odd": "id > 0"})
    assert ids(table) == [1, 2]


def test_only_files_that_nothing_proves_are_opened(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for first in (0, 10, 200):
        table.append([{"id": first + n, "name": f"n{n}"} for n in range(3)])
    last = table.files("id >= 200")["path"].to_pylist()
    for split in (tmp_path / "t").rglob("*.split"):
        if split.relative_to(tmp_path / "t").as_posix() not in last:
            split.unlink()
    indextables.invalidate_caches()
    table = indextables.open(tmp_path / "t")
    table.add_constraint("few", "id < 100 OR (id % 2 >= 0 AND name <> 'x')")
    with pytest.raises(ConstraintViolation, match="3 rows that are there"):
        table.add_constraint("fewer", "id < 200 OR id % 2 = 5")
    for split in (tmp_path / "t").rglob("*.split"):
        split.unlink()
    indextables.invalidate_caches()
    table = indextables.open(tmp_path / "t")
    table.add_constraint("proven", "id < 300 AND name IS NOT NULL")
    table.alter_column("name", nullable=False)
    table.add_columns("note string DEFAULT 'none'")
    table.rename_column("note", "said")
    table.alter_column("said", comment="why")
    table.drop_columns("said")
    table.set_properties({"team": "a"})
    table.drop_constraint("proven")
    with pytest.raises(IndexTablesError):
        table.add_constraint("unproven", "id % 2 >= 0")
