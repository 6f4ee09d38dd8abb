"""What a process remembers of a table can be forgotten, whole or in part."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument


def entries():
    return {name: stats.entries for name, stats in indextables.cache_stats().regions.items()}


@pytest.mark.parametrize(("what", "other"), [("metadata", "protocol"), ("protocol", "metadata")])
def test_metadata_or_protocol_alone_can_be_forgotten(tmp_path, what, other):
    indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())])).append([{"id": 1}])
    table = indextables.open(tmp_path / "t")
    assert table.count() == 1
    before = entries()
    table.invalidate_cache(what)
    after = entries()
    assert after[what] < before[what]
    assert after[other] == before[other]
    assert table.count() == 1


def test_a_word_that_names_nothing_is_refused(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidArgument, match="'protocol'"):
        table.invalidate_cache("files")
