"""Odd arguments are refused by name, with a typed error, before anything is read or written."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import indextables
from indextables import options
from indextables.errors import InvalidArgument, QueryInvalid, SchemaMismatch, TableNotFound, VersionNotFound
from indextables.table.arguments import check_spelling

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])
HALF = "\ud800"


def bad_utf8() -> pa.Array:
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA)
    made.append([{"id": 1, "s": "a"}])
    return made


@pytest.mark.parametrize("version", ["1", 1.5, True, 10**30])
def test_a_version_is_a_number(table, version):
    for read in (lambda: table.at(version=version), lambda: table.log(version)):
        with pytest.raises(InvalidArgument, match="version is a whole number"):
            read()


def test_a_version_that_cannot_be_is_not_there(table):
    for read in (lambda: table.at(version=-1), lambda: table.log(-1), lambda: table.at(version=2**62)):
        with pytest.raises(VersionNotFound):
            read()


@pytest.mark.parametrize("when", [True, 1.5, "x", dt.date(2024, 1, 1), 10**30])
def test_a_time_is_a_time(table, when):
    with pytest.raises(InvalidArgument, match="is not a time"):
        table.at(timestamp=when)


@pytest.mark.parametrize("limit", ["1", 1.5, True, 0, -1])
def test_the_limit_of_a_history_is_a_number(table, limit):
    with pytest.raises(InvalidArgument, match="limit"):
        table.history(limit)


@pytest.mark.parametrize("columns", [[1], "id", [None], 5, [HALF]])
def test_columns_are_names(table, columns):
    with pytest.raises(InvalidArgument):
        table.to_arrow(columns=columns)


def test_the_argument_that_is_wrong_is_the_one_that_is_named(table):
    with pytest.raises(InvalidArgument, match="highlight is a list of names"):
        table.search("*", highlight="s")


@pytest.mark.parametrize("where", [5, f"s = '{HALF}'", ""])
def test_a_predicate_is_text(table, where):
    with pytest.raises(QueryInvalid):
        table.to_arrow(where=where)


@pytest.mark.parametrize(
    "txn", [("a",), ("a", "x"), ("a", -5), ("a", 2**70), ("a", True), (5, 1), (HALF, 1), ("", 1), "ab", 5, ("a", 1, 2)]
)
def test_a_txn_is_an_application_and_a_batch(table, tmp_path, txn):
    with pytest.raises(InvalidArgument, match="txn"):
        table.append([{"id": 2}], txn=txn)
    assert indextables.open(tmp_path / "t").version == 1


@pytest.mark.parametrize("path", [5, b"/tmp/x", None, ""])
def test_a_place_is_a_path(path):
    with pytest.raises(InvalidArgument):
        indextables.open(path)


def test_a_path_too_long_for_the_file_system_holds_no_table(tmp_path):
    with pytest.raises(TableNotFound):
        indextables.open(str(tmp_path / ("x" * 5000)))


@pytest.mark.parametrize("options", [["x"], {5: "x"}, "x", {HALF: "x"}, {"": "x"}])
def test_options_are_a_dict_of_texts(table, options):
    with pytest.raises(InvalidArgument):
        indextables.open(table.url, options=options)


@pytest.mark.parametrize(
    "more",
    [
        {"properties": {"a": None}},
        {"properties": {5: "x"}},
        {"properties": {"k": HALF}},
        {"properties": {HALF: "k"}},
        {"properties": {"": "k"}},
        {"properties": {"k": [1]}},
        {"properties": "x"},
        {"name": 5},
        {"name": HALF},
        {"description": [1]},
        {"partition_by": [1]},
        {"partition_by": "id"},
        {"partition_by": 5},
        {"indexing": "text"},
        {"indexing": {"s": 5}},
        {"indexing": {5: "text"}},
        {"indexing": {"s": {"type": HALF}}},
    ],
)
def test_a_table_is_made_of_sensible_things_or_not_at_all(tmp_path, more):
    with pytest.raises(InvalidArgument):
        indextables.create(tmp_path / "t", SCHEMA, **more)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("key", ["checkpoint.intervall", "spark.indextables.Checkpoint.Intervall", "storage.fsinc"])
def test_a_slip_in_a_key_is_told_with_the_key_that_is_meant(table, tmp_path, key):
    with pytest.raises(InvalidArgument, match=r"is (checkpoint\.interval|storage\.fsync) meant"):
        indextables.open(table.url, options={key: "2"})
    with pytest.raises(InvalidArgument, match="meant"):
        indextables.create(tmp_path / "n", SCHEMA, properties={key: "2"})


def slips(key):
    """A key with one letter left out, doubled, exchanged with the next, or another one, at each place."""
    for place, letter in enumerate(key):
        yield key[:place] + key[place + 1 :]
        yield key[:place] + letter + key[place:]
        yield key[:place] + ("q" if letter != "q" else "w") + key[place + 1 :]
        if place:
            yield key[: place - 1] + letter + key[place - 1] + key[place + 1 :]


KEYS = sorted({key for option in options.known_options() for key in (option.key, *option.aliases)})


@pytest.mark.slow
@pytest.mark.parametrize("key", [*KEYS, *options.FAMILIES, options.PREFIX])
def test_a_slip_in_any_key_or_family_of_ours_is_refused(key):
    known = {one.lower() for one in KEYS}
    rest = {options.PREFIX: "checkpoint.interval"}.get(key, "s" if key in options.FAMILIES else "")
    for slip in slips(key):
        plain = (slip + rest).lower()
        if len(key) < 5 or plain.removeprefix(options.PREFIX) in known or plain.startswith(options.FAMILIES):
            continue
        with pytest.raises(InvalidArgument, match="meant"):
            check_spelling("properties", {slip + rest: "x"})
    check_spelling("properties", {key + rest: "x", f"{options.PREFIX}{key}{rest}": "x"})


@pytest.mark.parametrize("key", ["isolationLevell", "indexing.typmap.s", "indexing.tpemap.s", "indxing.typemap.s"])
def test_a_slip_in_a_property_makes_no_table(tmp_path, key):
    with pytest.raises(InvalidArgument, match=r"is (isolationLevel|indexing\.typemap\.s) meant") as caught:
        indextables.create(tmp_path / "n", SCHEMA, properties={key: "text"})
    assert caught.value.option == key
    assert not (tmp_path / "n").exists()


def test_keys_of_others_and_of_columns_are_let_through(tmp_path):
    keys = {"merge.heapSize": "1", "owner": "me", "my.own.key": "x", "indexing.typemap.s": "text", "fs.s3a.x": "y"}
    indextables.create(tmp_path / "t", SCHEMA, properties=keys)
    assert indextables.open(tmp_path / "t", options=keys).version == 0


def test_numbers_and_booleans_are_written_down_as_properties(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, properties={"a": 5, "b": True, "checkpoint.interval": 7})
    found = table.metadata.configuration
    assert (found["a"], found["b"], found["checkpoint.interval"]) == ("5", "true", "7")


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"id": [1, "x"], "s": ["a", "b"]}),
        pd.DataFrame([[1, 2]], columns=["id", "id"]),
        pd.DataFrame({"s": [HALF]}),
        pd.Series([1], name="id"),
        pl.Series("id", [1]),
        pa.chunked_array([[1]]),
        [{1: 2}],
        [{HALF: 2}],
        [{"id": 1, "s": HALF}],
        [{"zz": HALF}],
        "",
        b"",
        pa.table({"id": pa.array([1], pa.int64()), "s": bad_utf8()}),
        pa.RecordBatchReader.from_batches(SCHEMA, [pa.record_batch({"q": [1]})]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_data_that_is_no_rows_of_the_table_is_refused_and_nothing_is_written(table, tmp_path, data):
    before = set((tmp_path / "t").rglob("*"))
    with pytest.raises(InvalidArgument):
        table.append(data)
    assert set((tmp_path / "t").rglob("*")) == before


def test_texts_that_are_not_utf8_are_refused_in_nested_and_partition_columns(tmp_path):
    nested = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), bad_utf8())
    table = indextables.create(tmp_path / "a", pa.schema([("id", pa.int64()), ("l", pa.list_(pa.string()))]))
    with pytest.raises(SchemaMismatch, match="UTF-8"):
        table.append(pa.table({"id": pa.array([1], pa.int64()), "l": nested}))
    parted = indextables.create(tmp_path / "b", SCHEMA, partition_by=["s"])
    with pytest.raises(SchemaMismatch, match="UTF-8"):
        parted.append(pa.table({"id": pa.array([1], pa.int64()), "s": bad_utf8()}))
    assert indextables.open(tmp_path / "b").count() == 0


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.array])
def test_a_version_may_be_any_whole_number_that_python_knows(table, kind):
    assert table.at(version=kind(0)).version == 0


@pytest.mark.parametrize("version", [np.bool_(True), np.float64(0), np.array([0, 1])], ids=repr)
def test_what_only_resembles_a_whole_number_is_no_version(table, version):
    with pytest.raises(InvalidArgument, match="whole number"):
        table.at(version=version)


@pytest.mark.parametrize("statement", [None, 1, b"select 1", ["select 1"]])
def test_a_statement_is_a_text(table, statement):
    with pytest.raises(InvalidArgument, match="statement"):
        table.sql(statement)


def test_a_repair_in_place_says_how_to_repair(table):
    with pytest.raises(InvalidArgument, match="at="):
        indextables.repair(table.url)
