"""What an INSERT with WITH, PARTITION or REPLACE WHERE becomes before Spark sees it."""

from __future__ import annotations

import pytest

from indextables.errors import InvalidArgument, NotSupported
from indextables.sql.spark.inserting import insert_statement, plain_insert

DYNAMIC = "WITH (partitionOverwriteMode = 'dynamic')"
COLUMNS = {"id": "bigint", "day": "date", "message": "string", "hour": "int"}


def plain(text, args=None):
    asked = insert_statement(text, args)
    assert asked is not None
    statement, options = plain_insert(asked, COLUMNS, ["day", "hour"])
    return " ".join(statement.split()), options, asked.query[1]


def test_values_of_partition_become_columns_of_the_query():
    text = "INSERT INTO TABLE logs PARTITION (day = '2026-01-01', hour) SELECT 1, 'a', 2 -- so\n;"
    columns = "(`id`, `message`, `hour`, `day`)"
    said = f"INSERT INTO logs {columns} SELECT *, CAST('2026-01-01' AS date) AS `day` FROM (SELECT 1, 'a', 2 -- so )"
    assert plain(text) == (said, {}, {})


def test_columns_are_listed_or_go_by_name():
    listed, _, _ = plain("INSERT INTO logs PARTITION (hour = 1) (`day`, id) VALUES (DATE'2026-01-01', 1)")
    assert listed.startswith("INSERT INTO logs (`day`, `id`, `hour`) SELECT *, CAST(1 AS int) AS `hour` FROM (VALUES")
    named, _, _ = plain("insert into logs partition (HOUR = 1) by name select 1 id")
    assert named.startswith("INSERT INTO logs BY NAME SELECT *, CAST(1 AS int) AS `hour` FROM (select 1 id")
    queried, _, _ = plain("INSERT INTO logs PARTITION (hour = 1) (SELECT 1)")
    assert queried.startswith("INSERT INTO logs (`id`, `day`, `message`, `hour`) SELECT *, CAST(1 AS int)")


@pytest.mark.parametrize(
    ("clause", "options"),
    [
        ("PARTITION (day = DATE'2026-01-01')", ("`day` <=> DATE'2026-01-01'", None)),
        (f"{DYNAMIC} PARTITION (day = DATE'2026-01-01', hour)", (None, "dynamic")),
        (f"{DYNAMIC} PARTITION (day = NULL, hour = 1)", ("`day` <=> NULL AND `hour` <=> 1", None)),
        ("PARTITION (day, hour)", (None, None)),
        ("WITH (userMetadata = 'x')", (None, None)),
        ("WITH (replaceWhere = 'hour = 1')", ("hour = 1", None)),
    ],
)
def test_an_overwrite_replaces_the_partitions_that_it_names(clause, options):
    _, found, _ = plain(f"INSERT OVERWRITE logs {clause} SELECT 1")
    assert (found.get("replaceWhere"), found.get("partitionOverwriteMode")) == options


def test_replace_where_is_an_overwrite_of_what_it_says():
    text = "INSERT INTO logs REPLACE WHERE hour = CASE WHEN true THEN ? ELSE 2 END WITH a AS (SELECT ? AS id) FROM a"
    said, options, args = plain(text, [1, 7])
    assert (said, args) == ("INSERT OVERWRITE logs WITH a AS (SELECT ? AS id) FROM a", [7])
    assert options == {"replaceWhere": "hour = CASE WHEN true THEN (1) ELSE 2 END"}
    by_name = plain("INSERT INTO TABLE logs BY NAME REPLACE WHERE hour = :h TABLE other", {"h": 3, "other": 1})
    assert by_name == ("INSERT OVERWRITE logs BY NAME TABLE other", {"replaceWhere": "hour = (3)"}, {})


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO logs VALUES (1)",
        "INSERT INTO logs (id, day) VALUES (1, 2)",
        "INSERT INTO logs BY NAME SELECT 1 AS id",
        "INSERT INTO logs WITH a AS (SELECT 1) SELECT * FROM a",
        "INSERT INTO logs WITH (path = '/x') SELECT 1",
        "INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1",
        "INSERT INTO logs REPLACE WHERE",
        "INSERT INTO partition SELECT 1",
        "SELECT 1",
        "",
    ],
)
def test_every_other_statement_is_left_alone(text):
    assert insert_statement(text) is None


def test_what_no_table_can_do_is_told():
    with pytest.raises(InvalidArgument, match="logs is not partitioned by id"):
        plain("INSERT INTO logs PARTITION (id = 1) SELECT 1")
    with pytest.raises(InvalidArgument, match="PARTITION names Hour twice"):
        plain("INSERT INTO logs PARTITION (hour = 1, Hour = 2) SELECT 1")
    with pytest.raises(InvalidArgument, match="each say what is replaced"):
        plain("INSERT OVERWRITE logs WITH (replacewhere = 'hour = 1') PARTITION (hour = 1) SELECT 1")
    with pytest.raises(NotSupported, match="IF NOT EXISTS"):
        plain("INSERT OVERWRITE logs PARTITION (hour = 1) IF NOT EXISTS SELECT 1")
