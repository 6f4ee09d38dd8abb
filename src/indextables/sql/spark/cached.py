"""CACHE TABLE of a whole table: Spark keeps the rows of one version, and says itself which later query they answer.

Spark finds rows that it keeps by the plan that reads them. So a table that is cached is read without leaving out files
as long as its newest version is the one that is kept; any later version is read as if nothing was.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from indextables.errors import IndexTablesError
from indextables.spark.table import IndexTable

if TYPE_CHECKING:
    from indextables.spark.session import SparkSession

__all__ = ["cache_table", "cached_version", "uncache_table"]

_PREFIX = "indextables.cached."
"""Settings of a session that say which version of a table is kept: no option, so that tasks are not told of it."""


def cache_table(spark: SparkSession, url: str, *, is_lazy: bool = False) -> None:
    """Keep the rows of the newest version, in the place of another one that was kept."""
    table = IndexTable.forPath(spark, url)
    version = table.version
    if cached_version(spark, url) not in (None, version):
        uncache_table(spark, url)
    frame = table.toDF(versionAsOf=version).cache()
    spark.conf.set(_key(url), str(version))
    if not is_lazy:
        frame.count()


def uncache_table(spark: SparkSession, url: str, *, is_lazy: bool = False) -> None:
    """Keep no rows of a table any more; nothing happens where none are kept."""
    del is_lazy
    version = cached_version(spark, url)
    if version is None:
        return
    spark.conf.unset(_key(url))
    # Rows of a version that cleanup has taken stay with Spark until it needs their place.
    with contextlib.suppress(IndexTablesError):
        IndexTable.forPath(spark, url).toDF(versionAsOf=version).unpersist()


def cached_version(spark: SparkSession, url: str) -> int | None:
    """The version whose rows this session keeps; None if it keeps none."""
    told = spark.conf.get(_key(url), None)
    return int(told) if isinstance(told, str) and told.isdigit() else None


def _key(url: str) -> str:
    return _PREFIX + hashlib.sha256(url.encode()).hexdigest()[:32]
