"""A new table, described step by step in the manner of Delta's builder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from indextables.errors import InvalidArgument
from indextables.log.read import Log
from indextables.query.stored import Identity
from indextables.spark.session import registry
from indextables.spark.tasks import SparkHandle
from indextables.table.arguments import check_names, check_text
from indextables.table.create import create, given_properties, indexing_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

__all__ = ["IdentityGenerator", "TableBuilder"]

H = TypeVar("H")

Maker: TypeAlias = Callable[["SparkSession", str | os.PathLike[str], Mapping[str, object] | None], H]


class IdentityGenerator(msgspec.Struct, frozen=True):
    """What numbers an identity column: `start`, then on by `step`. As Delta's."""

    start: int = 1
    step: int = 1


class TableBuilder(Generic[H]):
    """Collects what a new table will be; `execute()` creates it. Every other method returns the builder."""

    def __init__(self, spark: SparkSession, made: Maker[H], if_there: Literal["error", "ignore"]) -> None:
        self._spark = spark
        self._made = made
        self._if_there = if_there
        self._path: str | os.PathLike[str] | None = None
        self._name: str | None = None
        self._comment: str | None = None
        self._fields: list[StructField] = []
        self._partition_by: list[str] = []
        self._properties: dict[str, Any] = {}
        self._indexing: dict[str, str | Mapping[str, object]] = {}
        self._options: dict[str, object] = {}

    def location(self, path: str | os.PathLike[str]) -> TableBuilder[H]:
        """Say where the table will be: a folder or a URL."""
        self._path = path
        return self

    def tableName(self, name: str) -> TableBuilder[H]:
        """Give the table a name in this session, for `forName` and SQL. Raises InvalidArgument."""
        registry.key_of_name(name)
        self._name = name
        return self

    def addColumn(
        self,
        name: str,
        dataType: str | DataType,
        nullable: bool = True,  # noqa: FBT001, FBT002 - Delta's signature
        comment: str | None = None,
        indexing: str | Mapping[str, object] | None = None,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        default: str | None = None,
    ) -> TableBuilder[H]:
        """Add a column; `indexing="text"` makes its words searchable. Raises InvalidArgument.

        `generatedAlwaysAs` is SQL that computes it from other columns of the row: `CAST(ts AS DATE)`; or an
        `IdentityGenerator`, which numbers rows, as `generatedByDefaultAs` does where rows bring no number. `default` is
        SQL for what rows hold that do not bring the column: `'unknown'` in its quotes.
        """
        from pyspark.sql.types import DataType, StructField

        check_text("the name of a column", name)
        # Spark reads its own types; a name that needs quotes is set afterwards.
        kind: Any = (
            self._spark.createDataFrame([], f"c {dataType}").schema["c"].dataType
            if isinstance(dataType, str)
            else dataType
        )
        if not isinstance(kind, DataType):
            raise InvalidArgument(f"the type of column {name!r} is a text or a DataType, not {kind!r}")
        metadata = {} if comment is None else {"comment": comment}
        self._fields.append(StructField(name, kind, nullable, metadata))
        if indexing is not None:
            self._indexing[name] = indexing
        words = _generated(name, generatedAlwaysAs, generatedByDefaultAs)
        if words is not None:
            self._properties[f"generated.{name}"] = words
        if default is not None:
            self._properties[f"default.{name}"] = check_text(f"the default of {name}", default)
        return self

    def addColumns(self, cols: StructType | list[StructField]) -> TableBuilder[H]:
        """Add columns from a schema or a list of its fields."""
        self._fields += list(cols)
        return self

    def partitionedBy(self, *cols: str) -> TableBuilder[H]:
        """Name the partition columns: each combination of their values gets its own files. Raises InvalidArgument."""
        given: tuple[Any, ...] = cols
        if len(given) == 1 and isinstance(given[0], list | tuple):
            given = tuple(given[0])
        self._partition_by = check_names("partitionedBy", given)
        return self

    def property(self, key: str, value: str) -> TableBuilder[H]:
        """Set a property of the table, kept in its log. Raises InvalidArgument."""
        self._properties[check_text("the key of a property", key)] = value
        return self

    def comment(self, comment: str) -> TableBuilder[H]:
        """Describe the table, for people to read. Raises InvalidArgument."""
        self._comment = check_text("the comment of a table", comment)
        return self

    def option(self, key: str, value: object) -> TableBuilder[H]:
        """Set an option: how this session works with the table, credentials included. It is never written there.

        Raises InvalidArgument.
        """
        self._options[check_text("the key of an option", key)] = value
        return self

    def execute(self) -> H:
        """Create the table and return it.

        Raises:
            InvalidArgument: There is no location, or `create` finds a table there; an option or property is wrong.
            SchemaInvalid: No table can have these columns.
            SchemaMismatch: The location has a table with other columns.
            NotSupported: A text column has a collation.
            CommitStateUnknown: The store did not tell whether the table was created.
        """
        from pyspark.sql.types import StructType

        from indextables.spark.session import arrow_schema

        if self._path is None:
            raise InvalidArgument("a table needs a location: call location(path) before execute()")
        handle = SparkHandle(self._spark, self._path, self._options)
        schema = arrow_schema(StructType(self._fields))
        wanted = {**indexing_properties(self._indexing, schema), **given_properties(self._properties)}
        log: Log = handle.log()
        made = create(
            log,
            schema,
            partition_by=self._partition_by,
            properties=wanted,
            name=self._name,
            description=self._comment,
        )
        if not made.is_new and self._if_there == "error":
            message = f"there is a table at {handle.url}: use createIfNotExists, or forPath to work with it"
            raise InvalidArgument(message, url=handle.url)
        if self._name is not None:
            registry.register(self._spark, self._name, handle.url)
        return self._made(self._spark, self._path, self._options)


def _generated(name: str, always: object, by_default: object) -> str | None:
    """What generates a column, as the property of a new table says it. Raises InvalidArgument."""
    if always is not None and by_default is not None:
        raise InvalidArgument(f"column {name} has generatedAlwaysAs and generatedByDefaultAs: give one", column=name)
    if isinstance(always, str):
        return check_text("generatedAlwaysAs", always)
    made = by_default if always is None else always
    if made is None:
        return None
    # Delta's own generator will do.
    start, step = getattr(made, "start", None), getattr(made, "step", None)
    if type(start) is not int or type(step) is not int:
        message = f"what generates column {name} is a text of SQL or an IdentityGenerator(start, step), not {made!r}"
        raise InvalidArgument(message, column=name)
    return Identity(start, step, always is not None).sql
