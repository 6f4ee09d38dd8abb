"""A question before what cannot be undone, and a bar for what takes long."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from indextables.errors import InvalidArgument

if TYPE_CHECKING:
    from indextables.table.running import Progress

__all__ = ["Quiet", "Yes", "agreed", "bar", "is_asked"]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without a question.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no bar.")]


def is_asked(*, yes: bool) -> bool:
    """True if a question has to be asked. Raises InvalidArgument where nobody could answer it."""
    if yes:
        return False
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidArgument(
            "this cannot be undone and nobody can be asked: give --yes, or --dry-run to see what goes"
        )
    return True


def agreed(question: str) -> None:
    """Ask on the terminal; leaves the command with 1 unless the answer is yes."""
    from indextables.cli import outcome

    if not typer.confirm(question, err=True):
        sys.stderr.write("nothing was done\n")
        raise typer.Exit(outcome.FAILED)


def bar(*, quiet: bool) -> Progress | None:
    """Whom to tell how far a verb is: a line on a terminal."""
    if quiet or not sys.stderr.isatty():
        return None
    import time

    from indextables.table.progress import TerminalBar

    return TerminalBar(sys.stderr, time.monotonic)
