"""How DataFusion reads one of our tables: batch by batch, the columns it asks for, no filter of its own.

DataFusion takes any `pyarrow.dataset.Dataset`. It trusts such a dataset to apply pushed filters exactly as it would
itself, which Arrow's filters do not (they order NaN in another way); so `register` puts a limit that never cuts between
the dataset and the statement, below which no filter is pushed.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import SQLOptions, col

from indextables.errors import IndexTablesError, NotSupported
from indextables.query.expr import Node
from indextables.query.floats import one_pattern
from indextables.sql.local.ends import check_ends
from indextables.sql.local.pushdown import Need
from indextables.sql.local.rewrite import TableReference
from indextables.sql.textsearch import NEEDS_ONE, SCORE
from indextables.table.read import Mark, lengths_only

__all__ = ["Provider", "Source", "register", "registered_schema"]

_NEVER_CUTS = 2**63 - 1
_LET_GO_S = 0.05


class Source(Protocol):
    """A snapshot that SQL can read."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of every row."""
        ...

    def batches(
        self,
        columns: tuple[str, ...],
        where: Node | None,
        required: tuple[Mark, ...],
        marked: tuple[Mark, ...],
        limit: int | None,
        *,
        scored: bool,
    ) -> Iterator[pa.RecordBatch]:
        """The rows, with `columns` first and then one boolean column for each search of `marked`.

        If `scored`, the score of the only search of `required` comes last.

        Rows in which a search of `required` does not match may not come; rows in which `where` does not hold may come
        or not. With a `limit` no more than so many are wanted, any of them. No columns at all means batches that only
        have a length.
        """
        ...


def registered_schema(schema: pa.Schema, target: TableReference) -> pa.Schema:
    """What DataFusion gets to see: names in lower case, as it folds them in a statement, and the hidden columns."""
    fields = [pa.field(field.name.lower(), _shown(field.type, target), field.nullable) for field in schema]
    fields += [pa.field(search.name, pa.bool_(), nullable=False) for search in target.searches]
    return pa.schema([*fields, *([pa.field(SCORE, pa.float64(), nullable=False)] if target.score else [])])


def _shown(kind: pa.DataType, target: TableReference) -> pa.DataType:
    return pa.int64() if target.wide and pa.types.is_integer(kind) and kind.bit_width < 64 else kind


def register(context: Any, name: str, provider: Provider) -> None:
    """Make `provider` the table `name` of a DataFusion context."""
    raw = f"{name}__raw"
    context.register_table(raw, provider)
    everything = [col(f'"{column}"') for column in provider.schema.names]
    context.register_view(name, context.table(raw).select(*everything).limit(_NEVER_CUTS))


class Provider(pads.Dataset):  # type: ignore[misc]
    """One table reference of one statement; `failure` keeps the typed error that DataFusion turns into text.

    NaN in a column of `without_nan` (lower case) is such a failure.
    """

    def __init__(
        self, source: Source, target: TableReference, need: Need, without_nan: frozenset[str] = frozenset()
    ) -> None:
        self._source = source
        self._target = target
        self._need = need
        self._without_nan = without_nan
        self._registered = registered_schema(source.schema, target)
        self.failure: IndexTablesError | None = None
        self.closed = False
        self._idle = threading.Condition()
        self._inside = 0
        self._readings: weakref.WeakSet[Reading] = weakref.WeakSet()

    @property
    def schema(self) -> pa.Schema:
        return self._registered

    def get_fragments(self, filter: Any = None) -> list[Provider]:  # noqa: A002, ARG002 - pyarrow's signature
        return [self]

    def scanner(self, *_: object, columns: list[str] | None = None, **__: object) -> _Scanner:
        return _Scanner(self, list(self._registered.names) if columns is None else columns)

    def close(self) -> None:
        """The statement has its answer, or will have none: end what is still being read for it.

        When this returns, no thread of DataFusion's is inside a batch of this table. A statement with a limit can be
        answered while others are still being read; Python aborts a process that shuts down with such a thread inside.
        """
        self.closed = True
        with self._idle:
            self._idle.wait_for(lambda: not self._inside)
        if self.failure is None:
            self._let_go()

    def open_reading(self, columns: list[str]) -> Reading:
        """One scan over these columns."""
        reading = Reading(self, self.read(columns))
        self._readings.add(reading)
        return reading

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Around the reading of one batch."""
        with self._idle:
            self._inside += 1
        try:
            yield
        finally:
            with self._idle:
                self._inside -= 1
                self._idle.notify_all()

    def _let_go(self) -> None:
        """Give DataFusion's threads a moment to drop their readings, so that none asks for one more batch."""
        deadline = time.monotonic() + _LET_GO_S
        while self._readings and time.monotonic() < deadline:
            # References that its threads gave up are counted down when the next call enters its library.
            SQLOptions()
            time.sleep(0.0005)

    def read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Batches with exactly these columns, in this order; ends early once closed."""
        wanted = pa.schema([self._registered.field(name) for name in columns])
        searches = self._target.searches
        hidden = [search for search in searches if search.name in columns]
        required = tuple(search for search in searches if search.name in self._need.required)
        scored = self._target.score and SCORE in columns
        marked = tuple(search for search in hidden if search not in required)
        spelled = {field.name.lower(): field.name for field in self._source.schema}
        own = tuple(spelled[name] for name in columns if name in spelled)
        own_names = [name.lower() for name in own if pa.types.is_floating(self._source.schema.field(name).type)]
        order = [*(name.lower() for name in own), *(search.name for search in marked), *([SCORE] if scored else [])]
        limit = self._need.limit
        try:
            if scored and not required:
                raise NotSupported(NEEDS_ONE)
            for batch in self._source.batches(own, self._need.where, required, marked, limit, scored=scored):
                if self.closed:
                    return
                if not columns:
                    yield lengths_only(batch.num_rows)
                    continue
                # DataFusion hashes and sorts floating-point numbers by their bits.
                present = dict(zip(order, map(one_pattern, batch.columns), strict=True))
                for name in self._without_nan.intersection(own_names):
                    check_ends(name, present[name])
                always = pa.repeat(pa.scalar(value=True), batch.num_rows)
                arrays = [_wide(present.get(name, always), wanted.field(name).type) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
        except IndexTablesError as cause:
            self.failure = cause
            raise


def _wide(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Whole numbers as wide as they are shown."""
    return values.cast(kind) if pa.types.is_integer(kind) and values.type != kind else values


class _Scanner:
    """As much of `pyarrow.dataset.Scanner` as DataFusion uses."""

    def __init__(self, provider: Provider, columns: list[str]) -> None:
        self._provider = provider
        self._columns = columns

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self._provider.schema.field(name) for name in self._columns])

    def to_batches(self) -> Reading:
        return self._provider.open_reading(self._columns)


class Reading:
    """One scan, taken batch by batch on a thread of DataFusion's, which drops it when it is done with it."""

    def __init__(self, provider: Provider, batches: Iterator[pa.RecordBatch]) -> None:
        self._provider = provider
        self._batches = batches

    def __iter__(self) -> Reading:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._provider.inside():
            if self._provider.closed:
                raise StopIteration
            return next(self._batches)
