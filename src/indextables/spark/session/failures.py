"""Knows what Spark raises on the driver, and turns what stands for an error of ours back into that error.

An error of a worker reaches the driver as text: the traceback, inside a message of Spark's.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator

from indextables import errors
from indextables.errors import IndexTablesError

__all__ = ["is_temporary_reference", "is_unknown_search", "jvm_errors", "ours", "raising_ours", "unknown_table"]

_NOT_FOUND = re.compile(r"DATA_SOURCE_NOT_FOUND.*\bindextables\b", re.DOTALL)
_RAISED = re.compile(r"^(?:.*\s)?indextables\.errors\.(\w+): (.+)$", re.MULTILINE)


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


def is_unknown_search(error: BaseException) -> bool:
    """True if Spark does not know a search: the function, the operator, or the column that stands for one."""
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return False
    condition, told = error.getCondition() or "", error.getMessageParameters() or {}
    named = {
        "UNRESOLVED_ROUTINE": "routineName",
        "UNRESOLVED_COLUMN": "objectName",
        "PARSE_SYNTAX_ERROR": "error",
    }.get(condition.partition(".")[0], "")
    return any(word in str(told.get(named, "")).lower() for word in ("textsearch", "score needs", "indexquery"))


def ours(error: BaseException) -> IndexTablesError | None:
    """The error of this library that Spark's stands for, without its details; None if it is Spark's own."""
    for name, message in reversed(_RAISED.findall(str(error))):
        kind = getattr(errors, name, None) if name in errors.__all__ else None
        if kind is not None:
            made: IndexTablesError = kind(message.strip())
            return made
    return _no_package() if _NOT_FOUND.search(str(error)) else None


def _no_package() -> IndexTablesError:
    """Spark looks for sources with the Python of its workers, which is `python3` of the PATH unless told otherwise."""
    message = (
        "Spark did not find the source indextables: the Python that its workers run lacks this package. Set "
        f"PYSPARK_PYTHON={sys.executable} before the session starts; `indextables doctor` tells what they run now"
    )
    return errors.NotInstalled(message)


@contextlib.contextmanager
def raising_ours() -> Iterator[None]:
    """Errors of this library come out as themselves, caused by Spark's; others come out as they are."""
    try:
        yield
    except jvm_errors() as cause:
        made = ours(cause)
        if made is None:
            raise
        raise made from cause
