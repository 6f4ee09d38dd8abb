"""Is a checkpoint of the table whose log it lies in? A checkpointer that slept while its table was dropped leaves one.

The newest version file tells the table of a log: cleanup never takes it. A state of another table id is left over, and
nobody believes it, where the version files stand without it: they reach up to the newest from version 0 on, or from a
state of their own table. Where they do not, nobody can tell which of the two is the stranger: the state is not believed
(`contradicts`), and not deleted either. What does not tell its table (files of other systems) proves nothing.
A state of the same table may be of another history of it (`parting`): it is left over as well.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    CheckpointInvalid,
    LimitExceeded,
    ObjectNotFound,
    PathEscape,
)
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.glancing import Glance, glances
from indextables.log.checkpoint.parting import agrees, has_parted, info_of
from indextables.log.checkpoint.publish import put_once
from indextables.log.checkpoint.read import Inspected, inspect_state
from indextables.log.wire import LOG_DIR, StateRef, TokenWindow, identity, parse_key, token_of, version_key
from indextables.storage.store import Guard, ObjectMeta

__all__ = [
    "contradicts",
    "is_left_over",
    "keep_own",
    "left_over_error",
    "only_as_seen",
    "own_states",
    "table_of_state",
    "table_of_version",
    "withdraw",
]

_LOGGER = logging.getLogger("indextables")


def is_left_over(
    state_table: str | None, log_table: str | None, start: int, others: Iterable[tuple[int, str | None]]
) -> bool:
    """True if a state is of another table than the log. Pure.

    `log_table` is what the newest version file tells, `start` the first of the files that end with it without a gap,
    `others` are the versions and tables of the other states.
    """
    if None in {state_table, log_table} or state_table == log_table:
        return False
    return start == 0 or any(version >= start - 1 and table == log_table for version, table in others)


def contradicts(
    env: Env, versions: range, states: Sequence[StateRef], ref: StateRef, table: str, tokens: TokenWindow | None
) -> bool:
    """True if the version files say that the state `ref`, which is of `table`, does not belong here. Raises StoreError.

    `versions` are the files that are there without a gap, `states` all states. The newest file is asked. If that is of
    another table, the file of the state's own version may still agree: then a sleeper has put the newest one. If it is
    of this table, the file of the state's version, against `tokens`, which the state lists, tells whether the state is
    of this history.
    """
    info = info_of(env, versions[-1])
    if info is None or info.tableId is None:
        return False
    is_newest = ref.version == versions[-1]
    if info.tableId == table:
        told = token_of(tokens, ref.version)
        is_same = info.token == told if is_newest else agrees(env, versions, ref.version, tokens)
        return told is not None and is_same is False and has_parted(env, ref.version, tokens)
    kept = keep_own(env, versions, states, log_table=info.tableId, only=ref)
    return is_newest or ref not in kept or table_of_version(env, ref.version) != table


def table_of_version(env: Env, version: int) -> str | None:
    """Which table a version file says it belongs to; None where it does not say or is damaged. Raises StoreError."""
    info = info_of(env, version)
    return None if info is None else info.tableId


def table_of_state(env: Env, ref: StateRef) -> str | None:
    """Which table a state says it belongs to; None where it does not say or cannot be read. Raises StoreError."""
    return _inspected(env, ref).table_id


def _inspected(env: Env, ref: StateRef) -> Inspected:
    """What a state says; nothing where it cannot be read. Raises StoreError."""
    try:
        return inspect_state(env, ref)
    except (CheckpointError, LimitExceeded, ObjectNotFound, PathEscape):
        return Inspected(tokens=None, in_commit_timestamp=None)


def keep_own(
    env: Env,
    versions: Collection[int],
    states: Sequence[StateRef],
    *,
    log_table: str | None = None,
    above: int = -1,
    only: StateRef | None = None,
) -> tuple[StateRef, ...]:
    """The states without those that are left over. Only those `above` a version, or `only` one, are doubted.

    `versions` are the version files that are there, `log_table` is the table of the newest where that is known.
    Raises StoreError.
    """
    doubted = [ref for ref in states if ref.version > above and only in {None, ref}]
    if not versions or not doubted:
        return tuple(states)
    newest = start = max(versions)
    there = versions if isinstance(versions, (set, frozenset, dict, range)) else set(versions)
    while start - 1 in there:
        start -= 1
    table = log_table or table_of_version(env, newest)
    if table is None:
        return tuple(states)
    said = glances(env, doubted if start == 0 else states)
    told = {ref: found.table_id for ref, found in said.items()}
    others = [(ref.version, told[ref]) for ref in states if ref in told]
    left = [
        ref
        for ref in doubted
        # Every log of ours keeps the file of its newest version: a state above all of them must be of their table.
        if is_left_over(told[ref], table, start, others) or (ref.version > newest and told[ref] not in {None, table})
    ]
    left += _parted(env, range(start, newest + 1), {ref: said[ref] for ref in doubted if told[ref] == table})
    for ref in left:
        _LOGGER.warning("%s: %s belongs to another table or history and is passed over", env.store.url, ref.keys[0])
    return tuple(ref for ref in states if ref not in left)


def _parted(env: Env, versions: range, states: dict[StateRef, Glance]) -> list[StateRef]:
    """The states of the log's table that are of another history. Where they agree, one file is read for all of them."""
    found: list[StateRef] = []
    proven: TokenWindow | None = None
    for ref in sorted(states, key=lambda ref: ref.version, reverse=True):
        said = states[ref]
        told = token_of(said.tokens, ref.version)
        if told is None or told == token_of(proven, ref.version) or ref.version < versions.start - 1:
            continue
        tokens = _inspected(env, ref).tokens if said.is_cut else said.tokens
        if agrees(env, versions, ref.version, tokens):
            proven = tokens
        elif has_parted(env, ref.version, tokens):
            found.append(ref)
    return found


def own_states(env: Env, listing: Iterable[ObjectMeta]) -> list[StateRef]:
    """The checkpoints of a listing of the log folder, newest first, without those left over. Raises StoreError."""
    metas = list(listing)
    files = (parse_key(meta.key) for meta in metas)
    versions = {file.version for file in files if file is not None and file.kind == "version"}
    return list(keep_own(env, versions, find_states(metas)))


def left_over_error(url: str, ref: StateRef) -> CheckpointInvalid:
    """The error for a checkpoint that is to be written where one of another table lies."""
    key = ref.keys[0]
    message = (
        f"no checkpoint of version {ref.version} is written: {key} at {url} belongs to another table. Either the table "
        "was dropped or replaced, then open it again; or a table that was dropped here left this file: verify() tells"
    )
    return CheckpointInvalid(message, version=ref.version, path=key, reason="another table")


def only_as_seen(env: Env, keys: Iterable[str]) -> Guard:
    """A guard for deletes: a file goes only if it is the one that lies there now. Raises ObjectNotFound, StoreError."""
    seen = {key: identity(env.store.head(key)) for key in keys}

    def guard(asked: Sequence[str]) -> str:
        for key in asked:
            try:
                found = env.store.head(key)
            except ObjectNotFound:
                continue
            if identity(found) != seen[key]:
                return f"{key} is another file by now"
        return ""

    return guard


def withdraw(env: Env, ref: StateRef, table: str) -> None:
    """After a state of `table` was published: take it back where the log is another table's, or is gone.

    A log of another table passes it over and does not write over it, and cleanup never takes the newest version file of
    its own. Where no version file is left nobody goes on from a state that he finds, but a writer may have put a file
    on top of it who knew that version before: then it is put there again. Raises CheckpointInvalid where it was taken
    back, StoreError.
    """
    held = table_of_version(env, ref.version)
    if held == table:
        return
    listing = list(env.store.list_from(LOG_DIR))
    files = (parse_key(meta.key) for meta in listing)
    versions = {file.version for file in files if file is not None and file.kind == "version"}
    states = find_states(listing)
    if versions:
        is_lost = ref.keys[0] not in {own.keys[0] for own in keep_own(env, versions, states)}
    else:
        # Cleanup leaves a version above the cut, which a listing may miss, or a newer state, which it does not.
        slots = (ref.version, ref.version + 1)
        is_lost = not any(env.store.exists(version_key(slot)) for slot in slots)
        is_lost = is_lost and all(state.version <= ref.version for state in states)
    if not is_lost:
        return
    try:
        guard = only_as_seen(env, ref.keys)
    except ObjectNotFound:
        return
    if table_of_state(env, ref) != table:
        return
    held_back = {} if versions else {key: env.store.get(key) for key in reversed(ref.keys)}
    failed = env.store.delete_many(ref.keys, guard=guard)
    if not versions and _is_followed(env, ref.version, table):
        # Looked at after the delete: whoever puts such a file later finds no base, and takes it back.
        for key, data in held_back.items():
            put_once(env, key, data)
        return
    done = f"it could not be taken back ({next(iter(failed.values()))})" if failed else "it was taken back"
    message = (
        f"the table at {env.store.url} was dropped or replaced while the checkpoint of version {ref.version} was "
        f"written: {done}. Open the table again"
    )
    raise CheckpointInvalid(message, version=ref.version, path=ref.keys[0], reason="another table")


def _is_followed(env: Env, version: int, table: str) -> bool:
    """True if a writer of `table` has put a file on top of a version, and no other table lives there."""
    files = (parse_key(meta.key) for meta in env.store.list_from(LOG_DIR))
    there = [file.version for file in files if file is not None and file.kind == "version"]
    return min(there, default=-1) == version + 1 and table_of_version(env, version + 1) == table
