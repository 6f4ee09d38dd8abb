"""Opens a log at the checkpoint that `_last_checkpoint` names, so that no listing grows with what retention keeps.

The pointer is a hint. It may be missing, old, damaged, left over from a table that was dropped here, or name what never
was: whatever is not proven here by other files is not believed, and then the whole log is listed.

- Local files: the file of the version that the pointer names must be there and carry the token and the table id that
  the checkpoint lists for it. Cleanup unlinks in ascending order, so that as long as this file is unchanged nothing
  above it has been deleted: the slots above are looked at by name, and read, and then the file once more.
- Object stores: the numbered files from the named version on are listed, and the versions above the checkpoint are
  read. After the reads both ends of the order of keys are listed from there on, the Avro states first: they show every
  checkpoint that is newer, and what was read is confirmed by them, as every reader does.

A checkpoint above the newest version file, a gap, a file of another table, more versions above the checkpoint than a
writer leaves: in all these cases the full listing decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointError, LimitExceeded, LogError, ObjectNotFound, PathEscape
from indextables.log.checkpoint import Opened, Pointer, find_states, open_state, read_pointer
from indextables.log.read.confirming import Confirmed, by_anchor, confirm, follows, table_of
from indextables.log.read.load import OpenedState
from indextables.log.read.newest import Known, new_history
from indextables.log.read.segment import head_of
from indextables.log.read.tokens import numbered_from, states_from, survey_of
from indextables.log.read.versions import Versions, read_stamp
from indextables.log.wire import (
    StateRef,
    VersionContent,
    identity,
    json_checkpoint_key,
    parquet_checkpoint_key,
    parquet_checkpoint_part_key,
    parse_key,
    state_key,
    version_key,
)
from indextables.storage.store import ObjectMeta

__all__ = ["FEW", "Found", "Look", "anchor", "by_hint"]

FEW = 64
"""So many versions above a checkpoint are looked for by name. More mean that the hint is old."""

# How far above an empty slot a version file is looked for that shows it to be a gap.
_PROBES = (1, 2, 4, 8)


class _Overtaken(ObjectNotFound):
    """The log went on while it was looked at: the pointer may name something newer by now."""

    def __init__(self) -> None:
        super().__init__("a newer checkpoint has come")


_DOUBT = (CheckpointError, LimitExceeded, LogError, ObjectNotFound, PathEscape)


class Found(msgspec.Struct, frozen=True):
    """A log as the hint led to it: what is known of it, the versions above its checkpoint, and that, as far as read."""

    known: Known
    contents: Confirmed[VersionContent]
    opened: OpenedState


class Look(NamedTuple):
    """What is known of the log now, and what the hint led to, where it was followed just now."""

    known: Known
    found: Found | None = None


def by_hint(env: Env, versions: Versions, previous: Known | None = None) -> Found | None:
    """The newest version and how to read it; None where the hint is of no use. Raises StoreError.

    The history of `previous` is kept where its newest file is still the same.
    """
    if not env.options[opt.CHECKPOINT_ENABLED] or env.options[opt.LOG_STOP_AT_GAP]:
        return None
    pointer = read_pointer(env)
    if pointer is None:
        return None
    follow = _local if env.store.is_local else _remote
    try:
        try:
            found = follow(env, versions, pointer)
        except _Overtaken:
            pointer = read_pointer(env)
            found = None if pointer is None else follow(env, versions, pointer)
        return None if found is None else _continued(env, found, previous)
    except _DOUBT:
        # Whoever lists the whole log finds out what is wrong, and whether anything is.
        return None


def _named(pointer: Pointer) -> StateRef | None:
    """The checkpoint that a pointer names, if its keys follow from that. Pure."""
    version, parts = pointer.version, pointer.parts
    if pointer.format == "avro-state":
        return StateRef(version, "avro-state", (state_key(version),))
    if pointer.format == "parquet" and parts is not None:
        if not 1 <= parts <= FEW:
            return None
        keys = tuple(parquet_checkpoint_part_key(version, part, parts) for part in range(1, parts + 1))
        return StateRef(version, "parquet", keys)
    if pointer.format == "parquet":
        return StateRef(version, "parquet", (parquet_checkpoint_key(version),))
    if pointer.format == "json" and parts is None:
        return StateRef(version, "json", (json_checkpoint_key(version),))
    return None


def _local(env: Env, versions: Versions, pointer: Pointer) -> Found | None:
    ref = _named(pointer)
    if ref is None:
        return None
    opened = open_state(env, ref)
    meta = anchor(env, opened)
    if meta is None:
        return None
    head = ref.version
    while env.store.exists(version_key(head + 1)):
        head += 1
        if head - ref.version > FEW:
            return None
    if any(env.store.exists(version_key(head + 1 + step)) for step in _PROBES):
        return None
    newest = meta if head == ref.version else env.store.head(version_key(head))
    read = versions.unconfirmed(range(ref.version + 1, head + 1))
    contents = by_anchor(env, ref.version, identity(meta), read)
    if contents is None:
        raise _Overtaken
    if not _are_of(opened, contents):
        return None
    known = Known(head, identity(newest), ref.version, (ref,), new_history(), floor=ref.version, anchor=identity(meta))
    return Found(known, contents, OpenedState(ref, opened, _table(opened)))


def anchor(env: Env, opened: Opened) -> ObjectMeta | None:
    """The file of a checkpoint's version, if it is the one that the checkpoint was made of.

    As long as a local one is unchanged, nothing above it has been deleted (`by_anchor`). Raises LogError, StoreError.
    """
    try:
        # The file is seen before it is found to be the committed one.
        meta = env.store.head(version_key(opened.version))
        return meta if _is_its_own(env, opened, opened.version) else None
    except ObjectNotFound:
        return None


def _is_its_own(env: Env, opened: Opened, version: int) -> bool:
    """True if the file of a checkpoint's version is the one that the checkpoint was made of."""
    token, stamp = _token(opened), read_stamp(env, version)
    return token is not None and stamp.token == token and table_of(stamp) == _table(opened)


def _remote(env: Env, versions: Versions, pointer: Pointer) -> Found | None:
    floor = pointer.version
    before = numbered_from(env, floor)
    slots = _slots(before)
    ref = _base(pointer, before)
    if not slots or ref is None or ref.version > max(slots):
        return None
    head = head_of(sorted(slots), (ref,), env.store.url)
    if head not in slots or head - ref.version > FEW:
        return None
    opened = open_state(env, ref)
    read = versions.unconfirmed(range(ref.version + 1, head + 1))
    if not read and not _is_its_own(env, opened, head):
        return None
    # Where nothing was read above the checkpoint, nothing has to be confirmed: its own file is the newest.
    states = states_from(env, floor) if read else []
    after = numbered_from(env, floor) if read else before
    seen = survey_of(after, states, floor)
    if not seen.holds(head) or (seen.newest is not None and seen.newest.version > head):
        raise _Overtaken
    # With a version above it, the rule for what is not the newest asks for one listing more.
    contents = confirm(env, read, seen=seen if seen.newest_version == head else None)
    if not _are_of(opened, contents):
        return None
    first = head
    while first - 1 in slots:
        first -= 1
    known = Known(head, identity(slots[head]), first, (ref,), new_history(), floor=ref.version)
    return Found(known, contents, OpenedState(ref, opened, _table(opened)))


def _base(pointer: Pointer, listed: Sequence[ObjectMeta]) -> StateRef | None:
    """The newest checkpoint of a listing of numbered files, or the Avro state that the pointer names. Pure."""
    hinted = _named(pointer)
    found = [ref for ref in find_states(listed) if ref.version >= pointer.version]
    if hinted is not None and hinted.format == "avro-state":
        found.append(hinted)
    return max(found, key=lambda ref: ref.version, default=None)


def _slots(metas: Sequence[ObjectMeta]) -> dict[int, ObjectMeta]:
    return {file.version: meta for meta in metas if (file := parse_key(meta.key)) and file.kind == "version"}


def _token(opened: Opened) -> str | None:
    window, version = opened.tokens, opened.version
    return window.token_at(version) if window is not None and window.covers(version) else None


def _table(opened: Opened) -> str | None:
    return None if opened.metadata is None else opened.metadata.id


def _are_of(opened: Opened, contents: Confirmed[VersionContent]) -> bool:
    """True if versions follow a checkpoint: of its table, and the first of them on top of its version. Pure."""
    if any(table_of(content) != _table(opened) for content in contents):
        return False
    token = _token(opened)
    return not contents or (token is not None and follows(contents[0], token))


def _continued(env: Env, found: Found, previous: Known | None) -> Found:
    """With the history of what was known before, if its newest file is still there and unchanged."""
    known = found.known
    if previous is None or previous.head_identity is None or not known.floor <= previous.head <= known.head:
        return found
    if previous.head == known.head:
        same = previous.head_identity == known.head_identity
    else:
        same = identity(env.store.head(version_key(previous.head))) == previous.head_identity
    if not same:
        return found
    return msgspec.structs.replace(found, known=msgspec.structs.replace(known, history=previous.history))
