"""Tells which rows a version took and brought: whole files, and differences of deletion vectors. Pure.

A file that leaves takes its live rows along, a new file brings them. A file that stays under its path with another
vector loses the rows that only the new vector deletes, and gets those back that only the old one did.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyroaring import BitMap

from indextables.lazy import pc
from indextables.log.wire import FILES_SCHEMA, VersionContent, combined, vector_ids
from indextables.split.file import SplitRef, dv

__all__ = ["Bundle", "Touched", "Unit", "alone", "differing", "may_pair", "touched", "unknown_paths"]


class Unit(msgspec.Struct, frozen=True):
    """Rows of one split that a version took or, if `is_new`, brought: those that the vector of `ref` leaves alive.

    `size` is the share of these rows in the bytes of the file. Where `is_wanted` is False no row of it can be asked
    for, but ids of rows may count.
    """

    ref: SplitRef
    is_new: bool
    size: int
    is_wanted: bool = True


class Bundle(msgspec.Struct, frozen=True):
    """Units of one version that are read together. Where it `pairs`, a row may be among the old and the new ones."""

    version: int
    time_ms: int
    units: list[Unit]
    pairs: bool = False


class Touched(NamedTuple):
    """The files whose rows a version changed, as entries of the log.

    `came` are new, `gone` are as they were before. `again` stay, with another vector than the one in `before`.
    """

    came: pa.Table
    gone: pa.Table
    again: pa.Table
    before: pa.ChunkedArray


def unknown_paths(content: VersionContent) -> pa.Array:
    """The paths whose entries in the version below are needed: a version file does not tell all of them.

    They are files that left, and files that came with a vector and may have been there before.
    """
    adds, removes = _changing(content)
    gone = removes["path"].filter(pc.invert(pc.is_in(removes["path"], value_set=combined(adds["path"]))))
    known = pc.is_in(adds["path"], value_set=combined(removes["path"]))
    unsure = adds["path"].filter(pc.and_(adds["deletionVector"].is_valid(), pc.invert(known)))
    return pa.concat_arrays([combined(gone), combined(unsure)])


def touched(content: VersionContent, before: pa.Table) -> Touched:
    """What a version changed; `before` has the live entries of `unknown_paths` in the version below.

    What says that it changes no data (merge splits, new indexes) changes nothing.
    """
    adds, removes = _changing(content)
    paths = pa.concat_arrays([combined(removes["path"]), combined(before["path"])])
    vectors = pa.chunked_array([combined(removes["deletionVector"]), combined(before["deletionVector"])])
    places = pc.index_in(combined(adds["path"]), value_set=paths)
    again, earlier = adds.filter(places.is_valid()), vectors.take(places.drop_null())
    texts = [pc.fill_null(vector_ids(column), "") for column in (again["deletionVector"], earlier)]
    changed = pc.not_equal(*texts)
    gone = before.filter(pc.invert(pc.is_in(before["path"], value_set=combined(adds["path"]))))
    return Touched(adds.filter(places.is_null()), gone, again.filter(changed), earlier.filter(changed))


def differing(before: BitMap, after: BitMap) -> tuple[BitMap, BitMap]:
    """The rows of a file that a new vector takes, and those that it brings back."""
    return after - before, before - after


def alone(ref: SplitRef, num_rows: int, rows: BitMap) -> SplitRef:
    """The split as if it had these rows only."""
    return msgspec.structs.replace(ref, vector=dv.encode(BitMap(range(num_rows)) - rows))


def may_pair(units: list[Unit]) -> bool:
    """False if no row can be among the old and the new ones: one side is empty, or its rows have no ids."""
    known = {unit.is_new for unit in units if unit.ref.base_row_id is not None}
    return len(known) == 2


def _changing(content: VersionContent) -> tuple[pa.Table, pa.Table]:
    """The adds and removes of paths of which one says that it changes data."""
    adds, removes = content.adds, content.removes
    if not adds.num_rows and not removes.num_rows:
        return adds.select(FILES_SCHEMA.names), removes
    told = [table["path"].filter(table["dataChange"]) for table in (adds, removes)]
    paths = pa.concat_arrays([combined(column) for column in told])
    kept = [table.filter(pc.is_in(table["path"], value_set=paths)) for table in (adds, removes)]
    return kept[0].select(FILES_SCHEMA.names), kept[1]
