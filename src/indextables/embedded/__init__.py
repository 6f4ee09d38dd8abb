"""How does a Python process use a table? `Table`, `create` and `open_table`, without Spark and without a JVM."""

from indextables.embedded.table import Table, create, open_table

__all__ = ["Table", "create", "open_table"]
