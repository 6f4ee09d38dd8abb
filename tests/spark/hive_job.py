"""A program with a catalog of Hive in a folder: `make` makes a table by name, `use` finds it in another process."""

from __future__ import annotations

import sys
import warnings


def main(folder: str, what: str) -> None:
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    import indextables

    spark = (
        SparkSession.builder.master("local[2]")
        .enableHiveSupport()
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={folder}/db;create=true")
        .config("spark.driver.extraJavaOptions", f"-XX:TieredStopAtLevel=1 -Dderby.system.home={folder}")
        .getOrCreate()
    )
    indextables.enable(spark)
    if what == "make":
        spark.sql("CREATE TABLE logs (id BIGINT, part INT) USING indextables PARTITIONED BY (part)")
        spark.sql("INSERT INTO logs VALUES (1, 1), (2, 2)")
        spark.sql("ALTER TABLE logs ADD COLUMNS (note STRING)")
    else:
        assert [row.tableName for row in spark.sql("SHOW TABLES").collect()] == ["logs"]
        assert spark.table("logs").columns == ["id", "part", "note"]
        spark.sql("INSERT INTO logs VALUES (3, 2, 'x')")
        assert [tuple(row) for row in spark.sql("SHOW PARTITIONS logs").collect()] == [("part=1",), ("part=2",)]
        assert spark.sql("SELECT sum(id) AS total FROM logs").first().total == 6
        spark.sql("DROP TABLE logs")
        assert not spark.catalog.tableExists("logs")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
