"""Reads a mirror with delta-spark, and tries to write it: `python mirror_in_delta.py TABLE ANSWERS`.

It runs in the environment of `tests/world/delta_spark.py`. Each version becomes a folder of Parquet files with that
number; `writers.json` holds what each writer is told.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "sql"))

from record_delta import _session


def main(table: str, answers: str) -> None:
    spark = _session()
    log = Path(table) / "_delta_log"
    for version in sorted(int(file.stem) for file in log.glob("*.json")):
        rows = spark.read.format("delta").option("versionAsOf", version).load(table)
        rows.coalesce(1).write.parquet(f"{answers}/{version}")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    name = f"delta.`{table}`"
    newest = spark.read.format("delta").load(table)
    writers = {
        "append": lambda: newest.limit(1).write.format("delta").mode("append").save(table),
        "overwrite": lambda: newest.limit(1).write.format("delta").mode("overwrite").save(table),
        "delete": lambda: spark.sql(f"DELETE FROM {name}"),
        "update": lambda: spark.sql(f"UPDATE {name} SET id = 1"),
        "optimize": lambda: spark.sql(f"OPTIMIZE {name}").collect(),
        "vacuum": lambda: spark.sql(f"VACUUM {name} RETAIN 0 HOURS").collect(),
    }
    told = {}
    for verb, write in writers.items():
        try:
            write()
            told[verb] = "done"
        except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
            told[verb] = str(error)
    Path(answers, "writers.json").write_text(json.dumps(told), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
