"""The data source that Spark finds by name: `format("indextables")` works in every session, without registration."""

from indextables.spark.source import IndexTablesSource as DefaultSource

__all__ = ["DefaultSource"]
