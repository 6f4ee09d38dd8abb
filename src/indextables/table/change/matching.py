"""Finds which rows of the table belong to which rows of a source, and which clause of a MERGE takes them: one pass.

Only the columns that ON and conditions name are read, of files that may hold a match. Where keys are few for the rows
of a file, and the index knows their column, the index finds the rows. That no row is taken twice is checked on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables.env import Env
from indextables.log.read import Snapshot
from indextables.query.convert import as_array
from indextables.query.evaluate import can_fail, evaluate, evaluate_value
from indextables.query.expr import And, Column, Comparison, In, Literal, Node, Or, columns_of
from indextables.query.prune import prune
from indextables.split.file import SplitRef
from indextables.table.change.clauses import Bound, Choice
from indextables.table.change.keys import Ints, Keys
from indextables.table.change.located import Located, Pairs, Taken
from indextables.table.read import in_order, refs_of, scan_split, searcher_over
from indextables.table.writing import target_of

__all__ = ["Matching", "TakenTwice", "costs_less"]

_FEW_KEYS = 32
"""Up to so many values of a key, files are looked at for each; for more of them by the least and the greatest."""

# Microseconds of a core, measured: a key that the index does not have, one that it has with the page of its row, and a
# row of a text column that is read.
_MISS_US, _HIT_US, _ROW_US = 0.5, 260.0, 0.12

_Part: TypeAlias = "tuple[Ints, pa.Table]"
"""Numbers of rows of one file, and the columns that were read of them."""
_Mask = npt.NDArray[np.bool_]


class TakenTwice(Exception):
    """A row of the table that clauses take for two rows of the source."""

    def __init__(self, path: str, row: int, sources: tuple[int, int], clause: int) -> None:
        super().__init__(path, row, sources, clause)
        self.path, self.row, self.sources, self.clause = path, row, sources, clause


class _Found(msgspec.Struct, frozen=True):
    """What one file holds: rows that are taken, rows that match and stay, rows of the source that have a match."""

    taken: Taken
    kept: BitMap
    sources: Ints


class Matching:
    """A MERGE over one version: `source` has its columns behind the prefix of `bound`."""

    def __init__(self, env: Env, snapshot: Snapshot, bound: Bound, source: pa.Table) -> None:
        self._env = env
        self._snapshot = snapshot
        self._bound = bound
        self._source = source
        self._matched = bound.of("matched")
        self._alone = bound.of("not matched by source")
        self.keys = Keys([_guarded(node, bound.of_source, source) for _, node in bound.keys])
        self._indexed = _indexed_key(env, snapshot, bound)
        self._number = "row"
        while self._number in {name.lower() for name in snapshot.schema.names}:
            self._number += "_"
        # As in Delta: a row that one DELETE without a condition takes is gone, however many rows ask for it.
        self._may_repeat = len(self._matched) == 1 and _is_plain_delete(self._matched[0][1])

    def locate(self, files: pa.Table) -> Located:
        """What is done with the rows of these files and of the source.

        Raises TakenTwice, QueryInvalid, SplitCorrupt, DvCorrupt, VersionExpired, StoreError.
        """
        paths, found, searched = self._look(files, careful=True)
        taken = {path: one.taken for path, one in zip(paths, found, strict=True) if len(one.taken.rows)}
        has_match = np.zeros(self._source.num_rows, bool)
        for one in found:
            has_match[one.sources] = True
        pairs = Pairs(taken, self._inserts(has_match))
        return Located(
            {path: BitMap(one.rows.astype(np.uint32)) for path, one in taken.items()},
            searched=searched,
            scanned=len(paths) - searched,
            kept={path: one.kept for path, one in zip(paths, found, strict=True) if one.kept},
            tally=pairs.tally(),
            pairs=pairs,
        )

    def touched(self, files: pa.Table) -> dict[str, BitMap]:
        """The rows of these files that would make a difference: those with a match, and those that a clause takes.

        Raises as `locate`, but never TakenTwice.
        """
        paths, found, _ = self._look(files, careful=False)
        rows = {
            path: BitMap(one.taken.rows.astype(np.uint32)) | one.kept for path, one in zip(paths, found, strict=True)
        }
        return {path: chosen for path, chosen in rows.items() if chosen}

    def _look(self, files: pa.Table, *, careful: bool) -> tuple[list[str], list[_Found], int]:
        """The files that may matter, what each holds, and how many of them the index was asked for, the first ones."""
        files = in_order(files.filter(pa.array(self._may_matter(files))))
        few = self._are_keys_few(files)
        searched, scanned = files.filter(pa.array(few)), files.filter(pa.array(~few))
        found = [self._file(path, parts, careful=careful) for path, parts in self._by_index(searched)]
        work = list(zip(scanned["path"].to_pylist(), refs_of(self._env, scanned, self._snapshot.schema), strict=True))
        if len(work) == 1:
            found.append(self._file(work[0][0], self._by_scan(work[0][1], ahead=True), careful=careful))
        else:
            look = lambda one: self._file(one[0], self._by_scan(one[1]), careful=careful)  # noqa: E731 - for threads
            found += self._env.ambient.map("splits", look, work)
        return [*searched["path"].to_pylist(), *(path for path, _ in work)], found, searched.num_rows

    def _are_keys_few(self, files: pa.Table) -> _Mask:
        """For each file whether the index finds the rows of these keys for less than reading their column. Pure."""
        if self._alone or self._indexed is None:
            return np.zeros(files.num_rows, bool)
        rows = np.asarray(pc.fill_null(files["numRecords"], 0).to_numpy(), np.float64)
        return costs_less(len(self.keys.values(self._indexed)), rows, float(rows.sum()))

    def _by_index(self, files: pa.Table) -> Iterator[tuple[str, list[_Part]]]:
        """Each file with the rows that the index has for a key."""
        if self._indexed is None or not files.num_rows:
            return
        node = In(self._bound.keys[self._indexed][0], tuple(self.keys.values(self._indexed)))
        searcher = searcher_over(self._env, self._snapshot.metadata, refs_of(self._env, files, self._snapshot.schema))
        hits = searcher.matches(None, where=node).hits
        table = searcher.rows(hits, self._bound.target_columns())
        ends = np.searchsorted(hits.splits, np.arange(files.num_rows), side="right").tolist()
        for path, start, end in zip(files["path"].to_pylist(), [0, *ends], ends, strict=False):
            yield path, [(hits.rows[start:end], table.slice(start, end - start))] if end > start else []

    def _by_scan(self, ref: SplitRef, *, ahead: bool = False) -> Iterator[_Part]:
        """The rows of a file, some at a time."""
        snapshot, names = self._snapshot, self._bound.target_columns()
        batches = scan_split(
            self._env, snapshot.schema, ref, names, None, snapshot.version, ahead=ahead, row_numbers=self._number
        )
        for batch in batches:
            table = pa.Table.from_batches([batch])
            yield np.asarray(table[self._number].to_numpy(), np.int64), table

    def _may_matter(self, files: pa.Table) -> _Mask:
        """For each file whether it may hold a match, or a row that a clause takes without one. Pure."""
        if not files.num_rows:
            return np.zeros(0, bool)
        schema, columns = self._snapshot.schema, self._snapshot.partition_columns

        def may(node: Node) -> _Mask:
            return np.asarray(prune(files, node, schema, columns).to_numpy(zero_copy_only=False), bool)

        result = may(And((*self._ranges(), *self._bound.narrow)))
        for _, choice in self._alone:
            result |= True if choice.condition is None else may(choice.condition)
        return result

    def _ranges(self) -> list[Node]:
        """What the keys of the source say about a row that matches one of them."""
        ranges: list[Node] = []
        for place, (node, _) in enumerate(self._bound.keys):
            values = self.keys.values(place)
            if not len(values):
                return [Or(())]
            if values.type != node.type or (pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py()):
                continue
            if len(values) <= _FEW_KEYS:
                ranges.append(In(node, tuple(values)))
                continue
            ends = pc.min_max(values)
            ranges += [Comparison(">=", node, Literal(ends["min"])), Comparison("<=", node, Literal(ends["max"]))]
        return ranges

    def _file(self, path: str, parts: Iterable[_Part], *, careful: bool) -> _Found:
        rows: list[Taken] = []
        kept = BitMap()
        sources = np.zeros(self._source.num_rows, bool)
        for numbers, table in parts:
            has_match = np.zeros(len(numbers), bool)
            is_taken = np.zeros(len(numbers), bool)
            for places, partners in self.keys.pairs(self._keys_of(table)):
                clauses, places, partners = self._clauses(table, places, partners)  # noqa: PLW2901 - those that match
                has_match[places], sources[partners] = True, True
                chosen = clauses >= 0
                one = Taken(places[chosen], clauses[chosen], partners[chosen])
                one = self._once(path, numbers, one, careful=careful)
                is_taken[one.rows] = True
                rows.append(Taken(numbers[one.rows], one.clauses, one.sources))
            rows.append(self._without_match(table, numbers, has_match))
            kept |= BitMap(numbers[has_match & ~is_taken].astype(np.uint32))
        return _Found(_joined(rows), kept, np.flatnonzero(sources))

    def _keys_of(self, table: pa.Table) -> list[pa.Array]:
        return [_guarded(node, self._bound.narrow, table) for node, _ in self._bound.keys]

    def _clauses(self, table: pa.Table, places: Ints, partners: Ints) -> tuple[Ints, Ints, Ints]:
        """The pairs that match, each with the number of the first clause that takes it, or -1."""
        conditions = _conditions(self._matched)
        rest = self._bound.rest
        if rest is None and not conditions:
            return np.full(len(places), self._matched[0][0] if self._matched else -1), places, partners
        joined = self._pairs(table, places, partners, [*conditions, *([rest] if rest is not None else [])])
        if rest is not None:
            holds = _true(rest, joined)
            joined, places, partners = joined.filter(pa.array(holds)), places[holds], partners[holds]
        return first_that_holds(self._matched, joined, len(places)), places, partners

    def _pairs(self, table: pa.Table, places: Ints, partners: Ints, nodes: Sequence[Node]) -> pa.Table:
        """The columns that nodes name, of rows of the table and of the source at these places."""
        names = dict.fromkeys(name for node in nodes for name in columns_of(node))
        columns = {}
        for name in names:
            side, rows = (self._source, partners) if name.startswith(self._bound.prefix) else (table, places)
            columns[name] = as_array(side[name]).take(pa.array(rows))
        return pa.table(columns) if columns else pa.table({"": pa.nulls(len(places))})

    def _once(self, path: str, numbers: Ints, pairs: Taken, *, careful: bool) -> Taken:
        """Each row of the table once. Raises TakenTwice where clauses want one twice."""
        again = np.flatnonzero(pairs.rows[1:] == pairs.rows[:-1])
        if not len(again):
            return pairs
        if careful and not self._may_repeat:
            first = int(again[0])
            both = (int(pairs.sources[first]), int(pairs.sources[first + 1]))
            raise TakenTwice(path, int(numbers[pairs.rows[first]]), both, int(pairs.clauses[first + 1]))
        single = np.concatenate([[True], pairs.rows[1:] != pairs.rows[:-1]])
        return Taken(pairs.rows[single], pairs.clauses[single], pairs.sources[single])

    def _without_match(self, table: pa.Table, numbers: Ints, has_match: _Mask) -> Taken:
        if not self._alone or has_match.all():
            return Taken(*(np.zeros(0, np.int64),) * 3)
        places = np.flatnonzero(~has_match)
        seen = self._pairs(table, places, places, _conditions(self._alone))
        clauses = first_that_holds(self._alone, seen, len(places))
        rows = numbers[~has_match][clauses >= 0]
        return Taken(rows, clauses[clauses >= 0], np.full(len(rows), -1, np.int64))

    def _inserts(self, has_match: _Mask) -> dict[int, Ints]:
        choices = self._bound.of("not matched")
        rows = np.flatnonzero(~has_match)
        if not choices or not len(rows):
            return {}
        clauses = first_that_holds(choices, self._pairs(self._source, rows, rows, _conditions(choices)), len(rows))
        return {number: rows[clauses == number] for number, _ in choices if (clauses == number).any()}


def _conditions(choices: Sequence[tuple[int, Choice]]) -> list[Node]:
    return [choice.condition for _, choice in choices if choice.condition is not None]


def costs_less(keys: int, rows: npt.NDArray[np.float64], all_rows: float) -> _Mask:
    """For files of so many rows whether looking up `keys` in the index costs less than half of reading the column.

    Keys are taken to be spread evenly over all rows, each of one row. Pure.
    """
    hits = keys * rows / max(all_rows, 1.0)
    return np.asarray(2 * (keys * _MISS_US + hits * _HIT_US) < rows * _ROW_US, bool)


def _indexed_key(env: Env, snapshot: Snapshot, bound: Bound) -> int | None:
    """A column of the key whose values are terms of the index as they are; None if there is none."""
    fields = target_of(snapshot.metadata, env.options).plan.fields
    known = {field.column for field in fields if field.kind == "string" and field.indexed}
    for place, (node, _) in enumerate(bound.keys):
        if isinstance(node, Column) and not node.path and node.name in known and pa.types.is_string(node.type):
            return place
    return None


def first_that_holds(choices: Sequence[tuple[int, Choice]], rows: pa.Table, count: int) -> Ints:
    """For each of `count` rows the number of the first clause whose condition is true, -1 for none."""
    result = np.full(count, -1, np.int64)
    for number, choice in choices:
        is_open = result < 0
        if choice.condition is None:
            result[is_open] = number
        elif is_open.any():
            # A condition sees the rows that come to it, so that those before it can guard it.
            left = np.flatnonzero(is_open)
            result[left[_true(choice.condition, rows.take(pa.array(left)))]] = number
    return result


def _guarded(node: Node, guards: tuple[Node, ...], rows: pa.Table) -> pa.Array:
    """The values of a part of the key; null, which equals nothing, for rows that the guards keep from a match.

    So that a value which cannot be computed for them is no error.
    """
    if not guards or not can_fail(node):
        return _values(node, rows)
    holds = _true(And(guards), rows)
    places = pa.array(np.cumsum(holds) - 1, mask=~holds)
    return _values(node, rows.filter(pa.array(holds))).take(places)


def _values(node: Node, rows: pa.Table) -> pa.Array:
    values = evaluate_value(node, rows)
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, rows.num_rows) if values.is_valid else pa.nulls(rows.num_rows, node.type)
    return as_array(values)


def _true(node: Node, rows: pa.Table) -> _Mask:
    told = pc.fill_null(evaluate(node, rows), False)  # noqa: FBT003 - Arrow's order
    return np.asarray(told.to_numpy(zero_copy_only=False), bool)


def _is_plain_delete(choice: Choice) -> bool:
    return choice.clause.action == "delete" and choice.condition is None


def _joined(parts: Sequence[Taken]) -> Taken:
    rows = np.concatenate([np.zeros(0, np.int64), *(part.rows for part in parts)])
    clauses = np.concatenate([np.zeros(0, np.int64), *(part.clauses for part in parts)])
    sources = np.concatenate([np.zeros(0, np.int64), *(part.sources for part in parts)])
    order = np.argsort(rows)
    return Taken(rows[order], clauses[order], sources[order])
