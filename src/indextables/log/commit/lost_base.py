"""Tells why the version that a commit stands on is gone: another table, a gap, or a damaged file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import msgspec

from indextables.env import Env
from indextables.errors import (
    IndexTablesError,
    LogCorrupt,
    LogError,
    LogGap,
    ObjectNotFound,
    TableNotFound,
    TableReplaced,
)
from indextables.log.commit import head
from indextables.log.commit.head import Head
from indextables.log.commit.winner import Held, read_slot
from indextables.log.read import Log, LogCache, Survey, Told, gap, newest_tokens, tokens
from indextables.log.wire import LOG_DIR, CommitInfo, checkpoint_keys, commit_info_of, parse_key, version_key
from indextables.storage.store import ObjectMeta

__all__ = [
    "beyond_gap",
    "check_alone",
    "check_without_file",
    "gap_below",
    "is_anothers",
    "is_followed",
    "linked",
    "lost_ground",
    "lost_slot",
    "replaced",
    "seen_in_place",
    "stands",
]

# How far above an empty slot a local writer looks for a version that shows it to be a gap.
_PROBES = (1, 2, 4)

# So many files of other tables are passed over above a slot.
_STRANGERS = 8

_GO_ON = (
    "where a copy of the table was put back, refresh() the handle, or open the table again, to go on with what is there"
)


def linked(env: Env, base: Head) -> Head:
    """The base with the checksum of its file, which the version above it names; as it is where the file is not there.

    Of a local file that carries the token of the base the identity is known, too: it was seen before that.
    Raises LogCorrupt for a file that cannot be read, StoreError.
    """
    if base.crc32c is not None:
        return base
    seen = tokens.identity_of(env, base.version) if env.store.is_local and base.token is not None else None
    held = read_slot(env, base.version)
    if held is None or not _is_of(held, base):
        return base
    return msgspec.structs.replace(base, token=held.token, crc32c=held.crc32c, identity=base.identity or seen)


def stands(env: Env, base: Head, seen: Survey, ask: Callable[[int], Told | None]) -> bool:
    """True if the base is part of the log at hand, which `seen` lists from there on.

    The file that is known is there, or one with its token, or a checkpoint of the same table lists it: `ask` gives what
    the newest one at or above a version tells.
    Raises LogCorrupt for a checkpoint that alone could tell and cannot be read, LogError, StoreError.
    """
    version = base.version
    if seen.holds(version):
        etag = seen.etag(version)
        if base.identity is None or etag is None:
            held = read_slot(env, version)
            if held is not None and _is_of(held, base):
                return True
        elif etag == base.identity or _is_same(env, base):
            return True
    # Asked anew: cleanup may have taken the file after the listing, and then there is a checkpoint by now.
    told = ask(version)
    if told is None:
        return False
    if not told.readable:
        message = f"the checkpoint of version {told.ref.version} at {env.store.url} cannot be read: run verify"
        raise LogCorrupt(message, version=told.ref.version, path=told.ref.keys[0], url=env.store.url)
    return base.token is None or not told.covers(version) or told.token_at(version) == base.token


def check_without_file(log: Log, base: Head, seen: Survey, ask: Callable[[int], Told | None]) -> None:
    """Raises what `lost_ground` gives, or LogGap, unless a commit may follow a base whose file is not there.

    `seen` was listed before any put. Cleanup leaves the file of the newest version: without one at or above the base,
    its checkpoint stands alone. `ask` and what else is raised: as `stands`.
    """
    if not stands(log.env, base, seen, ask):
        raise lost_ground(log, base)
    # Other systems' checkpoints have no tokens, and need no version files.
    if base.token is not None and seen.newest_version is None:
        raise _stands_alone(log, base.version)


def check_alone(log: Log, version: int, table: str) -> None:
    """Raises LogGap if `version`, the newest one of `table`, was just found to be a checkpoint that stands alone."""
    known = log.remembered()
    if known is None or known.head != version or known.head_identity is not None:
        return
    told = newest_tokens(log.env, version, table)
    if told is not None and told.window is not None and tokens.survey(log.env, version).newest_version is None:
        raise _stands_alone(log, version)


def _stands_alone(log: Log, version: int) -> LogGap:
    """The error for a checkpoint from which nobody may go on; the head is forgotten."""
    head.forget(log)
    log.invalidate()
    url = log.env.store.url
    message = (
        f"the checkpoint of version {version} stands alone at {url}: neither its version file nor a newer one is "
        "there. Nothing was written. Either the table was dropped while this checkpoint was on its way: whoever wrote "
        "it takes it back, so try again, and drop the table once more where it stays. Or version files were lost: "
        "restore the newest one from a copy, or repair the log"
    )
    return LogGap(message, version=version, url=url, reason="stands alone")


def is_anothers(env: Env, base: Head, token: str) -> bool:
    """True if the log is another table's by now: the newest version file that does not carry `token`, ours, says so.

    Cleanup never takes the newest version file, so that it, and no checkpoint, tells whose log this is: checkpoints of
    a table that was dropped can stay, or come late. Raises LogError, StoreError.
    """
    for floor in (base.version, 0):
        for version in reversed(_version_files(env, floor)):
            held = read_slot(env, version)
            if held is None:
                # A cleanup beside us took the newest one: there are newer ones, and no other table took anything away.
                return False
            if held.token != token:
                info = held.commit_info
                told = held.metadata.id if held.metadata is not None else None if info is None else info.tableId
                return told not in {None, base.metadata.id}
    return False


def _version_files(env: Env, floor: int) -> list[int]:
    """The versions from `floor` on whose files are there, ascending."""
    found = []
    for meta in env.store.list_from(LOG_DIR, version_key(floor).removesuffix("json")):
        file = parse_key(meta.key)
        if not "0" <= meta.key[len(LOG_DIR) : len(LOG_DIR) + 1] <= "9":
            break
        if file is not None and file.kind == "version":
            found.append(file.version)
    return found


def beyond_gap(env: Env, slot: int, table: str) -> int | None:
    """A version above the empty `slot` where no checkpoint of `table` explains why it is empty: its file was lost.

    For local files.
    """
    above = next((slot + step for step in _PROBES if env.store.exists(version_key(slot + step))), None)
    if above is None or env.store.exists(version_key(slot)) or newest_tokens(env, slot, table) is not None:
        return None
    return above


def gap_below(env: Env, ours: CommitInfo, slot: int, above: Sequence[int]) -> int | None:
    """The version above `slot`, where our file lies, that shows that another one was lost there; None if none does.

    `above` are the versions there, ascending. Files of another table show nothing: whoever writes to a table that was
    dropped here puts them late, and takes them back. Raises LogError, StoreError.
    """
    if not above or is_followed(env, ours, slot):
        return None
    strange = itertools.takewhile(lambda version: _is_strange(env, ours, version), above[:_STRANGERS])
    passed = sum(1 for _ in strange)
    return above[passed] if passed < len(above) else None


def seen_in_place(env: Env, base: Head, ours: CommitInfo) -> ObjectMeta | None:
    """Our local file above `base`, where that is unchanged and nothing else is to be explained.

    Then nothing above the base was deleted, and no listing is needed. Raises LogError, StoreError.
    """
    if not env.store.is_local or base.identity is None:
        return None
    slot = base.version + 1
    # The own file is looked at first: what is seen before the check is known to be older than it.
    found = tokens.look_at_ours(env, slot)
    if found is None or tokens.identity_of(env, base.version) != base.identity:
        return None
    if any(map(env.store.exists, checkpoint_keys(slot))):
        return None
    # What is above ours and does not follow it shows that a version was lost here.
    return found if not env.store.exists(version_key(slot + 1)) or is_followed(env, ours, slot) else None


def is_followed(env: Env, ours: CommitInfo, slot: int) -> bool:
    """True if the version above `slot`, where our file lies, was committed on top of it. Raises LogError, StoreError.

    A file that names the version below it says so. An older writer's says its time, which is later than ours if it
    came after ours.
    """
    above = read_slot(env, slot + 1)
    info = None if above is None else above.commit_info
    if info is None:
        return above is not None
    if info.tableId not in {None, ours.tableId}:
        return False
    if info.previous is not None and info.previous.token is not None:
        return info.previous.token == ours.token
    if info.inCommitTimestamp is None or ours.inCommitTimestamp is None:
        return True
    return info.inCommitTimestamp > ours.inCommitTimestamp


def _is_strange(env: Env, ours: CommitInfo, version: int) -> bool:
    """True if a version file is another table's; False where nobody can tell. Raises StoreError."""
    try:
        held = read_slot(env, version)
    except LogError:
        return False
    info = None if held is None else held.commit_info
    return info is not None and info.tableId not in {None, ours.tableId}


def lost_slot(log: Log, slot: int, above: int) -> LogGap:
    """The error for a commit that would take the place of a version whose file was lost; the head is forgotten."""
    head.forget(log)
    log.invalidate()
    return gap(slot, above, log.env.store.url)


def lost_ground(log: Log, base: Head) -> IndexTablesError:
    """The error for a commit whose base is gone or changed, with no checkpoint that explains it; the head is forgotten.

    TableReplaced where another table lives here, TableNotFound where none does, LogGap where the file is missing,
    LogCorrupt where it is damaged or was written anew. Raises StoreError.
    """
    head.forget(log)
    log.invalidate()
    version, url = base.version, log.env.store.url
    try:
        info = commit_info_of(log.env.store.get(version_key(version)), version)
    except ObjectNotFound:
        return _missing(log, base)
    except LogError as error:
        return error
    if info is None or info.tableId != base.metadata.id:
        return replaced(log, base)
    message = (
        f"version {version} at {url} is not the one that this commit was to follow. Nothing was committed: "
        f"{_GO_ON}; if nobody did, the file was changed: make sure that it is the one that was committed"
    )
    return LogCorrupt(message, version=version, path=version_key(version), url=url, reason="written anew")


def replaced(log: Log, base: Head) -> TableReplaced:
    """The error for a commit that was prepared for another table; the head is forgotten."""
    head.forget(log)
    url = log.env.store.url
    message = (
        f"the table at {url} is not the one this commit was prepared for (id {base.metadata.id}): it was dropped or "
        "re-created. Nothing was committed: open it again"
    )
    return TableReplaced(message, url=url, table_id=base.metadata.id)


def _is_of(held: Held, base: Head) -> bool:
    """True if a file is the base's, as far as both tell."""
    info = held.commit_info
    if (None if info is None else info.tableId) not in {None, base.metadata.id}:
        return False
    return base.token is None or held.token == base.token


def _is_same(env: Env, base: Head) -> bool:
    """True if another file than the known one holds what was read: the table was made anew between listing and read."""
    try:
        held = read_slot(env, base.version)
    except LogError:
        return False
    return held is not None and held.crc32c == base.crc32c and _is_of(held, base)


def _missing(log: Log, base: Head) -> IndexTablesError:
    """What is left of the log tells a dropped table from one that lost a file."""
    try:
        _, _, metadata = Log(log.env, cache=LogCache()).metadata_at()
    except TableNotFound:
        url = log.env.store.url
        message = f"the table at {url} was deleted (id {base.metadata.id}). Nothing was committed"
        return TableNotFound(message, url=url)
    except LogGap as error:
        # Without version 0 and without a checkpoint there is no table any more.
        return replaced(log, base) if error.details.get("version") == 0 else error
    except LogError as error:
        return error
    if metadata.id != base.metadata.id:
        return replaced(log, base)
    url = log.env.store.url
    message = (
        f"version {base.version}, which this commit was to follow, is missing at {url}. Nothing was committed: "
        f"{_GO_ON}; if nobody did, the file was lost: restore it from a copy first"
    )
    return LogGap(message, version=base.version, url=url)
