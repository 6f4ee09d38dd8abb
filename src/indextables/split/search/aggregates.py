"""What do the matching rows add up to? Buckets and statistics, exact unless a sketch is asked for.

    {"levels":  {"terms": {"field": "level", "size": 10}},
     "per_day": {"date_histogram": {"field": "ts", "calendar_interval": "day"}},
     "sizes":   {"histogram": {"field": "bytes", "interval": 1000}},
     "classes": {"range": {"field": "status", "ranges": [{"to": 400}, {"from": 400, "to": 500}, {"from": 500}]}},
     "latency": {"stats": {"field": "latency"}},
     "hosts":   {"cardinality": {"field": "host"}},
     "p":       {"percentiles": {"field": "latency", "percents": [50, 99]}},
     "mean":    {"avg": {"field": "request.latency"}}}

A bucket of `terms`, `histogram`, `date_histogram` and `range` can hold others, below `"aggs"`. A field is a column, or
a field inside of a struct by its path.

The values come from the columns of the matching rows, deleted rows left out. Tantivy's own aggregations are not used:
its terms are exact only if every segment returns all of them, its cardinality and percentiles are estimates that
change with the file layout, and it computes on doubles. `"sketch": true` for cardinality (HyperLogLog, standard error
0.81 %) and percentiles (t-digest, error below 1 % of rank in the middle and much less at the ends) bounds memory.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument
from indextables.query.convert import cast_or_null
from indextables.query.expr import Node as Predicate
from indextables.query.floats import one_pattern
from indextables.split.query import Plan
from indextables.split.search.searcher import SplitSearcher
from indextables.split.search.sketch import distinct_estimate

MAX_BUCKETS = 65_536
MAX_DEPTH = 4
_DEFAULT_PERCENTS = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)

Result = dict[str, Any]


def aggregate(
    searcher: SplitSearcher,
    query: str | Plan | None,
    aggregations: Mapping[str, Mapping[str, Mapping[str, Any]]],
    *,
    where: Predicate | None = None,
) -> dict[str, Result]:
    """The result of each named aggregation over the rows that match.

    Raises InvalidArgument for an unknown kind, option, column or type; QueryInvalid as `search`.
    """
    if not isinstance(aggregations, Mapping):
        raise InvalidArgument(
            'aggregations is a dict with a name for each, as in {"by_host": {"terms": {"field": "host"}}}'
        )
    parsed = {name: _parse(name, spec, searcher.schema) for name, spec in aggregations.items()}
    columns = list(dict.fromkeys(path[0] for wanted in parsed.values() for path in wanted.paths()))
    hits = searcher.matches(query, where=where).hits
    rows = searcher.rows(hits, columns)
    values = {path: _values(rows, path) for wanted in parsed.values() for path in wanted.paths()}
    return {name: _result(wanted, values) for name, wanted in parsed.items()}


_Path = tuple[str, ...]
"""A column, and the fields inside of it that lead to the values."""


class _Wanted(NamedTuple):
    """One aggregation, and those below it."""

    name: str
    kind: str
    path: _Path
    options: dict[str, Any]
    below: dict[str, _Wanted]

    def paths(self) -> Iterator[_Path]:
        """Of its own values and of those below."""
        yield self.path
        for inner in self.below.values():
            yield from inner.paths()


def _result(wanted: _Wanted, columns: Mapping[_Path, pa.Array]) -> Result:
    found = _computed(wanted.name, wanted.kind, columns[wanted.path], wanted.options)
    if wanted.below:
        paths = {path for inner in wanted.below.values() for path in inner.paths()}
        members = _members(wanted.kind, columns[wanted.path], wanted.options, found["buckets"])
        for bucket, rows in zip(found["buckets"], members, strict=True):
            inside = {path: columns[path].take(_ints(rows)) for path in paths}
            bucket.update({name: _result(inner, inside) for name, inner in wanted.below.items()})
    return found


def _members(kind: str, values: pa.Array, options: dict[str, Any], buckets: list[Result]) -> list[np.ndarray[Any, Any]]:
    """The rows of each bucket, in their order."""
    if kind == "range":
        return [pc.indices_nonzero(mask).to_numpy().astype(np.int64) for mask in _range_masks(values, options)]
    rows = np.arange(len(values))
    wanted = [bucket["key"] for bucket in buckets]
    if kind == "histogram":
        keys, good = _histogram_keys(values, options)
        place = {key: number for number, key in enumerate(wanted)}
        distinct, codes = np.unique(keys, return_inverse=True)
        rows, places = rows[good], np.array([place.get(key, -1) for key in distinct.tolist()], dtype=np.int64)[codes]
    else:
        if kind == "terms":
            pairs = _rows_and_terms(values)
            rows, entries = pairs["row"].to_numpy(), _flat(pairs["value"])
        else:
            entries = _starts(values, options)
        found = pc.index_in(entries, value_set=pa.array(wanted, entries.type), skip_nulls=True)
        places = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(len(buckets) + 1))
    return [np.sort(rows[order[start:end]]) for start, end in itertools.pairwise(ends)]


def _computed(name: str, kind: str, values: pa.Array, options: dict[str, Any]) -> Result:
    try:
        return _KINDS[kind](values, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError) as error:
        # A type that Arrow does not group or compare, or a time that Python cannot tell.
        message = f"aggregation {name!r}: {kind} cannot be computed for a column of type {values.type}: {error}"
        raise InvalidArgument(message, aggregation=name, type=str(values.type)) from error


def _parse(name: str, spec: Any, schema: pa.Schema, depth: int = 1) -> _Wanted:
    below = _below(name, spec, schema, depth)
    spec = {key: value for key, value in spec.items() if key not in _BELOW} if isinstance(spec, Mapping) else spec
    kinds = [str(kind) for kind in spec] if isinstance(spec, Mapping) else []
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        message = f"aggregation {name!r} names {', '.join(kinds) or 'no kind'}: it is one of {', '.join(_KINDS)}"
        raise InvalidArgument(message, aggregation=str(name))
    kind, given = next(iter(spec.items()))
    if not isinstance(given, Mapping):
        message = f'aggregation {name!r}: {kind} is described by its options, as in {{"field": "host"}}'
        raise InvalidArgument(message, aggregation=name)
    options = dict(given)
    field = options.pop("field", None)
    path = _path_of(field, list(schema)) if isinstance(field, str) else None
    if field is None:
        message = f'aggregation {name!r}: {kind} needs "field", the column that it is about'
        raise InvalidArgument(message, aggregation=name)
    if path is None:
        raise InvalidArgument(f"aggregation {name!r}: there is no column {field!r}", aggregation=name, column=field)
    if below and kind not in _BUCKETS:
        message = f"aggregation {name!r}: {kind} has no buckets that others could be below; {_listed(_BUCKETS)} have"
        raise InvalidArgument(message, aggregation=name)
    unknown = set(options) - _OPTIONS[kind]
    if unknown:
        message = (
            f"aggregation {name!r}: {kind} has no option {min(map(str, unknown))!r}, only {sorted(_OPTIONS[kind])}"
        )
        raise InvalidArgument(message, aggregation=name)
    return _Wanted(name, kind, path, options, below)


def _below(name: str, spec: Any, schema: pa.Schema, depth: int) -> dict[str, _Wanted]:
    """The aggregations of each bucket. Raises InvalidArgument."""
    given = [spec[key] for key in _BELOW if key in spec] if isinstance(spec, Mapping) else []
    if not given:
        return {}
    if len(given) > 1 or not isinstance(given[0], Mapping) or depth >= MAX_DEPTH:
        message = f'aggregation {name!r}: "aggs" is one dict with a name for each, at most {MAX_DEPTH} deep'
        raise InvalidArgument(message, aggregation=str(name))
    taken = sorted({"key", "doc_count", "from", "to"} & set(map(str, given[0])))
    if taken:
        message = f"aggregation {name!r}: one below it cannot be called {taken[0]!r}, which every bucket has"
        raise InvalidArgument(message, aggregation=str(name))
    return {inner: _parse(inner, wanted, schema, depth + 1) for inner, wanted in given[0].items()}


def _path_of(field: str, columns: Sequence[pa.Field]) -> _Path | None:
    """The column of this name, or the path to a field inside of structs; None if there is none."""
    for column in columns:
        name = column.name.lower()
        if name == field.lower():
            return (column.name,)
        if field.lower().startswith(f"{name}.") and pa.types.is_struct(column.type):
            rest = _path_of(field[len(name) + 1 :], list(column.type))
            if rest is not None:
                return (column.name, *rest)
    return None


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words)


def _values(rows: pa.Table, path: _Path) -> pa.Array:
    column, *fields = path
    values = _flat(rows.column(column))
    for field in fields:
        values = pc.struct_field(values, field)
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _terms(values: pa.Array, options: dict[str, Any]) -> Result:
    size = options.get("size", 10)
    if not isinstance(size, int) or not 0 < size <= MAX_BUCKETS:
        raise InvalidArgument(f"terms: size is 1 to {MAX_BUCKETS}", size=size)
    values = _flat(_rows_and_terms(values)["value"])
    counted = pc.value_counts(values.drop_null())
    keys, counts = counted.field("values"), counted.field("counts")
    table = pa.table({"key": keys, "count": counts})
    order = pc.sort_indices(table, sort_keys=[("count", "descending"), ("key", "ascending")])
    top = table.take(order[:size])
    shown = top.column("count").to_pylist()
    buckets = [{"key": k, "doc_count": c} for k, c in zip(top.column("key").to_pylist(), shown, strict=True)]
    total = int(pc.sum(counts).as_py() or 0)
    return {"buckets": buckets, "sum_other_doc_count": total - sum(shown), "distinct": len(keys)}


def _rows_and_terms(values: pa.Array) -> pa.Table:
    """The values with their rows; of a list each once per row: a bucket counts rows. A value has one bit pattern."""
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        if pa.types.is_nested(values.type):
            raise InvalidArgument(f"terms: a column of type {values.type} has no terms", type=str(values.type))
        return pa.table({"row": _ints(np.arange(len(values))), "value": one_pattern(values)})
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    flat = one_pattern(pc.list_flatten(values))
    pairs = pa.table({"row": _ints(np.repeat(np.arange(len(values)), lengths)), "value": flat})
    return pairs.group_by(["row", "value"], use_threads=False).aggregate([])


def _is_nan(values: pa.Array) -> pa.Array | None:
    """Which values are NaN, if the column can hold it."""
    return pc.is_nan(values) if pa.types.is_floating(values.type) else None


def _numbers(values: pa.Array, what: str) -> pa.Array:
    kind = values.type
    if _holds_numbers(kind):
        return values.drop_null()
    raise InvalidArgument(f"{what}: a column of type {kind} holds no numbers", type=str(kind))


def _holds_numbers(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _histogram(values: pa.Array, options: dict[str, Any]) -> Result:
    interval, offset = options.get("interval"), options.get("offset", 0)
    if not _is_number(interval) or not interval > 0:
        raise InvalidArgument("histogram: interval is a number above 0", interval=str(interval))
    if not _is_number(offset):
        raise InvalidArgument("histogram: offset is a number", offset=str(offset))
    keys, _ = _histogram_keys(values, options)
    return _counted(keys, "histogram")


def _histogram_keys(values: pa.Array, options: dict[str, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where the bucket of each number begins, and which rows have one: neither null nor, of doubles, without an end."""
    interval, offset = options["interval"], options.get("offset", 0)
    numbers = _numbers(values, "histogram")
    good = np.flatnonzero(pc.is_valid(values).to_numpy(zero_copy_only=False))
    if pa.types.is_integer(numbers.type) and isinstance(interval, int) and isinstance(offset, int):
        plain = numbers.to_numpy(zero_copy_only=False)
        # Buckets may begin beyond 64 bits, where numpy would wrap around; Python's integers do not.
        wide = plain.dtype == np.uint64 or (len(plain) and _leaves_int64(plain, interval, offset))
        plain = plain.astype(object if wide else np.int64)
        return (plain - offset) // interval * interval + offset, good
    plain = numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    is_finite = np.isfinite(plain)
    plain = plain[is_finite]
    with np.errstate(over="ignore", invalid="ignore"):
        keys = np.floor((plain - offset) / interval) * interval + offset
    if not np.isfinite(keys).all():
        raise InvalidArgument("histogram: the interval is too small for the values", interval=str(interval))
    return keys, good[is_finite]


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and (isinstance(value, int) or math.isfinite(value))


def _leaves_int64(plain: np.ndarray[Any, Any], interval: int, offset: int) -> bool:
    reach = interval + abs(offset)
    return int(plain.min()) - reach < -(2**63) or int(plain.max()) + reach >= 2**63


def _counted(keys: np.ndarray[Any, Any], what: str) -> Result:
    found, counts = np.unique(keys, return_counts=True)
    if len(found) > MAX_BUCKETS:
        raise InvalidArgument(f"{what}: more than {MAX_BUCKETS} buckets, use a wider interval", buckets=len(found))
    pairs = zip(found.tolist(), counts.tolist(), strict=True)
    return {"buckets": [{"key": key, "doc_count": count} for key, count in pairs]}


def _range(values: pa.Array, options: dict[str, Any]) -> Result:
    buckets = []
    for spec, inside in zip(options.get("ranges", ()), _range_masks(values, options), strict=True):
        low, high = spec.get("from"), spec.get("to")
        key = spec.get("key") or f"{'*' if low is None else low}-{'*' if high is None else high}"
        buckets.append({"key": key, "from": low, "to": high, "doc_count": int(pc.sum(inside).as_py() or 0)})
    return {"buckets": buckets}


def _range_masks(values: pa.Array, options: dict[str, Any]) -> list[pa.Array]:
    """Which rows are in each range. Raises InvalidArgument."""
    nan = _is_nan(values)
    ranges = options.get("ranges", ())
    if not isinstance(ranges, list | tuple) or not all(isinstance(spec, Mapping) for spec in ranges):
        raise InvalidArgument('range: ranges is a list such as [{"to": 100}, {"from": 100}]', ranges=str(ranges)[:200])
    found = []
    for spec in ranges:
        low, high = spec.get("from"), spec.get("to")
        inside = pc.is_valid(values)
        if low is not None:
            above = _against(pc.greater_equal, values, low)
            # NaN is above every number.
            inside = pc.and_(inside, above if nan is None else pc.or_(above, nan))
        if high is not None:
            inside = pc.and_(inside, _against(pc.less, values, high))
        found.append(pc.fill_null(inside, False))  # noqa: FBT003 - Arrow's order
    return found


def _against(compare: Callable[[pa.Array, pa.Scalar], pa.Array], values: pa.Array, end: Any) -> pa.Array:
    """Whether each value is on this side of the end of a range. Raises InvalidArgument for what is no such end."""
    kind = values.type
    try:
        if pa.types.is_temporal(kind):
            # An ISO text or a date is the moment that it begins with, in UTC where it names no zone.
            text = end.isoformat() if isinstance(end, dt.date) else end
            bound = cast_or_null(pa.array([text], pa.string()), kind)[0]
            if bound.is_valid:
                return compare(values, bound)
        else:
            return compare(values, pa.scalar(end))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError):
        pass
    wanted = "a time as datetime or as ISO text" if pa.types.is_temporal(kind) else f"a value of {kind}"
    message = f"range: {end!r} is no end of a range in a column of {kind}: give {wanted}"
    raise InvalidArgument(message, end=str(end)[:200])


def _stats(values: pa.Array, _: dict[str, Any]) -> Result:
    if pa.types.is_temporal(values.type):
        ends = pc.min_max(values).as_py()
        return {"count": len(values) - values.null_count, **ends}
    numbers = _numbers(values, "stats")
    if not len(numbers):
        return {"count": 0, "min": None, "max": None, "sum": None, "avg": None}
    if pa.types.is_integer(numbers.type):
        # Python integers do not overflow, whatever the column adds up to.
        wide = numbers.cast(pa.decimal128(20, 0)).cast(pa.decimal256(60, 0))
        total: Any = int(pc.sum(wide).as_py())
    elif pa.types.is_decimal(numbers.type):
        total = pc.sum(numbers.cast(pa.decimal256(76, numbers.type.scale))).as_py()
    else:
        total = pc.sum(numbers.cast(pa.float64())).as_py()
    ends = pc.min_max(numbers).as_py()
    nan = _is_nan(numbers)
    if nan is not None and pc.any(nan).as_py():
        # NaN is above every number; Arrow leaves it out.
        ends = {"min": math.nan if pc.all(nan).as_py() else ends["min"], "max": math.nan}
    return {"count": len(numbers), **ends, "sum": total, "avg": total / len(numbers)}


def _one_of(what: str) -> Callable[[pa.Array, dict[str, Any]], Result]:
    """One number of the statistics; the smallest and the largest also of times and texts."""

    def compute(values: pa.Array, _: dict[str, Any]) -> Result:
        if what in ("min", "max") and not _holds_numbers(values.type):
            if pa.types.is_nested(values.type):
                raise InvalidArgument(f"{what}: a column of type {values.type} has no order", type=str(values.type))
            return {"value": pc.min_max(values).as_py()[what]}
        _numbers(values, what)
        return {"value": _stats(values, {})[what]}

    return compute


def _value_count(values: pa.Array, _: dict[str, Any]) -> Result:
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        values = pc.list_flatten(values)
    return {"value": len(values) - values.null_count}


def _cardinality(values: pa.Array, options: dict[str, Any]) -> Result:
    flat = _flat(_rows_and_terms(values)["value"]).drop_null()
    if options.get("sketch"):
        return {"value": distinct_estimate(flat), "exact": False}
    return {"value": len(pc.unique(flat)), "exact": True}


def _percentiles(values: pa.Array, options: dict[str, Any]) -> Result:
    given = options.get("percents", _DEFAULT_PERCENTS)
    if not isinstance(given, list | tuple) or not all(_is_number(p) and 0 <= p <= 100 for p in given):
        raise InvalidArgument("percentiles: percents is a list of numbers from 0 to 100", percents=str(given)[:200])
    percents = [float(p) for p in given]
    numbers = _numbers(values, "percentiles")
    shares = [p / 100 for p in percents]
    if not len(numbers) or not shares:
        return {"values": {str(p): None for p in percents}, "exact": True}
    plain = numbers.cast(pa.float64()) if pa.types.is_decimal(numbers.type) else numbers
    sketch = bool(options.get("sketch"))
    found = pc.tdigest(plain, q=shares) if sketch else pc.quantile(plain, q=shares, interpolation="linear")
    return {"values": {str(p): v for p, v in zip(percents, found.to_pylist(), strict=True)}, "exact": not sketch}


def _date_histogram(values: pa.Array, options: dict[str, Any]) -> Result:
    return {"buckets": date_buckets(values.drop_null(), options, MAX_BUCKETS)}


_KINDS: dict[str, Callable[[pa.Array, dict[str, Any]], Result]] = {
    "terms": _terms,
    "histogram": _histogram,
    "date_histogram": _date_histogram,
    "range": _range,
    "stats": _stats,
    "cardinality": _cardinality,
    "percentiles": _percentiles,
    **{what: _one_of(what) for what in ("avg", "sum", "min", "max")},
    "value_count": _value_count,
}
_OPTIONS: dict[str, set[str]] = {
    "terms": {"size"},
    "histogram": {"interval", "offset"},
    "date_histogram": {"calendar_interval", "fixed_interval", "time_zone"},
    "range": {"ranges"},
    "stats": set(),
    "cardinality": {"sketch"},
    "percentiles": {"percents", "sketch"},
    **{what: set() for what in ("avg", "sum", "min", "max", "value_count")},
}
_BUCKETS = ("terms", "histogram", "date_histogram", "range")
_BELOW = ("aggs", "aggregations")


def _ints(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values.astype(np.int64))])


_CALENDAR = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_FIXED = re.compile(r"([1-9]\d{0,8})(ms|s|m|h|d)\Z", re.ASCII)
_MICROS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def date_buckets(values: pa.Array, options: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """Non-empty buckets in time order; keys are the instant or date at which each begins. Raises InvalidArgument."""
    kind = values.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidArgument(f"date_histogram: a column of type {kind} holds no times", type=str(kind))
    starts = _starts(values, options)
    counted = pc.value_counts(starts)
    table = pa.table({"key": counted.field("values"), "count": counted.field("counts")}).sort_by("key")
    if table.num_rows > most:
        message = f"date_histogram: more than {most} buckets, use a wider interval"
        raise InvalidArgument(message, buckets=table.num_rows)
    pairs = zip(table.column("key").to_pylist(), table.column("count").to_pylist(), strict=True)
    return [{"key": key, "doc_count": count} for key, count in pairs]


def _starts(values: pa.Array, options: dict[str, Any]) -> pa.Array:
    """The beginning of the bucket of each time. Raises InvalidArgument."""
    calendar, fixed = options.get("calendar_interval"), options.get("fixed_interval")
    if (calendar is None) == (fixed is None):
        raise InvalidArgument("date_histogram: give calendar_interval or fixed_interval", options=sorted(options))
    return _by_length(values, fixed) if calendar is None else _by_calendar(values, calendar, options.get("time_zone"))


def _by_calendar(values: pa.Array, unit: Any, zone: Any) -> pa.Array:
    if unit not in _CALENDAR:
        raise InvalidArgument(f"date_histogram: calendar_interval is one of {', '.join(_CALENDAR)}", given=unit)
    if zone is not None and pa.types.is_timestamp(values.type) and values.type.tz is not None:
        try:
            values = values.cast(pa.timestamp(values.type.unit, str(zone)))
            return pc.floor_temporal(values, 1, unit)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"date_histogram: {error}", time_zone=zone) from error
    return pc.floor_temporal(values, 1, unit)


def _by_length(values: pa.Array, length: Any) -> pa.Array:
    found = _FIXED.match(str(length))
    if found is None:
        raise InvalidArgument("date_histogram: fixed_interval is a number and ms, s, m, h or d", given=length)
    step = int(found[1]) * _MICROS[found[2]]
    zone = values.type.tz if pa.types.is_timestamp(values.type) else None
    micros = pc.fill_null(values.cast(pa.timestamp("us", zone)).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    starts = np.ascontiguousarray(micros // step * step, dtype=np.int64)
    found = pa.Array.from_buffers(pa.timestamp("us", zone), len(starts), [None, pa.py_buffer(starts)])
    return pc.if_else(pc.is_valid(values), found, pa.scalar(None, found.type)) if values.null_count else found
