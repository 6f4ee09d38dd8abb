"""Holds the source of a MERGE: a DataFrame that is evaluated once, whatever it is made of, and how texts call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from indextables.errors import IndexTablesError, InvalidArgument, SchemaMismatch
from indextables.spark.change.conditions import analysed, quoted
from indextables.spark.session import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["SID", "Source"]

SID = "_it_sid"
"""Tells one row of the source from another."""


class Source:
    """Rows with `SID` behind their columns. `alias` is what texts call them, as far as it is known."""

    def __init__(self, frame: DataFrame, alias: str | None = None) -> None:
        """Raises InvalidArgument for what is no DataFrame, SchemaMismatch for columns that are there twice."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        if not (hasattr(frame, "sparkSession") and hasattr(frame, "join")):
            raise InvalidArgument(f"source is a Spark DataFrame, not {type(frame).__name__}")
        with analysed("the source"):
            names = [name.lower() for name in frame.columns]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            message = f"the source has the column {', '.join(twice)} twice. Nothing was written"
            raise SchemaMismatch(message, differences=[f"{name} is there twice" for name in twice])
        self.columns: list[str] = list(frame.columns)
        self.alias = _alias_of(frame) if alias is None else alias
        self.planned = frame.select("*", F.monotonically_increasing_id().alias(SID))
        """The rows as they would be: to find out what texts mean before anything runs."""
        self._schema = frame.schema
        self._kept: DataFrame | None = None
        self._rows: int | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows, computed when they are first asked for and never again."""
        if self._kept is None:
            with analysed("the source"):
                self._kept = self.planned.localCheckpoint(eager=True)
        return self._kept

    def forget(self) -> None:
        """Compute the rows again when they are asked for: those that were computed are lost."""
        self._kept, self._rows = None, None

    @property
    def rows(self) -> int:
        """How many."""
        if self._rows is None:
            self._rows = int(self.frame.count())
        return self._rows

    def ends(self, columns: Sequence[str]) -> list[tuple[pa.Scalar, pa.Scalar]]:
        """The least and the greatest value of each of these columns, null where there is none; counts rows with it."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        asked = [end(name).alias(f"{n}{end.__name__}") for n, name in enumerate(columns) for end in (F.min, F.max)]
        told = self.frame.agg(F.count(F.lit(1)).alias("rows"), *asked).toArrow()
        self._rows = told["rows"][0].as_py()
        return [(told.column(place)[0], told.column(place + 1)[0]) for place in range(1, told.num_columns, 2)]

    def held(self, most: int | None = None) -> pa.Table:
        """The rows themselves, `most` of them."""
        frame = self.frame.drop(SID)
        with analysed("the source"):
            found = (frame if most is None else frame.limit(most)).toArrow()
        if most is None or found.num_rows < most:
            self._rows = found.num_rows
        return found

    def shown(self) -> DataFrame:
        """The rows for an error: what no table has, as text."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        def told(name: str, kind: DataType) -> Column:
            column = F.col(quoted(name))
            return column if _is_storable(kind) else column.cast("string").alias(name)

        return self.frame.select(*(told(field.name, field.dataType) for field in self._schema), SID)

    def type_of(self, name: str) -> DataType | None:
        """The type of a column, in any case; None if there is none."""
        found = [field.dataType for field in self._schema.fields if field.name.lower() == name.lower()]
        return found[0] if found else None

    @property
    def schema(self) -> pa.Schema:
        """As a table would have it, all columns nullable. Raises NotSupported, SchemaInvalid."""
        return arrow_schema(self._schema.toNullable())

    def known_schema(self) -> pa.Schema | None:
        """The same; None where a column is of a type that no table has."""
        try:
            return self.schema
        except IndexTablesError:
            return None

    def column(self, name: str) -> Column | None:
        """A column of `frame`, in any case; None if there is none."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        found = [known for known in self.columns if known.lower() == name.lower()]
        return F.col(quoted(found[0])) if found else None


def _is_storable(kind: DataType) -> bool:
    from pyspark.sql.types import StructType

    try:
        arrow_schema(StructType().add("value", kind))
    except IndexTablesError:
        return False
    return True


def _alias_of(frame: DataFrame) -> str | None:
    """What `alias` of a DataFrame was given; None if it was not called, or where Spark does not tell."""
    try:
        java = getattr(frame, "_jdf", None)
        if java is not None:
            plan = java.queryExecution().analyzed()
            return str(plan.alias()) if plan.getClass().getSimpleName() == "SubqueryAlias" else None
        plan = getattr(frame, "_plan", None)
        return str(plan._alias) if type(plan).__name__ == "SubqueryAlias" else None  # type: ignore[union-attr]  # noqa: SLF001
    except Exception:  # noqa: BLE001 - it only leaves files out
        return None
