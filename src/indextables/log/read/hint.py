"""Opens a log at the checkpoint that `_last_checkpoint` names, so that no listing grows with what retention keeps.

The pointer is a hint. It may be missing, old, damaged, left over from a table that was dropped here, or name what never
was: whatever is not proven here by other files is not believed, and then the whole log is listed.

- Local files: the file of the version that the pointer names must be there and carry the token and the table id that
  the checkpoint lists for it. Cleanup unlinks in ascending order, so that as long as this file is unchanged nothing
  above it has been deleted: the slots above are looked at by name, and read, and then the file once more.
- Object stores: the versions above the checkpoint are read by name, up to the first empty slot, so that a listing that
  lags behind hides none. After that the log is listed from the checkpoint's version on, once: it must show the newest
  version read, and neither a version nor a checkpoint above it. A version that was read is listed as the very file
  that was read, unless a checkpoint shows that it may be gone: else the table was dropped meanwhile.

Why one listing proves that the empty slot was the next one, and that the newest version read is the one that was
committed. Had cleanup emptied either slot before, it would have left a version file above: it never deletes the newest
that it has listed, so that from then on there is always one, though not always the same. A listing goes up in order and
shows what was put before it: it meets that file, or, where that one went before the listing came to it, a newer one
further up, which was there first. The versions below the newest are named by those above them, token by token.

Where a listing hides new version files for a while, the checkpoint proves the same: cleanup deletes a version only
after one that covers it, and that one only after a newer one, so that a listing of one moment shows one of them. Only a
listing that lags, and is torn besides, between one end of the order of keys and the other, by a checkpoint of another
format, could miss all of them. Who knows of no empty slot lists the first end once more for that (`tokens.survey`), as
does this reader for versions that do not name those below them.

A checkpoint above the newest version file, a gap, a file of another table, more versions above the checkpoint than a
writer leaves: in all these cases the full listing decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    LimitExceeded,
    LogError,
    ObjectNotFound,
    PathEscape,
    StoreError,
    StoreUnavailable,
)
from indextables.log.checkpoint import Opened, Pointer, open_state, read_pointer
from indextables.log.checkpoint.avro import StateList
from indextables.log.read.confirming import Confirmed, by_anchor, confirm, follows, is_chain, table_of
from indextables.log.read.load import OpenedState
from indextables.log.read.newest import Known, new_history
from indextables.log.read.tokens import Survey, glance, numbered_from
from indextables.log.read.versions import Versions, read_stamp
from indextables.log.wire import (
    FileIdentity,
    StateRef,
    VersionContent,
    checkpoint_keys,
    identity,
    json_checkpoint_key,
    parquet_checkpoint_key,
    parquet_checkpoint_part_key,
    parse_key,
    state_key,
    version_key,
)
from indextables.storage.store import Noted, ObjectMeta

__all__ = ["FEW", "Found", "Look", "anchor", "by_hint"]

FEW = 64
"""So many versions above a checkpoint are looked for by name. More mean that the hint is old."""

# How far above an empty slot of local files a version file is looked for that shows it to be a gap.
_PROBES = (*range(1, 33), *(1 << power for power in range(6, 13)))

# So many versions above a checkpoint are read one after the other. Where there are more, they are listed.
_ONE_BY_ONE = 16

# How often a log is looked at that goes on meanwhile, before the whole of it is listed.
_LOOKS = 3


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
    try:
        pointer = read_pointer(env)
    except StoreUnavailable:
        raise
    except StoreError:
        return None  # It cannot be read, and it is only a hint.
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
    if any(env.store.exists(key) for key in _checkpoints_above(ref, head)):
        return None  # The newest version files are lost, and a checkpoint knows them.
    newest = meta if head == ref.version else env.store.head(version_key(head))
    read = versions.unconfirmed(range(ref.version + 1, head + 1))
    contents = by_anchor(env, ref.version, identity(meta), read)
    if contents is None:
        raise _Overtaken
    if not _are_of(opened, contents):
        return None
    at = ref.version
    known = Known(head, identity(newest), at, (ref,), new_history(), floor=at, anchor=identity(meta), anchored=at)
    return Found(known, contents, OpenedState(ref, opened))


def _checkpoints_above(ref: StateRef, head: int) -> Iterator[str]:
    """Where checkpoints above `head` would be that local files are asked for. Pure."""
    own = {"avro-state": state_key, "parquet": parquet_checkpoint_key, "json": json_checkpoint_key}[ref.format]
    yield from checkpoint_keys(head + 1)
    yield from (own(head + step) for step in _PROBES[1:])


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
    ref = _named(pointer)
    if ref is None:
        return None
    opened = open_state(env, ref)
    read: list[VersionContent] = []
    files: list[ObjectMeta] = []
    for _ in range(_LOOKS):
        read += _by_name(env, versions, ref.version + 1 + len(read), files.append)
        head = ref.version + len(read)
        if len(read) > FEW:
            return None
        # After the reads, and after the look at the empty slot: what went before that shows here, or its checkpoint.
        # With versions above it, the checkpoint itself is left out: it must not stand for those that are above them.
        seen = glance(env, ref.version + bool(read))
        if seen.newest is not None and seen.newest.version > head:
            raise _Overtaken
        newest = seen.identity(head)
        if newest is None:
            return None
        if seen.newest_version == head:
            break
    else:
        return None
    if not _are_there(read, files, seen):
        return None
    # A file that nobody names may fill a slot below the newest version: there the checkpoints must not be missed.
    contents = confirm(env, read, seen=seen if is_chain(read) else None)
    if not (_are_of(opened, contents) if read else _made_of(env, opened, newest)):
        return None
    first = ref.version + bool(read)
    known = Known(head, newest, first, (ref,), new_history(), floor=ref.version)
    return Found(known, contents, OpenedState(ref, opened))


def _are_there(read: list[VersionContent], files: list[ObjectMeta], seen: Survey) -> bool:
    """True if the versions that were read are listed, as the very files; where a checkpoint is, one may be gone. Pure.

    Else the table was dropped meanwhile: what lies above may be another table's, or a file that a writer of this one
    has yet to take back. `files` are those that are known.
    """
    noted = {meta.key: identity(meta) for meta in files}
    covered = -1 if seen.newest is None else seen.newest.version
    listed = [(content.version, seen.identity(content.version)) for content in read]
    return all(
        version <= covered if found is None else noted.get(version_key(version), found) == found
        for version, found in listed
    )


def _made_of(env: Env, opened: Opened, file: FileIdentity) -> bool:
    """True if a checkpoint was made of the listed file of its version: it says so, or the file is read."""
    noted = opened.version_file if isinstance(opened, StateList) else None
    return (noted is not None and noted == file.text) or _is_its_own(env, opened, opened.version)


def _by_name(env: Env, versions: Versions, slot: int, noted: Noted) -> list[VersionContent]:
    """The versions from `slot` on, one after the other up to the first empty slot, since a listing may lag behind.

    Many are listed first, and read together. More than `FEW` are not read to their end. `noted` is told which files
    those are that were read one by one, the last one among them.
    """
    found: list[VersionContent] = []
    while len(found) <= FEW and (content := versions.at_slot(slot + len(found), noted)) is not None:
        found.append(content)
        if len(found) == _ONE_BY_ONE:
            files = (parse_key(meta.key) for meta in numbered_from(env, slot))
            listed = {file.version for file in files if file is not None and file.kind == "version"}
            more = slot + len(found)
            while more in listed and more - slot <= FEW:
                more += 1
            found += versions.unconfirmed(range(slot + len(found), more - 1))
    return found


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
