"""DataFrames: Arrow tables as one, what gives the rows of one, and Spark's types for layers that must not import it."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrameReader
    from pyspark.sql import DataFrame as DataFrame  # noqa: PLC0414 - given on to the SQL layer
    from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414

__all__ = [
    "BASE",
    "column_named",
    "expression_text",
    "fingerprint",
    "frame_class",
    "frame_of",
    "is_column",
    "is_of_server",
    "note_rows",
    "path_at",
    "plain_reader",
    "rows_of_frame",
    "select_of",
]

_NOTE = "_indextables_rows"
"""Attribute of a DataFrame of ours: the SELECT, over paths and versions, that gives its rows."""

_IDS = re.compile(r"#\d+L?")

BASE = "_indextables_base"
"""Attribute of the class that `enable` gives a session: the class that Spark gave it."""


def is_of_server(url: str) -> bool:
    """True for a folder that a client of Connect cannot look into: one of the machine that the server runs on."""
    from pyspark.sql.utils import is_remote

    return url.startswith("file:") and is_remote() and "SPARK_LOCAL_REMOTE" not in os.environ


def plain_reader(spark: SparkSession) -> DataFrameReader:
    """Spark's own `spark.read`, whatever was put in its place."""
    base = getattr(type(spark), BASE, type(spark))
    reader: DataFrameReader = base.read.fget(spark)
    return reader


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of `table`; one without rows keeps its columns, which Connect would not find out by itself."""
    if table.num_rows:
        return spark.createDataFrame(table)
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame([], from_arrow_schema(table.schema))


def note_rows(frame: DataFrame, text: str | None) -> DataFrame:
    """Let a DataFrame know the SELECT that gives its rows; returns it."""
    if text is not None:
        vars(frame)[_NOTE] = text
    return frame


def path_at(url: str, version: int | None) -> str:
    """A version of a table by its path, for FROM; None for the newest whenever it is read."""
    as_of = "" if version is None else f" VERSION AS OF {version}"
    return f"indextables.`{url.replace('`', '``')}`{as_of}"


def select_of(columns: str, rows: str, where: str | None = None) -> str:
    """A SELECT of some columns from a table or a subquery; the parts are SQL already."""
    given = "" if where is None else f" WHERE ({where}\n)"
    return f"SELECT {columns} FROM {rows}{given}"  # noqa: S608 - parts that are SQL


def rows_of_frame(frame: DataFrame) -> str | None:
    """The SELECT that gives the rows of a DataFrame; None where nobody noted one."""
    text: str | None = vars(frame).get(_NOTE)
    return text


def frame_class(spark: SparkSession) -> type[Any]:
    """The class of the DataFrames of a session."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.dataframe import DataFrame as Remote

        remote: type[Any] = Remote
        return remote
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    classic: type[Any] = Classic
    return classic


def is_column(value: object) -> bool:
    """True for a Column, classic or Connect."""
    from pyspark.sql import Column

    return isinstance(value, Column)


def column_named(name: str) -> Column:
    """A Column that means the column of this name, whatever letters it has."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    return F.col(f"`{name.replace('`', '``')}`")


def expression_text(column: Any) -> str | None:
    """The text of a Column that is `F.expr(text)` and nothing more; None for all others."""
    inner: Any = getattr(column, "_expr", None)
    if type(inner).__name__ == "SQLExpression":
        return str(inner._expr)  # noqa: SLF001 - Spark tells it nowhere else
    node = column._jc.node() if hasattr(column, "_jc") else None  # noqa: SLF001 - as above
    if node is None or node.getClass().getSimpleName() != "SqlExpression":
        return None
    return str(node.expression())


def fingerprint(frame: Any) -> str:
    """By which the plan of a DataFrame, and the files that it reads, are known again."""
    if hasattr(frame, "_jdf"):
        plan = frame._jdf.queryExecution().analyzed().toString()  # noqa: SLF001 - Spark tells it nowhere else
    else:
        plan = frame._explain_string(extended=True).partition("== Optimized")[0]  # noqa: SLF001 - as above
    told = f"{_IDS.sub('#', plan)}\n{sorted(frame.inputFiles())}"
    return hashlib.sha256(told.encode()).hexdigest()
