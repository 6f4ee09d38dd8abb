"""The driver process of a test: `python -m tests.servers.spark_driver MODULE MASTER ARGUMENTS ...`."""

from __future__ import annotations

import importlib
import os
import sys
import warnings


def main() -> None:
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    module, master, *arguments = sys.argv[1:]
    builder = SparkSession.builder.master(master).appName(module)
    for line in os.environ["INDEXTABLES_TEST_CONF"].splitlines():
        key, _, value = line.partition("=")
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        importlib.import_module(module).main(spark, *arguments)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
