"""What Spark raises on the driver's side."""

from __future__ import annotations

__all__ = ["is_temporary_reference", "jvm_errors", "unknown_table"]


def jvm_errors() -> tuple[type[Exception], ...]:
    """What calls into Spark raise: its own classes, and Py4J's for what has none of them."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    except ImportError:  # a client of Connect alone
        return (PySparkException,)
    return PySparkException, Py4JError


def unknown_table(error: BaseException) -> str | None:
    """The table, or the format of a path, that Spark says it does not know; None for all other errors."""
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return None
    condition, told = error.getCondition() or "", error.getMessageParameters() or {}
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return str(told.get("relationName", "")).replace("`", "") or None
    return told.get("dataSourceType") if condition == "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY" else None


def is_temporary_reference(error: BaseException) -> bool:
    """True if Spark refuses to keep what names something that only this session has."""
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException) and (error.getCondition() or "") == "INVALID_TEMP_OBJ_REFERENCE"
