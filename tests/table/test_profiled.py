"""A profiler or a reporter of errors holds on to what our functions were at, and to all that they looked at."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pyarrow as pa
import pytest

import indextables

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])


@pytest.fixture
def held() -> Iterator[list[FrameType]]:
    """Every frame of ours that ended, with its variables as they were then."""
    frames: list[FrameType] = []

    def hold(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and "indextables" in frame.f_code.co_filename:
            frames.append(frame)

    threading.setprofile(hold)
    sys.setprofile(hold)
    try:
        yield frames
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.parametrize("state", ["avro", "json", "parquet"])
def test_every_verb_works_under_a_profiler_that_holds_what_it_saw(tmp_path, held, state):
    options = {"state.format": state, "checkpoint.interval": 3}
    table = indextables.create(tmp_path / "t", SCHEMA, indexing={"t": "text"}, options=options)
    for batch in range(4):
        table.append(pa.table({"k": range(batch * 500, batch * 500 + 500), "t": [f"word{n}" for n in range(500)]}))
    table.update({"t": "'other'"}, where="k = 7")
    table.delete("k >= 1990")
    table.upsert([{"k": 8, "t": "upserted"}], on="k")
    table.merge_splits()
    assert table.search("upserted")["k"].to_pylist() == [8]
    assert table.scan(where="t = 'other'").read_all()["k"].to_pylist() == [7]
    fresh = indextables.open(tmp_path / "t")
    assert sorted(fresh.to_arrow()["k"].to_pylist()) == list(range(1990))
    assert fresh.verify().ok
    assert held


def test_a_large_index_is_written_under_a_profiler_that_holds_what_it_saw(tmp_path, held):
    texts = [" ".join(f"word{n * 31 + m}" for m in range(20)) for n in range(20_000)]
    table = indextables.create(tmp_path / "t", SCHEMA, indexing={"t": "text"})
    table.append(pa.table({"k": range(len(texts)), "t": texts}))
    assert table.search("word31")["k"].to_pylist()
    assert held
