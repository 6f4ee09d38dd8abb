"""What Spark raises for what we raised in a worker, turned back into the typed error.

An error of a worker reaches the driver as text: the traceback, inside a message of Spark's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from indextables import errors
from indextables.errors import IndexTablesError

__all__ = ["ours", "raising_ours"]

_RAISED = re.compile(r"^(?:.*\s)?indextables\.errors\.(\w+): (.+)$", re.MULTILINE)


def ours(error: BaseException) -> IndexTablesError | None:
    """The error of this library that Spark's stands for, without its details; None if it is Spark's own."""
    for name, message in reversed(_RAISED.findall(str(error))):
        kind = getattr(errors, name, None) if name in errors.__all__ else None
        if kind is not None:
            made: IndexTablesError = kind(message.strip())
            return made
    return None


@contextlib.contextmanager
def raising_ours() -> Iterator[None]:
    """Errors of this library come out as themselves, caused by Spark's; others come out as they are."""
    from indextables.spark.session.jvm import jvm_errors

    try:
        yield
    except jvm_errors() as cause:
        made = ours(cause)
        if made is None:
            raise
        raise made from cause
