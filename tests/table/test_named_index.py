"""A named index of a pandas frame is columns of it; settings for columns that are not there are refused."""

import pandas as pd
import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument, SchemaMismatch

SCHEMA = pa.schema([("host", pa.string()), ("x", pa.int64())])
FRAME = pd.DataFrame({"host": ["a", "b"], "x": [1, 2]})
ROWS = FRAME.to_dict("records")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "t"


def test_a_named_index_becomes_a_column(place):
    table = indextables.create(place, SCHEMA)
    table.append(FRAME.set_index("host"))
    assert table.to_arrow().to_pylist() == ROWS
    table.overwrite(FRAME.set_index(["host", "x"]))
    assert table.to_arrow().to_pylist() == ROWS


def test_a_table_made_for_a_frame_has_its_named_index(place):
    table = indextables.create(place, FRAME.set_index("host"))
    assert table.schema.names == ["host", "x"]


def test_an_unnamed_index_is_left_out(place):
    table = indextables.create(place, SCHEMA)
    table.append(FRAME[FRAME["x"] > 1])
    table.append(FRAME.set_index(pd.Index(["k1", "k2"])))
    partly = FRAME.set_index("host").set_index(pd.Index([7, 8]), append=True)
    table.append(partly)
    assert table.to_arrow().to_pylist() == [ROWS[1], *ROWS, *ROWS]


def test_an_index_named_as_a_column_is_refused(place):
    table = indextables.create(place, SCHEMA)
    with pytest.raises(SchemaMismatch, match="host"):
        table.append(FRAME.set_index("host", drop=False))
    assert table.count() == 0


def test_a_named_index_that_the_table_does_not_have_is_refused(place):
    table = indextables.create(place, SCHEMA)
    with pytest.raises(SchemaMismatch, match="day is not a column"):
        table.append(FRAME.set_index(pd.Index([1, 2], name="day")))


KEYS = [
    ("indexing.typemap.nope", "text"),
    ("spark.indextables.indexing.tokenizer.Nope", "en_stem"),
    ("indexing.fastFields", "x,nope"),
    ("indexing.nonFastFields", "nope"),
]


@pytest.mark.parametrize(("key", "value"), KEYS)
def test_indexing_of_a_column_that_is_not_there_is_refused(place, key, value):
    for given in ({"options": {key: value}}, {"properties": {key: value}}):
        with pytest.raises(InvalidArgument, match=r"(?i)nope"):
            indextables.create(place, SCHEMA, **given)
    assert not place.exists() or not list(place.iterdir())
    indextables.create(place, SCHEMA)
    for write in ("append", "overwrite"):
        with pytest.raises(InvalidArgument, match=r"(?i)nope"):
            getattr(indextables.open(place, options={key: value}), write)(ROWS)
    assert indextables.open(place).version == 0


def test_indexing_of_a_column_that_the_same_call_adds_is_taken(place):
    indextables.create(place, SCHEMA)
    table = indextables.open(place, options={"indexing.typemap.note": "text"})
    table.append([{"host": "a", "x": 1, "note": "many words"}], merge_schema=True)
    assert table.search("note:words").num_rows == 1


def test_indexing_in_the_environment_serves_many_tables(place, monkeypatch):
    monkeypatch.setenv("INDEXTABLES_INDEXING_FASTFIELDS", "x,nope")
    table = indextables.create(place, SCHEMA)
    table.append(ROWS)
    assert table.count() == 2
