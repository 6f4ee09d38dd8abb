"""Checks that it is the table that is meant, and says so where another one lives in its place or left a file there."""

from __future__ import annotations

from typing import TypeVar

from indextables import options as opt
from indextables.env import Env
from indextables.errors import ObjectNotFound, TableReplaced, VersionExpired
from indextables.log.read.confirming import Mixed, Superseded
from indextables.log.read.newest import Known
from indextables.log.wire import PrunedState, TableState, identity, version_key

__all__ = [
    "ANOTHER_HISTORY",
    "check_id",
    "check_ours",
    "check_still",
    "check_token",
    "cut_off",
    "file_gone",
    "prove",
    "stranger",
    "table_gone",
]

ANOTHER_HISTORY = "another history"
"""The reason of a VersionExpired that the newest version is no answer to: what was written is not in it either."""

S = TypeVar("S", bound=TableState | PrunedState)


def check_id(env: Env, found: str) -> None:
    """Raises TableReplaced if the log here is that of another table (`found`) than the one that is meant."""
    meant, url = env.table_id, env.store.url
    if meant is None or found == meant:
        return
    message = (
        f"the table at {url} has the id {found}, not {meant}: it was dropped and re-created. Nothing of the new one "
        "was read, written or deleted: open it again, or refresh() the handle to go on with it"
    )
    raise TableReplaced(message, url=url, table_id=meant)


def stranger(env: Env, version: int) -> Mixed:
    """The error for a version file that another table left in this log."""
    message = f"version {version} at {env.store.url} belongs to another table: run verify"
    return Mixed(message, version=version, url=env.store.url, reason="another table")


def prove(env: Env, state: S, table: str, token: str | None) -> S:
    """The state that was loaded for a version whose header was read before.

    Between the two the folder may have been deleted and another table made there with as many versions, or a copy of
    the table put there that went on differently. Raises Superseded unless it is of `table`, and of the commit `token`.
    """
    if state.metadata.id != table:
        raise _went(env, state.version, f"the table {table}, which went: {state.metadata.id} is there now")
    if is_other(state.token, token):
        raise _went(env, state.version, "a history of the table that another one has taken the place of")
    return state


def check_still(env: Env, known: Known, version: int) -> None:
    """Raises Superseded if the newest file of a look at the log is another one by now, or gone.

    What was read of `version` since that look may be of another history, then, and must not be remembered. On local
    files that is a stat. Elsewhere it is a request, made only where the look may have been long ago.
    """
    if known.head_identity is None or not (env.store.is_local or env.options[opt.MAX_STALENESS_MS] > 0):
        return
    try:
        is_same = identity(env.store.head(version_key(known.head))) == known.head_identity
    except ObjectNotFound:
        is_same = False
    if not is_same:
        raise _went(env, version, "a log that has been replaced since it was looked at, or that went on")


def _went(env: Env, version: int, of: str) -> Superseded:
    message = f"version {version} at {env.store.url} was read of {of}"
    return Superseded(message, key=version_key(version), version=version)


def is_other(found: str | None, token: str | None) -> bool:
    """True if both tokens are known, and are not of one commit."""
    return None not in {token, found} and found != token


def check_ours(env: Env, state: TableState | PrunedState, token: str | None) -> None:
    """Raises VersionExpired if the state is not that of the commit with `token`, but another one has its number.

    That is so where a copy of the table was put back and others wrote to it.
    """
    check_token(env, state.version, state.token, token)


def check_token(env: Env, version: int, found: str | None, token: str | None) -> None:
    """As `check_ours`, by the token that was found."""
    if not is_other(found, token):
        return
    message = (
        f"version {version} at {env.store.url} is not the one that this handle has read or written: a copy of "
        "the table was put back, and others wrote to it. What came with that version is not in the table; refresh() "
        "goes on with what is"
    )
    raise VersionExpired(message, version=version, url=env.store.url, reason=ANOTHER_HISTORY)


def cut_off(env: Env, version: int) -> VersionExpired:
    """The error for a version that was read or written here, and that the log no longer reaches up to."""
    message = (
        f"version {version} is not at {env.store.url} any more, which ends below it: a copy of the table was put back, "
        "or its newest files were lost. refresh() goes on with what is there"
    )
    return VersionExpired(message, version=version, url=env.store.url, reason=ANOTHER_HISTORY)


def table_gone(env: Env, version: int) -> VersionExpired:
    """The error for a version of a table that another one has taken the place of."""
    message = f"version {version} is gone with its table: another one lives at {env.store.url} now"
    return VersionExpired(message, version=version, url=env.store.url)


def file_gone(env: Env, version: int, earliest: int) -> VersionExpired:
    """The error for a version whose file cleanup took."""
    message = f"the file of version {version} is gone at {env.store.url}: the oldest left is {earliest}"
    return VersionExpired(message, version=version, earliest=earliest, url=env.store.url)
