"""Drop a table: its log goes first, so that there is no table any more, then every other object at its place."""

from __future__ import annotations

from collections.abc import Iterator

from indextables.env import Env
from indextables.errors import StoreError
from indextables.log.read import Log
from indextables.log.wire import LOG_DIR, parse_key
from indextables.process import forget
from indextables.storage.folders import remove_empty

__all__ = ["drop_table"]


def drop_table(log: Log) -> int:
    """Delete the table with all of its rows and versions, for good; how many objects went.

    Nobody may find an older version in its place if this is interrupted: checkpoints and the pointer go before the
    version files, which go in ascending order, and data files go last. Run again, it goes on as long as the log says
    that there is a table. Raises TableNotFound, LogError, StoreError naming what is left.
    """
    log.latest_version()
    env = log.env
    count = _delete(env, list(_log_keys(env)))
    forget(env.store.url)
    count += _delete(env, [meta.key for meta in env.store.list_from("")])
    if env.store.is_local:
        remove_empty(env.store.url)
    return count


def _log_keys(env: Env) -> Iterator[str]:
    keys = [meta.key for meta in env.store.list_from(LOG_DIR)]
    versions = {key for key in keys if (found := parse_key(key)) is not None and found.kind == "version"}
    yield from (key for key in keys if key not in versions)
    yield from (key for key in keys if key in versions)


def _delete(env: Env, keys: list[str]) -> int:
    left = env.store.delete_many(keys)
    if left:
        key, reason = next(iter(left.items()))
        message = (
            f"{len(left)} objects of the table at {env.store.url} could not be deleted, {key} among them: {reason}"
        )
        raise StoreError(message, url=env.store.url, key=key)
    return len(keys)
