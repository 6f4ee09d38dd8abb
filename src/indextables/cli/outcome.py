"""Turns what happened into an exit code and one line; no other module knows exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from indextables.errors import (
    CardinalityViolation,
    CheckpointWriteFailed,
    CommandSyntaxError,
    CommitError,
    CommitStateUnknown,
    IndexTablesError,
    InvalidArgument,
    LimitExceeded,
    LogError,
    NotSupported,
    QueryWarning,
    SplitError,
    StoreError,
    TableNotFound,
    VersionExpired,
    VersionNotFound,
)

__all__ = ["EXIT_CODES", "Leave", "code_of", "line_of", "tell", "told_warnings"]

_LONGEST_LINE = 1000

OK, FAILED, USAGE, NO_TABLE, DAMAGED, STORE, NOT_COMMITTED, UNKNOWN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 130

EXIT_CODES: dict[int, str] = {
    OK: "done",
    FAILED: "the check found problems (verify, doctor), or a failure with no code of its own",
    USAGE: "a wrong argument, query, predicate, schema or input file; no row was added",
    NO_TABLE: "there is no table at this place, or no such version of it any more",
    DAMAGED: "the log or a data file cannot be read as it stands",
    STORE: "the store refused, failed or is full",
    NOT_COMMITTED: "the commit did not happen: somebody else's clashes with it",
    UNKNOWN: "the commit may or may not have happened; the message says how to find out",
    INTERRUPTED: "interrupted from the keyboard; versions that were committed before stay",
}

_BY_KIND: tuple[tuple[type[IndexTablesError], int], ...] = (
    (InvalidArgument, USAGE),
    (NotSupported, USAGE),
    (LimitExceeded, USAGE),
    (CardinalityViolation, USAGE),
    (TableNotFound, NO_TABLE),
    (VersionNotFound, NO_TABLE),
    (VersionExpired, NO_TABLE),
    (LogError, DAMAGED),
    (SplitError, DAMAGED),
    (StoreError, STORE),
    (CommitStateUnknown, UNKNOWN),
    (CommitError, NOT_COMMITTED),
)


class Leave(Exception):
    """The command ends here, and all there is to say is said."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@contextlib.contextmanager
def told_warnings() -> Iterator[None]:
    """While this lasts, what a query may not mean is one line on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", QueryWarning)
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, QueryWarning):
                sys.stderr.write(f"indextables: {_shown(str(message))}\n")
            else:
                shown(message, category, *where, **more)

        warnings.showwarning = show
        yield


def code_of(error: IndexTablesError | OSError) -> int:
    """The exit code for an error."""
    if isinstance(error, CheckpointWriteFailed) and isinstance(error.__cause__, StoreError):
        return STORE
    if isinstance(error, IndexTablesError):
        return next((code for kind, code in _BY_KIND if isinstance(error, kind)), FAILED)
    return STORE


def line_of(error: IndexTablesError | OSError) -> str:
    """One line that a terminal shows as it is: what happened, and for a query where."""
    return _shown(_of_ours(error) if isinstance(error, IndexTablesError) else _of_system(error))


def tell(error: IndexTablesError | OSError) -> int:
    """Write the line to stderr; the exit code."""
    sys.stderr.write(f"indextables: {line_of(error)}\n")
    return code_of(error)


def _of_ours(error: IndexTablesError) -> str:
    text = _without_excerpt(str(error)) if isinstance(error, CommandSyntaxError) else str(error)
    text = ": ".join([*getattr(error, "__notes__", ()), text])
    query, position = error.details.get("query"), error.details.get("position")
    told = any(words in text for words in ("at position", "at character", "at line", "(line "))
    if not told and isinstance(query, str) and isinstance(position, int) and 0 < position <= len(query):
        text += f" (at character {position + 1}: {query[position : position + 20]!r})"
    return text


def _without_excerpt(text: str) -> str:
    """A syntax error shows the statement with a mark below the place; in one line the place has to do."""
    first, *rest = text.split("\n")
    grammar = [line for line in rest if line.startswith("syntax:")]
    return "; ".join([first, *grammar])


def _of_system(error: OSError) -> str:
    reason = error.strerror or str(error)
    if not error.filename:
        return f"the output cannot be written: {reason}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the device of {os.fsdecode(error.filename)}; nothing was committed"
    return f"{os.fsdecode(error.filename)}: {reason}"


def _shown(text: str) -> str:
    """Without line breaks and without what could command the terminal; the middle is left out if it is long."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(text.split()))
    half = _LONGEST_LINE // 2
    return line if len(line) <= _LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"
