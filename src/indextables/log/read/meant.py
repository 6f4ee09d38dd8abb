"""Is it the table that is meant? What is said where another one lives in its place, or has left a file there."""

from __future__ import annotations

from indextables.env import Env
from indextables.errors import TableReplaced
from indextables.log.read.confirming import Mixed

__all__ = ["check_id", "stranger"]


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
