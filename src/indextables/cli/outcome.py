"""What happened, as an exit code and one line: the only place that knows both."""

from __future__ import annotations

import errno
import os

from indextables.errors import (
    CommitError,
    CommitStateUnknown,
    IndexTablesError,
    InvalidArgument,
    LimitExceeded,
    LogError,
    NotSupported,
    SplitError,
    StoreError,
    TableNotFound,
)

__all__ = ["EXIT_CODES", "code_of", "line_of"]

OK, FAILED, USAGE, NO_TABLE, DAMAGED, STORE, NOT_COMMITTED, UNKNOWN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 130

EXIT_CODES: dict[int, str] = {
    OK: "done",
    FAILED: "the check found problems (verify, doctor), or a failure with no code of its own",
    USAGE: "a wrong argument, query, predicate, schema or input file; nothing was written",
    NO_TABLE: "there is no table at this place",
    DAMAGED: "the log or a data file cannot be read as it stands",
    STORE: "the store refused, failed or is full",
    NOT_COMMITTED: "the commit did not happen: somebody else's clashes with it",
    UNKNOWN: "the commit may or may not have happened; the message says how to find out",
    INTERRUPTED: "interrupted from the keyboard; nothing was committed",
}

_BY_KIND: tuple[tuple[type[IndexTablesError], int], ...] = (
    (InvalidArgument, USAGE),
    (NotSupported, USAGE),
    (LimitExceeded, USAGE),
    (TableNotFound, NO_TABLE),
    (LogError, DAMAGED),
    (SplitError, DAMAGED),
    (StoreError, STORE),
    (CommitStateUnknown, UNKNOWN),
    (CommitError, NOT_COMMITTED),
)


def code_of(error: IndexTablesError | OSError) -> int:
    """The exit code for an error."""
    if isinstance(error, IndexTablesError):
        return next((code for kind, code in _BY_KIND if isinstance(error, kind)), FAILED)
    return STORE


def line_of(error: IndexTablesError | OSError) -> str:
    """One line: what happened, and for a query where."""
    if isinstance(error, IndexTablesError):
        text = " ".join(str(error).split())
        query, position = error.details.get("query"), error.details.get("position")
        if isinstance(query, str) and isinstance(position, int) and 0 < position <= len(query):
            text += f" (at character {position + 1}: {query[position : position + 20]!r})"
        return text
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the device of {error.filename or os.getcwd()}; nothing was committed"  # noqa: PTH109
    where = f"{error.filename}: " if error.filename else ""
    return where + (error.strerror or " ".join(str(error).split()))
