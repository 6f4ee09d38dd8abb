"""Commands that change rows: delete, update and upsert."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from indextables.cli.asking import Quiet, Yes, agreed, bar, is_asked
from indextables.cli.declared import Argument, Option
from indextables.cli.parameters import AsJson, Settings, TablePath, counted, keywords_of, open_table
from indextables.errors import InvalidArgument
from indextables.table.change import DeleteAsked, UpdateAsked, UpsertAsked

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.table.change import ChangeReport

__all__ = ["delete", "update", "upsert"]


def delete(
    table: TablePath,
    request: DeleteAsked,
    yes: Yes = False,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete rows, in one version. `restore` brings them back until a purge. Without --where and --search, it asks.

    \b
    Examples:
      indextables delete logs --where "ts < '2025-01-01'" --dry-run
      indextables delete logs --search 'message:"health check"'
      indextables delete logs --yes
    """
    opened = open_table(table, option)
    if request.where is None and request.search is None and not request.dry_run and not yes:
        # What cannot be done is said before anybody is asked for anything.
        foreseen = opened.delete(**keywords_of(request, dry_run=True))
        if foreseen.deleted and is_asked(yes=yes):
            agreed(f"Delete all {counted(foreseen.deleted, 'row')} of {table}?")
    report = opened.delete(**keywords_of(request), progress=bar(quiet=quiet))
    _tell(report, {"deleted": report.deleted}, as_json=as_json)


def update(
    table: TablePath,
    assignments: Annotated[
        list[str],
        Option("--set", metavar="COLUMN=SQL", help="A column and what it is set to; can be given several times."),
    ],
    request: UpdateAsked,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Set columns of rows, in one version. What a column is set to is SQL, computed from the row as it was.

    \b
    Examples:
      indextables update logs --set "level = 'WARN'" --where "level = 'WARNING'"
      indextables update logs --set "retries = retries + 1" --set "host = lower(host)" --dry-run
    """
    values = _assigned(assignments)
    report = open_table(table, option).update(values, **keywords_of(request), progress=bar(quiet=quiet))
    _tell(report, {"updated": report.updated}, as_json=as_json)


def upsert(
    table: TablePath,
    file: Annotated[str, Argument(metavar="FILE", help="Rows: a file, or - for standard input.")],
    request: UpsertAsked,
    kind: Annotated[
        str | None,
        Option("--format", metavar="KIND", help="jsonl, csv or parquet; default: what the file name says."),
    ] = None,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Replace the rows that have a key of the file, and add the others, in one version. The file is held in memory.

    Every column of a row is replaced: a value that a line lacks is null. A column that the whole file lacks is refused,
    or kept as it is with --merge-schema.

    \b
    Examples:
      indextables upsert users changes.jsonl --on id
      indextables upsert users today.parquet --on tenant,id --dry-run
    """
    opened = open_table(table, option)
    rows = _rows_of(file, kind, opened.schema)
    report = opened.upsert(rows, **keywords_of(request), progress=bar(quiet=quiet))
    _tell(report, {"updated": report.updated, "added": report.inserted}, as_json=as_json)


def _assigned(given: list[str]) -> dict[str, str]:
    """`column = expression` texts as a mapping. Raises InvalidArgument."""
    found: dict[str, str] = {}
    for text in given:
        column, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not column or not value:
            raise InvalidArgument(f"--set takes COLUMN=SQL, not {text!r}")
        column = column[1:-1].replace("``", "`") if column[:1] == column[-1:] == "`" and len(column) > 2 else column
        if column.lower() in {name.lower() for name in found}:
            raise InvalidArgument(f"--set: column {column} is set twice", columns=[column])
        found[column] = value
    return found


def _rows_of(file: str, kind: str | None, schema: pa.Schema) -> pa.Table:
    """The rows of a file with the columns that it has, in the types of the table. Raises InvalidArgument."""
    import pyarrow as pa

    from indextables.cli.input import inputs, sources, whole_schema, with_new_columns

    sources.check_readable([file])
    form = sources.format_of(file, kind)
    found = whole_schema(file, form)
    wanted = with_new_columns(schema, found)
    wanted = pa.schema([field.with_nullable(True) for field in wanted])  # noqa: FBT003
    rows = pa.Table.from_batches(inputs.open_input(file, form, wanted).batches(), wanted)
    has = {name.lower() for name in found.names}
    # A stream is looked at by its beginning; what comes later has values.
    kept = [name for name in wanted.names if name.lower() in has or rows[name].null_count < rows.num_rows]
    return rows.select(kept)


def _tell(report: ChangeReport, counts: dict[str, int], *, as_json: bool) -> None:
    """The report as one object, or as one line."""
    import msgspec

    from indextables.cli import render

    if as_json:
        render.json_lines([msgspec.structs.asdict(report)])
        return
    done = " and ".join(
        f"{counted(count, 'row')} {what}" if place == 0 else f"{count:,} {what}"
        for place, (what, count) in enumerate(counts.items())
    )
    if report.dry_run:
        line = f"{done.replace(' rows ', ' rows would be ').replace(' row ', ' row would be ')}"
    elif report.version is None:
        line = "no row is concerned, nothing was written"
    elif not any(counts.values()):
        line = f"the table has this batch, version {report.version}; nothing was written"
    else:
        line = f"{done}, version {report.version}"
    sys.stdout.write(line + "\n")
