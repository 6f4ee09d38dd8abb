"""Finds the rows that a statement selects: which files, and which row numbers in each.

A file is not opened where its partition values and bounds prove that all of its rows are selected, or none.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables.env import Env
from indextables.log.wire import Metadata, schema_from_json
from indextables.query.expr import Node
from indextables.query.prune import all_match, prune
from indextables.table.change.keys import Ints
from indextables.table.read import in_order, refs_of, searcher_over

__all__ = ["Located", "Pairs", "Selection", "Taken", "locate", "may_select"]


class Selection(msgspec.Struct, frozen=True):
    """Which rows: those for which `where` is true and that `query` finds; None asks for nothing."""

    where: Node | None = None
    query: str | None = None


class Taken(msgspec.Struct, frozen=True):
    """Rows of one file that clauses of a MERGE take, ascending; for each clause and row of the source, or -1."""

    rows: Ints
    clauses: Ints
    sources: Ints


class Pairs(msgspec.Struct, frozen=True):
    """What a MERGE does with which rows: those of the table by path, and rows of the source that come, by clause."""

    taken: dict[str, Taken]
    inserts: dict[int, Ints]


class Located(msgspec.Struct, frozen=True):
    """The rows that go or change: for each path those of its file.

    `whole` files were not opened, `searched` were asked by their index, `scanned` by their columns. `kept` are rows
    that stay as they are, and that the statement depends on. `pairs` tell what a MERGE does.
    """

    rows: dict[str, BitMap]
    whole: int = 0
    searched: int = 0
    scanned: int = 0
    kept: dict[str, BitMap] = {}
    pairs: Pairs | None = None

    @property
    def found_by(self) -> str:
        """How rows were found, as reports tell it."""
        counts = (("files", self.whole), ("index", self.searched), ("scan", self.scanned))
        return " and ".join(name for name, count in counts if count) or "files"

    @property
    def inserts(self) -> int:
        """How many rows come that were not in the table."""
        return sum(map(len, self.pairs.inserts.values())) if self.pairs is not None else 0


def locate(env: Env, metadata: Metadata, files: pa.Table, selection: Selection) -> Located:
    """The rows of `files`, which are live, that a statement selects. Those that are deleted may be among them.

    Raises QueryInvalid, SplitCorrupt, DvCorrupt, StoreError, ObjectNotFound where a file is gone.
    """
    candidates = may_select(files, metadata, selection)
    whole, others = _whole(candidates, metadata, selection)
    rows = {
        path: BitMap(range(count)) if count else BitMap()
        for path, count in zip(whole["path"].to_pylist(), whole["numRecords"].to_pylist(), strict=True)
    }
    if not others.num_rows:
        return Located(rows, whole=whole.num_rows)
    others = in_order(others)
    paths = others["path"].to_pylist()
    searcher = searcher_over(env, metadata, refs_of(env, others))
    hits = searcher.matches(selection.query, where=selection.where).hits
    places, starts = np.unique(hits.splits, return_index=True)
    for place, found in zip(places.tolist(), np.split(hits.rows, starts[1:]), strict=True) if len(hits) else ():
        rows[paths[place]] = BitMap(found.astype(np.uint32))
    return Located(rows, whole=whole.num_rows, searched=others.num_rows)


def may_select(files: pa.Table, metadata: Metadata, selection: Selection) -> pa.Table:
    """The files that may hold selected rows, by partition values and bounds. Pure."""
    if selection.where is None or not files.num_rows:
        return files
    schema = schema_from_json(metadata.schemaString)
    return files.filter(prune(files, selection.where, schema, metadata.partitionColumns))


def _whole(files: pa.Table, metadata: Metadata, selection: Selection) -> tuple[pa.Table, pa.Table]:
    """The files all of whose rows are selected for sure, and the others. Pure."""
    if selection.query is not None or not files.num_rows:
        return files.slice(0, 0), files
    counted = files["numRecords"].is_valid()
    if selection.where is not None:
        schema = schema_from_json(metadata.schemaString)
        counted = pc.and_(counted, all_match(files, selection.where, schema, metadata.partitionColumns))
    return files.filter(counted), files.filter(pc.invert(counted))
