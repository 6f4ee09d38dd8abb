"""`convert` copies a table of another system into one of ours."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from indextables.log.care import open_log
from indextables.table.arguments import check_mapping, check_names, check_spelling, check_text, check_version
from indextables.table.convert import ConvertReport, ConvertRequest
from indextables.table.convert import convert as convert_verb
from indextables.table.create import given_properties
from indextables.table.environment import open_env
from indextables.table.progress import progress_of
from indextables.table.running import Progress, Threads

__all__ = ["convert"]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    system: str | None = None,
    version: int | None = None,
    partition_by: Sequence[str] | None = None,
    indexing: Mapping[str, str | Mapping[str, object]] | None = None,
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    options: Mapping[str, object] | None = None,
    source_options: Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> ConvertReport:
    """Copy the rows of a table of Delta, of IndexTables4Spark, or of a folder of Parquet files into a table of ours.

    All rows come in one commit, after they were read back and compared with what the source holds. The source is only
    read. Where the target was converted from this source before, only what the source got since is taken; if rows
    left the source meanwhile, nothing is written, and a new target is needed.

    Args:
        source: Where the other table is.
        target: Where the table of ours is, or will be: another folder or URL.
        system: What the source must be: `delta`, `parquet` or `indextables4spark`; by default, what is there.
        version: The version of the source to take; the newest by default.
        partition_by: The partition columns of a new target; by default those of the source.
        indexing: As for `create`, of a new target.
        properties: As for `create`, of a new target.
        name: As for `create`; by default what the source is called.
        description: As for `create`; by default that of the source.
        options: How this process works with the target, credentials included.
        source_options: The same for the source; by default `options`.
        progress: A function that is called with a `Step` while it works.

    Raises:
        TableNotFound: There is no table at `source`.
        InvalidArgument: An argument is wrong, the source is a table of ours, or the target holds other rows.
        NotSupported: The source has what is not read here, or lost rows since the last time; the message says which.
        SchemaMismatch, SchemaInvalid: No table of ours can have these columns, or the target has others.
        CommitConflict: Somebody else converted into the target meanwhile. Nothing was committed.
        LogError, SplitError, StoreError: The source is damaged, or a store refused. Nothing was committed.
    """
    for what, text in (("name", name), ("description", description), ("system", system)):
        if text is not None:
            check_text(f"the {what} of a table", text)
    request = ConvertRequest(
        system=system,
        version=None if version is None else check_version(version),
        partition_by=None if partition_by is None else check_names("partition_by", partition_by),
        indexing=check_mapping("indexing", indexing),
        properties=given_properties(properties),
        name=name,
        description=description,
    )
    asked = check_spelling("options", options)
    log = open_log(open_env(target, asked))
    source_env = open_env(source, asked if source_options is None else check_spelling("options", source_options))
    told = progress or progress_of(log.env.options, log.env.ambient)
    return convert_verb(source_env, log, request, runner=Threads(log.env, "maintenance"), progress=told)
