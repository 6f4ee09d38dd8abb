"""Is it the table that is meant? What is said where another one lives in its place, or has left a file there."""

from __future__ import annotations

from typing import TypeVar

from indextables.env import Env
from indextables.errors import TableReplaced
from indextables.log.read.confirming import Mixed, Superseded
from indextables.log.wire import PrunedState, TableState, version_key

__all__ = ["check_id", "prove", "stranger"]

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
