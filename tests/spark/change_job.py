"""A driver on a cluster that updates and merges rows while executors die, with what they had computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from tests.servers.spark_faults import first, kill_executor

from indextables.spark.table.indextable import IndexTable


def main(spark: Any, folder: str) -> None:
    """Changes rows of the table `t` below `folder`, and writes down what it was told."""

    def dying(name: str) -> Any:
        marker = f"{folder}/{name}.marker"

        def change(text: str) -> str:
            if first(marker):
                kill_executor()
            return f"{text} {name}"

        return F.udf(change, "string")

    table = IndexTable.forPath(spark, f"{folder}/t").alias("t")
    answers = [table.update("id % 2 = 0", {"message": dying("updated")("message")})]
    source = spark.range(100, 400).selectExpr("id", "'new' AS message").alias("s")
    begun = table.merge(source, "t.id = s.id").whenNotMatchedInsert(values={"id": "s.id", "message": "s.message"})
    answers.append(begun.whenMatchedUpdate(set={"message": dying("merged")("s.message")}).execute())
    told = [(row.num_updated_rows, row.num_inserted_rows) for answer in answers for row in answer.collect()]
    Path(f"{folder}/told.json").write_text(json.dumps(told))
