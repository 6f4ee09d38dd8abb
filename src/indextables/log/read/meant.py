"""Checks that it is the table that is meant, and says so where another one lives in its place or left a file there."""

from __future__ import annotations

from typing import TypeVar

from indextables.env import Env
from indextables.errors import TableReplaced, VersionExpired
from indextables.log.read.confirming import Mixed, Superseded
from indextables.log.wire import PrunedState, TableState, token_of, version_key

__all__ = ["ANOTHER_HISTORY", "check_id", "check_ours", "cut_off", "prove", "stranger"]

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


def prove(env: Env, state: S, table: str) -> S:
    """The state that was loaded for a version whose header was read before. Raises Superseded if it is not of `table`.

    Between the two the folder may have been deleted, and another table made there with as many versions.
    """
    if state.metadata.id == table:
        return state
    message = (
        f"version {state.version} of the table {table} went with it: {env.store.url} holds {state.metadata.id} now"
    )
    raise Superseded(message, key=version_key(state.version), version=state.version)


def check_ours(env: Env, state: TableState | PrunedState, token: str | None) -> None:
    """Raises VersionExpired if the state is not that of the commit with `token`, but another one has its number.

    That is so where a copy of the table was put back and others wrote to it.
    """
    found = token_of(state.tokens, state.version)
    if None in {token, found} or found == token:
        return
    message = (
        f"version {state.version} at {env.store.url} is not the one that this handle has read or written: a copy of "
        "the table was put back, and others wrote to it. What came with that version is not in the table; refresh() "
        "goes on with what is"
    )
    raise VersionExpired(message, version=state.version, url=env.store.url, reason=ANOTHER_HISTORY)


def cut_off(env: Env, version: int) -> VersionExpired:
    """The error for a version that was read or written here, and that the log no longer reaches up to."""
    message = (
        f"version {version} is not at {env.store.url} any more, which ends below it: a copy of the table was put back, "
        "or its newest files were lost. refresh() goes on with what is there"
    )
    return VersionExpired(message, version=version, url=env.store.url, reason=ANOTHER_HISTORY)
