"""Rules and changes of a table answer as delta-spark does, step by step, as `delta_rules.json` holds it.

`record_delta_rules.py` made the record, with pyspark 4.2 and delta-spark 4.4.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import IndexTablesError
from indextables.table.rows import schema_from_ddl
from tests.sql.delta_rules import SCRIPTS

RECORD = json.loads(Path(__file__).with_name("delta_rules.json").read_text(encoding="utf-8"))

DIFFERENT = {
    "NOT NULL where no row is null": "rows are looked at, where Delta always refuses",
    "a property that is not there": "that is told, unless IF EXISTS is said",
    "a generated column that is null": "null means that the value is not given",
    "a generated column that is set to what it is": "it is never set by hand",
    "numbers of which a column is generated": "rows get their numbers after columns are computed",
}
"""Scripts that this library answers in a way of its own, each with the reason."""

TYPES = {pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string", pa.float64(): "double", pa.date32(): "date"}
TYPES |= {pa.timestamp("us", "UTC"): "timestamp", pa.decimal128(10, 2): "decimal(10,2)"}


def played(script):
    """As the record has it, but for the names of errors."""
    place = f"memory://rules{uuid.uuid4().hex}/t"
    by = [script.partitioned] if script.partitioned else []
    try:
        table = indextables.create(place, schema_from_ddl(script.ddl), partition_by=by)
    except IndexTablesError as error:
        return {"steps": [type(error).__name__]}
    answers = ["done"]
    session = indextables.LocalSession({"t": place})
    for step in script.steps:
        before = values(indextables.open(place).to_arrow())
        try:
            if isinstance(step, str):
                session.run(step)
            else:
                indextables.open(place).append(rows_of(*step))
        except IndexTablesError as error:
            answers.append(type(error).__name__)
            assert values(indextables.open(place).to_arrow()) == before, "nothing was written"
        else:
            answers.append("done")
    table = indextables.open(place)
    feed = table.changes().read_all().select([*table.schema.names, "_change_type", "_commit_version"])
    return {
        "steps": answers,
        "columns": [[f.name, TYPES[f.type], f.nullable] for f in table.schema],
        "rows": values(table.to_arrow()),
        "feed": values(feed),
    }


def rows_of(ddl, rows):
    schema = schema_from_ddl(ddl)
    kept = [tuple(dt.datetime.fromisoformat(v + "+00:00") if "timestamp" in ddl else v for v in row) for row in rows]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in kept], schema)


def values(rows):
    plain = rows.to_pylist()
    shown = [
        [v if v is None or isinstance(v, int | float | str) else shown_value(v) for v in row.values()] for row in plain
    ]
    return sorted(shown, key=repr)


def shown_value(value):
    return str(value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value)


def counted(answer, script):
    """The answer, with versions counted among those that changed rows, and numbers by their order."""
    if "rows" not in answer:
        return {"steps": [step == "done" for step in answer["steps"]]}
    versions = sorted({row[-1] for row in answer["feed"]})
    names = [name for name, *_ in answer["columns"]]
    places = [names.index(name) for name in script.numbers]
    given = {place: sorted({row[place] for row in answer["feed"]}) for place in places}

    def plain(row):
        return [given[place].index(value) if place in given else value for place, value in enumerate(row)]

    return {
        "steps": [step == "done" for step in answer["steps"]],
        "columns": answer["columns"],
        "rows": sorted((plain(row) for row in answer["rows"]), key=repr),
        "feed": sorted(([*plain(row[:-1]), versions.index(row[-1])] for row in answer["feed"]), key=repr),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_does_in_delta(name):
    told, found = RECORD[name], played(SCRIPTS[name])
    if "rows" in told and told["feed"] is None:
        # Delta tells no feed across a rename or a drop.
        told, found = {**told, "feed": []}, {**found, "feed": []}
    theirs, ours = (counted(answer, SCRIPTS[name]) for answer in (told, found))
    if name in DIFFERENT:
        assert ours != theirs, "no difference any more: take it off the list"
        return
    assert ours == theirs


def test_the_record_has_every_script_and_no_other():
    assert list(RECORD) == list(SCRIPTS)
    assert set(DIFFERENT) <= set(SCRIPTS)
