"""Records what delta-spark answers to the statements of `delta_cases`: `python record_delta.py RECORD.json`.

It runs in an environment of its own, with pyspark 4.2 and delta-spark 4.4, and without this library. `make soak` makes
that environment and compares (`test_like_delta.py`). Answers that the file has are kept: remove it to begin anew.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "io.delta:delta-spark_2.13:4.4.0"
_LEFT_OUT = ("Time", "Bytes")


def main(record: str) -> None:
    cases = _cases()
    spark = _session()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source, made in cases.SOURCES.items():
            _frame(spark, made, [row for file in made.files for row in file]).createOrReplaceTempView(source)
        path = Path(record)
        answers = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for number, case in enumerate(cases.CASES):
            if case.name in answers:
                continue
            if not (folder / case.table).exists():
                _create(spark, folder / case.table, cases.TABLES[case.table])
            place = folder / f"case{number}"
            shutil.copytree(folder / case.table, place)
            answers[case.name] = _answer(spark, cases, case.text, place)
            print(f"{number + 1} of {len(cases.CASES)}: {case.name}", flush=True)
            lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(told)}" for name, told in answers.items())
            path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _cases() -> Any:
    spec = importlib.util.spec_from_file_location("delta_cases", Path(__file__).with_name("delta_cases.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["delta_cases"] = module
    spec.loader.exec_module(module)
    return module


def _session() -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars.packages": PACKAGE,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        # Each statement runs once over ten rows: compiling anything takes longer than all else.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _create(spark: Any, place: Path, made: Any) -> None:
    parts = f" PARTITIONED BY ({', '.join(made.partitioned)})" if made.partitioned else ""
    spark.sql(f"CREATE TABLE delta.`{place}` ({made.ddl}) USING delta{parts}")
    for rows in made.files:
        _frame(spark, made, rows).write.format("delta").mode("append").save(str(place))


def _frame(spark: Any, made: Any, rows: Any) -> Any:
    return spark.createDataFrame(list(rows), made.ddl).coalesce(1)


def _answer(spark: Any, cases: Any, text: str, place: Path) -> dict[str, Any]:
    """The rows that are left, what the statement told, and the history; or the name of the error."""
    statement = (
        text.replace(" t ", f" delta.`{place}` AS t ", 1) if text.count(" t ") else f"{text[:-2]} delta.`{place}`"
    )
    before = _version(place)
    try:
        told = spark.sql(statement).collect()[0].asDict()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is recorded
        return {"error": _name_of(error)}
    rows = spark.sql(f"SELECT * FROM delta.`{place}`")
    answer = {"told": told, "rows": cases.told(rows.columns, [tuple(map(_value, row)) for row in rows.collect()])}
    if _version(place) == before:
        return answer
    metrics = _committed(place)["operationMetrics"]
    kept = {name: value for name, value in metrics.items() if not any(word in name for word in _LEFT_OUT)}
    return {**answer, "metrics": dict(sorted(kept.items()))}


def _version(place: Path) -> int:
    return max(int(file.stem) for file in (place / "_delta_log").glob("*.json"))


def _committed(place: Path) -> dict[str, Any]:
    """What the history tells of the newest version."""
    lines = (place / "_delta_log" / f"{_version(place):020}.json").read_text(encoding="utf-8").splitlines()
    return next(told["commitInfo"] for told in map(json.loads, lines) if "commitInfo" in told)


def _name_of(error: Exception) -> str:
    """Its condition; where py4j hides it, or a task wraps it, the one that its text names."""
    condition = getattr(error, "getCondition", lambda: None)()
    if condition is not None:
        return str(condition)
    found = [
        re.search(kind, str(error)) for kind in (r"\bDELTA_[A-Z_.]+\b", r"\bCAST_[A-Z_]+\b", r"\b[A-Z]+_[A-Z_.]+\b")
    ]
    return next((one[0] for one in found if one is not None), type(error).__name__)


def _value(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: _value(item) for name, item in value.asDict().items()}
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.astimezone(dt.UTC)
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value


if __name__ == "__main__":
    main(sys.argv[1])
