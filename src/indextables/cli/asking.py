"""Asks before what cannot be undone, and shows a bar for what takes long."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from indextables.cli.declared import Option
from indextables.cli.parameters import counted
from indextables.errors import InvalidArgument

if TYPE_CHECKING:
    from indextables.sql.command import Ask, Context, DeleteRows, DropTable
    from indextables.table.running import Progress

__all__ = ["Declined", "Quiet", "Yes", "agreed", "bar", "can_ask", "is_asked", "question_of"]

Yes = Annotated[bool, Option("--yes", "-y", help="Do it without asking first.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Do not show a progress bar.")]


class Declined(Exception):
    """The answer was no: nothing is done."""


def can_ask() -> bool:
    """True if somebody sits at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def is_asked(*, yes: bool) -> bool:
    """True if a question has to be asked. Raises InvalidArgument where nobody could answer it."""
    if yes:
        return False
    if not can_ask():
        raise InvalidArgument(
            "this deletes data or history, and no terminal can be asked: give --yes, or --dry-run to see what"
        )
    return True


def agreed(question: str) -> None:
    """Ask on the terminal; leaves the command with 1 unless the answer is yes."""
    from indextables.cli import outcome

    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    if answer.strip().lower() not in ("y", "yes"):
        sys.stderr.write("nothing was done\n")
        raise outcome.Leave(outcome.FAILED)


def question_of(command: Ask | DeleteRows | DropTable, context: Context) -> str | None:
    """What to ask before a command of SQL, by what a dry run of it tells; None if it would do nothing.

    Raises what the command raises.
    """
    import msgspec

    from indextables.cli import render
    from indextables.sql.command import Ask, execute
    from indextables.table.requests import DropPartitions, TruncateTimeTravel

    if not isinstance(command, Ask):
        return _all_rows(command, context)
    foreseen = msgspec.structs.replace(command.request, dry_run=True)
    goes = execute(msgspec.structs.replace(command, request=foreseen), context)
    table, count = command.target.text, counted(goes.num_rows, "file")
    if not goes.num_rows:
        return None
    if isinstance(command.request, TruncateTimeTravel):
        return f"Forget all versions of {table} before the newest for good ({count})?"
    size = render.size(sum(size or 0 for size in goes["size"].to_pylist()))
    if isinstance(command.request, DropPartitions):
        return f"Drop {count} ({size}) of {table}?"
    return f"Delete {count} ({size}) of {table} for good?"


def _all_rows(command: DeleteRows | DropTable, context: Context) -> str | None:
    from indextables.sql.command import DropTable, is_table
    from indextables.table.read import counted_rows

    log = context.log(command.target)
    if isinstance(command, DropTable):
        # A log that cannot be read is no reason to keep the table.
        return f"Drop {log.url} with all rows and versions for good?" if is_table(log) else None
    rows = counted_rows(log.snapshot()) if is_table(log) else 0
    return None if rows == 0 else f"Delete all {'' if rows is None else f'{rows:,} '}rows of {command.target.text}?"


def bar(*, quiet: bool) -> Progress | None:
    """Whom to tell how far a verb is: a line on a terminal."""
    if quiet or not sys.stderr.isatty():
        return None
    import time

    from indextables.table.progress import TerminalBar

    return TerminalBar(sys.stderr, time.monotonic)
