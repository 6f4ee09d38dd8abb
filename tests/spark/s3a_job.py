"""A program of its own: reads a table in S3 natively, by Hadoop's S3A, and by the Python reader; prints what it saw.

Started by `test_object_store.py` with the table's URL and the options that reach it, as JSON on standard input.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

HADOOP, SDK = "3.5.0", "2.35.4"
PACKAGES = [
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    *(
        f"software.amazon.awssdk:{name}:{SDK}"
        for name in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
    ),
]
# Spark has its own of these; the whole SDK would be 50 times as large.
EXCLUDES = [
    "software.amazon.awssdk:bundle",
    "io.netty:*",
    "org.slf4j:*",
    "commons-logging:*",
    "commons-codec:*",
    "org.apache.httpcomponents:*",
]


def main() -> None:
    asked = json.load(sys.stdin)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    from indextables import IndexTable

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars.packages", ",".join(PACKAGES))
        .config("spark.jars.excludes", ",".join(EXCLUDES))
        .getOrCreate()
    )
    url, options = asked["url"], asked["options"]
    frame = spark.createDataFrame(
        [(100 + i, f"spark {i}", i % 3) for i in range(30)], "id long, message string, part int"
    )
    frame.write.format("indextables").options(**options).mode("append").save(url)
    table = IndexTable.forPath(spark, url, options)
    native = table.toDF()
    reader = spark.read.format("indextables").options(**options).load(url)

    def rows(found):
        return sorted(map(list, found.select("id", "message", "part").collect()))

    seen = {
        "files": sorted(native.inputFiles()),
        "native": rows(native),
        "python": rows(reader),
        "where": rows(table.toDF("part = 1 and id > 100")),
        "search": sorted(row.id for row in table.search("spark").collect()),
        "count": table.count(),
    }
    spark.stop()
    sys.stdout.write("\n" + json.dumps(seen))


if __name__ == "__main__":
    main()
