"""The life of a table by its name, in a session with `enable`: what people type, in Spark's own words."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from tests.spark.frames import held, ids

import indextables
from indextables.errors import (
    CommandSyntaxError,
    ConstraintViolation,
    InvalidArgument,
    NotSupported,
    SchemaMismatch,
    TableNotFound,
)

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

NAMES = ("logs", "copied", "placed", "other", "renamed", "empty")


@pytest.fixture
def session(spark):
    """The session with our SQL, and none of the names that these tests use."""
    indextables.enable(spark)
    yield spark
    # Whatever the test did: where statements are not ours, DROP TABLE leaves the rows.
    indextables.enable(spark)
    for name in NAMES:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    indextables.disable(spark)


def warehouse(spark):
    return Path(spark.catalog.getDatabase("default").locationUri.removeprefix("file:"))


def lines(frame):
    return [tuple(row) for row in frame.collect()]


def test_a_table_lives_by_its_name_alone(session):
    spark, place = session, warehouse(session) / "logs"
    spark.sql(
        "CREATE TABLE logs (id BIGINT NOT NULL COMMENT 'a number', day DATE, message STRING) USING indextables "
        "PARTITIONED BY (day) COMMENT 'what happened' TBLPROPERTIES ('indexing.typemap.message' = 'text', 'team' = 'a')"
    )
    assert spark.catalog.tableExists("logs")
    assert [row.tableName for row in spark.sql("SHOW TABLES LIKE 'logs'").collect()] == ["logs"]
    spark.sql("INSERT INTO logs VALUES (1, DATE'2026-01-01', 'disk full'), (2, DATE'2026-01-02', 'all is fine')")
    spark.sql("INSERT INTO logs (day, id) SELECT DATE'2026-01-02', 3L")
    assert held(place) == [1, 2, 3]
    assert ids(spark.sql("SELECT id FROM logs WHERE day = DATE'2026-01-02'")) == [2, 3]
    assert ids(spark.sql("SELECT * FROM default.logs WHERE TEXTSEARCH(message, 'disk')")) == [1]
    assert spark.sql("SELECT count(*) AS n FROM spark_catalog.default.logs a JOIN logs b USING (id)").first().n == 3

    assert lines(spark.sql("SHOW COLUMNS IN logs")) == [("id",), ("day",), ("message",)]
    assert lines(spark.sql("SHOW PARTITIONS logs")) == [("day=2026-01-01",), ("day=2026-01-02",)]
    properties = dict(lines(spark.sql("SHOW TBLPROPERTIES logs")))
    assert properties == {"indexing.typemap.message": "text", "team": "a"}
    assert lines(spark.sql("SHOW TBLPROPERTIES logs ('team')")) == [("team", "a")]
    described = lines(spark.sql("DESCRIBE logs"))
    assert described[:2] == [("id", "bigint", "a number"), ("day", "date", None)]
    assert described[3:] == [
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("day", "date", None),
    ]
    extended = {row.col_name: row.data_type for row in spark.sql("DESC TABLE EXTENDED logs").collect()}
    assert (extended["Provider"], extended["Type"]) == ("indextables", "MANAGED")
    assert (extended["Comment"], extended["Location"]) == ("what happened", f"file://{place}")
    assert lines(spark.sql("DESCRIBE logs message"))[1] == ("data_type", "string")
    assert spark.sql("DESCRIBE DETAIL logs").first().version == 2
    assert [row.version for row in spark.sql("DESCRIBE HISTORY logs").collect()] == [2, 1, 0]

    made = spark.sql("SHOW CREATE TABLE logs").first().createtab_stmt
    spark.sql(made.replace("default.logs", "default.copied"))
    assert lines(spark.sql("DESCRIBE copied")) == described
    spark.sql("INSERT INTO copied SELECT * FROM logs WHERE id < 3")
    assert (held(warehouse(spark) / "copied"), held(place)) == ([1, 2], [1, 2, 3])
    spark.sql("INSERT OVERWRITE copied SELECT id + 10, day, message FROM logs")
    assert ids(spark.sql("SELECT id FROM copied")) == [11, 12, 13]

    spark.sql("CACHE TABLE logs")
    assert ids(spark.sql("SELECT id FROM logs WHERE id > 1")) == [2, 3]
    spark.sql("DELETE FROM logs WHERE id = 2")
    assert ids(spark.sql("SELECT id FROM logs WHERE id > 1")) == [3]
    spark.sql("UNCACHE TABLE logs")
    spark.sql("TRUNCATE TABLE logs PARTITION (day = DATE'2026-01-01')")
    assert held(place) == [3]
    spark.sql("TRUNCATE TABLE logs")
    assert spark.sql("SELECT count(*) AS n FROM logs").first().n == 0

    spark.sql("DROP TABLE logs")
    assert not spark.catalog.tableExists("logs")
    assert not place.exists()
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("DROP TABLE logs")
    spark.sql("DROP TABLE IF EXISTS logs")


def test_a_table_is_made_by_a_query_and_has_its_own_place(session, tmp_path):
    spark, path = session, tmp_path / "placed"
    spark.sql(
        f"CREATE TABLE placed USING indextables PARTITIONED BY (part) LOCATION '{path}' COMMENT 'by a query' "
        "AS SELECT id, id % 2 AS part FROM range(6) WHERE id > :least",
        args={"least": 1},
    )
    table = indextables.open(path)
    assert (held(path), table.partition_columns, table.metadata.description) == ([2, 3, 4, 5], ["part"], "by a query")
    assert spark.sql("SHOW CREATE TABLE placed").first().createtab_stmt.splitlines()[-1] == f"LOCATION 'file://{path}'"
    spark.sql("CREATE TABLE IF NOT EXISTS placed USING indextables AS SELECT 100 AS id")
    assert held(path) == [2, 3, 4, 5]
    with pytest.raises(InvalidArgument, match="CREATE OR REPLACE TABLE"):
        spark.sql("CREATE TABLE placed (id INT) USING indextables")
    spark.sql("CREATE OR REPLACE TABLE placed USING indextables AS SELECT 'x' AS name, 7 AS id")
    assert lines(spark.sql("SELECT * FROM placed")) == [("x", 7)]
    assert lines(spark.sql("SELECT count(*) FROM placed VERSION AS OF 1")) == [(4,)]
    spark.sql("CREATE OR REPLACE TABLE placed (id INT NOT NULL) USING indextables")
    assert lines(spark.sql("DESCRIBE placed")) == [("id", "int", None)]
    spark.sql("DROP TABLE placed")
    assert indextables.open(path).count() == 0
    spark.sql(f"CREATE TABLE placed USING indextables LOCATION '{path}'")
    assert spark.sql("SELECT * FROM placed").columns == ["id"]
    spark.sql("DROP INDEXTABLE placed")
    assert not path.exists()
    assert not spark.catalog.tableExists("placed")


def test_partitions_are_named_by_an_insert_and_replaced(session):
    spark = session
    views = lines(spark.sql("SHOW TABLES LIKE 'indextables_*'"))
    spark.sql("CREATE TABLE logs (id BIGINT, day DATE, hour INT) USING indextables PARTITIONED BY (day, hour)")
    spark.sql("INSERT INTO logs PARTITION (day = '2026-01-01') SELECT id, int(id % 2) FROM range(4)")
    spark.sql("INSERT INTO logs PARTITION (hour = :h, day = DATE'2026-01-02') VALUES (10)", args={"h": 7})
    spark.sql("INSERT INTO logs PARTITION (day, hour) (id, hour, day) VALUES (11, 8, DATE'2026-01-02')")
    both = [0, 1, 2, 3, 10, 11]
    assert ids(spark.sql("SELECT id FROM logs")) == both
    spark.sql("INSERT OVERWRITE logs PARTITION (day = '2026-01-02') SELECT id + 10, int(id) FROM logs WHERE id > 10")
    assert lines(spark.sql("SELECT id, hour FROM logs WHERE day > DATE'2026-01-01'")) == [(21, 11)]
    assert ids(spark.sql("SELECT id FROM logs")) == [0, 1, 2, 3, 21]
    spark.sql("INSERT INTO logs REPLACE WHERE hour = 1 SELECT 30, DATE'2026-01-01', 1")
    assert ids(spark.sql("SELECT id FROM logs")) == [0, 2, 21, 30]
    spark.sql("INSERT OVERWRITE logs WITH (replaceWhere = 'hour = 1') BY NAME SELECT 1 AS hour, 31 AS id")
    assert ids(spark.sql("SELECT id FROM logs")) == [0, 2, 21, 31]
    with pytest.raises(InvalidArgument, match="1 of the new rows do not satisfy 'hour = 1'"):
        spark.sql("INSERT INTO logs REPLACE WHERE hour = 1 SELECT 40, DATE'2026-01-01', 2")
    with pytest.raises(InvalidArgument, match="logs is not partitioned by id"):
        spark.sql("INSERT INTO logs PARTITION (id = 1) SELECT 1, 2")
    dynamic = "WITH (partitionOverwriteMode = 'dynamic')"
    spark.sql(f"INSERT OVERWRITE logs {dynamic} PARTITION (day = '2026-01-01', hour) VALUES (50, 0)")
    assert ids(spark.sql("SELECT id FROM logs")) == [21, 31, 50]
    spark.sql("INSERT OVERWRITE logs PARTITION (day = '2026-01-02', hour = 11) SELECT 1 WHERE false")
    assert ids(spark.sql("SELECT id FROM logs")) == [31, 50]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(NotSupported, match="is dynamic in this session"):
            spark.sql("INSERT OVERWRITE logs PARTITION (day = '2026-01-01') VALUES (60, 0)")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert set(lines(spark.sql("SHOW TABLES LIKE 'indextables_*'"))) <= set(views)


def test_alter_table_by_name_changes_the_table_and_its_entry(session):
    spark = session
    spark.sql("CREATE TABLE logs (id BIGINT, s STRING) USING indextables")
    spark.sql("INSERT INTO logs VALUES (1, 'x')")
    spark.sql("ALTER TABLE logs RENAME COLUMN s TO text")
    spark.sql("ALTER TABLE logs ADD COLUMNS (n INT)")
    spark.sql("ALTER TABLE logs SET TBLPROPERTIES ('team' = 'b')")
    assert dict(lines(spark.sql("SHOW TBLPROPERTIES logs"))) == {"team": "b"}
    assert [row.asDict() for row in spark.sql("SELECT * FROM logs").collect()] == [{"id": 1, "text": "x", "n": None}]
    with pytest.raises(NotSupported, match="Nothing was changed"):
        spark.sql("ALTER TABLE logs REPLACE COLUMNS (id BIGINT)")
    with pytest.raises(NotSupported, match="SET LOCATION is not offered for logs"):
        spark.sql("ALTER TABLE logs SET LOCATION '/elsewhere'")
    spark.sql("ALTER TABLE logs RENAME TO renamed")
    assert ids(spark.sql("SELECT id FROM renamed")) == [1]
    indextables.disable(spark)
    assert spark.table("renamed").columns == ["id", "text", "n"]
    assert ids(spark.table("renamed")) == [1]


def test_tables_of_others_stay_as_they_are(session, tmp_path):
    spark = session
    spark.sql("CREATE TABLE other (id INT, day INT) USING parquet PARTITIONED BY (day)")
    spark.sql("INSERT INTO other VALUES (1, 2)")
    assert lines(spark.sql("SHOW PARTITIONS other")) == [("day=2",)]
    assert [row.col_name for row in spark.sql("DESCRIBE other").collect()][:2] == ["id", "day"]
    spark.sql("CACHE TABLE other")
    spark.sql("TRUNCATE TABLE other")
    spark.sql("ALTER TABLE other ADD COLUMNS (z INT)")
    assert spark.sql("SELECT * FROM other").columns == ["id", "z", "day"]
    with pytest.raises(NotSupported, match="no table of IndexTables: DROP it first"):
        spark.sql("CREATE OR REPLACE TABLE other (id INT) USING indextables")
    spark.sql("DROP TABLE other")
    # A table of another format that was made from one of ours is not ours.
    spark.sql("CREATE TABLE logs USING indextables AS SELECT 1L AS id")
    spark.sql("CREATE TABLE copied USING parquet AS SELECT * FROM logs")
    spark.sql("INSERT INTO logs VALUES (2)")
    assert (ids(spark.sql("SELECT * FROM copied")), ids(spark.sql("SELECT * FROM logs"))) == ([1], [1, 2])
    spark.sql("DROP TABLE copied")
    assert ids(spark.sql("SELECT * FROM logs")) == [1, 2]
    # What a permanent view shows follows its table.
    spark.sql("CREATE VIEW renamed AS SELECT id FROM logs WHERE id > 1")
    spark.sql("INSERT INTO logs VALUES (3)")
    assert ids(spark.sql("SELECT * FROM renamed")) == [2, 3]
    spark.sql("DROP VIEW renamed")


def test_a_new_table_has_defaults_from_the_start(session):
    spark = session
    words = "id BIGINT, host STRING DEFAULT 'none', size INT DEFAULT 3"
    spark.sql(f"CREATE OR REPLACE TABLE logs ({words}) USING indextables")
    spark.sql("INSERT INTO logs (id) VALUES (1)")
    assert spark.table("logs").collect() == [(1, "none", 3)]
    with pytest.raises(NotSupported, match="SET DEFAULT"):
        spark.sql("CREATE OR REPLACE TABLE logs (d INT DEFAULT 3) USING indextables")
    assert spark.table("logs").columns == ["id", "host", "size"]


@pytest.mark.parametrize(
    ("statement", "error", "told"),
    [
        ("CREATE TABLE empty USING indextables", InvalidArgument, "has no columns: write CREATE TABLE empty"),
        ("CREATE TABLE empty (id INT) USING indextables CLUSTERED BY (id) INTO 2 BUCKETS", NotSupported, "no buckets"),
        ("CREATE TABLE empty (d DATE) USING indextables PARTITIONED BY (years(d))", NotSupported, "as they are"),
        ("CREATE TABLE empty (d INT DEFAULT 'x') USING indextables", InvalidArgument, "no value of type"),
        ("CREATE TABLE empty (d INT) USING indextables AS SELECT 1", CommandSyntaxError, "leave out the list"),
        ("CREATE TABLE empty LIKE logs USING indextables", NotSupported, "AS SELECT"),
        ("CREATE TABLE empty (d INT) USING indextables STORED AS ORC", CommandSyntaxError, "expected USING"),
        (
            "CREATE TABLE empty (d INT) USING indextables TBLPROPERTIES ('where' = 'x')",
            InvalidArgument,
            "option of reads",
        ),
        ("REPLACE TABLE empty (d INT) USING indextables", TableNotFound, "CREATE OR REPLACE"),
        ("CREATE TABLE empty USING indextables LOCATION '/tmp/nothing/here'", TableNotFound, "name its columns"),
        ("DROP INDEXTABLE empty", TableNotFound, "write its path in quotes"),
    ],
)
def test_what_is_refused_leaves_no_name(session, statement, error, told):
    with pytest.raises(error, match=told):
        session.sql(statement)
    assert not session.catalog.tableExists("empty")


def test_a_place_that_has_a_table_is_not_taken_by_a_new_name(session):
    place = warehouse(session) / "empty"
    indextables.create(place, pa.schema([("id", pa.int64())])).append([{"id": 1}])
    with pytest.raises(InvalidArgument, match="gives it the name"):
        session.sql("CREATE TABLE empty (id BIGINT) USING indextables")
    with pytest.raises(InvalidArgument, match="already"):
        session.sql("CREATE TABLE empty USING indextables AS SELECT 2L AS id")
    assert not session.catalog.tableExists("empty")
    session.sql(f"CREATE TABLE empty USING indextables LOCATION '{place}'")
    assert ids(session.sql("SELECT * FROM empty")) == [1]
    session.sql("DROP TABLE empty")
    assert held(place) == [1]
    session.sql(f"DROP INDEXTABLE '{place}'")
    assert not place.exists()


def test_frames_are_saved_and_read_by_name(session):
    spark, place = session, warehouse(session) / "logs"
    df = spark.range(4).selectExpr("id", "id % 2 AS part")
    assert df.write.format("indextables").partitionBy("part").saveAsTable("logs") == 1
    with pytest.raises(InvalidArgument, match="there is a table or view logs"):
        df.write.saveAsTable("logs", format="indextables")
    assert df.write.format("indextables").mode("ignore").saveAsTable("logs") is None
    assert held(place) == [0, 1, 2, 3]
    # By name, by place, by name.
    df.selectExpr("part", "id + 10 AS id").write.mode("append").saveAsTable("logs")
    df.selectExpr("id + 20", "part").write.insertInto("logs")
    df.selectExpr("part", "id + 30 AS id").writeTo("logs").append()
    assert held(place) == [*range(4), *range(10, 14), *range(20, 24), *range(30, 34)]
    assert ids(spark.table("logs").where("part = 1 AND id < 20")) == [1, 3, 11, 13]
    assert ids(spark.read.option("versionAsOf", 1).table("logs")) == [0, 1, 2, 3]
    assert len(spark.table("logs").inputFiles()) == indextables.open(place).files().num_rows
    df.where("part = 1").writeTo("logs").overwritePartitions()
    assert [number for number in held(place) if number % 2] == [1, 3]
    assert 32 in held(place)
    with pytest.raises(NotSupported, match="replaceWhere"):
        df.writeTo("logs").overwrite(F.lit(True))
    df.where("id = 2").write.insertInto("logs", overwrite=True)
    assert held(place) == [2]

    df.writeTo("copied").using("indextables").partitionedBy("part").tableProperty("team", "x").create()
    copied = indextables.open(warehouse(spark) / "copied")
    assert (copied.partition_columns, copied.metadata.configuration["team"]) == (["part"], "x")
    with pytest.raises(InvalidArgument, match="there is a table or view copied"):
        df.writeTo("copied").using("indextables").create()
    spark.range(2).selectExpr("id", "'a' AS word").writeTo("copied").using("indextables").createOrReplace()
    assert spark.table("copied").columns == ["id", "word"]
    spark.range(3).write.format("indextables").mode("overwrite").saveAsTable("copied")
    assert spark.table("copied").columns == ["id"]
    assert ids(spark.sql("SELECT * FROM copied")) == [0, 1, 2]


def test_frames_are_saved_and_read_at_a_path(session, tmp_path):
    spark, path = session, str(tmp_path / "t")
    df = spark.range(4).selectExpr("id", "id % 2 AS part", "concat('row ', id) AS message")
    assert df.write.format("indextables").partitionBy("part").option("indexing.typemap.message", "text").save(path) == 1
    assert indextables.open(path).partition_columns == ["part"]
    with pytest.raises(InvalidArgument, match="there is a table at"):
        df.write.format("indextables").save(path)
    assert df.write.save(path, format="indextables", mode="ignore") == 1
    assert df.write.format("indextables").mode("append").save(path) == 2
    frame = spark.read.format("indextables").load(path)
    assert len(frame.inputFiles()) == indextables.open(path).files().num_rows
    assert ids(frame.where("part = 1")) == [1, 1, 3, 3]
    some = spark.read.format("indextables").option("where", "id > 1").option("versionAsOf", 1).load(path)
    assert ids(some) == [2, 3]
    assert spark.read.format("indextables").options(columns="id").load(path).columns == ["id"]
    assert spark.read.format("indextables").option("search", "message:2").load(path).count() == 2
    assert spark.read.schema("id bigint").format("indextables").load(path).count() == 8
    with pytest.raises(TableNotFound):
        spark.read.format("indextables").load(str(tmp_path / "missing")).schema  # noqa: B018 - Connect looks late
    with pytest.raises(SchemaMismatch, match="extra"):
        df.withColumn("extra", F.lit(1)).write.format("indextables").mode("append").save(path)
    # Other formats are Spark's, to the letter.
    df.write.format("parquet").partitionBy("part").save(str(tmp_path / "p"))
    with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
        df.write.parquet(str(tmp_path / "p"))
    assert spark.read.parquet(str(tmp_path / "p")).count() == 4
    df.write.saveAsTable("other")
    assert spark.table("other").count() == 4
    indextables.disable(spark)
    assert "table" not in spark.__dict__
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        df.write.format("indextables").save(path)
    indextables.enable(spark)


def test_rules_and_views_of_a_named_table(session):
    spark = session
    spark.sql(
        "CREATE TABLE logs (id INT, message STRING) USING indextables "
        "TBLPROPERTIES ('indexing.typemap.message' = 'text')"
    )
    spark.sql("INSERT INTO logs VALUES (1, 'disk full'), (2, 'all is fine')")
    spark.sql("ALTER TABLE logs ADD CONSTRAINT positive CHECK (id > 0)")
    with pytest.raises(ConstraintViolation, match=r"^a row breaks the constraint positive \(id > 0\)"):
        spark.sql("INSERT INTO logs VALUES (-1, 'wrong')")
    assert ids(spark.sql("SELECT id FROM logs")) == [1, 2]

    with pytest.raises(NotSupported, match="make the view without the search"):
        spark.sql("CREATE VIEW lasting AS SELECT * FROM logs WHERE TEXTSEARCH(message, 'disk')")
    before = {table.name for table in spark.catalog.listTables()}
    assert "lasting" not in before
    spark.sql("CREATE GLOBAL TEMPORARY VIEW everywhere AS SELECT * FROM logs WHERE TEXTSEARCH(message, 'disk')")
    try:
        assert ids(spark.sql("SELECT id FROM global_temp.everywhere")) == [1]
    finally:
        spark.catalog.dropGlobalTempView("everywhere")


def test_an_insert_that_leaves_columns_out_gets_their_defaults(session):
    spark = session
    spark.sql("CREATE TABLE logs (id BIGINT NOT NULL, message STRING) USING indextables")
    spark.sql(
        "ALTER TABLE logs ADD COLUMNS (level STRING DEFAULT 'it''s', size INT NOT NULL DEFAULT 3, day DATE DEFAULT "
        "DATE'2026-01-31', at TIMESTAMP DEFAULT TIMESTAMP'2026-01-31 12:00:00Z', price DECIMAL(6,2) DEFAULT 1.25)"
    )
    spark.sql("INSERT INTO logs (id, message) VALUES (1, 'a')")
    spark.sql("INSERT INTO logs (id, size) VALUES (2, DEFAULT)")
    spark.sql("INSERT INTO logs BY NAME SELECT 3L AS id, CAST(NULL AS STRING) AS level")
    spark.sql("ALTER TABLE logs ALTER COLUMN message SET DEFAULT 'none'")
    spark.sql("INSERT INTO logs (id, size) SELECT 4, 9")
    spark.sql("ALTER TABLE logs ALTER COLUMN message DROP DEFAULT")
    spark.sql("INSERT INTO logs SELECT 5, DEFAULT, DEFAULT, 1, DEFAULT, DEFAULT, DEFAULT")
    found = spark.sql(
        "SELECT id, message, level, size, day = '2026-01-31' AND price = 1.25 AS rest FROM logs ORDER BY id"
    )
    assert lines(found) == [
        (1, "a", "it's", 3, True),
        (2, None, "it's", 3, True),
        (3, None, None, 3, True),
        (4, "none", "it's", 9, True),
        (5, None, "it's", 1, True),
    ]
    same = "SELECT count(DISTINCT at) AS n, min(at) = TIMESTAMP'2026-01-31 12:00:00Z' AS same FROM logs"
    assert lines(spark.sql(same)) == [(1, True)]
    assert all(not field.metadata for field in spark.table("logs").schema)


def test_columns_that_the_table_fills_itself_may_be_left_out_though_they_are_never_null(session):
    spark = session
    spark.sql(
        "CREATE TABLE logs (n BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY, id BIGINT, "
        "twice BIGINT NOT NULL GENERATED ALWAYS AS (id * 2)) USING indextables"
    )
    spark.sql("INSERT INTO logs (id) VALUES (4)")
    assert lines(spark.sql("SELECT n, id, twice FROM logs")) == [(1, 4, 8)]


def test_rows_are_numbered_by_an_identity_column(session):
    spark = session
    spark.sql(
        "CREATE TABLE logs (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY 5), name STRING) "
        "USING indextables"
    )
    spark.sql("INSERT INTO logs (name) VALUES ('a'), ('b')").collect()
    spark.sql("INSERT INTO logs VALUES (7, 'given')").collect()
    found = {row.name: row.id for row in spark.table("logs").collect()}
    assert found["given"] == 7
    assert {found["a"], found["b"]} == {5, 10}
    words = spark.sql("SHOW CREATE TABLE logs").collect()[0][0]
    assert "id bigint GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY 5)" in words


def test_an_insert_fills_in_the_defaults_of_the_table(session):
    spark = session
    spark.sql("CREATE TABLE logs (id BIGINT, level STRING, day DATE) USING indextables")
    spark.sql("ALTER TABLE logs ALTER COLUMN level SET DEFAULT 'info'")
    spark.sql("ALTER TABLE logs ALTER COLUMN day SET DEFAULT DATE'2026-01-31'")
    spark.sql("INSERT INTO logs (id) VALUES (1)")
    spark.sql("INSERT INTO logs VALUES (2, DEFAULT, NULL)")
    spark.sql("INSERT INTO logs BY NAME SELECT 3L AS id, 'warn' AS level")
    day = dt.date(2026, 1, 31)
    rows = [(1, "info", day), (2, "info", None), (3, "warn", day)]
    assert lines(spark.sql("SELECT * FROM logs ORDER BY id")) == rows


def test_a_comment_is_that_of_the_table(session):
    spark = session
    spark.sql("CREATE TABLE logs (id BIGINT) USING indextables")
    spark.sql("COMMENT ON TABLE logs IS 'what happened'")
    spark.sql("COMMENT ON COLUMN default.logs.id IS 'a number'")
    told = lines(spark.sql("DESCRIBE EXTENDED logs"))
    assert ("id", "bigint", "a number") in told
    assert ("Comment", "what happened", "") in told
    spark.sql("COMMENT ON TABLE logs IS NULL")
    assert "Comment" not in [row[0] for row in lines(spark.sql("DESCRIBE EXTENDED logs"))]
    spark.sql("CREATE TABLE other (id INT) USING parquet")
    spark.sql("COMMENT ON TABLE other IS 'not ours'")
    assert ("Comment", "not ours", "") in lines(spark.sql("DESCRIBE EXTENDED other"))


def test_another_format_does_not_take_the_name_of_a_table(session):
    spark = session
    spark.sql("CREATE TABLE logs USING indextables AS SELECT 1L AS id")
    rows = spark.range(2)
    for attempt in (
        lambda: rows.write.format("parquet").mode("overwrite").saveAsTable("logs"),
        lambda: rows.writeTo("logs").using("parquet").createOrReplace(),
        lambda: rows.writeTo("logs").replace(),
        lambda: spark.sql("CREATE OR REPLACE TABLE logs (id INT) USING parquet"),
        lambda: spark.sql("REPLACE TABLE default.logs AS SELECT 1 AS id"),
    ):
        with pytest.raises(NotSupported, match=r"DROP TABLE .*logs first"):
            attempt()
    assert ids(spark.table("logs")) == [1]
    indextables.disable(spark)
    spark.sql("DROP TABLE logs")
    indextables.enable(spark)
    with pytest.raises(InvalidArgument, match="CREATE TABLE logs USING indextables LOCATION"):
        spark.sql("CREATE TABLE logs (other STRING) USING indextables")
    spark.sql(f"CREATE TABLE logs USING indextables LOCATION '{warehouse(spark) / 'logs'}'")
    spark.sql("DROP INDEXTABLE logs")
