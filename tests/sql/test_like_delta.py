"""The same statements give the rows, the counts and the refusals of delta-spark, as `delta_record.json` holds them.

`record_delta.py` made the record, with pyspark 4.2 and delta-spark 4.4; `make soak` makes it again and compares.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import IndexTablesError
from tests.sql import delta_cases as cases

RECORD = json.loads(Path(__file__).with_name("delta_record.json").read_text(encoding="utf-8"))
TYPES = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal(10, 2)": pa.decimal128(10, 2),
    "array<int>": pa.list_(pa.int32()),
    "map<string, int>": pa.map_(pa.string(), pa.int32()),
    "struct<a: int, b: string>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}
DIFFERENT = {
    "two rows for one, update by one": "pairs that no clause takes are none that a row could be changed by twice",
    "null equals null": "an ON without an equality is refused",
}
"""Statements that this library answers in a way of its own, each with the reason."""

NOT_WRITTEN = frozenset({"numTargetChangeFilesAdded", "numAddedChangeFiles", "numCopiedRows"})
"""Counts of what this library never does: its feed is derived, and no row is copied."""

REFUSALS = {
    "AMBIGUOUS_REFERENCE": {"QueryInvalid"},
    "CAST_INVALID_INPUT": {"InvalidArgument"},
    "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE": {"InvalidArgument"},
    "DELTA_CONFLICT_SET_COLUMN": {"CommandSyntaxError"},
    "DELTA_DUPLICATE_COLUMNS_ON_INSERT": {"CommandSyntaxError"},
    "DELTA_MERGE_UNRESOLVED_EXPRESSION": {"InvalidArgument", "QueryInvalid", "SchemaMismatch"},
    "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE": {"CardinalityViolation"},
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": {"SchemaMismatch"},
    "MERGE_WITHOUT_WHEN": {"CommandSyntaxError"},
    "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION": {"InvalidArgument"},
    "UNRESOLVED_COLUMN.WITH_SUGGESTION": {"InvalidArgument", "QueryInvalid"},
}
"""What this library raises where Delta raises an error of this name."""


def rows_of(made, files):
    names = [name for name, _ in made.columns]
    schema = pa.schema([pa.field(name, TYPES[kind], name not in made.required) for name, kind in made.columns])
    rows = [dict(zip(names, row, strict=True)) for file in files for row in file]
    return pa.Table.from_pylist(
        [{name: list(v.items()) if name == "m" and v is not None else v for name, v in row.items()} for row in rows],
        schema,
    )


@pytest.fixture(scope="module")
def sources():
    place = f"memory://delta{uuid.uuid4().hex}"
    urls = {}
    for name, made in cases.SOURCES.items():
        table = indextables.create(f"{place}/{name}", rows_of(made, ()).schema)
        table.append(rows_of(made, made.files))
        urls[name] = table.url
    return urls


def asked(case, sources):
    """The answer of this library, as the record has one."""
    made = cases.TABLES[case.table]
    place = f"memory://delta{uuid.uuid4().hex}/t"
    table = indextables.create(place, rows_of(made, ()).schema, partition_by=list(made.partitioned))
    for file in made.files:
        table.append(rows_of(made, (file,)))
    before = table.version
    try:
        told = indextables.LocalSession({**sources, "t": table.url}).run(case.text).to_pylist()[0]
    except IndexTablesError as error:
        assert table.refresh().version == before, "nothing was written"
        return {"error": type(error).__name__}
    data = table.refresh().to_arrow()
    rows = [tuple(dict(v) if n == "m" and v is not None else v for n, v in row.items()) for row in data.to_pylist()]
    answer = {"told": told, "rows": cases.told(data.column_names, rows)}
    return answer if table.version == before else {**answer, "metrics": dict(told["metrics"])}


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.CASES, ids=[case.name for case in cases.CASES])
def test_a_statement_does_what_it_does_in_delta(case, sources):
    theirs, ours = RECORD[case.name], asked(case, sources)
    if case.name in DIFFERENT:
        assert ours != theirs, "no difference any more: take it off the list"
        return
    assert ("error" in ours) == ("error" in theirs), (theirs.get("error"), ours.get("error"))
    if "error" in theirs:
        assert ours["error"] in REFUSALS[theirs["error"]]
        return
    assert ours["rows"] == theirs["rows"]
    assert {name: ours["told"][name] for name in theirs["told"]} == theirs["told"]
    assert ("metrics" in ours) == ("metrics" in theirs), "only one of them made a version"
    counts = {name: int(n) for name, n in theirs.get("metrics", {}).items() if name not in NOT_WRITTEN}
    if case.text.startswith("UPDATE") and counts:
        # Here, and only here, Delta counts files as removed that get a vector.
        counts["numRemovedFiles"] -= counts["numDeletionVectorsAdded"]
    assert {name: ours["metrics"].get(name) for name in counts} == counts


def test_the_record_has_every_statement_and_no_other():
    assert list(RECORD) == [case.name for case in cases.CASES]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_the_record_is_what_delta_answers(tmp_path):
    """In an environment of its own: ours has another Spark."""
    from benchmarks.delta_side import plain_environment, python_with_delta

    python, script = python_with_delta(tmp_path / "env"), Path(__file__).with_name("record_delta.py")
    subprocess.run([python, script, tmp_path / "record.json"], check=True, env={**plain_environment(), "TZ": "UTC"})
    assert json.loads((tmp_path / "record.json").read_text(encoding="utf-8")) == RECORD
