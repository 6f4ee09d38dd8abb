"""Tables of other systems become tables of ours: the same rows in one commit, and later what is new, or a refusal."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.foreign import test_bundles as peer
from tests.foreign.delta_world import SCHEMA, DeltaWorld, rows
from tests.foreign.fixtures import cases, expected, folder, rows_of, told_rows

import indextables
from indextables.errors import (
    CommitConflict,
    ConstraintViolation,
    InvalidArgument,
    InvariantViolated,
    NotSupported,
    TableNotFound,
)
from indextables.log.wire import schema_to_json

LINES = pa.table(
    {"id": pa.array([1, 2, 3], pa.int64()), "day": ["mon", "mon", "tue"], "message": ["in", "disk full", "out"]}
)


@pytest.fixture
def delta(tmp_path):
    write_deltalake(tmp_path / "source", LINES, partition_by=["day"], name="lines", description="what was said")
    return tmp_path / "source"


def ids(path):
    return sorted(indextables.open(path).to_arrow(["id"])["id"].to_pylist())


def bytes_below(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("delta"))
def test_rows_of_every_delta_table_are_the_same_in_one_commit(case, tmp_path):
    before = bytes_below(case / "table")
    report = indextables.convert(case / "table", tmp_path / "ours")
    ours, source = indextables.open(tmp_path / "ours"), indextables.open(case / "table")
    assert rows_of(ours.to_arrow()) == told_rows(expected(case))
    assert (report.rows, report.version, report.system) == (source.count(), 1, "Delta")
    assert ours.partition_columns == source.partition_columns
    assert [(f.name, f.type, f.nullable) for f in ours.schema] == [(f.name, f.type, f.nullable) for f in source.schema]
    assert bytes_below(case / "table") == before


@pytest.mark.slow
@pytest.mark.parametrize("case", peer.CASES)
def test_rows_of_every_table_of_the_peer_are_the_same(case, tmp_path):
    report = indextables.convert(case / "table", tmp_path / "ours", system="indextables4spark")
    told = expected(case)
    assert peer.rows_of(indextables.open(tmp_path / "ours").to_arrow()) == sorted(
        json.dumps(row, sort_keys=True) for row in told["rows"]
    )
    assert report.rows == told["count"]
    assert indextables.convert(case / "table", tmp_path / "ours").files == 0


def test_what_the_source_says_of_itself_is_kept(delta, tmp_path):
    report = indextables.convert(delta, tmp_path / "ours", indexing={"message": "text"})
    ours = indextables.open(tmp_path / "ours")
    assert report.created
    assert (ours.metadata.name, ours.metadata.description) == ("lines", "what was said")
    assert ours.partition_columns == ["day"]
    assert ours.search("message:disk")["id"].to_pylist() == [2]
    newest = ours.history(1).to_pylist()[0]
    assert newest["operation"] == "CONVERT"
    assert dict(newest["operationParameters"])["sourceVersion"] == "0"


def test_comments_of_columns_are_kept(tmp_path):
    rows = pa.table({"id": [1], "inside": [{"x": 2}]})
    write_deltalake(tmp_path / "source", rows)
    log = tmp_path / "source" / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace(r"\"metadata\":{}", r"\"metadata\":{\"comment\":\"a word\"}"))
    indextables.convert(tmp_path / "source", tmp_path / "ours")
    fields = json.loads(indextables.open(tmp_path / "ours").metadata.schemaString)["fields"]
    told = [*fields, *fields[1]["type"]["fields"]]
    assert [(field["name"], field["metadata"]["comment"]) for field in told] == [
        ("id", "a word"),
        ("inside", "a word"),
        ("x", "a word"),
    ]


def test_a_second_run_takes_what_was_added_and_no_row_twice(delta, tmp_path):
    ours = tmp_path / "ours"
    assert indextables.convert(delta, ours).rows == 3
    assert indextables.convert(delta, ours).files == 0
    assert indextables.open(ours).version == 1
    more = LINES.append_column("size", pa.array([7, 8, 9], pa.int32()))
    write_deltalake(delta, more, mode="append", schema_mode="merge")
    write_deltalake(delta, LINES.slice(0, 1), mode="append", schema_mode="merge")
    # What is only written anew is no new row, and what it replaced is taken from the version that brought it.
    DeltaTable(delta).optimize.compact()
    report = indextables.convert(delta, ours)
    assert (report.rows, report.version, report.source_version) == (4, 2, 3)
    assert ids(ours) == [1, 1, 1, 2, 2, 3, 3]
    assert sorted(indextables.open(ours).to_arrow(["size"])["size"].drop_null().to_pylist()) == [7, 8, 9]
    assert indextables.convert(delta, ours).files == 0


@pytest.mark.parametrize("change", ["delete", "overwrite", "lost log"])
def test_a_source_that_lost_rows_is_refused_and_nothing_is_written(delta, tmp_path, change):
    indextables.convert(delta, tmp_path / "ours")
    if change == "delete":
        DeltaTable(delta).delete("id = 2")
    elif change == "overwrite":
        write_deltalake(delta, LINES, mode="overwrite")
    else:
        for _ in range(2):
            write_deltalake(delta, LINES, mode="append")
        DeltaTable(delta).create_checkpoint()
        (delta / "_delta_log" / f"{1:020d}.json").unlink()
    before = bytes_below(tmp_path / "ours")
    with pytest.raises(NotSupported, match="anew"):
        indextables.convert(delta, tmp_path / "ours")
    assert bytes_below(tmp_path / "ours") == before
    indextables.convert(delta, tmp_path / "anew")
    assert ids(tmp_path / "anew") == sorted(indextables.open(delta).to_arrow(["id"])["id"].to_pylist())


def test_a_restore_sets_free_what_it_takes_away(delta, tmp_path):
    ours = tmp_path / "ours"
    indextables.convert(delta, ours)
    write_deltalake(delta, LINES, mode="append")
    indextables.convert(delta, ours)
    indextables.open(ours).restore(1)
    assert ids(ours) == [1, 2, 3]
    assert indextables.convert(delta, ours).rows == 3
    indextables.open(ours).restore(0)
    assert indextables.convert(delta, ours).rows == 6
    assert ids(ours) == [1, 1, 2, 2, 3, 3]


def test_a_folder_of_parquet_files_is_converted_file_by_file(tmp_path):
    source, ours = tmp_path / "files", tmp_path / "ours"
    pq.write_to_dataset(LINES, source, partition_cols=["day"])
    assert indextables.convert(source, ours).rows == 3
    assert indextables.open(ours).partition_columns == ["day"]
    assert indextables.convert(source, ours).files == 0
    pq.write_to_dataset(LINES, source, partition_cols=["day"], basename_template="more-{i}.parquet")
    report = indextables.convert(source, ours)
    assert (report.files, report.rows) == (2, 3)
    assert ids(ours) == [1, 1, 2, 2, 3, 3]
    next(source.rglob("more-*.parquet")).unlink()
    with pytest.raises(NotSupported, match="are gone"):
        indextables.convert(source, ours)


def test_files_that_hold_other_rows_than_the_log_says_are_not_committed(delta, tmp_path):
    log = delta / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace(r"\"numRecords\":2", r"\"numRecords\":3"))
    with pytest.raises((InvariantViolated, indextables.errors.SplitCorrupt)):
        indextables.convert(delta, tmp_path / "ours")
    with pytest.raises(TableNotFound):
        indextables.open(tmp_path / "ours")
    assert not list((tmp_path / "ours").rglob("*.split"))


def test_of_two_conversions_at_the_same_time_one_commits(delta, tmp_path):
    ours = tmp_path / "ours"
    indextables.convert(delta, ours)
    write_deltalake(delta, LINES, mode="append")

    def other(_step):
        indextables.convert(delta, ours)

    with pytest.raises(CommitConflict):
        indextables.convert(delta, ours, progress=other)
    assert ids(ours) == [1, 1, 2, 2, 3, 3]
    live = {path.rsplit("/", 1)[-1] for path in indextables.open(ours).files()["path"].to_pylist()}
    assert {file.name for file in ours.rglob("*.split")} == live


def test_wrong_asks_are_refused_and_write_nothing(delta, tmp_path):
    ours = tmp_path / "ours"
    for wrong, more in [
        ((delta, ours), {"system": "parquet"}),
        ((delta, ours), {"partition_by": ["nothing"]}),
        ((delta, ours), {"indexing": {"nothing": "text"}}),
        ((delta, delta), {}),
    ]:
        with pytest.raises(InvalidArgument):
            indextables.convert(*wrong, **more)
    with pytest.raises(NotSupported):
        indextables.convert(delta, ours, system="hudi")
    with pytest.raises(TableNotFound):
        indextables.convert(tmp_path / "nothing", ours)
    assert not ours.exists() or not bytes_below(ours)
    indextables.convert(delta, ours)
    with pytest.raises(InvalidArgument, match="one of ours"):
        indextables.convert(ours, tmp_path / "again")
    with pytest.raises(InvalidArgument, match="partitioned by day"):
        indextables.convert(delta, ours, partition_by=["id"])
    with pytest.raises(InvalidArgument, match="another value"):
        indextables.convert(delta, ours, indexing={"message": "text"})
    write_deltalake(tmp_path / "other", LINES)
    with pytest.raises(InvalidArgument, match="is another"):
        indextables.convert(tmp_path / "other", ours)
    indextables.create(tmp_path / "mine", LINES.schema).append(LINES)
    with pytest.raises(InvalidArgument, match="not converted from"):
        indextables.convert(delta, tmp_path / "mine")


def test_partition_columns_that_we_cannot_have_are_told_with_the_way_out(tmp_path):
    source, ours = tmp_path / "delta", tmp_path / "ours"
    write_deltalake(source, pa.table({"id": [1, 2], "b": [b"x", b"y"]}), partition_by=["b"])
    with pytest.raises(InvalidArgument, match=r"binary cannot partition .* partitioned by b: .*partition_by=\[\]"):
        indextables.convert(source, ours)
    assert indextables.convert(source, ours, partition_by=[]).rows == 2
    assert indextables.open(ours).partition_columns == []


def test_sql_converts_too(delta, tmp_path):
    session = indextables.LocalSession({})
    text = f"CONVERT TO INDEXTABLES DELTA '{delta}' VERSION AS OF 0 INDEXING (message text) AT LOCATION '{tmp_path}/o'"
    told = session.run(text).to_pylist()[0]
    assert (told["rows"], told["version"], told["created"]) == (3, 1, True)
    assert session.run(text.replace(" INDEXING (message text)", "")).to_pylist()[0]["files"] == 0


@pytest.mark.skipif(folder("delta") is None, reason="needs the fixtures")
def test_a_renamed_column_is_refused(tmp_path):
    case = folder("delta") / "column_mapping_name" / "table"
    source = indextables.open(case)
    first = next(v for v in range(source.version + 1) if source.at(version=v).count())
    indextables.convert(case, tmp_path / "ours", version=first)
    names = [source.at(version=v).schema.names for v in (first, source.version)]
    if set(names[0]) <= set(names[1]):
        pytest.skip("the fixture renames nothing after its first rows")
    with pytest.raises(NotSupported, match=r"renamed or dropped"):
        indextables.convert(case, tmp_path / "ours")


@pytest.mark.parametrize("target", ["source/ours", ".", "link", "link/ours", "source/../source"])
def test_neither_may_lie_in_the_folder_of_the_other(delta, tmp_path, target):
    (tmp_path / "link").symlink_to(delta)
    before = bytes_below(tmp_path)
    with pytest.raises(InvalidArgument, match="give another target"):
        indextables.convert(delta, tmp_path / target)
    assert bytes_below(tmp_path) == before


def invariant_world(folder, told):
    """A Delta table as old writers made it: a rule in the metadata of its column."""
    world = DeltaWorld(folder)
    schema = json.loads(schema_to_json(SCHEMA))
    schema["fields"][0]["metadata"] = {"delta.invariants": told}
    world.create(json.dumps(schema))
    world.commit(world.add(rows(5, 6)))
    return world


def test_a_rule_in_the_metadata_of_a_column_becomes_a_constraint(tmp_path):
    world = invariant_world(tmp_path / "delta", json.dumps({"expression": {"expression": "id > 3"}}))
    indextables.convert(world.root, tmp_path / "ours")
    ours = indextables.open(tmp_path / "ours")
    assert ours.metadata.configuration["constraints.invariant_id"] == "id > 3"
    with pytest.raises(ConstraintViolation, match="invariant_id"):
        ours.append(rows(2))
    assert ours.refresh().count() == 2


@pytest.mark.parametrize("told", ["{", "{}", '{"expression": {"expression": 3}}'])
def test_a_rule_of_a_column_that_is_no_expression_is_refused(tmp_path, told):
    world = invariant_world(tmp_path / "delta", told)
    with pytest.raises(InvalidArgument, match=r"column id .* has delta.invariants that are no expression"):
        indextables.convert(world.root, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
