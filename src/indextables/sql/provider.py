"""How DataFusion reads one of our tables: batch by batch, the columns it asks for, no filter of its own.

DataFusion takes any `pyarrow.dataset.Dataset`. It trusts such a dataset to apply pushed filters exactly as it would
itself, which Arrow's filters do not (they order NaN in another way); so `register` puts a limit that never cuts between
the dataset and the statement, below which no filter is pushed.
"""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import SQLOptions, col

from indextables.errors import IndexTablesError
from indextables.query.expr import Node
from indextables.sql.pushdown import Need
from indextables.sql.rewrite import Search

__all__ = ["Provider", "Source", "register", "registered_schema"]

_NEVER_CUTS = 2**63 - 1
_LONGEST_BATCH_S = 60


class Source(Protocol):
    """A snapshot that SQL can read."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of every row."""
        ...

    def batches(
        self, columns: tuple[str, ...], where: Node | None, required: tuple[Search, ...], marked: tuple[Search, ...]
    ) -> Iterator[pa.RecordBatch]:
        """The rows, with `columns` first and then one boolean column for each search of `marked`.

        Rows in which a search of `required` does not match may not come; rows in which `where` does not hold may come
        or not. No columns at all means batches that only have a length.
        """
        ...


def registered_schema(schema: pa.Schema, searches: tuple[Search, ...]) -> pa.Schema:
    """What DataFusion gets to see: names in lower case, as it folds them in a statement, and the hidden columns."""
    fields = [pa.field(field.name.lower(), field.type, field.nullable) for field in schema]
    return pa.schema([*fields, *(pa.field(search.name, pa.bool_(), nullable=False) for search in searches)])


def register(context: Any, name: str, provider: Provider) -> None:
    """Make `provider` the table `name` of a DataFusion context."""
    raw = f"{name}__raw"
    context.register_table(raw, provider)
    everything = [col(f'"{column}"') for column in provider.schema.names]
    context.register_view(name, context.table(raw).select(*everything).limit(_NEVER_CUTS))


class Provider(pads.Dataset):  # type: ignore[misc]
    """One table reference of one statement; `failure` keeps the typed error that DataFusion turns into text."""

    def __init__(self, source: Source, searches: tuple[Search, ...], need: Need) -> None:
        self._source = source
        self._searches = searches
        self._need = need
        self._registered = registered_schema(source.schema, searches)
        self.failure: IndexTablesError | None = None
        self.closed = False

    @property
    def schema(self) -> pa.Schema:
        return self._registered

    def get_fragments(self, filter: Any = None) -> list[Provider]:  # noqa: A002, ARG002 - pyarrow's signature
        return [self]

    def scanner(self, *_: object, columns: list[str] | None = None, **__: object) -> _Scanner:
        return _Scanner(self, list(self._registered.names) if columns is None else columns)

    def close(self) -> None:
        """The statement has its answer: what is still being read is wanted no more."""
        self.closed = True

    def read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Batches with exactly these columns, in this order; ends early once closed."""
        wanted = pa.schema([self._registered.field(name) for name in columns])
        hidden = [search for search in self._searches if search.name in columns]
        required = tuple(search for search in self._searches if search.name in self._need.required)
        marked = tuple(search for search in hidden if search not in required)
        spelled = {field.name.lower(): field.name for field in self._source.schema}
        own = tuple(spelled[name] for name in columns if name in spelled)
        order = [*(name.lower() for name in own), *(search.name for search in marked)]
        try:
            for batch in self._source.batches(own, self._need.where, required, marked):
                if self.closed:
                    return
                if not columns:
                    yield _lengths_only(batch.num_rows)
                    continue
                present = dict(zip(order, batch.columns, strict=True))
                always = pa.repeat(pa.scalar(value=True), batch.num_rows)
                arrays = [present.get(name, always) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
        except IndexTablesError as cause:
            self.failure = cause
            raise


class _Scanner:
    """As much of `pyarrow.dataset.Scanner` as DataFusion uses."""

    def __init__(self, provider: Provider, columns: list[str]) -> None:
        self._provider = provider
        self._columns = columns

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self._provider.schema.field(name) for name in self._columns])

    def to_batches(self) -> Reading:
        return Reading(self._provider, self._provider.read(self._columns))


class Reading:
    """One scan, taken batch by batch on a thread of DataFusion's, which drops it when it is done with it."""

    def __init__(self, provider: Provider, batches: Iterator[pa.RecordBatch]) -> None:
        self.provider = provider
        self._batches = batches
        _under_way.add(self)

    def __iter__(self) -> Reading:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)


_under_way: weakref.WeakSet[Reading] = weakref.WeakSet()


@atexit.register
def _wait_for_readings() -> None:
    """A statement with a limit can be answered while a batch is still being read for it.

    Python aborts the process if a foreign thread is inside it when it shuts down: wait until all of them are out.
    """
    deadline = time.monotonic() + _LONGEST_BATCH_S
    while _under_way and time.monotonic() < deadline:
        _close_all()
        # References that DataFusion's threads give up are counted down when the next call enters its library.
        SQLOptions()
        time.sleep(0.002)


def _close_all() -> None:
    for reading in list(_under_way):
        reading.provider.close()


def _lengths_only(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))
