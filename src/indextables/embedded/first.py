"""Makes a table by its first rows: if these fail, there is no table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.embedded.table import Table
from indextables.errors import ObjectNotFound, TableNotFound
from indextables.log.care import open_log
from indextables.table import create as create_verb
from indextables.table.arguments import check_names, check_spelling
from indextables.table.environment import open_env
from indextables.table.rows import read_rows

__all__ = ["Taken", "append_rows", "create_with_rows", "open_to_write"]


class Taken(NamedTuple):
    """The table and the version that holds the rows; `repeated` if it held their batch before: nothing was added."""

    table: Table
    version: int
    repeated: bool = False


def open_to_write(path: str | os.PathLike[str], options: Mapping[str, object] | None = None) -> Table:
    """The table of ours at `path`. Raises TableNotFound also where rows of another system lie, and as `open_table`."""
    log = open_log(open_env(path, check_spelling("options", options)))
    try:
        return Table(log, log.snapshot(), is_seen=False)
    except ObjectNotFound as cause:
        raise TableNotFound(f"there is no table at {log.url[:200]}: {str(cause)[-200:]}", url=log.url) from cause


def append_rows(
    table: Table,
    rows: pa.RecordBatchReader,
    txn: tuple[str, int] | None = None,
    *,
    along: tuple[str, int] | None = None,
    merge_schema: bool = False,
    indexing: Mapping[str, Any] | None = None,
) -> Taken:
    """As `table.append`, and tells whether the table held the batch before. Raises as that does.

    `along` is a second application with a number, which the same commit records.
    """
    version = table.version
    committed = table._append(rows, txn, along=along, merge_schema=merge_schema, indexing=indexing)  # noqa: SLF001 - what `append` does, with its whole outcome
    return Taken(table, version) if committed is None else Taken(table, committed.version, committed.repeated)


def create_with_rows(
    path: str | os.PathLike[str],
    rows: pa.RecordBatchReader,
    *,
    partition_by: Sequence[str] = (),
    indexing: Mapping[str, str | Mapping[str, object]] | None = None,
    properties: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
    txn: tuple[str, int] | None = None,
    along: tuple[str, int] | None = None,
) -> Taken:
    """Make a table with the schema of `rows` and append them.

    Arguments as for `create` and `append_rows`. Raises what they raise; a failure before the commit leaves no table.
    """
    log = open_log(open_env(path, check_spelling("options", options)))
    wanted = {**create_verb.indexing_properties(indexing, rows.schema), **create_verb.given_properties(properties)}
    columns = check_names("partition_by", partition_by)
    version, repeated = create_verb.create_with_rows(
        log, rows.schema, read_rows(rows), partition_by=columns, properties=wanted, txn=txn, along=along
    )
    return Taken(Table(log, log.snapshot()), version, repeated)
