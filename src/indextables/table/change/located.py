"""Finds the rows that a statement selects: which files, and which row numbers in each.

A file is not opened where its partition values and bounds prove that all of its rows are selected, or none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables.env import Env
from indextables.log.wire import Metadata, schema_from_json
from indextables.query.evaluate import evaluate
from indextables.query.expr import And, Column, Node, columns_of, conjuncts
from indextables.query.prune import all_match, prune
from indextables.query.scope import Search
from indextables.split.query import boolean
from indextables.split.search import Hits, SplitSearcher
from indextables.table.change.keys import Ints
from indextables.table.read import Mark, in_order, mark_plan, refs_of, searcher_over

__all__ = [
    "Located",
    "Pairs",
    "Selection",
    "Taken",
    "Tally",
    "all_rows",
    "locate",
    "may_select",
    "selected",
    "whole_files",
]

_BATCH_ROWS = 65_536


class Selection(msgspec.Struct, frozen=True):
    """Which rows: those for which `where` is true, that `query` and all of `required` find; None asks for nothing.

    And for which `rest` is true, which has a column for each of `marked`.
    """

    where: Node | None = None
    query: str | None = None
    required: tuple[Mark, ...] = ()
    marked: tuple[Mark, ...] = ()
    rest: Node | None = None

    @property
    def searches(self) -> bool:
        """True if bounds and partition values cannot tell that all rows of a file are selected."""
        return self.query is not None or bool(self.required) or self.rest is not None


def selected(where: Node, query: str | None, searches: Sequence[Search]) -> Selection:
    """What a predicate asks for in which each of `searches` is a column. Pure."""
    marks = {search.name: Mark(search.name, search.column, search.query) for search in searches}
    plain: list[Node] = []
    rest: list[Node] = []
    required: list[Mark] = []
    for term in conjuncts(where):
        if isinstance(term, Column) and term.name in marks:
            required.append(marks[term.name])
        elif marks.keys().isdisjoint(columns_of(term)):
            plain.append(term)
        else:
            rest.append(term)
    used = {name for term in rest for name in columns_of(term)}
    return Selection(
        _all_of(plain),
        query,
        tuple(required),
        tuple(mark for name, mark in marks.items() if name in used),
        _all_of(rest),
    )


def _all_of(terms: Sequence[Node]) -> Node | None:
    if len(terms) < 2:
        return terms[0] if terms else None
    return And(tuple(terms))


class Taken(msgspec.Struct, frozen=True):
    """Rows of one file that clauses of a MERGE take, ascending; for each clause and row of the source, or -1."""

    rows: Ints
    clauses: Ints
    sources: Ints


class Pairs(msgspec.Struct, frozen=True):
    """What a MERGE does with which rows: those of the table by path, and rows of the source that come, by clause."""

    taken: dict[str, Taken]
    inserts: dict[int, Ints]

    def tally(self) -> Tally:
        """How many they are."""
        counts: dict[int, int] = {}
        for taken in self.taken.values():
            numbers, rows = np.unique(taken.clauses, return_counts=True)
            for number, count in zip(numbers.tolist(), rows.tolist(), strict=True):
                counts[number] = counts.get(number, 0) + count
        return Tally(counts, sum(map(len, self.inserts.values())))


class Tally(msgspec.Struct, frozen=True):
    """How many rows of the table each clause of a MERGE takes, by its number, and how many rows come."""

    taken: dict[int, int]
    inserted: int


class Located(msgspec.Struct, frozen=True):
    """The rows that go or change: for each path those of its file.

    `whole` files were not opened, `searched` were asked by their index, `scanned` by their columns. `kept` are rows
    that stay as they are, and that the statement depends on. `tally` counts what a MERGE does, `pairs` tell it where
    this process knows each.
    """

    rows: dict[str, BitMap]
    whole: int = 0
    searched: int = 0
    scanned: int = 0
    kept: dict[str, BitMap] = {}
    tally: Tally | None = None
    pairs: Pairs | None = None

    @property
    def found_by(self) -> str:
        """How rows were found, as reports and the history tell it: `files`, `index`, `scan`, or `mixed`."""
        ways = [("files", self.whole), ("index", self.searched), ("scan", self.scanned)]
        names = [name for name, count in ways if count]
        return "mixed" if len(names) > 1 else names[0] if names else "files"

    @property
    def inserts(self) -> int:
        """How many rows come that were not in the table."""
        return 0 if self.tally is None else self.tally.inserted


def locate(env: Env, metadata: Metadata, files: pa.Table, selection: Selection) -> Located:
    """The rows of `files`, which are live, that a statement selects. Those that are deleted may be among them.

    Raises QueryInvalid, SplitCorrupt, DvCorrupt, StoreError, ObjectNotFound where a file is gone.
    """
    candidates = may_select(files, metadata, selection)
    whole, others = whole_files(candidates, metadata, selection)
    rows = all_rows(whole)
    if not others.num_rows:
        return Located(rows, whole=whole.num_rows)
    others = in_order(others)
    paths = others["path"].to_pylist()
    searcher = searcher_over(env, metadata, refs_of(env, others, schema_from_json(metadata.schemaString)))
    hits = _hits(searcher, selection)
    places, starts = np.unique(hits.splits, return_index=True)
    for place, found in zip(places.tolist(), np.split(hits.rows, starts[1:]), strict=True) if len(hits) else ():
        rows[paths[place]] = BitMap(found.astype(np.uint32))
    return Located(rows, whole=whole.num_rows, searched=others.num_rows)


def _hits(searcher: SplitSearcher, selection: Selection) -> Hits:
    """The rows that a statement selects, by split and row."""
    plans = [mark_plan(searcher, mark) for mark in selection.required]
    if selection.query is not None and plans:
        plans.append(searcher.plan(selection.query))
    asked = boolean(must=tuple(plans)) if len(plans) > 1 else next(iter(plans), selection.query)
    hits = searcher.matches(asked, where=selection.where).hits
    if selection.rest is None or not len(hits):
        return hits
    found = [searcher.matches(mark_plan(searcher, mark)).hits for mark in selection.marked]
    names = [name for name in columns_of(selection.rest) if name not in {mark.name for mark in selection.marked}]
    keep = np.zeros(len(hits), bool)
    for start in range(0, len(hits), _BATCH_ROWS):
        here = slice(start, start + _BATCH_ROWS)
        part = Hits(hits.splits[here], hits.rows[here], hits.scores[here])
        rows = searcher.rows(part, list(dict.fromkeys(names)))
        for mark, marked in zip(selection.marked, found, strict=True):
            rows = rows.append_column(mark.name, pa.array(_among(part, marked)))
        told = pc.fill_null(evaluate(selection.rest, rows), False)  # noqa: FBT003 - Arrow's order
        keep[here] = np.asarray(told.to_numpy(zero_copy_only=False), bool)
    return Hits(hits.splits[keep], hits.rows[keep], hits.scores[keep])


def _among(hits: Hits, found: Hits) -> npt.NDArray[np.bool_]:
    """For each hit whether it is among `found`; both are by split and row. Pure."""
    result = np.zeros(len(hits), bool)
    for split in np.unique(hits.splits):
        here = hits.splits == split
        result[here] = np.isin(hits.rows[here], found.rows[found.splits == split], assume_unique=True)
    return result


def all_rows(files: pa.Table) -> dict[str, BitMap]:
    """Every row of these files, of which the log tells how many they have. Pure."""
    counts = zip(files["path"].to_pylist(), files["numRecords"].to_pylist(), strict=True)
    return {path: BitMap(range(count)) if count else BitMap() for path, count in counts}


def may_select(files: pa.Table, metadata: Metadata, selection: Selection) -> pa.Table:
    """The files that may hold selected rows, by partition values and bounds. Pure."""
    if selection.where is None or not files.num_rows:
        return files
    schema = schema_from_json(metadata.schemaString)
    return files.filter(prune(files, selection.where, schema, metadata.partitionColumns))


def whole_files(files: pa.Table, metadata: Metadata, selection: Selection) -> tuple[pa.Table, pa.Table]:
    """The files all of whose rows are selected for sure, and the others. Pure."""
    if selection.searches or not files.num_rows:
        return files.slice(0, 0), files
    counted = files["numRecords"].is_valid()
    if selection.where is not None:
        schema = schema_from_json(metadata.schemaString)
        counted = pc.and_(counted, all_match(files, selection.where, schema, metadata.partitionColumns))
    return files.filter(counted), files.filter(pc.invert(counted))
