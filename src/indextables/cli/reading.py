"""Commands that answer questions about rows: search, sql, count, changes."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from indextables.cli.asking import Yes, can_ask
from indextables.cli.declared import Argument, Option, names
from indextables.cli.parameters import (
    AsJson,
    AtTime,
    AtVersion,
    Columns,
    Settings,
    TablePath,
    Where,
    open_table,
    pairs,
    text_columns,
)
from indextables.errors import InvalidArgument

if TYPE_CHECKING:
    from indextables.embedded import Table
    from indextables.sql.command import Consent
    from indextables.sql.local import LocalSession

_STATEMENTS = frozenset({"DELETE", "DESCRIBE", "EXPLAIN", "MERGE", "SELECT", "SHOW", "UPDATE", "WITH"})

__all__ = ["changes", "count", "search", "sql"]

_Query = Annotated[str, Argument(metavar="QUERY", help="What to look for.")]


def search(
    table: TablePath,
    query: _Query,
    columns: Columns = None,
    where: Where = None,
    limit: Annotated[int, Option("--limit", "-n", least=1, help="At most this many rows, the best first.")] = 10,
    offset: Annotated[int, Option("--offset", least=0, help="Leave out this many of the best.")] = 0,
    order_by: Annotated[
        str | None,
        Option("--order-by", metavar="A,B", help="Order by these columns instead of score: 'host, ts desc'."),
    ] = None,
    highlight: Annotated[
        bool | None,
        Option("--highlight/--no-highlight", help="Mark what matched.", default="not with --json"),
    ] = None,
    version: AtVersion = None,
    timestamp: AtTime = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Find rows by words, phrases, ranges and more; the best first.

    \b
    Examples:
      indextables search logs timeout
      indextables search logs 'message:"connection reset" AND status:500' --limit 50
      indextables search logs 'host:web* -level:DEBUG' --where "latency > 100" --json
    """
    from indextables.cli import render

    opened = open_table(table, option, version, timestamp)
    shown = names(columns, "--columns")
    texts = _marked_columns(opened, shown) if highlight or (highlight is None and not as_json) else []
    found = opened.search(
        query,
        columns=shown,
        where=where,
        limit=limit,
        offset=offset,
        order_by=order_by,
        highlight=texts,
    )
    render.rows(found, as_json=as_json, marked={name: f"_highlight_{name}" for name in texts})


def sql(
    table: TablePath,
    statement: Annotated[
        str | None, Argument(metavar="STATEMENT", help="A SELECT or a command; the table is called t.")
    ] = None,
    file: Annotated[
        str | None, Option("--file", "-f", metavar="FILE", help="Statements that end with ; (- for a pipe).")
    ] = None,
    with_table: Annotated[
        list[str] | None,
        Option("--with", metavar="NAME=TABLE", help="Another table, and its name in the statement."),
    ] = None,
    param: Annotated[
        list[str] | None,
        Option("--param", "-p", metavar="NAME=TEXT", help="The value of $NAME."),
    ] = None,
    version: AtVersion = None,
    timestamp: AtTime = None,
    yes: Yes = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run a SELECT or a command over the table, which is called t. TEXTSEARCH(column | *, 'query') searches.

    Without a statement, statements are read from the pipe or from the terminal: a shell. At a terminal, PURGE,
    TRUNCATE, DROP PARTITIONS and a DELETE without WHERE ask first.

    \b
    Examples:
      indextables sql logs
      indextables sql logs "SELECT level, count(*) FROM t GROUP BY level"
      indextables sql logs "SELECT host, message FROM t WHERE TEXTSEARCH(message, 'timeout') AND status >= 500"
      indextables sql logs "SELECT * FROM t JOIN hosts USING (host)" --with hosts=./hosts
      indextables sql logs "MERGE SPLITS t"
      indextables sql logs "DELETE FROM t WHERE TEXTSEARCH(message, 'health AND check')"
      indextables sql logs --file nightly.sql
    """
    from indextables.cli.shell import ask_at_prompt, ask_once, prompt, run_script

    if statement is not None and file is not None:
        raise InvalidArgument("give a statement or --file, not both")
    if statement is None and len(table.split()) > 1 and table.split()[0].upper() in _STATEMENTS:
        raise InvalidArgument(f"the table comes before the statement: indextables sql <table> {shlex.quote(table)}")
    is_shell = statement is None and file is None and sys.stdin.isatty()
    consent = None if yes or not can_ask() else ask_at_prompt if is_shell else ask_once
    session = _session(table, pairs(with_table, "--with"), option, version, timestamp, consent)
    params = pairs(param, "--param")
    if statement is not None:
        run_script(session, statement, params, as_json=as_json)
    elif file is not None and file != "-":
        run_script(session, _text_of(file), params, as_json=as_json, name=file)
    elif not is_shell:
        run_script(session, sys.stdin.read(), params, as_json=as_json, name="standard input")
    else:
        prompt(session, params, as_json=as_json)


def changes(
    table: TablePath,
    first: Annotated[str | None, Option("--from", metavar="VERSION", help="Begin at this version or time.")] = None,
    last: Annotated[str | None, Option("--to", metavar="VERSION", help="End with this version or time.")] = None,
    columns: Columns = None,
    where: Where = None,
    net: Annotated[bool, Option("--net", help="Only the first and the last image of each row.")] = False,
    skip_unchanged: Annotated[bool, Option("--skip-unchanged", help="Leave out updates that changed nothing.")] = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show which rows were inserted, deleted and updated, version by version.

    \b
    Examples:
      indextables changes logs --from 5
      indextables changes logs --from 2026-01-01T10:00:00Z --to 9 --where "_change_type = 'delete'"
      indextables changes logs --net --json
    """
    import pyarrow as pa

    from indextables.cli import render

    opened = open_table(table, option)
    ends: dict[str, Any] = {}
    for name, given in (("from", first), ("to", last)):
        if given is not None:
            ends |= {f"{name}_version": int(given)} if given.isdecimal() else {f"{name}_time": given}
    shown = names(columns, "--columns")
    found = opened.changes(**ends, columns=shown, where=where, net=net, skip_unchanged=skip_unchanged)
    if not as_json:
        render.rows(found.read_all(), as_json=False)
        return
    for batch in found:
        render.rows(pa.Table.from_batches([batch]), as_json=True)


def count(
    table: TablePath,
    query: Annotated[str | None, Argument(metavar="QUERY", help="Count only rows that match this query.")] = None,
    where: Where = None,
    version: AtVersion = None,
    timestamp: AtTime = None,
    option: Settings = None,
) -> None:
    """Count rows: all of them (no file is opened), or those that match.

    \b
    Examples:
      indextables count logs
      indextables count logs 'message:timeout' --where "status >= 500"
    """
    opened = open_table(table, option, version, timestamp)
    sys.stdout.write(f"{opened.count(query, where=where)}\n")


def _session(
    table: str,
    others: dict[str, str],
    option: list[str] | None,
    version: int | None,
    timestamp: str | None,
    consent: Consent | None,
) -> LocalSession:
    """Raises TableNotFound, InvalidArgument for a name given twice, and what a version raises that is not there."""
    from indextables.cli.asking import bar
    from indextables.sql.local import LocalSession

    settings = pairs(option, "--option")
    named = {"t": table}
    for name, path in others.items():
        if name.lower() in named:
            raise InvalidArgument(f"two tables are called {name!r} (the table itself is t)", name=name)
        named[name.lower()] = path
    pinned = {}
    if version is not None or timestamp is not None:
        pinned["t"] = open_table(table, option, version, timestamp).version
    session = LocalSession(named, settings, pinned=pinned, progress=bar(quiet=False), consent=consent)
    for name in named:
        session.check(name)
    return session


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8 text"
        raise InvalidArgument(f"{file}: {reason}", path=file) from cause


def _marked_columns(table: Table, shown: list[str] | None) -> list[str]:
    """The columns that can show what matched."""
    searched = text_columns(table)
    return searched if shown is None else [name for name in searched if name.lower() in {s.lower() for s in shown}]
