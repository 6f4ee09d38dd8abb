"""Tables, rows and options as a life draws them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.life.book import BY_PLACE, PLACES, WHERES, WORDS, Row, Shape

ARROW = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "double": pa.float64()}

_STATE = {
    "avro": {"state.format": "avro"},
    "small manifests": {"state.format": "avro", "state.entriesPerManifest": "2"},
    "json": {"state.format": "json"},
    "json in parts": {"state.format": "json", "checkpoint.maxFileSize": "1"},
    "parquet": {"state.format": "parquet"},
    "parquet in parts": {"state.format": "parquet", "checkpoint.maxFileSize": "1"},
}
STATES = tuple(_STATE)

NO_RETENTION = {
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
    "state.gc.minManifestAgeHours": "0",
}
MERGE_ON_WRITE = {"mergeOnWrite.enabled": "true", "mergeOnWrite.async.enabled": "false", "mergeOnWrite.minSplits": "2"}
PURGE_ON_WRITE = {
    "purgeOnWrite.enabled": "true",
    "purgeOnWrite.async.enabled": "false",
    "purgeOnWrite.triggerAfterWrites": "2",
}


def shape(*, partitioned: bool, narrow: bool = True) -> Shape:
    number = "int" if narrow else "long"
    columns = (("id", "long"), ("p", "string"), ("message", "string"), ("n", number))
    return Shape(columns, ("p",) if partitioned else ())


def schema_of(wanted: Shape) -> pa.Schema:
    return pa.schema([(name, ARROW[kind]) for name, kind in wanted.columns])


def state_options(state: str) -> dict[str, str]:
    return dict(_STATE[state])


@st.composite
def properties(draw: st.DrawFn) -> dict[str, str]:
    """Properties of a new table: state format, how often it is written, and what it does for itself."""
    found = state_options(draw(st.sampled_from(("small manifests", "avro", *STATES))))
    found["checkpoint.interval"] = draw(st.sampled_from(["2", "3", "100"]))
    for extra in (NO_RETENTION, MERGE_ON_WRITE, PURGE_ON_WRITE, {"isolationLevel": "Serializable"}):
        if draw(st.integers(0, 3)) == 0:
            found |= extra
    return found


mostly = st.sampled_from((True, True, True, False))

handles = st.integers(0, 17)
"""Which of the open handles, and what happens before it is used: see `World.handle`."""

wheres = st.sampled_from((None, None, *WHERES))
wheres_by_place = st.sampled_from(BY_PLACE)
words = st.sampled_from(WORDS)

drafts = st.lists(
    st.fixed_dictionaries(
        {
            "p": st.sampled_from(PLACES),
            "words": st.lists(words, max_size=2),
            "n": st.sampled_from((None, 0, -1, 3, 2**31 - 1)),
            "extra": st.sampled_from(("x", "y", None)),
            "size": st.sampled_from((None, 0.5, 1.5)),
        }
    ),
    max_size=4,
)
"""Rows before they have a number; columns that the table lacks are left out."""

forms = st.sampled_from(("dicts", "iterator", "arrow", "batches", "reader", "pandas", "polars"))


def rows_of(drawn: Sequence[Row], first: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with numbers from `first` on, in these columns."""
    made = []
    for number, draft in enumerate(drawn, first):
        row = {**draft, "id": number, "message": " ".join([*draft["words"], f"r{number}"])}
        made.append({name: row.get(name) for name in names})
    return made


def as_data(rows: list[dict[str, Any]], wanted: Shape, form: str) -> Any:
    """Rows as a caller may hand them over."""
    table = pa.Table.from_pylist(rows, schema=schema_of(wanted))
    if form == "dicts":
        return rows
    if form == "iterator":
        return iter(rows)
    if form == "batches":
        return table.combine_chunks().to_batches()[0] if rows else table
    if form == "reader":
        return table.to_reader(max_chunksize=1)
    if form == "pandas":
        return table.to_pandas(types_mapper=_nullable)
    if form == "polars":
        import polars as pl

        return pl.from_arrow(table)
    return table


def _nullable(kind: pa.DataType) -> Any:
    import pandas as pd

    return {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}.get(kind)


def as_time(ms: int, form: int) -> Any:
    """A time as a caller may write it."""
    when = dt.datetime.fromtimestamp(ms // 1000, dt.UTC) + dt.timedelta(milliseconds=ms % 1000)
    return (ms, when, when.isoformat())[form % 3]
