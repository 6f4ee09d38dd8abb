"""`IndexTable`: a table as a Spark program sees it, in the manner of DeltaTable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from indextables.errors import TableNotFound
from indextables.spark import registry
from indextables.spark.handle import SparkHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IndexTable"]


class IndexTable(SparkHandle):
    """A table and the session that works with it. Every call sees the newest version, unless it names another."""

    @classmethod
    def forPath(  # noqa: N802 - Spark's manner
        cls, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> IndexTable:
        """The table at a path or URL. Raises TableNotFound, InvalidArgument."""
        table = cls(spark, path, options)
        table.log().latest_version()
        return table

    @classmethod
    def forName(  # noqa: N802 - Spark's manner
        cls, spark: SparkSession, name: str, options: Mapping[str, object] | None = None
    ) -> IndexTable:
        """The table of this name in the session. Raises TableNotFound, InvalidArgument."""
        return cls.forPath(spark, registry.resolve(spark, name), options)

    @classmethod
    def isIndexTable(  # noqa: N802 - Spark's manner
        cls, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> bool:
        """True if there is a table at this path. Raises StoreError where the store does not tell."""
        try:
            cls.forPath(spark, path, options)
        except TableNotFound:
            return False
        return True

    @property
    def version(self) -> int:
        """The newest version."""
        return self.log().latest_version()

    def __repr__(self) -> str:
        return f"IndexTable({self.url!r})"
