"""Is a checkpoint of this history of its table? A copy that went on by itself has the table's id and other commits.

Cleanup never takes the newest version file, and each version names the token of the one below it. So the files that
lead up to the newest one tell this history, and a checkpoint that lists another token for one of them is of another: of
a copy that was put beside the log, or of a log that was put back from a backup. It is not believed.

- A slot that a sleeper refilled after cleanup is no such file: the version above it names another token.
- A file that nothing follows is believed against a checkpoint where it follows another version than the checkpoint
  lists, where a check file is its own, or where there is none and the files stand without the checkpoint: from version
  0 on, or from another checkpoint. Else other systems may have deleted the newest file, or it was lost, and a sleeper
  have put its own there. Whoever asks whether its own file is a version does not count that file.
- What was read counts only if the newest version file is still the newest one afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from indextables.env import Env
from indextables.errors import CheckpointError, LimitExceeded, LogError, ObjectNotFound, PathEscape
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import inspect_state
from indextables.log.wire import (
    LOG_DIR,
    CommitInfo,
    StateRef,
    TokenWindow,
    commit_info_of,
    crc_key,
    parse_crc,
    parse_key,
    token_of,
    version_key,
)

__all__ = ["agrees", "has_parted", "info_of"]

# A log that goes on meanwhile is looked at again this often.
_LOOKS = 3

# So many version files are read together.
_AT_ONCE = 64


class _Files(NamedTuple):
    """The version files that lead up to the newest one without a gap, and all checkpoints."""

    start: int
    head: int
    states: tuple[StateRef, ...]


def has_parted(env: Env, version: int, tokens: TokenWindow | None, ours: str | None = None) -> bool:
    """True if version files prove that the checkpoint of `version`, which lists `tokens`, is of another history.

    False where it is of this one, and where nobody can tell. A newest file with the token `ours` proves nothing.
    Raises StoreError.
    """
    told = token_of(tokens, version)
    if tokens is None or told is None:
        return False
    info = info_of(env, version)
    if info is not None and info.token == told:
        return False
    for _ in range(_LOOKS):
        files = _listed(env)
        if files is None or not _differs(env, _without(env, files, ours), version, tokens):
            return False
        again = _listed(env)
        if again is not None and again.head == files.head:
            return True
    return False


def agrees(env: Env, versions: range, version: int, tokens: TokenWindow | None) -> bool | None:
    """True if the file of a checkpoint's version, or what the one above it follows, is what the checkpoint lists.

    `versions` are those whose files are there. None where nobody can tell. Raises StoreError.
    """
    told = token_of(tokens, version)
    at = version if version in versions else version + 1
    info = info_of(env, at) if told is not None and at in versions else None
    if info is None:
        return None
    token = info.token if at == version else _below(info)
    return None if token is None else token == told


def info_of(env: Env, version: int) -> CommitInfo | None:
    """Who wrote a version file; None where it is gone, damaged, or does not say. Raises StoreError."""
    try:
        return commit_info_of(env.store.get(version_key(version)), version)
    except (ObjectNotFound, LogError, LimitExceeded):
        return None


def _listed(env: Env) -> _Files | None:
    listing = list(env.store.list_from(LOG_DIR))
    there = {file.version for meta in listing if (file := parse_key(meta.key)) is not None and file.kind == "version"}
    if not there:
        return None
    head = start = max(there)
    while start - 1 in there:
        start -= 1
    return _Files(start, head, tuple(find_states(listing)))


def _without(env: Env, files: _Files, ours: str | None) -> _Files:
    newest = None if ours is None else info_of(env, files.head)
    return files if newest is None or newest.token != ours else files._replace(head=files.head - 1)


def _differs(env: Env, files: _Files, version: int, tokens: TokenWindow) -> bool:
    """True if the files tell another token than the checkpoint of `version`, and are to be believed."""
    at = min(version, files.head)
    told, first = token_of(tokens, at), max(at, files.start)
    if told is None or at < files.start - 1 or files.head < files.start:
        return False
    chain = _chain(env, first, files.head)
    if chain is None:
        return False
    held = chain[0].token if first == at else _below(chain[0])
    if held is None or held == told:
        return False
    return version < files.head or _is_committed(env, files, version, chain[-1], tokens)


def _is_committed(env: Env, files: _Files, version: int, newest: CommitInfo, tokens: TokenWindow) -> bool:
    """True if the newest file, which nothing follows, cannot be one that a sleeper put where another was deleted."""
    below, told = _below(newest), token_of(tokens, files.head - 1)
    if None not in {below, told} and below != told:
        return True
    try:
        check = parse_crc(env.store.get(crc_key(files.head)))
    except ObjectNotFound:
        check = None
    if check is not None and check.token is not None:
        return check.token == newest.token
    if files.start == 0:
        return _chain(env, 0, files.head) is not None
    return any(_leads_on(env, files, ref) for ref in files.states if ref.version < min(version, files.head))


def _leads_on(env: Env, files: _Files, ref: StateRef) -> bool:
    """True if the files go on from a checkpoint up to the newest one."""
    if ref.version < files.start - 1:
        return False
    try:
        told = token_of(inspect_state(env, ref).tokens, ref.version)
    except (CheckpointError, LimitExceeded, ObjectNotFound, PathEscape):
        return False
    chain = _chain(env, ref.version + 1, files.head)
    return told is not None and chain is not None and _below(chain[0]) == told


def _chain(env: Env, first: int, last: int) -> Sequence[CommitInfo] | None:
    """Who wrote the versions from `first` to `last`; None unless each of them names the one below it."""
    found: list[CommitInfo] = []
    for start in range(first, last + 1, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, last + 1))
        for info in env.ambient.map("versions", lambda number: info_of(env, number), numbers):
            if info is None or info.token is None or (found and _below(info) != found[-1].token):
                return None
            found.append(info)
    return found


def _below(info: CommitInfo) -> str | None:
    return None if info.previous is None else info.previous.token
