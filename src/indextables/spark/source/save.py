"""`indextables.write`: a DataFrame into a table, with every mode and with partition columns.

Spark refuses the default mode, `ignore` and `.partitionBy()` for a source that is written in Python before any code of
ours runs. This door takes them as arguments and hands them on as options. It also sees the session's configuration,
which the workers that plan a write do not, and raises errors of this library where Spark wraps them into its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from indextables import options as opt
from indextables.errors import IndexTablesError, InvalidArgument
from indextables.options import OPTIMIZE_WRITE, PREFIX, Options
from indextables.spark.session import (
    SESSION,
    WRITING,
    Settings,
    WriteOptions,
    check_predicate,
    check_session,
    is_of_server,
    names_text,
    raising_ours,
)
from indextables.spark.tasks import session_options
from indextables.storage.url import parse_location
from indextables.table.arguments import check_mapping, check_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from indextables.log.read import Log

__all__ = ["Mode", "write"]

_OPTIMIZE = OPTIMIZE_WRITE.key.lower()

Mode = Literal["error", "append", "overwrite", "ignore"]

_MODES = {
    "error": ("append", "error"),
    "errorifexists": ("append", "error"),
    "default": ("append", "error"),
    "ignore": ("append", "ignore"),
    "append": ("append", None),
    "overwrite": ("overwrite", None),
}


def write(
    df: DataFrame,
    path: str | os.PathLike[str],
    mode: Mode = "error",
    partitionBy: str | Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
    **settings: object,
) -> int | None:
    """Write a DataFrame, classic or Connect, into the table at `path`, in one commit.

    Args:
        df: The rows to write. A new table gets the schema of the DataFrame.
        path: A folder or URL that all workers can reach.
        mode: What to do if there is a table: `error` raises, `ignore` leaves the table alone, `append` adds the rows,
            `overwrite` replaces all rows, or those that `replaceWhere` or `partitionOverwriteMode` names.
        partitionBy: The partition columns of a new table.
        options: Options whose names hold dots: `{"indexing.typemap.message": "text"}`.
        **settings: Options by name: replaceWhere, partitionOverwriteMode, mergeSchema, overwriteSchema,
            targetSplitSize, optimizeWrite, userMetadata, txnAppId, txnVersion. `optimizeWrite=True` shuffles the rows
            before they are written, so that each partition of the table gets few files of a good size.

    Returns:
        The version that was newest when the write was done: it has these rows, and may be a later commit of somebody
        else's. None where this process cannot tell: over Connect, a folder of the server is not the client's.

    Raises:
        InvalidArgument: A mode, an option or a path is wrong, or there is a table and the mode is `error`.
        SchemaMismatch: The rows do not fit the table; names each difference. Nothing was written.
        QueryInvalid: `replaceWhere` cannot be understood.
        CommitConflict: Somebody else changed the same rows or the schema meanwhile. Nothing was committed.
        CommitStateUnknown: The store did not tell whether the commit is in the log. Nothing was deleted; `resolve` of
            an embedded `Table` finds out.
    """
    if not (hasattr(df, "write") and hasattr(df, "sparkSession")):
        raise InvalidArgument(f"df is a Spark DataFrame, not {type(df).__name__}: a Table takes other data in append()")
    given = _texts({**check_mapping("options", options), **settings})
    if opt.SAVE_MODE.key in Settings(given).names:
        raise InvalidArgument("say what to do about an existing table with mode, not saveMode", option="saveMode")
    wanted, existing = _modes(mode)
    columns = [partitionBy] if isinstance(partitionBy, str) else partitionBy
    if columns is not None:
        given[opt.PARTITION_BY.key] = names_text(check_names("partitionBy", columns))
    if existing is not None:
        given[opt.SAVE_MODE.key] = existing
    url = parse_location(path).url
    session = session_options(df.sparkSession)
    check_session(session, WRITING)
    asked = WriteOptions.of(given)
    shuffles = Options(asked.table_options, session=session)[OPTIMIZE_WRITE]
    there = _partition_columns(url, asked, session) if existing is not None or shuffles else None
    if there is not None and existing is not None:
        if existing == "ignore":
            return _version(url, asked, session)
        raise InvalidArgument(f"there is a table at {url} already: use mode append or overwrite", url=url)
    if shuffles:
        df, given = _shuffled(df, given, asked.partition_by or there or ())
    writer = df.write.format("indextables").mode(wanted).options(**given, **{SESSION: json.dumps(session)})
    _make_active(df.sparkSession)
    with raising_ours():
        writer.save(url)
    return _version(url, asked, session)


def _shuffled(df: DataFrame, given: dict[str, str], columns: Sequence[str]) -> tuple[DataFrame, dict[str, str]]:
    """The rows of each partition together, in parts of the size that Spark is told to aim at, and the options.

    So the commit, which would merge the small files of many tasks, has nothing to do.
    """
    others = {key: value for key, value in given.items() if key.lower().removeprefix(PREFIX) != _OPTIMIZE}
    return df.hint("rebalance", *columns), {**others, OPTIMIZE_WRITE.key: "false"}


def _make_active(spark: SparkSession) -> None:
    """Let a thread that is new to Spark find sources in Python: Spark looks for them in the thread's active session."""
    from pyspark.sql import SparkSession

    if isinstance(spark, SparkSession) and SparkSession.getActiveSession() is None:
        # The one thing of the public API that makes a session the active one.
        spark.createDataFrame([], "id int")


def _modes(mode: Any) -> tuple[str, str | None]:
    """The mode that Spark lets through, and what a table that is there means."""
    found = _MODES.get(mode.lower()) if isinstance(mode, str) else None
    if found is None:
        raise InvalidArgument(f"mode is error, append, overwrite or ignore, not {mode!r}", option="mode")
    return found


def _texts(given: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark has them. Raises InvalidArgument for values that have no text."""
    texts: dict[str, str] = {}
    for key, value in given.items():
        if key.lower() == opt.REPLACE_WHERE.key.lower():
            value = check_predicate(opt.REPLACE_WHERE, value)  # noqa: PLW2901 - the same, checked
        if value is None:
            continue
        if isinstance(value, bool):
            texts[key] = str(value).lower()
        elif isinstance(value, str | int | float):
            texts[key] = str(value)
        else:
            raise InvalidArgument(f"option {key} is a text, a number or true or false, not {value!r}", option=key)
    return texts


def _version(url: str, asked: WriteOptions, session: Mapping[str, str]) -> int | None:
    """The newest version; None where this process cannot tell."""
    log = _log(url, asked, session)
    try:
        return None if log is None else log.latest_version()
    except IndexTablesError:
        return None


def _partition_columns(url: str, asked: WriteOptions, session: Mapping[str, str]) -> list[str] | None:
    """Those of the table that is there; None where there is none, or where this process cannot tell.

    The workers that plan the write look again: what is told here only spares the work before that. A folder that a
    client of Connect sees need not be the server's.
    """
    log = _log(url, asked, session)
    try:
        return None if log is None else list(log.metadata_at().metadata.partitionColumns)
    except IndexTablesError:
        return None


def _log(url: str, asked: WriteOptions, session: Mapping[str, str]) -> Log | None:
    """The log as this process sees it; None where the place is one of the server's."""
    from indextables.log.read import Log
    from indextables.table.environment import open_env

    if is_of_server(url):
        return None
    return Log(open_env(url, asked.table_options, session=session))
