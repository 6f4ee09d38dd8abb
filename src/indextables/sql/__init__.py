"""What does SQL see? A pinned snapshot with `TEXTSEARCH` answered by the index, and commands that care for tables.

command     reads the text of a command and runs it, for both engines
textsearch  what both engines know of `TEXTSEARCH`
local       answers SELECT in one process
spark       answers SELECT in Spark

The package can be called: `indextables.sql(spark, text)` is `indextables.sql.spark.run_sql`.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indextables.spark.session import DataFrame, SparkSession


class _Callable(types.ModuleType):
    """A module is what `indextables.sql` is once anything below it is imported, so it must be the function too."""

    def __call__(self, spark: SparkSession, text: str, args: Any = None, **kwargs: Any) -> DataFrame:
        try:
            from indextables.sql.spark import run_sql
        except ModuleNotFoundError as error:
            from indextables.errors import not_installed

            raise not_installed("indextables.sql", error) from error
        return run_sql(spark, text, args, **kwargs)


sys.modules[__name__].__class__ = _Callable
