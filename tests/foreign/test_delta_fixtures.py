"""Delta tables that delta-spark and delta-rs wrote are read as these read them: rows, versions, files."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from tests.foreign.fixtures import cases, expected, folder, rows_of, told_rows

import indextables
from indextables.errors import VersionExpired
from indextables.log.wire import schema_from_json

CASES = cases("delta")

# It takes year 0001 for 1754, and refuses widened columns.
NOT_BY_DELTALAKE = {"every_type", "type_widening"}


def opened(case):
    return indextables.open(case / "table")


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_that_the_writer_reads(case):
    told, table = expected(case), opened(case)
    assert table.version == told["version"]
    assert rows_of(table.to_arrow()) == told_rows(told)
    assert table.count() == len(told["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_schema_and_properties_are_those_of_the_log(case):
    told, table = expected(case), opened(case)
    if "readSchema" in told:
        shown = schema_from_json(json.dumps(told["readSchema"]))
        assert [(f.name, f.type, f.nullable) for f in table.schema] == [(f.name, f.type, f.nullable) for f in shown]
    assert table.partition_columns == told["partitionColumns"]
    assert table.metadata.configuration == told["configuration"]
    assert table.protocol.minReaderVersion == told["protocol"]["minReaderVersion"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_files_are_those_of_the_log(case):
    told, table = expected(case), opened(case)
    files = {file["path"]: file for file in told["files"]}
    found = table.files().to_pylist()
    assert len(found) == len(files)
    for file in found:
        # Both encode once; which characters need it is each writer's own choice.
        match = next(told for path, told in files.items() if path.rsplit("/", 1)[-1] == file["path"].rsplit("/", 1)[-1])
        assert file["size"] == match["size"]
        assert dict(file["partitionValues"]) == match["partitionValues"]
        if match.get("numRecords") is not None:
            assert file["numRecords"] == match["numRecords"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_version_has_its_rows(case):
    told, table = expected(case), opened(case)
    for entry in told["history"]:
        if entry["numRows"] is None:
            continue
        older = table.at(version=entry["version"])
        assert older.count() == entry["numRows"]
        try:
            assert older.scan().read_all().num_rows == entry["numRows"]
        except VersionExpired:
            # The log knows the version; its files were vacuumed.
            assert case.name == "optimize_zorder_vacuum"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_history_names_each_version_and_operation(case):
    told = expected(case)
    listed = {row["version"]: row["operation"] for row in opened(case).history().to_pylist()}
    known = {entry["version"]: entry["operation"] for entry in told["history"]}
    assert {version: known[version] for version in listed if version in known} == listed


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.id not in NOT_BY_DELTALAKE])
def test_deltalake_and_duckdb_read_the_same_rows(case):
    table = opened(case)
    ours = table.to_arrow()
    theirs = QueryBuilder().register("t", DeltaTable(case / "table")).execute("SELECT * FROM t").read_all()
    read = pa.table(theirs).select(ours.column_names).cast(ours.schema)
    assert rows_of(read) == rows_of(ours)
    try:
        dataset = DeltaTable(case / "table").to_pyarrow_dataset()
    except (DeltaError, NotImplementedError):
        return
    if table.protocol.minReaderVersion == 1:
        assert duckdb.sql("SELECT count(*) FROM dataset").fetchall() == [(table.count(),)]
        assert len(dataset.schema) == len(ours.schema)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_predicate_and_sql_see_what_the_rows_say(case):
    table = opened(case)
    rows = table.to_arrow()
    for name in rows.column_names[:4]:
        nulls = rows[name].null_count
        assert table.count(where=f"`{name}` IS NULL") == nulls
        assert table.scan([name], where=f"`{name}` IS NOT NULL").read_all().num_rows == len(rows) - nulls
    name = rows.column_names[0]
    answer = table.sql(f'SELECT count(*) AS n, count("{name}") AS there FROM t').to_pylist()
    assert answer == [{"n": len(rows), "there": len(rows) - rows[name].null_count}]


@pytest.mark.skipif(folder("delta") is None, reason="shared/fixtures is not beside this checkout")
def test_versions_that_a_log_cleanup_took_are_named():
    table = opened(folder("delta") / "log_cleaned_up")
    with pytest.raises(VersionExpired) as caught:
        table.at(version=9)
    assert caught.value.earliest == 10
    assert table.at(version=10).count() == table.at(version=10).to_arrow().num_rows


@pytest.mark.skipif(folder("delta") is None, reason="shared/fixtures is not beside this checkout")
def test_commit_times_lead_to_versions():
    case = folder("delta") / "in_commit_timestamps"
    table = opened(case)
    times = {2: 1794734810775, 3: 1794734811422, 4: 1794734813608}
    for version, time in times.items():
        assert table.at(timestamp=time).version == version
        assert table.at(timestamp=time + 1).version == version
    assert table.at(timestamp=times[3] - 1).version == 2
    listed = {row["version"]: row["timestamp"].timestamp() * 1000 for row in table.history().to_pylist()}
    assert {version: round(listed[version]) for version in times} == times
