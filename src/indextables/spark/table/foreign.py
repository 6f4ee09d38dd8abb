"""`ForeignIndexTable` is a table of another system in a Spark session: tasks read its rows, and nothing is written."""

from __future__ import annotations

import datetime as dt
import functools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import InvalidArgument, NotSupported
from indextables.foreign import ForeignSource, find_source
from indextables.log.wire import schema_to_json
from indextables.query.parse import parse
from indextables.spark.session import instant_ms, session_zone, spark_schema
from indextables.spark.session.frames import frame_of
from indextables.spark.table.indextable import IndexTable, detail_frame
from indextables.spark.tasks import Place, SparkHandle, for_each
from indextables.table.arguments import check_count, check_text, check_version
from indextables.table.convert import Opened, WantedFile, copy_to_search, grouped, open_source, places_of
from indextables.table.environment import open_env
from indextables.table.read import column_names, count_foreign, detail_of_foreign

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["ForeignIndexTable", "SearchedCopy", "foreign_frame", "foreign_table", "searched_copy"]

_SHARED = frozenset({"spark", "url", "forPath", "forName", "isIndexTable"})
"""What needs nothing of a log of ours, or makes a table elsewhere."""
_BY_THE_DRIVER = {
    opt.SEARCH_DRIVER_MAX_SPLITS.key: 2**31,
    opt.SEARCH_DRIVER_MAX_BYTES.key: 2**62,
    opt.SEARCH_DRIVER_MAX_ROWS.key: 2**31,
}
"""No executor sees the copy that a search makes."""


def foreign_table(
    spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None
) -> ForeignIndexTable | None:
    """The table of another system at a path; None if there is none. Raises NotSupported, LogError, StoreError."""
    source = find_source(SparkHandle(spark, path, options).env())
    if source is None:
        return None
    source.snapshot()
    return ForeignIndexTable(spark, path, options)


def foreign_frame(
    spark: SparkSession,
    place: Place,
    env: Env,
    version: int,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> DataFrame:
    """The rows of a version of another system's table, which tasks read when they are asked for.

    Raises QueryInvalid, InvalidArgument, LogError, StoreError.
    """
    source = open_source(env, version)
    names = column_names(source.schema, columns)
    node = None if where is None else parse(where, source.schema, time_zone=env.options[opt.TIME_ZONE])
    if not names:
        raise InvalidArgument("columns = []: name at least one column, or use count()", columns=[])
    fields = [pa.field(name, source.schema.field(name).type) for name in names]
    shown = spark_schema(schema_to_json(pa.schema(fields)))
    asked = _Asked(place, version, names, where)
    work = functools.partial(_task_rows, msgspec.msgpack.encode(asked), shown.json())
    units = grouped(
        source, source.files_where(node), spark.sparkContext.defaultParallelism if _is_classic(spark) else 8
    )
    return for_each(spark, work, map(msgspec.msgpack.encode, units), shown)


class SearchedCopy(NamedTuple):
    """The rows of a version as a table of ours."""

    version: int
    table: IndexTable


def searched_copy(table: IndexTable, env: Env, version: int) -> SearchedCopy:
    """A version of another system's table as one of ours, in a folder of the driver that goes with `table`."""
    copied = copy_to_search(env, version, "IndexTable.convert")
    weakref.finalize(table, copied.remove)
    return SearchedCopy(version, IndexTable(table.spark, copied.log.url, _BY_THE_DRIVER))


class ForeignIndexTable(IndexTable):
    """A table of Delta, Iceberg or a folder of Parquet files, which is only read. `IndexTable.forPath` returns one.

    Every call works on the newest version, unless it names another.
    """

    @property
    def system(self) -> str:
        """Whose table it is: `Delta`, `Iceberg`, `Parquet`."""
        return self._source().system

    def schema(self) -> StructType:
        """Return the columns of the newest version."""
        return spark_schema(self._source().snapshot().metadata.schemaString)

    def detail(self) -> DataFrame:
        """Tell what the table is, in one row, as `IndexTable.detail`."""
        return detail_frame(self.spark, detail_of_foreign(self._source().snapshot(), self.url))

    def history(self, limit: int | None = None) -> DataFrame:
        """List the commits, newest first. Raises NotSupported for a folder of Parquet files, which has none."""
        check_count("limit", limit, least=1)
        return frame_of(self.spark, self._source().history(limit))

    def toDF(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        versionAsOf: int | None = None,
        timestampAsOf: dt.datetime | str | int | None = None,
    ) -> DataFrame:
        """Return the rows as a DataFrame, which tasks of ours read. It stays at the version that is newest now.

        Arguments and errors are those of `IndexTable.toDF`.
        """
        if versionAsOf is not None and timestampAsOf is not None:
            raise InvalidArgument("give versionAsOf or timestampAsOf, not both")
        if where is not None:
            check_text("where", where)
        place = self._handle.place()
        env = self._handle.env(place)
        version = None if versionAsOf is None else check_version(versionAsOf)
        moment = None if timestampAsOf is None else instant_ms(timestampAsOf, session_zone(self.spark))
        found = self._source(env).snapshot(version, moment).version
        return foreign_frame(self.spark, place, env, found, columns=columns, where=where)

    def search(self, query: str, *args: Any, **options: Any) -> DataFrame:
        """Search as `IndexTable.search` does, in a copy of the rows that the driver makes; a warning says so."""
        return self._copy().search(check_text("a query", query), *args, **options)

    def count(self, query: str | None = None, where: str | None = None) -> int:
        """Count the rows that match. Without a query and a predicate the log tells, where it can."""
        if query is not None:
            copy = self._copy()
            return int(copy.search(query, [copy.schema().names[0]], where).count())
        if where is not None:
            return int(self.toDF(where).count())
        env = self._handle.env()
        return count_foreign(env, self._source(env).snapshot(), None)

    def __repr__(self) -> str:
        return f"ForeignIndexTable({self.url!r})"

    def _source(self, env: Env | None = None) -> ForeignSource:
        source = find_source(self._handle.env() if env is None else env)
        if source is None:
            raise InvalidArgument(f"the table of another system at {self.url} is gone", url=self.url)
        return source

    def _copy(self) -> IndexTable:
        """The rows of the newest version as a table of ours, in a folder of the driver."""
        env = self._handle.env()
        version = self._source(env).snapshot().version
        if self._copied is None or self._copied.version != version:
            self._copied = searched_copy(self, env, version)
        return self._copied.table


class _Asked(msgspec.Struct, frozen=True):
    """What every task is told. Holds credentials."""

    place: Place
    version: int
    names: list[str]
    where: str | None

    def __repr__(self) -> str:
        return f"_Asked({self.place!r})"


def _task_rows(packed: bytes, schema: str, _: int, unit: bytes) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of its files, in the types of Spark's schema."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    asked = _READ_ASKED.decode(packed)
    wanted = to_arrow_schema(StructType.fromJson(msgspec.json.decode(schema)), timezone="UTC")
    env = open_env(asked.place.url, asked.place.options, session=asked.place.session)
    source: Opened = open_source(env, asked.version)
    where = asked.where
    node = None if where is None else parse(where, source.schema, time_zone=env.options[opt.TIME_ZONE])
    for batch in source.rows(places_of(source, _READ_FILES.decode(unit)), asked.names, node):
        arrays = [batch.column(field.name).cast(field.type) for field in wanted]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _is_classic(spark: SparkSession) -> bool:
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: ForeignIndexTable, *_: object, **__: object) -> NoReturn:
        message = (
            f"{name}: the table at {self.url} is one of {self.system}, which is only read here. To change, index or "
            "keep its rows, copy them into a table of ours: IndexTable.convert(spark, source, target)"
        )
        raise NotSupported(message, url=self.url, system=self.system, verb=name)

    return refuse


def _refuse_the_rest() -> None:
    """What `IndexTable` offers, now or later, and is not answered above: nothing reaches for a log of ours."""
    told = {name: value for kind in IndexTable.__mro__[:-1] for name, value in vars(kind).items()}
    offered = {name for name, value in told.items() if not name.startswith("_") and not isinstance(value, classmethod)}
    for name in offered - _SHARED - vars(ForeignIndexTable).keys():
        setattr(ForeignIndexTable, name, functools.wraps(told[name])(_refusal(name)))


_READ_ASKED = msgspec.msgpack.Decoder(_Asked)
_READ_FILES = msgspec.msgpack.Decoder(list[WantedFile])

_refuse_the_rest()
