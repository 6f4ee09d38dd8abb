"""Arrow tables as DataFrames, and Spark's types for layers that must not import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame as DataFrame  # noqa: PLC0414 - given on to the SQL layer
    from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414

__all__ = ["frame_of"]


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of `table`; one without rows keeps its columns, which Connect would not find out by itself."""
    if table.num_rows:
        return spark.createDataFrame(table)
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame([], from_arrow_schema(table.schema))
