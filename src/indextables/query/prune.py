"""Which files may hold rows that match? Partition values first, then minima and maxima. Pure.

Pruning never changes a result: whatever is not known means "may match". A file is left out only if its partition
values or its bounds prove that the predicate is not true for any of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from indextables.errors import QueryInvalid
from indextables.lazy import pc
from indextables.query.convert import cast_or_null, is_timestamp
from indextables.query.evaluate import compare, evaluate
from indextables.query.expr import (
    And,
    Call,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    TextMatch,
    columns_of,
    conjuncts,
    walk,
)
from indextables.query.functions import FUNCTIONS, ValueFault, apply, is_number, is_text
from indextables.query.partition import partition_from_text
from indextables.query.simplify import simplify
from indextables.query.stats import OURS, StatsRules, map_values, null_counts, typed_bounds
from indextables.query.stored import stored_name

__all__ = ["all_match", "is_partition_only", "partition_part", "prune", "prune_bounds"]

# IN lists up to this length are tested value by value, longer ones by their range.
_SHORT_LIST = 32
# Null counts sit in JSON; beyond this many files reading them costs more than it saves.
_NULL_COUNT_FILES = 10_000

# When less than one in so many files is left, the next terms look at a copy without the others.
_NARROWING = 4
# Chunks with fewer files than this on the average are joined.
_CHUNK_FILES = 1_000
_COLUMNS = ("partitionValues", "minValues", "maxValues", "numRecords", "stats")

Bounds = tuple[pa.Array, pa.Array]


def prune(
    files: pa.Table, expr: Node, schema: pa.Schema, partition_columns: Sequence[str], *, rules: StatsRules = OURS
) -> pa.BooleanArray:
    """For each file of `files` whether it may hold a row for which `expr` is true; never null.

    `files` has the columns partitionValues, minValues, maxValues, numRecords and stats of the live file set.
    """
    expr = simplify(expr)
    left = _facts_of(files)
    survivors = np.arange(files.num_rows)
    # Whole conjuncts that partition values decide come first; the others look at what is left.
    terms = sorted(conjuncts(expr), key=lambda term: not is_partition_only(term, partition_columns))
    facts = _FileFacts(left, schema, partition_columns, rules)
    alive = np.ones(left.num_rows, bool)
    for term in terms:
        alive &= _mask(_may(term, facts))
        if np.count_nonzero(alive) * _NARROWING < len(alive):
            left, survivors = left.filter(pa.array(alive)), survivors[alive]
            facts = _FileFacts(left, schema, partition_columns, rules)
            alive = np.ones(left.num_rows, bool)
    kept = np.zeros(files.num_rows, bool)
    kept[survivors[alive]] = True
    return pa.array(kept)


def _facts_of(files: pa.Table) -> pa.Table:
    """What the log tells of files that prunes them, in few chunks: each costs more than many files in one."""
    told = files.select([name for name in _COLUMNS if name in files.column_names])
    chunks = told.column(0).num_chunks if told.num_columns else 0
    return told.combine_chunks() if chunks > 1 and told.num_rows < chunks * _CHUNK_FILES else told


def all_match(
    files: pa.Table, expr: Node, schema: pa.Schema, partition_columns: Sequence[str], *, rules: StatsRules = OURS
) -> pa.BooleanArray:
    """For each file of `files` whether `expr` is true for all of its rows for sure; never null."""
    # One for all questions: what is typed for one of them is there for the next.
    facts = _FileFacts(_facts_of(files), schema, partition_columns, rules)

    def may(term: Node) -> Any:
        return _mask(_may(simplify(term), facts))

    def surely(term: Node) -> Any:
        if isinstance(term, And):
            return np.logical_and.reduce([surely(part) for part in term.terms])
        if isinstance(term, Or):
            return np.logical_or.reduce([surely(part) for part in term.terms])
        if is_partition_only(term, partition_columns):
            # Partition values decide it for whole files: what may be true is true.
            return may(term) & ~may(Not(term)) & ~may(IsNull(term))
        if isinstance(term.child if isinstance(term, Not) else term, IsNull):
            # Never unknown.
            return ~may(Not(term))
        if not _is_known_where_columns_are(term):
            return np.zeros(files.num_rows, bool)
        all_true = ~may(Not(term))
        for node in walk(term) if all_true.any() else ():
            if isinstance(node, Column):
                all_true &= ~may(IsNull(node))
        return all_true

    return pa.array(surely(simplify(expr)) if files.num_rows else np.zeros(0, bool))


def prune_bounds(
    minimum: pa.Array | pa.ChunkedArray,
    maximum: pa.Array | pa.ChunkedArray,
    expr: Node,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    *,
    rules: StatsRules = OURS,
) -> pa.BooleanArray:
    """For each group of files whether it may hold a match, from maps of its least and greatest partition values.

    Nulls may hide in any group: bounds speak about the values that are there.
    """
    of_partitions = partition_part(simplify(expr), partition_columns)
    if of_partitions is None:
        return pa.array(np.ones(len(minimum), bool))
    facts = _BoundFacts(minimum, maximum, schema, partition_columns, rules)
    return pa.array(_mask(_may(of_partitions, facts)))


def is_partition_only(expr: Node, partition_columns: Sequence[str]) -> bool:
    """True if `expr` reads no other columns, so that partition values decide it for whole files."""
    return set(columns_of(expr)) <= set(partition_columns)


def partition_part(expr: Node, partition_columns: Sequence[str]) -> Node | None:
    """The terms of a conjunction that read partition columns only, or None if there are none."""
    terms = tuple(term for term in conjuncts(expr) if is_partition_only(term, partition_columns))
    if not terms:
        return None
    return terms[0] if len(terms) == 1 else And(terms)


def _is_known_where_columns_are(term: Node) -> bool:
    """True if the term compares columns with constants, so that it is unknown only where a column is null."""
    if isinstance(term, Comparison):
        sides: tuple[Node, ...] = (term.left, term.right)
    elif isinstance(term, TextMatch) or (isinstance(term, In) and not term.has_null):
        sides = (term.child,)
    else:
        return False
    return all(isinstance(side, Column) or (isinstance(side, Literal) and side.value.is_valid) for side in sides)


class _Facts(Protocol):
    """What is known about each group of rows (a file, a manifest)."""

    count: int

    def exact(self, expr: Node) -> np.ndarray[Any, Any] | None:
        """Whether `expr` can be true, where the facts decide it; None if they never do."""
        ...

    def bounds(self, column: Column) -> Bounds | None: ...

    def nulls(self, column: Column) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        """Whether there can be nulls, and whether there can be anything else."""
        ...


class _FileFacts:
    """Partition values and statistics of files, typed when first asked for."""

    def __init__(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str], rules: StatsRules) -> None:
        self.count = files.num_rows
        self._files = files
        self._schema = schema
        self._partitions = tuple(partition_columns)
        self._rules = rules
        self._bounds: dict[str, Bounds] = {}
        self._values: dict[str, tuple[pa.Array, pa.Array]] = {}

    def exact(self, expr: Node) -> np.ndarray[Any, Any] | None:
        names = columns_of(expr)
        if not names or not is_partition_only(expr, self._partitions):
            return None
        typed = {name: self._partition(name) for name in names}
        known = np.ones(self.count, bool)
        for _, usable in typed.values():
            known &= usable.to_numpy(zero_copy_only=False)
        rows = pa.table({name: values for name, (values, _) in typed.items()})
        try:
            return _mask(evaluate(expr, rows), unknown=False) | ~known
        except QueryInvalid:
            return np.ones(self.count, bool)

    def bounds(self, column: Column) -> Bounds | None:
        if column.path or column.name in self._partitions:
            return None
        if column.name not in self._bounds:
            stored = self._stored(column)
            minimum = map_values(self._files["minValues"], stored)
            maximum = map_values(self._files["maxValues"], stored)
            self._bounds[column.name] = typed_bounds(minimum, maximum, column.type, self._rules)
        return self._bounds[column.name]

    def nulls(self, column: Column) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        if column.path or self.count > _NULL_COUNT_FILES or "stats" not in self._files.column_names:
            return None
        counts = null_counts(self._files["stats"].combine_chunks(), self._stored(column))
        records = self._files["numRecords"].combine_chunks()
        some = _mask(pc.not_equal(counts, 0))
        others = _mask(pc.not_equal(counts, records))
        consistent = _mask(pc.less_equal(counts, records), unknown=False)
        return some | ~consistent, others | ~consistent

    def _stored(self, column: Column) -> str:
        """What statistics call a column."""
        place = self._schema.get_field_index(column.name)
        return column.name if place < 0 else stored_name(self._schema.field(place))

    def _partition(self, name: str) -> tuple[pa.Array, pa.Array]:
        if name not in self._values:
            texts = map_values(self._files["partitionValues"], name)
            data_type = self._schema.field(name).type
            escaped = self._rules.escaped_partitions
            self._values[name] = partition_from_text(texts, data_type, escaped=escaped)
        return self._values[name]


class _BoundFacts:
    """Least and greatest partition values of groups of files."""

    def __init__(
        self,
        minimum: pa.Array | pa.ChunkedArray,
        maximum: pa.Array | pa.ChunkedArray,
        schema: pa.Schema,
        partition_columns: Sequence[str],
        rules: StatsRules,
    ) -> None:
        self.count = len(minimum)
        self._minimum, self._maximum = minimum, maximum
        self._schema = schema
        self._partitions = tuple(partition_columns)
        self._rules = rules

    def exact(self, expr: Node) -> None:
        del expr

    def bounds(self, column: Column) -> Bounds | None:
        if column.path or column.name not in self._partitions:
            return None
        escaped = self._rules.escaped_partitions
        lower = partition_from_text(map_values(self._minimum, column.name), column.type, escaped=escaped)[0]
        upper = partition_from_text(map_values(self._maximum, column.name), column.type, escaped=escaped)[0]
        crossed = _mask(compare(">", lower, upper), unknown=False)
        nothing = pa.scalar(None, column.type)
        return pc.if_else(pa.array(crossed), nothing, lower), pc.if_else(pa.array(crossed), nothing, upper)

    def nulls(self, column: Column) -> None:
        del column


def _may(expr: Node, facts: _Facts) -> Any:
    """For each group: can `expr` be true there? Arrow booleans (null: not known) or a numpy mask."""
    if isinstance(expr, And | Or):
        masks = [_mask(_may(term, facts)) for term in expr.terms]
        combine = np.logical_and if isinstance(expr, And) else np.logical_or
        return combine.reduce(masks) if masks else np.full(facts.count, isinstance(expr, And))
    if isinstance(expr, Literal):
        return np.full(facts.count, expr.value.as_py() is True)
    exact = facts.exact(expr)
    if exact is not None:
        return exact
    everything = np.ones(facts.count, bool)
    if isinstance(expr, Comparison) and isinstance(expr.right, Literal):
        return _may_compare(expr.op, expr.left, expr.right.value, facts)
    if isinstance(expr, In):
        return _may_in(expr, facts)
    if isinstance(expr, TextMatch) and expr.kind == "startswith":
        return _may_start(expr, facts)
    if isinstance(expr, IsNull) and isinstance(expr.child, Column):
        nulls = facts.nulls(expr.child)
        return everything if nulls is None else nulls[0]
    if isinstance(expr, Not) and isinstance(expr.child, IsNull) and isinstance(expr.child.child, Column):
        nulls = facts.nulls(expr.child.child)
        return everything if nulls is None else nulls[1]
    if isinstance(expr, Column):
        return _may_compare("=", expr, pa.scalar(value=True), facts)
    if isinstance(expr, Not) and isinstance(expr.child, Column):
        return _may_compare("=", expr.child, pa.scalar(value=False), facts)
    return everything


def _may_compare(op: str, node: Node, value: pa.Scalar, facts: _Facts) -> Any:
    if not value.is_valid:
        return np.zeros(facts.count, bool)
    bounds = _bounds_of(node, facts)
    if bounds is None:
        return np.ones(facts.count, bool)
    lower, upper = bounds
    if op in ("<", "<="):
        return compare(op, lower, value)
    if op in (">", ">="):
        return compare(op, upper, value)
    below, above = compare("<=", lower, value), compare(">=", upper, value)
    if op in ("=", "<=>"):
        return _mask(below) & _mask(above)
    only = _mask(compare("=", lower, value), unknown=False) & _mask(compare("=", upper, value), unknown=False)
    return ~only


def _may_in(expr: In, facts: _Facts) -> Any:
    if len(expr.values) > _SHORT_LIST:
        values = pa.array([value.as_py() for value in expr.values], expr.child.type)
        ordered = pc.sort_indices(values)
        least, greatest = values[ordered[0].as_py()], values[ordered[-1].as_py()]
        if pa.types.is_floating(expr.child.type):
            return np.ones(facts.count, bool)
        low = _mask(_may_compare(">=", expr.child, least, facts))
        return low & _mask(_may_compare("<=", expr.child, greatest, facts))
    result = np.zeros(facts.count, bool)
    for value in expr.values:
        result |= _mask(_may_compare("=", expr.child, value, facts))
    return result


def _may_start(expr: TextMatch, facts: _Facts) -> Any:
    bounds = _bounds_of(expr.child, facts)
    if bounds is None or not expr.text:
        return np.ones(facts.count, bool)
    lower, upper = bounds
    prefix = pa.scalar(expr.text, lower.type)
    begin = pc.utf8_slice_codeunits(lower, 0, len(expr.text))
    return _mask(pc.less_equal(begin, prefix)) & _mask(pc.greater_equal(upper, prefix))


def _bounds_of(node: Node, facts: _Facts) -> Bounds | None:
    """Bounds of an expression that never decreases while its column increases."""
    if isinstance(node, Column):
        return facts.bounds(node)
    if isinstance(node, Cast) and _keeps_order(node):
        inner = _bounds_of(node.child, facts)
        if inner is None:
            return None
        lower, upper = (cast_or_null(side, node.type, zone=node.zone) for side in inner)
        return lower, upper
    if isinstance(node, Call) and len(node.args) == 1 and FUNCTIONS[node.name].monotone and node.zone == "UTC":
        inner = _bounds_of(node.args[0], facts)
        if inner is None:
            return None
        try:
            lower, upper = (pc.cast(apply(node.name, [side], node.zone), node.type) for side in inner)
        except (ValueFault, pa.ArrowInvalid):
            return None
        return lower, upper
    return None


def _keeps_order(node: Cast) -> bool:
    source, target = node.child.type, node.type
    if is_text(source) and is_text(target):
        return True
    if is_number(source) and is_number(target):
        return True
    if pa.types.is_date(source) and pa.types.is_timestamp(target):
        return True
    return bool(
        pa.types.is_timestamp(source)
        and (pa.types.is_date(target) or pa.types.is_timestamp(target))
        and (node.zone == "UTC" or is_timestamp(source, zoned=True) == is_timestamp(target, zoned=True))
        and not (pa.types.is_date(target) and node.zone != "UTC" and is_timestamp(source, zoned=True))
    )


def _mask(values: Any, *, unknown: bool = True) -> np.ndarray[Any, Any]:
    """Arrow booleans as a numpy mask, null read as `unknown`."""
    if isinstance(values, np.ndarray):
        return values
    return pc.fill_null(values, unknown).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
