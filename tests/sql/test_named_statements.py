"""Statements about a table by its name: which are ours, and what they say."""

from __future__ import annotations

import pytest

from indextables.errors import CommandSyntaxError, NotSupported
from indextables.sql.command import ShowTable
from indextables.sql.spark.statements import (
    CacheTable,
    DropTable,
    MakeTable,
    Moved,
    TruncateTable,
    named_statement,
)


def test_a_table_is_made_with_every_clause():
    found = named_statement(
        "create or replace table `a`.b (id bigint, s struct<x: int>) using IndexTables partitioned by (id) "
        "location '/x' comment 'c' options (path2 'y') tblproperties ('k' = 'v', n = 3);"
    )
    assert found == MakeTable(
        name="a.b",
        if_there="replace",
        columns="id bigint, s struct<x: int>",
        location="/x",
        partition_by=("id",),
        comment="c",
        properties={"path2": "y", "k": "v", "n": "3"},
    )


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("CREATE TABLE t USING indextables AS SELECT 1 AS id", "SELECT 1 AS id"),
        ("CREATE TABLE t USING indextables SELECT 1 AS id;", "SELECT 1 AS id"),
        (
            "CREATE TABLE t USING indextables AS WITH a AS (SELECT 1) SELECT * FROM a",
            "WITH a AS (SELECT 1) SELECT * FROM a",
        ),
        ("CREATE TABLE t USING indextables AS (SELECT 1)", "(SELECT 1)"),
        ("CREATE TABLE t USING indextables AS TABLE s", "TABLE s"),
        ("CREATE TABLE t USING indextables OPTIONS (path '/x') AS FROM s", "FROM s"),
    ],
)
def test_the_query_of_a_table_is_as_typed(text, query):
    found = named_statement(text)
    assert isinstance(found, MakeTable)
    assert found.query is not None
    assert found.query[0].rstrip() == query


def test_the_query_gets_its_own_parameters():
    found = named_statement("CREATE TABLE t USING indextables LOCATION ? AS SELECT ? AS id", ["/x", 3])
    assert (found.location, found.query) == ("/x", ("SELECT ? AS id", [3]))


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (id INT) USING parquet",
        "CREATE TABLE t USING parquet AS SELECT * FROM a JOIN b USING (indextables)",
        "CREATE TABLE t AS SELECT 1 -- USING indextables",
        "CREATE TEMPORARY VIEW v USING indextables OPTIONS (path '/x')",
        "CREATE INDEXTABLE '/x' (id INT)",
        "DROP VIEW v",
        "DROP INDEXTABLES PARTITIONS FROM t WHERE d = 1",
        "SHOW TABLES",
        "SHOW TABLE EXTENDED LIKE 't'",
        "DESCRIBE QUERY SELECT 1",
        "DESCRIBE DATABASE d",
        "DESCRIBE HISTORY t",
        "DESCRIBE INDEXTABLES STATE t",
        "DESCRIBE TABLE EXTENDED t AS JSON",
        "DESC SELECT 1",
        "CACHE TABLE t AS SELECT 1",
        "CACHE LAZY TABLE t SELECT 1",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t ADD COLUMNS (a INT)",
        "SELECT 1",
        "",
    ],
)
def test_all_other_statements_are_left_alone(text):
    assert named_statement(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("TRUNCATE TABLE a.t", TruncateTable("a.t")),
        ("truncate table t partition (d = 1, e = 'x')", TruncateTable("t", "d = 1, e = 'x'")),
        ("SHOW COLUMNS FROM t IN d", ShowTable("d.t", "columns")),
        ("SHOW COLUMNS IN d.t", ShowTable("d.t", "columns")),
        ("SHOW PARTITIONS t", ShowTable("t", "partitions")),
        ("SHOW TBLPROPERTIES t (a.b)", ShowTable("t", "tblproperties", "a.b")),
        ("SHOW CREATE TABLE `t`", ShowTable("t", "create")),
        ("DESC t", ShowTable("t", "describe")),
        ("DESCRIBE TABLE FORMATTED d.t;", ShowTable("d.t", "extended")),
        ("DESCRIBE t a", ShowTable("t", "describe", "a")),
        ("CACHE LAZY TABLE t OPTIONS ('storageLevel' 'DISK_ONLY')", CacheTable("t", is_kept=True, is_lazy=True)),
        ("UNCACHE TABLE IF EXISTS t", CacheTable("t", is_kept=False)),
        ("ALTER TABLE t SET LOCATION '/x'", Moved("t", "SET LOCATION")),
        ("ALTER TABLE t ADD IF NOT EXISTS PARTITION (d = 1)", Moved("t", "ADD IF")),
    ],
)
def test_what_a_statement_says_about_its_table(text, found):
    assert named_statement(text) == found


@pytest.mark.parametrize("text", ["DROP TABLE IF EXISTS d.t PURGE", "drop table if exists d.t"])
def test_a_table_is_dropped_by_name(text):
    found = named_statement(text)
    assert isinstance(found, DropTable)
    assert (found.target.text, found.if_exists, found.with_rows) == ("d.t", True, False)


def test_a_table_is_dropped_with_its_rows_by_name_or_path():
    by_path = named_statement("DROP INDEXTABLE '/x'")
    assert isinstance(by_path, DropTable)
    assert (by_path.target.text, by_path.target.is_path, by_path.with_rows) == ("/x", True, True)
    with pytest.raises(CommandSyntaxError):
        named_statement("DROP INDEXTABLE t AND MORE")


def test_what_no_table_can_have_is_told():
    with pytest.raises(NotSupported, match="as they are"):
        named_statement("CREATE TABLE t (d DATE) USING indextables PARTITIONED BY (days(d))")
    with pytest.raises(CommandSyntaxError, match="LOCATION once"):
        named_statement("CREATE TABLE t (d DATE) USING indextables LOCATION '/a' OPTIONS (path '/b')")
