"""The command, its subcommands and the boundary where errors become lines."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import typer

from indextables.cli import outcome
from indextables.cli.care import clean_up, compact, rebuild, repair
from indextables.cli.inspecting import checkpoint, describe, history, log, schema, verify
from indextables.cli.interrupt import WATCH
from indextables.cli.machine import doctor
from indextables.cli.operating import (
    drop_partitions,
    flush_caches,
    merge_splits,
    prewarm,
    purge,
    reindex,
    restore,
    skips,
    truncate,
)
from indextables.cli.reading import count, search, sql
from indextables.cli.writing import create, ingest
from indextables.errors import IndexTablesError

__all__ = ["app", "run"]


def bounded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with every error told in one line and turned into an exit code."""

    @functools.wraps(command)
    def run_bounded(*args: object, **kwargs: object) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever reads our output has seen enough (`| head`).
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt as interrupted:
            WATCH.tell()
            raise typer.Exit(outcome.INTERRUPTED) from interrupted
        except (IndexTablesError, OSError) as error:
            if WATCH.pressed:
                WATCH.leave()
            raise typer.Exit(outcome.tell(error)) from error

    return run_bounded


_CODES = "\n".join(f"  {code:<4} {meaning}" for code, meaning in outcome.EXIT_CODES.items())
_HELP = f"""
Tables that are scanned like Parquet and searched like a search engine.

The table comes first: a folder, or a URL such as s3://bucket/table.

\b
Examples:
  indextables ingest logs today.jsonl --text message
  indextables search logs 'message:timeout AND level:ERROR'
  indextables sql logs "SELECT level, count(*) FROM t GROUP BY level"
  indextables describe logs

\b
Exit codes:
{_CODES}
"""  # noqa: S608 - an example, not a statement

_EVERYDAY = (create, ingest, search, sql, count, schema, history, describe, log)
_CARE = (verify, checkpoint, compact, clean_up, repair, rebuild, doctor)
_OPERATE = (merge_splits, skips, purge, drop_partitions, truncate, restore, reindex, prewarm, flush_caches)
_COMMANDS = {command.__name__.replace("_", "-"): command for command in (*_EVERYDAY, *_OPERATE, *_CARE)}


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"indextables {version('indextables')}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the command itself."""


def _app_of(commands: Iterable[Callable[..., None]]) -> typer.Typer:
    made = typer.Typer(
        help=_HELP,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in commands:
        made.command()(bounded(command))
    made.callback()(_root)
    return made


app = _app_of(_COMMANDS.values())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code. Every error of ours, and of the system, is one line on stderr."""
    if arguments is None:
        WATCH.start()
    given = sys.argv[1:] if arguments is None else list(arguments)
    # Typer reads the signatures of all commands it knows, which takes longer than many a command: tell it of one.
    named = _COMMANDS.get(given[0]) if given else None
    asked = app if named is None else _app_of([named])
    try:
        asked(args=None if arguments is None else given, prog_name="indextables")
    except SystemExit as left:
        if WATCH.pressed:
            # Typer ends a command that is interrupted before or after its own work, and says nothing.
            WATCH.tell()
            return outcome.INTERRUPTED
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except OSError as error:
        # Help that cannot be written.
        return outcome.tell(error)
    except BaseException:
        # Libraries that are interrupted fail in ways of their own; Typer puts its hook for that over ours.
        if WATCH.pressed:
            WATCH.leave()
        raise
    return outcome.OK
