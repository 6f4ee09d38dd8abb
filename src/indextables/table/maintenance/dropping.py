"""Drop a table: its log goes first, so that there is no table any more, then its data files.

What goes is decided before anything does, while the table is still there and nobody can make another one in its place.
The next one may come as soon as the log is gone: from then on only files that were listed before are deleted, and right
before each request they must be the very files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from indextables.env import Env
from indextables.errors import LogError, NotSupported, ObjectNotFound, ProtocolUnsupported, StoreError, TableNotFound
from indextables.log.care import (
    Protection,
    Sent,
    announce_drop,
    await_sweeps,
    found_now,
    promptly,
    protections,
    store_now_ms,
    why_over,
)
from indextables.log.checkpoint import find_states
from indextables.log.commit import permission
from indextables.log.read import Log
from indextables.log.wire import LOG_DIR, LOG_FOLDERS, identity, parse_key, text_array
from indextables.process import forget
from indextables.storage.folders import remove_empty
from indextables.storage.store import ObjectMeta
from indextables.table.maintenance.purge import Hashes, Keys, hashes_of
from indextables.table.maintenance.purge.plan import SPLIT_NAME, VECTOR_NAME, nested_roots

__all__ = ["check_droppable", "drop_table"]

_CHUNK = 10_000
_MIRROR = f"{LOG_FOLDERS[1]}/"
_OWN = re.compile(rf"(?:^|/)(?:{SPLIT_NAME}|{VECTOR_NAME})$")
"""Names that this library gives to data files. Whatever else lies in the folder is somebody else's."""


class _Plan(NamedTuple):
    """What goes: the files of the log in order, and of every file that does a hash of what tells it from others.

    `versions` begins where the version files do; `newest` is the last of them. Data files may be very many: their keys
    are listed again when it is their turn.
    """

    log: list[str]
    versions: int
    newest: ObjectMeta | None
    files: Keys


def check_droppable(log: Log) -> None:
    """Raises TableNotFound, ProtocolUnsupported, NotSupported for another system's and where a table lies inside.

    A log that cannot be read forbids nothing. Raises StoreUnavailable where a cleanup does not end within 30 seconds.
    """
    _check_allowed(log)
    for chunk in _chunks(log.env.store.list_from("")):
        _check_alone(log.env, chunk)


def drop_table(log: Log) -> int:
    """Delete the table with all of its rows and versions, for good; how many objects went.

    Nobody may find an older version in its place if this is interrupted: checkpoints and the pointer go before the
    version files, which go in ascending order, and data files go last. Files with other names than ours stay, and so
    does all that came after this began to delete. Run again, it goes on as long as the log says that there is a table.
    No cleanup deletes beside it or after it, and where a delete had no answer nobody can make a table here until it
    cannot arrive any more, so that the next table here loses nothing. Raises as `check_droppable`, StoreError naming
    what is left.
    """
    _check_allowed(log)
    env = log.env
    with announce_drop(env) as announced:
        await_sweeps(env)
        plan = _planned(env, announced)
        leave = _Leave(env, announced, plan.files)
        try:
            count = _deleted(env, plan, leave)
        finally:
            if leave.sent.may_arrive:
                # A delete may yet arrive: no table is made here until it cannot.
                announced.outlive()
    if env.store.is_local:
        remove_empty(env.store.url)
    return count


def _deleted(env: Env, plan: _Plan, leave: _Leave) -> int:
    leave.while_there = plan.newest
    count = _delete(env, leave, plan.log[: plan.versions])
    leave.while_there = None
    count += _delete(env, leave, plan.log[plan.versions :])
    forget(env.store.url)
    return count + _delete(env, leave, _data_keys(env, plan.files))


def _check_allowed(log: Log) -> None:
    log.latest_version()
    await_sweeps(log.env)
    try:
        permission.ask(log.env)
    except ProtocolUnsupported:
        raise
    except LogError:
        pass


def _check_alone(env: Env, metas: Sequence[ObjectMeta]) -> None:
    nested = nested_roots([meta.key for meta in metas])
    if nested:
        message = (
            f"the table at {env.store.url} has another table inside, in {nested[0]}: drop or move that one first. "
            "Nothing was deleted"
        )
        raise NotSupported(message, url=env.store.url, path=nested[0])


def _planned(env: Env, announced: Protection) -> _Plan:
    """All that is there now and ours, but for what says that this drop, and another one, is at work."""
    files: list[Hashes] = []
    found: list[ObjectMeta] = []
    for chunk in _chunks(env.store.list_from("")):
        _check_alone(env, chunk)
        own = [meta for meta in chunk if _is_own(meta.key)]
        files.append(_hashes(own))
        found += (meta for meta in own if meta.key.startswith(LOG_DIR))
    # Read after the listing: who announced a drop before it is among these, or has ended.
    drops = protections(env, store_now_ms(env)).drops | {announced.key}
    versions = [meta for meta in found if (file := parse_key(meta.key)) is not None and file.kind == "version"]
    if not versions and not find_states(found):
        raise TableNotFound(
            f"there is no table at {env.store.url} any more: somebody else dropped it", url=env.store.url
        )
    newest = versions[-1] if versions else None
    slots = {meta.key for meta in versions}
    keys = list(_in_order([meta.key for meta in found if meta.key not in drops], slots))
    return _Plan(keys, len(keys) - len(slots), newest, Keys(*files))


def _in_order(keys: Sequence[str], versions: Collection[str]) -> Iterator[str]:
    yield from (key for key in keys if key not in versions)
    yield from (key for key in keys if key in versions)


def _data_keys(env: Env, files: Keys) -> Iterator[str]:
    """The data files that are there and were: what came since belongs to somebody else."""
    for chunk in _chunks(env.store.list_from("")):
        own = [meta for meta in chunk if _is_own(meta.key) and not meta.key.startswith(LOG_DIR)]
        yield from (meta.key for meta in _among(own, files))


class _Leave:
    """The leave to delete what was planned, as a store's `guard`: the drop is announced, and the files are the planned.

    As long as the file `while_there` is, nobody can have made another table: then others may have been written anew.
    """

    def __init__(self, env: Env, announced: Protection, files: Keys) -> None:
        self._env = env
        self._announced = announced
        self._files = files
        self.sent = Sent(env.store)
        self.while_there: ObjectMeta | None = None

    def __call__(self, keys: Sequence[str]) -> str:
        """Why these keys may not be deleted right now; empty if they may. Raises StoreError."""
        reason = promptly(self._env, lambda: why_over(self._env, self._announced) or self._others(keys))
        if not reason:
            self.sent.send(keys)
        return reason

    def _others(self, keys: Sequence[str]) -> str:
        if self._is_there():
            return ""
        found = found_now(self._env.store, keys, LOG_DIR if keys[0].startswith(LOG_DIR) else "")
        planned = {meta.key for meta in _among(found, self._files)}
        other = next((meta.key for meta in found if meta.key not in planned), None)
        return "" if other is None else f"{other} is another file since the drop began: another table may live here"

    def _is_there(self) -> bool:
        if self.while_there is None:
            return False
        try:
            return identity(self._env.store.head(self.while_there.key)) == identity(self.while_there)
        except ObjectNotFound:
            return False


def _is_own(key: str) -> bool:
    return key.startswith((LOG_DIR, _MIRROR)) or _OWN.search(key) is not None


def _hashes(metas: Sequence[ObjectMeta]) -> Hashes:
    """Of each file a hash of its key and of what the store tells of it."""
    return hashes_of(text_array([" ".join(map(str, (*identity(meta), meta.key))) for meta in metas]))


def _among(metas: Sequence[ObjectMeta], files: Keys) -> list[ObjectMeta]:
    """Those that are the very files of `files`."""
    return [meta for meta, is_same in zip(metas, files.hold_hashes(_hashes(metas)), strict=True) if is_same]


def _chunks(metas: Iterator[ObjectMeta]) -> Iterator[list[ObjectMeta]]:
    while chunk := list(islice(metas, _CHUNK)):
        yield chunk


def _delete(env: Env, leave: _Leave, keys: Iterable[str]) -> int:
    count, rest = 0, iter(keys)
    while chunk := list(islice(rest, _CHUNK)):
        left = env.store.delete_many(chunk, guard=leave)
        leave.sent.answered(left)
        if left:
            key, reason = next(iter(left.items()))
            message = (
                f"{len(left)} objects of the table at {env.store.url} could not be deleted, {key} among them: {reason}"
            )
            raise StoreError(message, url=env.store.url, key=key)
        count += len(chunk)
    return count
