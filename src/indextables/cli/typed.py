"""Lets Typer do what it does best: help, completion, and words about a command line that is not right."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from indextables.cli import outcome
from indextables.cli.declared import Argument, Parameter, parameters_of

__all__ = ["app_of", "ask"]

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
_TAKING = frozenset({"purge", "truncate", "drop-partitions", "restore", "clean-up", "repair", "rebuild"})


def ask(
    commands: Mapping[str, Callable[..., None]],
    perform: Callable[[Callable[..., None], dict[str, Any]], int],
    given: Sequence[str] | None,
) -> None:
    """Read a command line, that of the process if there is none, and `perform` what it says. Raises SystemExit."""
    app_of(commands, perform)(args=None if given is None else list(given), prog_name="indextables")


def app_of(
    commands: Mapping[str, Callable[..., None]], perform: Callable[[Callable[..., None], dict[str, Any]], int]
) -> typer.Typer:
    """The commands, as Typer takes them."""
    made = typer.Typer(
        cls=_Commands,
        help=_HELP,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, command in commands.items():
        # In the list of commands the first sentence stands whole: Click would cut it to fit one line.
        first = " ".join((command.__doc__ or "").strip().split("\n\n")[0].split())
        made.command(name, short_help=first)(_typed(command, perform))
    made.callback()(_root)
    return made


class _Commands(TyperGroup):
    """The commands; one that is mistyped is answered with those that may be meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """As Click does. Raises its UsageError."""
        # Typer's own suggestions would name `purge` for `merge`.
        self.suggest_commands = False
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            meant = _meant(args[0], list(self.commands)) if args and hasattr(error, "message") else []
            if meant:
                error.message = f"{error.message.rstrip('.')}. Did you mean {', '.join(map(repr, meant))}?"  # type: ignore[attr-defined]
            raise


def _meant(typed: str, known: Sequence[str]) -> list[str]:
    """The commands that may be meant. One that takes something away is not named for what is hardly like it."""
    longer = [name for name in known if name.startswith(typed.lower())]
    near = get_close_matches(typed.lower(), [name for name in known if name not in _TAKING])
    return longer or near or get_close_matches(typed.lower(), known, cutoff=0.8)


def _typed(
    command: Callable[..., None], perform: Callable[[Callable[..., None], dict[str, Any]], int]
) -> Callable[..., None]:
    """A function with the parameters of `command`, declared in Typer's words."""

    @functools.wraps(command)
    def run(**values: Any) -> None:
        code = perform(command, values)
        if code:
            raise typer.Exit(code)

    parameters = parameters_of(command)
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                parameter.name, inspect.Parameter.KEYWORD_ONLY, default=parameter.default, annotation=_hint(parameter)
            )
            for parameter in parameters
        ]
    )
    run.__annotations__ = {parameter.name: _hint(parameter) for parameter in parameters}
    return run


def _hint(parameter: Parameter) -> Any:
    declared = parameter.declared
    info: Any
    if isinstance(declared, Argument):
        info = typer.Argument(metavar=declared.metavar, help=declared.help, show_default=False)
    else:
        info = typer.Option(
            *declared.flags,
            metavar=declared.metavar,
            help=declared.help,
            min=declared.least,
            show_default=declared.default or not parameter.is_list,
        )
    return Annotated[parameter.annotation, info]


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
