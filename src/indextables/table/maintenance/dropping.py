"""Drop a table: its log goes first, so that there is no table any more, then its data files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from indextables.env import Env
from indextables.errors import LogError, NotSupported, ProtocolUnsupported, StoreError
from indextables.log.care import announce_drop, await_sweeps
from indextables.log.commit import permission
from indextables.log.read import Log
from indextables.log.wire import LOG_DIR, LOG_FOLDERS, parse_key
from indextables.process import forget
from indextables.storage.folders import remove_empty
from indextables.table.maintenance.purge.plan import SPLIT_NAME, VECTOR_NAME, nested_roots

__all__ = ["check_droppable", "drop_table"]

_CHUNK = 10_000
_MIRROR = f"{LOG_FOLDERS[1]}/"
_OWN = re.compile(rf"(?:^|/)(?:{SPLIT_NAME}|{VECTOR_NAME})$")
"""Names that this library gives to data files. Whatever else lies in the folder is somebody else's."""


def check_droppable(log: Log) -> None:
    """Raises TableNotFound, ProtocolUnsupported, NotSupported for another system's and where a table lies inside.

    A log that cannot be read forbids nothing. Raises StoreUnavailable where a cleanup does not end within 30 seconds.
    """
    log.latest_version()
    env = log.env
    await_sweeps(env)
    try:
        permission.ask(env)
    except ProtocolUnsupported:
        raise
    except LogError:
        pass
    keys = (meta.key for meta in env.store.list_from(""))
    while chunk := list(islice(keys, _CHUNK)):
        nested = nested_roots(chunk)
        if nested:
            message = (
                f"the table at {env.store.url} has another table inside, in {nested[0]}: drop or move that one first. "
                "Nothing was deleted"
            )
            raise NotSupported(message, url=env.store.url, path=nested[0])


def drop_table(log: Log) -> int:
    """Delete the table with all of its rows and versions, for good; how many objects went.

    Nobody may find an older version in its place if this is interrupted: checkpoints and the pointer go before the
    version files, which go in ascending order, and data files go last. Files with other names than ours stay. Run
    again, it goes on as long as the log says that there is a table. No cleanup deletes beside it or after it, so that
    the next table here loses nothing. Raises as `check_droppable`, StoreError naming what is left.
    """
    check_droppable(log)
    env = log.env
    with announce_drop(env) as announced:
        await_sweeps(env)
        count = _delete(env, (key for key in _log_keys(env) if key != announced.key))
    forget(env.store.url)
    count += _delete(env, (meta.key for meta in env.store.list_from("") if _is_own(meta.key)))
    if env.store.is_local:
        remove_empty(env.store.url)
    return count


def _is_own(key: str) -> bool:
    return key.startswith(_MIRROR) or _OWN.search(key) is not None


def _log_keys(env: Env) -> Iterator[str]:
    keys = [meta.key for meta in env.store.list_from(LOG_DIR)]
    versions = {key for key in keys if (found := parse_key(key)) is not None and found.kind == "version"}
    yield from (key for key in keys if key not in versions)
    yield from (key for key in keys if key in versions)


def _delete(env: Env, keys: Iterable[str]) -> int:
    count, rest = 0, iter(keys)
    while chunk := list(islice(rest, _CHUNK)):
        left = env.store.delete_many(chunk)
        if left:
            key, reason = next(iter(left.items()))
            message = (
                f"{len(left)} objects of the table at {env.store.url} could not be deleted, {key} among them: {reason}"
            )
            raise StoreError(message, url=env.store.url, key=key)
        count += len(chunk)
    return count
