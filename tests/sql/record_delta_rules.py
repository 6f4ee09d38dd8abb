"""Records what delta-spark answers to the scripts of `delta_rules`: `python record_delta_rules.py RECORD.json`.

As `record_delta.py`, in the same environment.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

_WIDENING = "'delta.enableTypeWidening' = 'true', 'delta.enableChangeDataFeed' = 'true'"
_MAPPING = ", 'delta.columnMapping.mode' = 'name'"


def main(record: str) -> None:
    rules, spark = _module("delta_rules"), _module("record_delta")._session()
    path = Path(record)
    answers = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        for number, (told, script) in enumerate(rules.SCRIPTS.items()):
            if told in answers:
                continue
            answers[told] = _played(spark, script, f"{name}/t{number}")
            print(f"{number + 1} of {len(rules.SCRIPTS)}: {told}", flush=True)
            lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in answers.items())
            path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _played(spark: Any, script: Any, place: str) -> dict[str, Any]:
    """What each step answers, the table that is left, and its feed."""
    parts = f" PARTITIONED BY ({script.partitioned})" if script.partitioned else ""
    properties = _WIDENING + (_MAPPING if script.mapped else "")
    made = f"CREATE TABLE delta.`{place}` ({script.ddl}) USING delta{parts} TBLPROPERTIES ({properties})"
    answers = [_tried(lambda: spark.sql(made).collect())]
    if answers[0] != "done":
        return {"steps": answers}
    for step in script.steps:
        if isinstance(step, str):
            text = step.replace(" t ", f" delta.`{place}` ", 1)
            if not step.startswith(("ALTER", "RESTORE")):
                text = step.replace(" t ", f" delta.`{place}` AS t ", 1)
            if step.endswith("FROM t"):
                text = f"DELETE FROM delta.`{place}`"
            answers.append(_tried(lambda text=text: spark.sql(text).collect()))
        else:
            answers.append(_tried(lambda step=step: _append(spark, step, place)))
    table = spark.sql(f"SELECT * FROM delta.`{place}`")
    return {
        "steps": answers,
        "columns": [[field.name, field.dataType.simpleString(), field.nullable] for field in table.schema],
        "rows": sorted([list(map(_value, row)) for row in table.collect()], key=repr),
        "feed": _feed(spark, place, table.columns),
    }


def _feed(spark: Any, place: str, columns: list[str]) -> list[Any] | None:
    """None where Delta refuses to tell, because columns were renamed or dropped in between."""
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(place)
    order = [*columns, "_change_type", "_commit_version"]
    try:
        return sorted([list(map(_value, row)) for row in feed.select(*order).collect()], key=repr)
    except Exception:  # noqa: BLE001 - its name says nothing
        return None


def _append(spark: Any, rows: Any, place: str) -> None:
    ddl, values = rows
    kept = [tuple(dt.datetime.fromisoformat(v) if "timestamp" in ddl else v for v in row) for row in values]
    spark.createDataFrame(kept, ddl).coalesce(1).write.format("delta").mode("append").save(place)


def _tried(call: Any) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is recorded
        return sys.modules["record_delta"]._name_of(error)
    return "done"


def _value(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float | str | bool) else str(value)


if __name__ == "__main__":
    main(sys.argv[1])
