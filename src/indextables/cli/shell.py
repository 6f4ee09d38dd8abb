"""Runs statements one after the other: typed at a prompt, or from a file or a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indextables.cli import outcome, render
from indextables.cli.asking import Declined, agreed, question_of
from indextables.cli.interrupt import WATCH
from indextables.cli.parameters import counted
from indextables.errors import IndexTablesError, QueryInvalid
from indextables.sql.local import split_statements

if TYPE_CHECKING:
    from indextables.sql.command import Ask, Context, DeleteRows, DropTable
    from indextables.sql.local import LocalSession

__all__ = ["ask_at_prompt", "ask_once", "prompt", "run_script"]

HELP = """\
Statements end with ; and may have several lines. The table is t.
  help       this (also \\?)
  \\d [NAME]  the tables, or the columns of one
  \\x         show each row as lines, one per column, or stop it; rows that are too wide are always shown so
  \\timing    say how long each statement takes, or stop it
  exit       leave (also quit, \\q and Ctrl-D); Ctrl-C drops what was typed"""
_MOST_ROWS = 1000
_LEAVE = ("exit", "quit", "\\q", "\\quit", "\\exit")
_PLAIN_WORDS = ("help", "exit", "quit")
"""What may be typed without a backslash and without a semicolon."""
_WORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "TEXTSEARCH(", "count(*)", "JOIN", "DESCRIBE"),
    *(
        "SHOW TABLES",
        "DROP INDEXTABLE",
        "MERGE SPLITS",
        "PURGE INDEXTABLE",
        "DESCRIBE INDEXTABLES HISTORY",
        "CHECKPOINT INDEXTABLES",
        "VERSION AS OF",
    ),
    *("DELETE FROM", "UPDATE", "SET", "MERGE INTO", "USING", "WHEN MATCHED", "WHEN NOT MATCHED", "EXPLAIN"),
)


def ask_once(command: Ask | DeleteRows | DropTable, context: Context) -> None:
    """Ask before a command that takes something away; leaves with 1 unless the answer is yes."""
    question = question_of(command, context)
    if question is not None:
        agreed(question)


def ask_at_prompt(command: Ask | DeleteRows | DropTable, context: Context) -> None:
    """Ask before a command that takes something away. Raises Declined unless the answer is yes."""
    question = question_of(command, context)
    if question is None:
        return
    try:
        answer = WATCH.ask(f"{question} [y/N]: ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Declined


def run_script(session: LocalSession, text: str, params: dict[str, str], *, as_json: bool, name: str = "") -> None:
    """Run the statements of a text in their order; the first that fails ends it and is raised.

    The last one may lack its semicolon. `name` is the file that they are from: the fault is shown with its line.
    """
    statements, rest = split_statements(text + "\n;")
    # What is left has a quote or a comment that is never closed, which whoever runs it explains.
    found = [*statements, *([(len(text) + 2 - len(rest), rest.removesuffix("\n;"))] if rest.strip() else [])]
    if not found:
        raise QueryInvalid("the statement is empty", query=text, position=0)
    for place, statement in found:
        try:
            render.answer(session.run(statement, params or None), as_json=as_json)
        except IndexTablesError as error:
            if name:
                line = text.count("\n", 0, place + len(statement) - len(statement.lstrip())) + 1
                error.add_note(f"{name}:{line}")
            raise


def prompt(session: LocalSession, params: dict[str, str], *, as_json: bool) -> None:
    """Ask for statements until the end of input. A statement that fails is told and does not end the shell."""
    shell = _Shell(session, params, as_json=as_json)
    with _history(shell.complete):
        sys.stderr.write(f"{HELP}\n")
        while shell.ask():
            pass


class _Shell:
    def __init__(self, session: LocalSession, params: dict[str, str], *, as_json: bool) -> None:
        self._session = session
        self._params = params
        self._as_json = as_json
        self._typed = ""
        self._timing = False
        self._tall = False
        self._candidates: list[str] = []

    def ask(self) -> bool:
        """One line; False at the end of input."""
        try:
            line = WATCH.ask("     ...> " if self._typed else "indextables> ")
        except KeyboardInterrupt:
            WATCH.answered()
            self._typed = ""
            sys.stderr.write("\n")
            return True
        except EOFError:
            sys.stderr.write("\n")
            return False
        words = line.strip().rstrip(";").split()
        if not self._typed and words and (words[0].startswith("\\") or words[0].lower() in _PLAIN_WORDS):
            return self._command(*words)
        statements, self._typed = split_statements(self._typed + line + "\n")
        self._typed = "" if not self._typed.strip() else self._typed
        for _, statement in statements:
            self._run(statement)
        return True

    def complete(self, text: str, number: int) -> str | None:
        """For readline: words of SQL, tables and their columns."""
        if number == 0:
            words = [*_WORDS, *_PLAIN_WORDS, *self._session.names]
            for name in self._session.names:
                with suppress(IndexTablesError):
                    columns = _paths(self._session.schema(name))
                    words += [f"{name}.{column}" for column in columns] if "." in text else []
                    words += columns
            found = dict.fromkeys(word for word in words if word.lower().startswith(text.lower()))
            self._candidates = list(found)
        return self._candidates[number] if number < len(self._candidates) else None

    def _command(self, word: str, *rest: str) -> bool:
        word = word.lower()
        if word in _LEAVE:
            return False
        if word == "\\x":
            self._tall = not self._tall
            sys.stderr.write(f"rows are shown {'as lines, one per column' if self._tall else 'in columns'}\n")
            return True
        if word == "\\timing":
            self._timing = not self._timing
            sys.stderr.write(f"timing is {'on' if self._timing else 'off'}\n")
        elif word == "\\d":
            with self._told(""):
                self._describe(rest[0] if rest else None)
        else:
            sys.stderr.write(f"{HELP}\n")
        return True

    def _describe(self, name: str | None) -> None:
        if name is None:
            render.rows(self._session.run("SHOW TABLES"), as_json=False)
            return
        render.rows(self._session.run(f"DESCRIBE {name}"), as_json=False)

    def _run(self, statement: str) -> None:
        began = time.monotonic()
        with self._told(statement):
            rows = self._session.run(statement, self._params or None)
            render.answer(rows.slice(0, _MOST_ROWS), as_json=self._as_json, tall=self._tall)
            if rows.num_rows > _MOST_ROWS:
                sys.stderr.write(f"the first {_MOST_ROWS:,} of {rows.num_rows:,} rows\n")
            elif not self._as_json:
                sys.stderr.write(f"({counted(rows.num_rows, 'row')})\n")
        if self._timing:
            sys.stderr.write(f"{(time.monotonic() - began) * 1000:,.1f} ms\n")

    @contextmanager
    def _told(self, statement: str) -> Iterator[None]:
        """Errors as one line, below the place that they speak of."""
        try:
            yield
            sys.stdout.flush()
        except KeyboardInterrupt:
            WATCH.answered()
            sys.stderr.write("interrupted\n")
        except Declined:
            sys.stderr.write("nothing was done\n")
        except IndexTablesError as error:
            if WATCH.pressed:
                WATCH.answered()
                sys.stderr.write("interrupted\n")
            else:
                sys.stderr.write(_marked(error, statement) + f"error: {outcome.line_of(error)}\n")


def _marked(error: IndexTablesError, statement: str) -> str:
    """The line of the statement that an error speaks of, with a caret below the place; empty if it names none."""
    query, position = error.details.get("query", error.details.get("command")), error.details.get("position")
    if not isinstance(query, str) or not isinstance(position, int):
        return ""
    if query.strip() != statement.strip():
        # A search inside of the statement, or its part that was typed before another one.
        inside = statement.find(query)
        if not query or inside < 0 or statement.find(query, inside + 1) >= 0:
            return ""
        query, position = statement, inside + position
    start = query.rfind("\n", 0, position) + 1
    line = query[start:].split("\n", 1)[0]
    return f"  {line}\n  {' ' * (position - start)}^\n"


def _paths(schema: Any) -> list[str]:
    """The columns of a schema, and the fields of its structs."""
    import pyarrow as pa

    found = []
    for field in schema:
        found.append(field.name)
        if pa.types.is_struct(field.type):
            found += [f"{field.name}.{inner}" for inner in _paths(field.type)]
    return found


@contextmanager
def _history(complete: Any) -> Iterator[None]:
    """Line editing, completion and a history that outlives the process, where readline is there."""
    try:
        import readline
    except ImportError:
        yield
        return
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    file = Path(state) / "indextables" / "history"
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(1000)
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n(),;")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)
