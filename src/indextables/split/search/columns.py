"""What if the index cannot say? Leaves answered from the columns themselves, exactly, as a mask over rows.

Vectorised where Arrow has the operation; terms of analysed text, fuzzy words and addresses are looked at one by one,
each distinct value once.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from indextables.lazy import pc
from indextables.query.evaluate import evaluate
from indextables.query.expr import columns_of
from indextables.split.index import Analyzer, RowMask, is_nested_list
from indextables.split.query import (
    Bool,
    Boosted,
    Everything,
    HasValue,
    Interval,
    Leaf,
    Mask,
    Near,
    Nothing,
    Plan,
    TermFuzzy,
    TermPrefix,
    TermRange,
    TermRegex,
    Terms,
    TermSet,
    Unscored,
    ValueRange,
    Where,
    leaves,
)
from indextables.split.query import values as values_of
from indextables.split.search.tantivy import in_range

_Steps = list[tuple[int, Callable[[str], bool]]]


def columns_read(plan: Plan) -> tuple[str, ...]:
    """The columns that `mask_of_plan` needs, each once."""
    found: dict[str, None] = {}
    for leaf in leaves(plan):
        names = columns_of(leaf.predicate) if isinstance(leaf, Where) else (leaf.target.column,)
        found.update(dict.fromkeys(names))
    return tuple(found)


def mask_of_plan(plan: Plan, rows: pa.Table) -> RowMask:
    """True for each row that the plan matches. `rows` has the columns of `columns_read`. Raises QueryInvalid."""
    everyone = np.ones(rows.num_rows, dtype=np.bool_)
    match plan:
        case Everything():
            return everyone
        case Nothing() | Mask():
            return ~everyone
        case Boosted(plan=inner) | Unscored(plan=inner):
            return mask_of_plan(inner, rows)
        case Bool():
            found = everyone
            for part in plan.must:
                found = found & mask_of_plan(part, rows)
            if plan.should and not plan.must:
                some = ~everyone
                for part in plan.should:
                    some = some | mask_of_plan(part, rows)
                found = found & some
            for part in plan.must_not:
                found = found & ~mask_of_plan(part, rows)
            return found
        case _:
            return mask_of_leaf(plan, rows)


def mask_of_leaf(leaf: Leaf, rows: pa.Table) -> RowMask:
    """True for each row that holds what the leaf asks for."""
    if isinstance(leaf, Where):
        return _numpy(evaluate(leaf.predicate, rows))
    column = rows.column(leaf.target.column).combine_chunks()
    if isinstance(leaf, HasValue) and not leaf.target.path:
        # A list or map is a value, also where it holds none: as `is not null` has it.
        return _numpy(pc.is_valid(column))
    values, owners = _flat(column, leaf.target.path)
    matched = _matches(leaf, values)
    found = np.zeros(rows.num_rows, dtype=np.bool_)
    found[owners[matched]] = True
    return found


def _flat(values: pa.Array, path: tuple[str, ...]) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.int64]]]:
    """The values at a path, lists opened, and the row that each belongs to."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    owners = np.arange(len(values), dtype=np.int64)
    steps = list(path)
    while True:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if is_nested_list(values.type):
            lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
            owners = np.repeat(owners, lengths)
            values = pc.list_flatten(values)
        elif not steps:
            return values, owners
        elif pa.types.is_struct(values.type):
            values = pc.struct_field(values, [values.type.get_field_index(steps.pop(0))])
        else:
            values = _at_key(values, steps.pop(0))


def _at_key(values: pa.Array, key: str) -> pa.Array:
    """The items of a map at a key, as lists: keys that are no strings are compared by their text."""
    key_type = values.type.key_type
    try:
        wanted = pa.scalar(key).cast(key_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), pa.list_(values.type.item_type))
    return pc.map_lookup(values, wanted, "all")


def _matches(leaf: Leaf, values: pa.Array) -> RowMask:
    match leaf:
        case HasValue():
            return _numpy(pc.is_valid(values))
        case Interval():
            return _in_intervals(leaf, values)
        case ValueRange():
            return _in_values(leaf, values)
        case _ if _analysed(leaf) is not None:
            return _each_distinct(values, _of_text(leaf))
        case Terms(terms=((0, term),)):
            return _numpy(pc.equal(values, pa.scalar(term, values.type)))
        case TermSet(terms=terms):
            return _numpy(pc.is_in(values, pa.array(list(terms), values.type)))
        case TermPrefix(prefix=prefix):
            return _numpy(pc.starts_with(values, prefix))
        case TermRegex(pattern=pattern):
            return _numpy(pc.match_substring_regex(values, f"^(?:{pattern})$"))
        case TermRange():
            return _in_term_range(leaf, values)
        case TermFuzzy():
            return _each_distinct(values, lambda text: within(leaf.text, text, leaf.distance))
        case _:
            raise AssertionError(leaf)


def _analysed(leaf: Leaf) -> Analyzer | None:
    target = None if isinstance(leaf, Where) else leaf.target
    if target is None or target.analyzer is None or target.analyzer.single_term:
        return None
    return target.analyzer


def _of_text(leaf: Leaf) -> Callable[[str], bool]:
    """Whether a text, analysed, has what the leaf asks for."""
    analyzer = _analysed(leaf)
    assert analyzer is not None  # noqa: S101 - the caller has asked
    known: dict[str, bool] = {}

    def one(term: str) -> bool:
        if term not in known:
            known[term] = term_matches(leaf, term)
        return known[term]

    if isinstance(leaf, TermPrefix) and leaf.before:
        steps: _Steps = [(at, partial(operator.eq, wanted)) for at, wanted in leaf.before]
        steps.append((leaf.position, lambda term: term.startswith(leaf.prefix)))
        return lambda text: _in_order(analyzer, text, steps)
    if isinstance(leaf, Near):
        return lambda text: _near(analyzer, text, leaf)
    if isinstance(leaf, Terms):
        if leaf.slop:
            raise AssertionError("phrases with slop are answered by an index")
        words: _Steps = [(at, partial(operator.eq, wanted)) for at, wanted in leaf.terms]
        return lambda text: _in_order(analyzer, text, words)
    return lambda text: any(one(token.text) for token in analyzer.tokens(text))


def _in_order(analyzer: Analyzer, text: str, steps: _Steps) -> bool:
    places: dict[int, list[str]] = {}
    for token in analyzer.tokens(text):
        places.setdefault(token.position, []).append(token.text)
    return any(
        all(any(test(term) for term in places.get(start + at, ())) for at, test in steps)
        for start in {position - steps[0][0] for position in places}
    )


def _near(analyzer: Analyzer, text: str, leaf: Near) -> bool:
    """A window over the displacements of all occurrences that holds each wanted word once."""
    wanted: dict[str, list[int]] = {}
    for number, (_, term) in enumerate(leaf.terms):
        wanted.setdefault(term, []).append(number)
    found = sorted(
        (token.position - leaf.terms[number][0], number)
        for token in analyzer.tokens(text)
        for number in wanted.get(token.text, ())
    )
    inside: Counter[int] = Counter()
    first = 0
    for shift, number in found:
        inside[number] += 1
        while shift - found[first][0] > leaf.slop:
            inside[found[first][1]] -= 1
            first += 1
        if sum(count > 0 for count in inside.values()) == len(leaf.terms):
            return True
    return False


def term_matches(leaf: Leaf, term: str) -> bool:
    """Whether one term is what a leaf of terms asks for."""
    match leaf:
        case TermPrefix(prefix=prefix):
            return term.startswith(prefix)
        case TermSet(terms=terms):
            return term in terms
        case TermRange():
            return in_range(leaf, term)
        case TermFuzzy(text=text, distance=distance):
            return within(text, term, distance)
        case TermRegex(pattern=pattern):
            return bool(pc.match_substring_regex(pa.scalar(term), f"^(?:{pattern})$").as_py())
        case _:
            raise AssertionError(leaf)


def _each_distinct(values: pa.Array, test: Callable[[str], bool]) -> RowMask:
    coded = values.dictionary_encode()
    results = pa.array([text is not None and test(text) for text in coded.dictionary.to_pylist()], pa.bool_())
    return _numpy(results.take(coded.indices))


def _in_term_range(leaf: TermRange, values: pa.Array) -> RowMask:
    found = pc.is_valid(values)
    if leaf.lower is not None:
        compare = pc.greater_equal if leaf.include_lower else pc.greater
        found = pc.and_(found, compare(values, pa.scalar(leaf.lower, values.type)))
    if leaf.upper is not None:
        compare = pc.less_equal if leaf.include_upper else pc.less
        found = pc.and_(found, compare(values, pa.scalar(leaf.upper, values.type)))
    return _numpy(found)


def _in_intervals(leaf: Interval, values: pa.Array) -> RowMask:
    if leaf.target.kind == "ip":
        return _each_distinct(values, lambda text: _address_in(leaf, text))
    factor, numbers = _as_int64(leaf, values)
    valid = _numpy(pc.is_valid(numbers))
    plain = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    points = [low for low, high in leaf.intervals if low is not None and high == low + 1 and low % factor == 0]
    found = np.isin(plain, np.array([p // factor for p in points], dtype=np.int64)) if len(points) > 4 else None
    result = found if found is not None else np.zeros(len(plain), dtype=np.bool_)
    for low, high in leaf.intervals:
        if found is not None and low is not None and high == low + 1:
            continue
        inside = np.ones(len(plain), dtype=np.bool_)
        if low is not None:
            inside &= plain >= -(-low // factor)
        if high is not None:
            inside &= plain < -(-high // factor)
        result |= inside
    return result & valid


def _as_int64(leaf: Interval, values: pa.Array) -> tuple[int, pa.Array]:
    """Whole numbers, and how many units of the leaf one of them is: no value is converted beyond its range."""
    match leaf.target.kind:
        case "bool":
            return 1, values.cast(pa.int8())
        case "date":
            days = values.cast(pa.date32()) if pa.types.is_date64(values.type) else values
            return 1, days.cast(pa.int32())
        case "timestamp":
            return {"s": 1_000_000, "ms": 1_000, "us": 1}[values.type.unit], values.cast(pa.int64())
        case _:
            return 1, values.cast(pa.int64())


def _address_in(leaf: Interval, text: str) -> bool:
    try:
        number, end = values_of.read_addresses(text)
    except ValueError:
        return False
    if end != number + 1:
        return False
    return any((low is None or number >= low) and (high is None or number < high) for low, high in leaf.intervals)


def _in_values(leaf: ValueRange, values: pa.Array) -> RowMask:
    if leaf.target.kind == "float":
        return _in_floats(leaf, values)
    if leaf.target.kind == "decimal" and pa.types.is_uint64(values.type):
        values = values.cast(pa.decimal128(20, 0))
    found = pc.is_valid(values)
    for bound, inclusive, compare, strictly in (
        (leaf.lower, leaf.include_lower, pc.greater_equal, pc.greater),
        (leaf.upper, leaf.include_upper, pc.less_equal, pc.less),
    ):
        if bound is not None:
            found = pc.and_(found, _compared(values, bound, compare if inclusive else strictly))
    return _numpy(found)


def _compared(values: pa.Array, bound: float | Decimal | bytes, compare: Callable[..., Any]) -> pa.Array:
    if isinstance(bound, bytes):
        return compare(values.cast(pa.large_binary()), pa.scalar(bound, pa.large_binary()))
    try:
        return compare(values, pa.scalar(bound))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Two scales that no common decimal type holds: let Python's decimals compare.
        tests = {pc.greater_equal: "__ge__", pc.greater: "__gt__", pc.less_equal: "__le__", pc.less: "__lt__"}
        return pa.array(
            [None if v is None else getattr(v, tests[compare])(bound) for v in values.to_pylist()], pa.bool_()
        )


def _in_floats(leaf: ValueRange, values: pa.Array) -> RowMask:
    """NaN is equal to itself and above every other number, infinity included, as in predicates."""
    plain: np.ndarray[Any, np.dtype[np.float64]] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    found: RowMask = _numpy(pc.is_valid(values))
    nan = np.isnan(plain)
    if isinstance(leaf.lower, float):
        if np.isnan(leaf.lower):
            found &= nan if leaf.include_lower else np.zeros_like(nan)
        else:
            found &= nan | (plain >= leaf.lower if leaf.include_lower else plain > leaf.lower)
    if isinstance(leaf.upper, float):
        if np.isnan(leaf.upper):
            found &= ~nan | leaf.include_upper
        else:
            found &= plain <= leaf.upper if leaf.include_upper else plain < leaf.upper
    return found


def within(left: str, right: str, most: int) -> bool:
    """At most `most` insertions, deletions, substitutions and swaps of neighbours make one text of the other."""
    if abs(len(left) - len(right)) > most:
        return False
    before: list[int] = []
    previous = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            best = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            current.append(best)
        if min(current) > most and (not previous or min(previous) > most):
            return False
        before, previous = previous, current
    return previous[-1] <= most


def _numpy(mask: Any) -> RowMask:
    plain = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
    filled: RowMask = pc.fill_null(plain, False).to_numpy(zero_copy_only=False).astype(np.bool_)  # noqa: FBT003
    return filled
