"""A table works the same wherever its bytes are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.contract.places import Place

import indextables
from indextables.errors import TableNotFound

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "message": [f"request {number} ended in a timeout" for number in ids]}, SCHEMA)


def test_a_table_is_created_filled_read_and_searched(place: Place):
    table = indextables.create(place.url, SCHEMA, indexing={"message": "text"}, options=place.settings)
    for number in range(3):
        table.append(rows(number, number + 10))
    again = indextables.open(place.url, options=place.settings)
    assert again.version == table.version == 3
    assert sorted(again.to_arrow()["id"].to_pylist()) == [0, 1, 2, 10, 11, 12]
    assert again.search("timeout").num_rows == 6
    assert again.search("message:11")["id"].to_pylist() == [11]
    again.overwrite(rows(7))
    assert table.at(version=3).to_arrow().num_rows == 6
    assert indextables.open(place.url, options=place.settings).to_arrow()["id"].to_pylist() == [7]


def test_two_handles_commit_without_losing_anything(place: Place):
    first = indextables.create(place.url, SCHEMA, options=place.settings)
    second = indextables.open(place.url, options=place.settings)
    for number in range(3):
        first.append(rows(number))
        second.append(rows(100 + number))
    found = indextables.open(place.url, options=place.settings)
    assert found.version == 6
    assert sorted(found.to_arrow()["id"].to_pylist()) == [0, 1, 2, 100, 101, 102]


def test_where_there_is_no_table_it_says_so(place: Place):
    with pytest.raises(TableNotFound) as caught:
        indextables.open(place.url, options=place.settings)
    assert place.open().url in str(caught.value)
