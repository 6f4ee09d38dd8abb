"""What is newest? By listing where nothing is known, by probing the next slots where something is.

A listing of a log with thousands of versions costs more than a commit, so that it is made once. From then on:

- Local files: the slot after the newest known one is looked at, then the known one again. Cleanup unlinks in
  ascending order, so that a known slot that is still there proves that the next one was not cleaned up but is empty.
- Object stores delete in bulk, in no order: the keys from the known slot on are listed, and the states above it.

A slot is always probed by name at the end, because a listing may lag behind. The file of the known version must
be the one that was seen (same time, size and tag): else this is another history, be it of a table that was created
anew, of a backup that was put back, or of a log that lost its end and went on.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import LogGap, ObjectNotFound
from indextables.log.checkpoint import find_states, keep_own
from indextables.log.read.segment import gap, head_of
from indextables.log.read.tokens import newest_tokens, survey
from indextables.log.wire import (
    LOG_DIR,
    MANIFEST_DIR,
    FileIdentity,
    StateRef,
    checkpoint_keys,
    identity,
    parse_key,
    version_key,
)
from indextables.storage.store import ObjectMeta

__all__ = ["Known", "advance", "discover", "known_at", "new_history", "unbroken"]

_LOGGER = logging.getLogger("indextables")

# After this many keys that are neither versions nor checkpoints a listing is given up for one that skips them.
_PAGE = 1000

# How often a log is listed at most, where others delete from it meanwhile.
_LISTINGS = 3

# So many version files are looked at by name rather than listed.
_FEW = 64

_HISTORIES = itertools.count(1)


class Known(msgspec.Struct, frozen=True):
    """What is known about a log: its newest version, where its checkpoints are, which version files are left.

    1. `states` are whole checkpoints, newest first.
    2. Version files `first` .. `head` are there without a gap, unless `head` is known from a state alone: then
       `head_identity` is None.
    3. `history` is the same number in this process as long as each look has found the newest file of the look before
       it, and no listing has shown that older files were cleaned up. What was learned about a version in one history
       says nothing about that version in another. A larger number was given later.
    4. What lies below `floor` was not looked at: older checkpoints and version files may be there. Above it `states`
       may lack some, but none that the newest version needs.
    5. `anchor` is the identity of the local file of version `anchored`, which was seen before the file was found to be
       the one that was committed: as long as it is unchanged, nothing above it has been deleted.
    """

    head: int
    head_identity: FileIdentity | None
    first: int
    states: tuple[StateRef, ...]
    history: int
    floor: int = 0
    anchor: FileIdentity | None = None
    anchored: int = 0

    @property
    def newest_state(self) -> int:
        """The version of the newest checkpoint that is known, -1 if none is."""
        return self.state_below(self.head)

    def state_below(self, version: int) -> int:
        """The version of the newest checkpoint at or below one, -1 if none is known."""
        return next((ref.version for ref in self.states if ref.version <= version), -1)

    def etag_of(self, version: int) -> str | None:
        """What tells the file of the newest version from another of that name, seen before the file was read.

        None where the store tells none, and for a version that is not the newest known.
        """
        if version != self.head or self.head_identity is None:
            return None
        return self.head_identity.etag

    def is_like(self, other: Known | None) -> bool:
        """True if both looks found the same."""
        return other is not None and self == msgspec.structs.replace(other, history=self.history)


def discover(env: Env, previous: Known | None = None, *, whole: bool = False) -> Known:
    """What a full listing tells; the history of `previous` is kept where its newest file is still the same.

    `whole` asks for a log without a gap, whatever `log.stopAtGap` says.

    Others may tear a listing: the names of old versions are in it, the checkpoint that took their place is not; or a
    checkpoint is in it, and versions that came before it, but after the listing had passed their names, are not. Such a
    listing is made again. Raises TableNotFound, LogGap, StoreError.
    """
    for _ in range(_LISTINGS - 1):
        versions, states = _listed(env)
        passed = max(versions, default=-1)
        try:
            known = _newest(env, versions, states, previous, stop_at_gap=False)
        except LogGap:
            continue
        if _nothing_went(env, versions) and not _came_behind(env, passed, known):
            return known
    return _newest(env, *_listed(env), previous, stop_at_gap=env.options[opt.LOG_STOP_AT_GAP] and not whole)


def _listed(env: Env) -> tuple[dict[int, ObjectMeta], tuple[StateRef, ...]]:
    """The version files by number, and the checkpoints."""
    versions, states = _sorted(_numbered(env))
    if versions or states:
        return versions, states
    if (first := _head(env, 0)) is not None:
        # The listing lags behind so far that it misses the whole table.
        return {0: first}, ()
    # What was listed may have been cleaned up since, down to a check file: then a checkpoint is there by now.
    return _sorted(_numbered(env))


def _sorted(metas: list[ObjectMeta]) -> tuple[dict[int, ObjectMeta], tuple[StateRef, ...]]:
    versions = {file.version: meta for meta in metas if (file := parse_key(meta.key)) and file.kind == "version"}
    return versions, tuple(find_states(metas))


def _nothing_went(env: Env, versions: dict[int, ObjectMeta]) -> bool:
    """True if no version file can have been deleted while they were listed.

    Of local files the oldest goes first: it is looked at. Object stores list checkpoints after versions, and one that
    lets a version go is there before.
    """
    if not env.store.is_local or not versions:
        return True
    oldest = min(versions)
    meta = _head(env, oldest)
    return meta is not None and identity(meta) == identity(versions[oldest])


def _came_behind(env: Env, passed: int, known: Known) -> bool:
    """True if the file of a checkpoint's version is there above `passed`, the newest one that a listing shows."""
    newest = known.newest_state
    return newest > passed and _head(env, newest) is not None


def _newest(
    env: Env,
    versions: dict[int, ObjectMeta],
    states: tuple[StateRef, ...],
    previous: Known | None,
    *,
    stop_at_gap: bool,
) -> Known:
    """What is newest by this listing and a look at the next slot. Raises TableNotFound, LogGap, StoreError."""
    while True:
        # Our own logs keep the file of their newest version: a state above every file may be another table's.
        states = keep_own(env, versions, states, above=max(versions, default=0))
        try:
            head = head_of(sorted(versions), states, env.store.url)
        except LogGap as error:
            missing = int(str(error.details["version"]))
            meta = _head(env, missing)
            if meta is not None:
                # The listing lags behind: the file is there.
                versions[missing] = meta
                continue
            if not stop_at_gap or missing == 0:
                raise
            _LOGGER.warning("%s: version %d is missing; reading stops before it", env.store.url, missing)
            head = head_of(sorted(versions), states, env.store.url, stop_at_gap=True)
            return _known(head, versions, states, previous)
        meta = _head(env, head + 1)
        if meta is None:
            return _known(head, versions, states, previous)
        versions[head + 1] = meta


def unbroken(env: Env, floor: int, version: int, table: str) -> None:
    """Raises LogGap unless every version file above `floor` and below `version` is there, or below a checkpoint.

    Only one of `table` counts: what a dropped table left explains nothing.
    """
    between = range(floor + 1, version)
    if env.store.is_local and len(between) <= _FEW:
        missing = [number for number in between if _head(env, number) is None]
    else:
        there = survey(env, floor + 1) if between else None
        missing = [number for number in between if there is not None and not there.holds(number)]
        missing = [number for number in missing if _head(env, number) is None]
    if not missing:
        return
    told = newest_tokens(env, missing[0], table)
    lost = [number for number in missing if told is None or number > told.ref.version]
    if lost:
        raise gap(lost[0], version, env.store.url)


def known_at(env: Env, version: int) -> Known | None:
    """What the existence of one version file tells, to advance from; None if it is not there."""
    meta = _head(env, version)
    return None if meta is None else Known(version, identity(meta), version, (), next(_HISTORIES))


def new_history() -> int:
    """A number that no look at a log had before."""
    return next(_HISTORIES)


def advance(env: Env, known: Known) -> Known | None:
    """What is newest now, if `known` was once; None where only a full listing can tell. Raises StoreError."""
    if known.head_identity is None:
        return None
    return _advance_local(env, known) if env.store.is_local else _advance_remote(env, known)


def _advance_local(env: Env, known: Known) -> Known | None:
    head = _last_present(env, known.head)
    before = _head(env, known.head)
    if before is None or identity(before) != known.head_identity:
        return None
    if head == known.head:
        # A file above an empty slot, or a checkpoint of its version: the listing tells a gap from a newer version.
        above = (version_key(head + 2), *checkpoint_keys(head + 1))
        return None if any(env.store.exists(key) for key in above) else known
    meta = _head(env, head)
    if meta is None:
        return None
    return msgspec.structs.replace(known, head=head, head_identity=identity(meta))


def _advance_remote(env: Env, known: Known) -> Known | None:
    metas = list(_relevant(env, known.head))
    versions = {file.version: meta for meta in metas if (file := parse_key(meta.key)) and file.kind == "version"}
    before = versions.get(known.head) or _head(env, known.head)
    if before is None or identity(before) != known.head_identity:
        return None
    newer = [state for state in find_states(metas) if state.version > known.head]
    head, meta = known.head, before
    while True:
        found = versions.get(head + 1) or _head(env, head + 1)
        if found is None:
            break
        head, meta = head + 1, found
    if head > max(versions, default=known.head) and not _is_there(env, known):
        # What the listing does not show may have come to another table, which was made here since.
        return None
    if any(state.version > head for state in newer) or any(version > head for version in versions):
        return None
    states = (*newer, *(state for state in known.states if state not in newer))
    return msgspec.structs.replace(known, head=head, head_identity=identity(meta), states=states)


def _is_there(env: Env, known: Known) -> bool:
    """True if the newest file of a look before is still the same, by name."""
    meta = _head(env, known.head)
    return meta is not None and identity(meta) == known.head_identity


def _known(head: int, versions: dict[int, ObjectMeta], states: tuple[StateRef, ...], previous: Known | None) -> Known:
    first = head + 1
    while first - 1 in versions:
        first -= 1
    meta = versions.get(head)
    goes_on = (
        previous is not None
        and first <= previous.first
        and head >= previous.head
        and previous.head in versions
        and identity(versions[previous.head]) == previous.head_identity
    )
    newest = None if meta is None else identity(meta)
    if previous is None or not goes_on:
        return Known(head, newest, first, states, next(_HISTORIES))
    anchor, anchored = previous.anchor, previous.anchored
    return Known(head, newest, first, states, previous.history, anchor=anchor, anchored=anchored)


def _numbered(env: Env) -> list[ObjectMeta]:
    """What belongs to a version; a pointer, an intent or a stranger alone is not a table."""
    return [meta for meta in _relevant(env, None) if (file := parse_key(meta.key)) is not None and file.version >= 0]


def _relevant(env: Env, from_version: int | None) -> Iterator[ObjectMeta]:
    """Versions and checkpoints, in order of their keys; from a version on, if one is given.

    Manifests lie between the two and can be many: they are skipped by a second listing.
    """
    after = None if from_version is None or from_version == 0 else version_key(from_version - 1)
    others = 0
    for meta in env.store.list_from(LOG_DIR, after):
        if meta.key < MANIFEST_DIR or not meta.key.startswith(MANIFEST_DIR):
            yield meta
            continue
        others += 1
        if others >= _PAGE:
            break
    else:
        return
    floor = LOG_DIR + "state-v" if from_version is None else f"{LOG_DIR}state-v{from_version:020d}"
    yield from env.store.list_from(LOG_DIR, floor)


def _last_present(env: Env, version: int) -> int:
    """The last of the slots that follow `version` without a gap, by doubling steps and then halving them."""
    step = 1
    while env.store.exists(version_key(version + step)):
        version += step
        step *= 2
    while step > 1:
        step //= 2
        if env.store.exists(version_key(version + step)):
            version += step
    return version


def _head(env: Env, version: int) -> ObjectMeta | None:
    try:
        return env.store.head(version_key(version))
    except ObjectNotFound:
        return None
