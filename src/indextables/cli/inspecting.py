"""Commands that look at a table or keep it well: schema, history, describe, verify, checkpoint, log."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from indextables.cli.parameters import AsJson, AtTime, AtVersion, Settings, TablePath, at_version, open_table

__all__ = ["checkpoint", "describe", "history", "log", "schema", "verify"]


def schema(
    table: TablePath,
    version: AtVersion = None,
    timestamp: AtTime = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show the columns: name, type, whether null is allowed, partitioning.

    \b
    Examples:
      indextables schema logs
      indextables schema logs --version 3
    """
    import pyarrow as pa

    from indextables.cli import render

    opened = at_version(open_table(table, option), version, timestamp)
    partitioned = list(opened.partition_columns)
    found = [
        {
            "column": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "partition": partitioned.index(field.name) + 1 if field.name in partitioned else None,
        }
        for field in opened.schema
    ]
    render.rows(pa.Table.from_pylist(found), as_json=as_json)


def history(
    table: TablePath,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="The newest so many only.")] = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show what was done to the table, the newest first.

    \b
    Examples:
      indextables history logs
      indextables history logs --limit 5 --json
    """
    from indextables.cli import render

    found = open_table(table, option).history()
    render.rows(found if limit is None else found.slice(0, limit), as_json=as_json)


def describe(
    table: TablePath,
    files: Annotated[bool, typer.Option("--files", help="List the data files too.")] = False,
    version: AtVersion = None,
    timestamp: AtTime = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show version, files, sizes, state and settings.

    \b
    Examples:
      indextables describe logs
      indextables describe s3://bucket/logs --files --json
    """
    from indextables.cli import render

    opened = at_version(open_table(table, option), version, timestamp)
    if files:
        render.rows(opened.files().select(["path", "partitionValues", "size", "numRecords"]), as_json=as_json)
        return
    render.facts(opened.detail(), as_json=as_json)


def verify(
    table: TablePath,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Check the log, the state and the data files; exit with 1 if something is wrong.

    \b
    Examples:
      indextables verify logs
      indextables verify logs && echo sound
    """
    from indextables.cli import outcome, render

    report = open_table(table, option).verify()
    problems = list(report.problems)
    if as_json:
        render.json_lines({"problem": str(problem)} for problem in problems)
    else:
        for problem in problems:
            sys.stdout.write(f"{problem}\n")
        sys.stdout.write(f"{len(problems)} problems\n" if problems else "no problems found\n")
    if problems:
        raise typer.Exit(outcome.FAILED)


def checkpoint(table: TablePath, option: Settings = None) -> None:
    """Write a checkpoint of the current version, so that opening needs no replay.

    \b
    Examples:
      indextables checkpoint logs
      indextables checkpoint logs --option state.format=parquet
    """
    opened = open_table(table, option)
    opened.checkpoint()
    sys.stdout.write(f"checkpoint of version {opened.version} written\n")


def log(
    table: TablePath,
    number: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="Default: the newest.", show_default=False)
    ] = None,
    option: Settings = None,
) -> None:
    """Show the actions of one version as JSON lines, as they are in the log.

    \b
    Examples:
      indextables log logs
      indextables log logs 3
    """
    actions = open_table(table, option).log(number)
    for action in actions.to_pylist():
        sys.stdout.write(f'{{"{action["action"]}":{action["value"]}}}\n')
