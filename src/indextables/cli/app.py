"""Names the subcommands of the shell command, runs one, and turns errors into lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from indextables.cli import outcome, plain
from indextables.cli.declared import arguments_of
from indextables.cli.interrupt import WATCH
from indextables.errors import IndexTablesError

__all__ = ["COMMANDS", "commands_named", "perform", "run"]

COMMANDS: dict[str, str] = {
    **dict.fromkeys(("create", "convert", "alter"), "writing"),
    "ingest": "ingesting",
    **dict.fromkeys(("delete", "update", "upsert"), "changing"),
    **dict.fromkeys(("search", "sql", "count", "changes"), "reading"),
    **dict.fromkeys(("schema", "history", "describe", "metrics", "log"), "inspecting"),
    **dict.fromkeys(("merge-splits", "skips", "purge", "drop-partitions", "truncate", "restore"), "maintenance"),
    **dict.fromkeys(("reindex", "prewarm", "mirror", "flush-caches"), "maintenance"),
    **dict.fromkeys(("verify", "checkpoint"), "inspecting"),
    **dict.fromkeys(("compact", "clean-up", "repair", "rebuild"), "maintenance"),
    "doctor": "doctor",
}
"""Every command, in the order of the help, and the module that has it: a process loads the one that it runs."""

_COMPLETION = "_INDEXTABLES_COMPLETE"


def commands_named(names: Iterable[str]) -> dict[str, Callable[..., None]]:
    """These commands."""
    return {name: getattr(import_module(f"indextables.cli.{COMMANDS[name]}"), name.replace("-", "_")) for name in names}


def perform(command: Callable[..., None], values: dict[str, Any]) -> int:
    """Call a command; the exit code. What is wrong or doubtful is one line on stderr."""
    try:
        with outcome.told_warnings():
            command(**arguments_of(command, values))
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads our output has seen enough (`| head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        WATCH.tell()
        return outcome.INTERRUPTED
    except outcome.Leave as left:
        return left.code
    except (IndexTablesError, OSError) as error:
        if WATCH.pressed:
            WATCH.leave()
        return outcome.tell(error)
    return outcome.OK


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, that of the process if there is none given; the exit code."""
    if arguments is None:
        WATCH.start()
    try:
        return _run(arguments)
    except SystemExit as left:
        if WATCH.pressed:
            # Typer ends a command that is interrupted before or after its own work, and says nothing.
            WATCH.tell()
            return outcome.INTERRUPTED
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except KeyboardInterrupt:
        WATCH.tell()
        return outcome.INTERRUPTED
    except OSError as error:
        # Help that cannot be written.
        return outcome.tell(error)
    except BaseException:
        # Libraries that are interrupted fail in ways of their own; Typer puts its hook for that over ours.
        if WATCH.pressed:
            WATCH.leave()
        raise


def _run(arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = given[0] if given and given[0] in COMMANDS else None
    if name is not None and _COMPLETION not in os.environ:
        (command,) = commands_named([name]).values()
        values = plain.read(command, given[1:])
        if values is not None:
            return perform(command, values)
    from indextables.cli.typed import ask

    # Typer reads the signatures of all commands it knows, which takes longer than many a command: tell it of one.
    ask(commands_named(COMMANDS if name is None else [name]), perform, arguments)
    return outcome.OK
