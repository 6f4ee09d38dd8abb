"""What `enable` gives a session beside `sql`: `read`, `table`, and the `write` and `writeTo` of its DataFrames.

The session object gets a class of its own, and `table` as an attribute. `write` and `writeTo` belong to the class of
all DataFrames: there stands what looks whether the session of a DataFrame is enabled, until the last one is disabled.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from indextables.spark.catalog.readers import noting_reader, table_of
from indextables.spark.catalog.writers import noting_writer, noting_writer_v2
from indextables.spark.session import BASE, frame_class, plain_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["install", "uninstall"]

_PATCHED = ("write", "writeTo")
_OURS = "_indextables_sessions"
"""Attribute of what stands in the place of `write`: the sessions that are enabled."""


def install(spark: SparkSession) -> None:
    """Let `read` and `table` of this session, and writes of its DataFrames, know tables of ours. Twice is once."""
    uninstall(spark)
    base = type(spark)
    spark.__class__ = type(
        base.__name__,
        (base,),
        {BASE: base, "read": property(_read), "__module__": base.__module__, "__doc__": base.__doc__},
    )
    spark.table = types.MethodType(_table, spark)
    frames = frame_class(spark)
    sessions = _sessions(frames)
    if sessions is None:
        sessions = weakref.WeakSet()
        _put(frames, "write", sessions)
        _put(frames, "writeTo", sessions)
    sessions.add(spark)


def uninstall(spark: SparkSession) -> None:
    """Take back what `install` did; nothing happens where it did nothing."""
    base = getattr(type(spark), BASE, None)
    if base is not None:
        spark.__class__ = base
        spark.__dict__.pop("table", None)
    frames = frame_class(spark)
    sessions = _sessions(frames)
    if sessions is None:
        return
    sessions.discard(spark)
    if not sessions:
        for name in _PATCHED:
            setattr(frames, name, frames.__dict__[name].original)


class _InPlace:
    """Stands for a property or a method of the class of DataFrames."""

    def __init__(self, original: Any, name: str, sessions: weakref.WeakSet[Any]) -> None:
        self.original = original
        self.name = name
        setattr(self, _OURS, sessions)
        self.__doc__ = original.__doc__

    def __get__(self, df: Any, kind: type | None = None) -> Any:
        before = self.original.__get__(df, kind)
        if df is None or df.sparkSession not in getattr(self, _OURS):
            return before
        if self.name == "write":
            return noting_writer(before, df)
        return _write_to(before, df)


def _write_to(before: Callable[[str], Any], df: Any) -> Callable[[str], Any]:
    def writeTo(table: str) -> Any:
        """As in Spark; a table of ours is made with its rows, or gets them."""
        return noting_writer_v2(before(table), df, table)

    return writeTo


def _put(frames: Any, name: str, sessions: weakref.WeakSet[Any]) -> None:
    setattr(frames, name, _InPlace(frames.__dict__[name], name, sessions))


def _sessions(frames: Any) -> weakref.WeakSet[Any] | None:
    return getattr(frames.__dict__["write"], _OURS, None)


def _read(self: SparkSession) -> Any:
    """As in Spark; `indextables` and tables of ours are read by Spark's own Parquet reader, where it can."""
    base = getattr(type(self), BASE)
    return noting_reader(base.read.fget(self), self)


def _table(self: SparkSession, tableName: str) -> Any:
    """As in Spark; a table of ours is read by Spark's own Parquet reader, where it can."""
    frame = table_of(self, tableName)
    return plain_reader(self).table(tableName) if frame is None else frame
