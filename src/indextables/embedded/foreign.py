"""`ForeignTable` is a table of another system, opened to be read: scans, predicates, SQL, time travel, searches.

It has the methods of `Table`. Those that write, and those that look after a table, are refused. A search is answered
from a copy of the rows, which is made when the first search is asked for and is gone with the handle.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pyarrow as pa

from indextables import options as opt
from indextables.embedded.sent import Sent, arrived
from indextables.embedded.table import Table, create
from indextables.env import Env
from indextables.errors import InvalidArgument, NotSupported, TableNotFound, TableReplaced, not_installed
from indextables.foreign import ForeignSnapshot, ForeignSource, find_source, plain_field
from indextables.log.wire import Metadata, Protocol
from indextables.process import Lock
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.table.arguments import check_count, check_text, check_version, millis
from indextables.table.environment import open_env
from indextables.table.read import count_foreign, detail_of_foreign, scan_foreign

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from indextables.sql.local import Source

__all__ = ["ForeignTable", "open_foreign"]

_LOGGER = logging.getLogger("indextables")

_SHARED = frozenset({"_sources", "__bool__", "__enter__", "__exit__", "__iter__"})
"""Methods of `Table` that need nothing of a log."""


def open_foreign(env: Env, version: int | None, timestamp: dt.datetime | str | int | None) -> ForeignTable | None:
    """The table of another system at this place; None if there is none. Raises LogError, NotSupported, StoreError."""
    source = find_source(env)
    return None if source is None else ForeignTable(env, source, _snapshot_at(source, version, timestamp))


class ForeignTable(Table):
    """A table of another system, which is only read. `indextables.open` returns one where it finds one.

    Like every handle it reads one version until `refresh()`. Several threads may use it at the same time.
    """

    def __init__(self, env: Env, source: ForeignSource, snapshot: ForeignSnapshot) -> None:
        self._env = env
        self._whose = source
        self._read = snapshot
        self._copied: _Copy | None = None
        self._copying = Lock()

    @property
    def url(self) -> str:
        """The URL of the table, without credentials."""
        return self._env.store.url

    @property
    def system(self) -> str:
        """Whose table it is: `Delta`, `Parquet`."""
        return self._whose.system

    @property
    def version(self) -> int:
        """The version that this handle reads."""
        return self._read.version

    def at(self, version: int | None = None, timestamp: dt.datetime | str | int | None = None) -> ForeignTable:
        """Return a handle on another version, as `Table.at` does."""
        if (version is None) == (timestamp is None):
            raise InvalidArgument("give either a version or a timestamp")
        return ForeignTable(self._env, self._whose, _snapshot_at(self._whose, version, timestamp))

    def refresh(self) -> ForeignTable:
        """Move this handle to the newest version and return it."""
        self._read = self._whose.snapshot()
        return self

    # What it is

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, as an Arrow schema."""
        return pa.schema([plain_field(field) for field in self._read.schema])

    @property
    def partition_columns(self) -> list[str]:
        """The partition columns."""
        return self._read.partition_columns

    @property
    def protocol(self) -> Protocol:
        """The protocol as the source's log holds it."""
        return self._read.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata as the source's log holds it: id, name, schema, partition columns, properties."""
        return self._read.metadata

    def files(self, where: str | None = None) -> pa.Table:
        """List the data files of this version that may hold rows for which `where` is true, a row for each."""
        return self._read.files_where(self._predicate(where))

    def detail(self) -> dict[str, Any]:
        """Tell what the table is, as a dict: id, name, version, files, bytes, rows, partition columns, properties."""
        return detail_of_foreign(self._read, self.url)

    def history(self, limit: int | None = None) -> pa.Table:
        """List the commits of the table, newest first, a row for each, in the columns of `Table.history`."""
        check_count("limit", limit, least=1)
        return self._whose.history(limit)

    # Read

    def scan(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Read the rows for which `where` is true, file by file, batch by batch, as `Table.scan` does."""
        check_count("limit", limit)
        return scan_foreign(self._env, self._read, columns, self._predicate(where), limit)

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """Read the same rows as `scan`, all at once into memory."""
        return self.scan(columns, where, limit).read_all()

    def count(self, query: str | None = None, where: str | None = None) -> int:
        """Count the rows that match. Without a query and a predicate the log tells, where it can."""
        if query is not None:
            return self._copy().count(query, where)
        return count_foreign(self._env, self._read, self._predicate(where))

    def sql(
        self,
        statement: str,
        *,
        tables: Mapping[str, Table] | None = None,
        params: Mapping[str, object] | None = None,
    ) -> pa.Table:
        """Run a SELECT over this version and return its rows, as `Table.sql` does."""
        from indextables.sql.local import select

        text = check_text("statement", statement)
        return select(text, self._source(), self._sources(tables), params=params, options=self._env.options)

    # Search

    def search(self, query: str, *args: Any, **options: Any) -> pa.Table:
        """Search as `Table.search` does, in a copy of the rows; every column of texts is searched by words."""
        return self._copy().search(query, *args, **options)

    def search_batches(self, query: str, *args: Any, **options: Any) -> pa.RecordBatchReader:
        """The same, batch by batch."""
        return self._copy().search_batches(query, *args, **options)

    def explain(self, query: str | None, where: str | None = None) -> dict[str, Any]:
        """Tell how `search` understands a query and a predicate."""
        return self._copy().explain(query, where)

    def aggregate(
        self,
        query: str | None,
        aggregations: Mapping[str, Mapping[str, Mapping[str, Any]]],
        where: str | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Compute buckets and statistics over the rows that match, as `Table.aggregate` does."""
        return self._copy().aggregate(query, aggregations, where)

    # Other tools

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Read the same rows as `scan` into a pandas DataFrame."""
        try:
            import pandas as pd  # noqa: F401 - before anything is read
        except ModuleNotFoundError as error:
            raise not_installed("Table.to_pandas", error) from error
        return self.scan(columns, where, limit).read_pandas()

    def to_polars(self, search: str | None = None) -> pl.LazyFrame:
        """Offer this version to Polars as a lazy frame, as `Table.to_polars` does."""
        from indextables.embedded.frames import lazy_frame

        return lazy_frame(ForeignTable(self._env, self._whose, self._read), self.schema, search)

    def close(self) -> None:
        """Let go of the copy that searches made, if any. The handle can still be used."""
        with self._copying:
            copied, self._copied = self._copied, None
        if copied is not None:
            copied.remove()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow C stream, by which Polars, DuckDB, pandas, pyarrow and others take a table."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The columns as an Arrow C schema."""
        return self.schema.__arrow_c_schema__()

    def __len__(self) -> int:
        """The number of rows of this version."""
        return self.count()

    def __reduce__(self) -> tuple[Callable[..., ForeignTable], tuple[object, ...]]:
        """A handle is its URL, its version and the options that were given, credentials among them."""
        told = self._told()
        if told is None:
            told = (self.url, dict(self._env.options.asked), self.system, self.version, self.metadata.id)
        return arrived, (type(self), *told)

    def _open_sent(self, *told: Any) -> None:
        """Raises as `indextables.open`, and TableReplaced if another table is there now."""
        url, options, system, version, table_id = told
        env = open_env(url, options)
        source = find_source(env)
        if source is None or source.system != system:
            raise TableNotFound(f"the table of {system} at {url} is gone", url=url)
        ForeignTable.__init__(self, env, source, source.snapshot(version))
        if self.metadata.id != table_id:
            raise TableReplaced(f"another table is at {url} than the one that was pickled", url=url, table_id=table_id)

    def __repr__(self) -> str:
        return f"ForeignTable({self.url!r}, system={self.system!r}, version={self.version})"

    def _repr_html_(self) -> str:
        import html

        return f"<div><strong>{html.escape(self.url)}</strong> {self.system}, version {self.version}</div>"

    def _predicate(self, where: str | None) -> Node | None:
        if where is None:
            return None
        return parse(where, self.schema, time_zone=self._env.options[opt.TIME_ZONE])

    def _source(self) -> Source:
        from indextables.sql.local import ForeignRows

        snapshot = self._read
        return ForeignRows(self._env, snapshot, lambda: self._sources({"copy": self._copy(snapshot)})["copy"])

    def _copy(self, snapshot: ForeignSnapshot | None = None) -> Table:
        """The rows of a version, by default this one, as a table of ours, made when it is first asked for."""
        wanted = snapshot or self._read
        with self._copying:
            if self._copied is None or self._copied.version != wanted.version:
                self._copied = self._copy_rows(wanted)
            return self._copied.table

    def _copy_rows(self, snapshot: ForeignSnapshot) -> _Copy:
        _LOGGER.warning(
            "a search in a table of %s copies all its rows first (%s): copy them for good with indextables.convert, "
            "and search there",
            self.system,
            self.url,
        )
        folder = tempfile.mkdtemp(prefix="indextables-search-")
        remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        schema = pa.schema([plain_field(field) for field in snapshot.schema])
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        copy = create(Path(folder) / "copy", schema, indexing=dict.fromkeys(texts, "text"))
        copy.append(scan_foreign(self._env, snapshot, None, None, None))
        return _Copy(snapshot.version, copy, remove)


class _Copy(NamedTuple):
    """The rows of a version as a table of ours, in a folder that `remove` deletes."""

    version: int
    table: Table
    remove: Callable[[], object]


def _snapshot_at(
    source: ForeignSource, version: int | None, timestamp: dt.datetime | str | int | None
) -> ForeignSnapshot:
    if version is not None:
        return source.snapshot(check_version(version))
    return source.snapshot(timestamp_ms=None if timestamp is None else millis(timestamp))


def _refusal(name: str) -> Callable[..., NoReturn]:
    """The method `name`, which a table of another system does not have."""

    def refuse(self: ForeignTable, *_: object, **__: object) -> NoReturn:
        message = (
            f"{name}: the table at {self.url} is one of {self.system}, which is only read here. To change, index or "
            "keep its rows, copy them into a table of ours: indextables.convert(source, target); or use the library "
            "that wrote it"
        )
        raise NotSupported(message, url=self.url, system=self.system, verb=name)

    return refuse


def _refuse_the_rest() -> None:
    """What `Table` offers, now or later, and is not answered above is refused: nothing reaches for a log of ours."""
    told = {name: value for kind in Table.__mro__[:-1] for name, value in vars(kind).items()}
    offered = {name for name, value in told.items() if not name.startswith("__") or inspect.isfunction(value)}
    for name in offered - _SHARED - vars(Sent).keys() - vars(ForeignTable).keys():
        refuse = _refusal(name)
        known = getattr(Table, name)
        replaced: object = property(refuse) if isinstance(known, property) else functools.wraps(known)(refuse)
        setattr(ForeignTable, name, replaced)


_refuse_the_rest()
