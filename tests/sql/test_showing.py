"""SHOW and DESCRIBE of tables by name, in one Python process: the answers are Spark's, from our log."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument, NotSupported
from indextables.table.rows import schema_from_ddl

COLUMNS = (
    "id BIGINT NOT NULL COMMENT 'a number', day DATE, tags ARRAY<STRING>, m MAP<STRING, INT>, "
    "who STRUCT<name: STRING, at: TIMESTAMP_NTZ>, price DECIMAL(10, 2), small SMALLINT, b TINYINT, ts TIMESTAMP"
)
TYPES = {
    "id": "bigint",
    "day": "date",
    "tags": "array<string>",
    "m": "map<string,int>",
    "who": "struct<name:string,at:timestamp_ntz>",
    "price": "decimal(10,2)",
    "small": "smallint",
    "b": "tinyint",
    "ts": "timestamp",
}


@pytest.fixture
def session(tmp_path):
    table = indextables.create(
        tmp_path / "t", schema_from_ddl(COLUMNS), partition_by=["day"], properties={"team": "a"}, description="what"
    )
    table.append([{"id": 1}])
    return indextables.LocalSession({"logs": str(tmp_path / "t"), "Other": str(tmp_path / "t")})


def lines(session, text):
    return [tuple(row.values()) for row in session.run(text).to_pylist()]


def test_columns_are_shown_with_the_types_that_people_write(session):
    listed = [(name, kind, "a number" if name == "id" else None) for name, kind in TYPES.items()]
    described = lines(session, "DESCRIBE logs")
    assert described[: len(listed)] == listed
    assert described[-1] == ("day", "date", None)
    assert lines(session, "desc table LOGS;") == described
    assert lines(session, "DESCRIBE logs who")[1] == ("data_type", TYPES["who"])
    assert lines(session, "show columns in logs") == [(name,) for name in TYPES]
    assert lines(session, "SHOW TABLES") == [("logs",), ("other",)]


def test_a_handle_shows_its_table_as_a_session_does(session, tmp_path):
    table = indextables.open(tmp_path / "t")
    for text in ("DESCRIBE {}", "describe extended {}", "SHOW COLUMNS IN {}", "SHOW PARTITIONS {}", "DESC {} who;"):
        wanted = [row for row in lines(session, text.format("logs")) if row[0] != "Table"]
        found = [tuple(row.values()) for row in table.sql(text.format("t")).to_pylist()]
        assert [row for row in found if row[0] != "Table"] == wanted


def test_a_table_is_shown_as_its_log_says(session, tmp_path):
    extended = {row[0]: row[1] for row in lines(session, "DESCRIBE EXTENDED logs")}
    assert (extended["Comment"], extended["Version"]) == ("what", "1")
    assert extended["Location"] == f"file://{tmp_path / 't'}"
    assert ("team", "a") in lines(session, "SHOW TBLPROPERTIES logs")
    assert lines(session, "SHOW TBLPROPERTIES logs ('team')") == [("team", "a")]
    assert lines(session, "SHOW PARTITIONS logs") == [("day=__HIVE_DEFAULT_PARTITION__",)]
    ((made,),) = lines(session, "SHOW CREATE TABLE logs")
    assert made.startswith("CREATE TABLE logs (\n  id bigint NOT NULL COMMENT 'a number',")


def test_what_cannot_be_shown_is_told(session, tmp_path):
    with pytest.raises(InvalidArgument, match="there is no column x in logs"):
        session.run("DESCRIBE logs x")
    with pytest.raises(NotSupported, match="SHOW TABLES, COLUMNS, PARTITIONS"):
        session.run("SHOW COLUMNS IN nothing")
    indextables.create(tmp_path / "flat", pa.schema([("i", pa.int64())]))
    with pytest.raises(InvalidArgument, match="the table flat is not partitioned"):
        indextables.LocalSession({"flat": str(tmp_path / "flat")}).run("SHOW PARTITIONS flat")


def test_a_partition_is_not_described_and_what_is_kept_inside_is_not_shown(session):
    with pytest.raises(NotSupported, match=r"SHOW PARTITIONS logs lists the partitions"):
        session.run("DESCRIBE logs PARTITION (day = '2026-01-01')")
    (detail,) = session.run("DESCRIBE DETAIL logs").to_pylist()
    assert dict(detail["properties"])["team"] == "a"
    assert not [key for key, _ in detail["properties"] if key.startswith(("docMappingSchema", "columnMapping"))]


def test_a_vacuum_that_is_refused_names_the_statement_that_does_it(session):
    with pytest.raises(InvalidArgument, match=r"safe age of 24 hours.* PURGE INDEXTABLE t OLDER THAN 0 HOURS FORCE"):
        session.run("VACUUM logs RETAIN 0 HOURS")
    (row,) = session.run("PURGE INDEXTABLE logs OLDER THAN 0 HOURS FORCE").to_pylist()
    assert row["failed"] == []
