"""Functions for DataFrames of Spark: `from indextables.functions import score, textsearch`."""

from __future__ import annotations

from indextables.spark.search import score, textsearch

__all__ = ["score", "textsearch"]
