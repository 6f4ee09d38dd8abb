"""Was a version file that has been read the one that was committed? The one rule, for everybody who reads versions.

Cleanup may take a version file while somebody reads the log, and a writer that had been asleep may then put its own
file into the empty slot. That writer will be told by the checkpoint above that it has not committed; whoever read the
slot must find out too. After the reads, and never before, it asks for each version:

1. Does the version above it, which is confirmed, name its token as `previous`? Then it is confirmed, without a request.
2. Else: is there a checkpoint at or above it? Cleanup deletes a version only where a checkpoint with tokens covers it,
   and such a checkpoint goes only after a newer one has come. So if none is listed after the read, nothing that was
   read can have been deleted before.
3. Else a checkpoint whose list of tokens reaches down to the version decides: the token that was read is the
   version's, or the slot was refilled.
4. If no list reaches down to it, the versions above are read, up to the first that a list tells: where each names the
   token below it, down to this one, it is confirmed. Else it has expired: its bytes are not believed.

A checkpoint that is known without a listing serves for 3 as well: each tells the truth. On local files, where cleanup
deletes in ascending order, the unchanged file of a version that was confirmed before
takes the place of all this: as long as it is there, nothing above it has been deleted.

A checkpoint without tokens was never a cut, one that cannot be read tells nothing, one of another table is left over
from a table that was dropped here (unless the newest version belongs to that one), one of another history of the table
is told by the files that lead up to the newest version (`log.checkpoint.parting`): they are passed over. What the rule
gives is a `Confirmed`, and whoever replays or judges versions takes nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Generic, TypeVar, overload
from typing import Protocol as Interface

from indextables.env import Env
from indextables.errors import LimitExceeded, LogCorrupt, ObjectNotFound
from indextables.log.checkpoint import has_parted
from indextables.log.read.newest import Known
from indextables.log.read.tokens import Survey, Told, survey, tell, told_by
from indextables.log.wire import (
    CommitInfo,
    FileIdentity,
    Metadata,
    StateRef,
    commit_info_of,
    corrupt,
    identity,
    version_key,
)

__all__ = [
    "Confirmed",
    "Mixed",
    "Stamped",
    "Superseded",
    "by_anchor",
    "check_above",
    "confirm",
    "follows",
    "is_chain",
    "table_of",
]

# A checkpoint can go while it is read, because a newer one has come: look again this often.
_ATTEMPTS = 3


class Stamped(Interface):
    """A version that was read, as far as it says who it is."""

    @property
    def version(self) -> int:
        """The number of its slot."""
        ...

    @property
    def commit_info(self) -> CommitInfo | None:
        """Who wrote it."""
        ...

    @property
    def metadata(self) -> Metadata | None:
        """The metadata that it brings."""
        ...

    @property
    def token(self) -> str | None:
        """Its token, None in files of other systems."""
        ...

    @property
    def crc32c(self) -> int | None:
        """The checksum of its stored bytes, where they are known."""
        ...


V = TypeVar("V", bound=Stamped)


class Confirmed(Sequence[V], Generic[V]):
    """Versions in ascending order, each known to be the one that was committed. Only this module makes one."""

    __slots__ = ("_items",)

    def __init__(self, items: tuple[V, ...] = ()) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> V: ...
    @overload
    def __getitem__(self, place: slice) -> Confirmed[V]: ...
    def __getitem__(self, place: int | slice) -> V | Confirmed[V]:
        return Confirmed(self._items[place]) if isinstance(place, slice) else self._items[place]

    def __iter__(self) -> Iterator[V]:
        return iter(self._items)

    def after(self, older: Confirmed[V]) -> Confirmed[V]:
        """These versions after older ones."""
        return Confirmed((*older, *self._items))


class Superseded(ObjectNotFound):
    """What a slot holds is not the version that was committed there: cleanup took that, and a sleeper filled the slot.

    Also where nobody can tell any more. List and read again; if it stays so, the version has expired.
    """


class Mixed(LogCorrupt):
    """Versions of two tables in one log. Read again: the table may have been dropped and made anew meanwhile."""


def confirm(
    env: Env,
    read: Sequence[V],
    *,
    above: V | None = None,
    known: Collection[int] = (),
    seen: Survey | None = None,
    log: Known | None = None,
) -> Confirmed[V]:
    """Confirm versions that have been read, in ascending order.

    `above` is a confirmed version that follows the last of them, `known` are those that were confirmed before, `seen`
    is a listing from the first one on or from below it that was made after the reads. `log` is what was known of the
    log before the reads: it may spare the listing.

    Raises Superseded, Mixed, LogCorrupt for a version that does not follow the one below it, StoreError.
    """
    _check_one_table(read, env.store.url)
    open_ = [version for version in _not_vouched_for(read, above) if version.version not in known]
    if open_ and log is not None:
        open_ = _left_open(env, open_, log)
    if open_:
        _ask_checkpoints(env, open_, seen)
    _check_links(read, above)
    return Confirmed(tuple(read))


def by_anchor(env: Env, version: int, anchor: FileIdentity | str | None, read: Sequence[V]) -> Confirmed[V] | None:
    """Confirm versions that have been read above `version`, whose local file had the identity or etag `anchor`.

    The identity was seen before `version` was confirmed. None where the file is another one by now or gone, and where
    files are not local. Raises as `confirm`.
    """
    if anchor is None or not env.store.is_local:
        return None
    try:
        meta = env.store.head(version_key(version))
    except ObjectNotFound:
        return None
    if anchor != (meta.etag if isinstance(anchor, str) else identity(meta)):
        return None
    _check_one_table(read, env.store.url)
    _check_links(read, None)
    return Confirmed(tuple(read))


def follows(version: Stamped, token: str | None) -> bool:
    """False if a version says that it follows another one than the version with this token."""
    previous = None if version.commit_info is None else version.commit_info.previous
    return previous is None or None in {previous.token, token} or previous.token == token


def table_of(version: Stamped) -> str | None:
    """Which table a version says it belongs to, None where it does not say."""
    if version.metadata is not None:
        return version.metadata.id
    return None if version.commit_info is None else version.commit_info.tableId


def is_chain(read: Sequence[Stamped]) -> bool:
    """True if each version that was read, but the newest, is named by the one above it. Pure."""
    return len(_not_vouched_for(read, None)) <= 1


def _not_vouched_for(read: Sequence[V], above: V | None) -> list[V]:
    """The versions that no confirmed neighbour names, newest first. Pure."""
    left: list[V] = []
    upper = above
    for version in reversed(read):
        if upper is None or upper.version != version.version + 1 or not _names(upper, version):
            left.append(version)
        upper = version
    return left


def _names(upper: Stamped, lower: Stamped) -> bool:
    previous = None if upper.commit_info is None else upper.commit_info.previous
    return previous is not None and previous.token is not None and previous.token == lower.token


def _check_one_table(read: Sequence[V], url: str) -> None:
    told = [(version.version, table) for version in read if (table := table_of(version)) is not None]
    for number, table in told[1:]:
        if table != told[0][1]:
            message = (
                f"version {number} at {url} belongs to table {table}, version {told[0][0]} to {told[0][1]}: a writer "
                "of a table that was dropped here put its file late, or two logs were mixed. Move the file that does "
                "not belong here away, or restore the log from a copy"
            )
            raise Mixed(message, version=number, path=version_key(number), url=url, reason="another table")


def _check_links(read: Sequence[V], above: V | None) -> None:
    """Raises LogCorrupt if a version was committed on top of another one, or of other bytes, than lie below it."""
    uppers: list[V] = [*read[1:], *([] if above is None else [above])]
    for lower, upper in zip(read, uppers, strict=False):
        info = upper.commit_info
        if upper.version != lower.version + 1 or info is None or info.previous is None:
            continue
        if not follows(upper, lower.token):
            raise corrupt(lower.version, None, f"it is not the version that version {upper.version} follows")
        if None not in {info.previous.crc32c, lower.crc32c} and info.previous.crc32c != lower.crc32c:
            reason = f"its bytes have been changed since version {upper.version} was committed on top of it"
            raise corrupt(lower.version, None, reason)


def check_above(env: Env, version: V) -> None:
    """Hold a version against the one above it, for who reads no further. One request, two where they do not fit.

    Raises LogCorrupt if that one was committed on top of other bytes, or of another version, unless it is the stranger
    itself, as the next one tells. Where it is missing, damaged or of another table, whoever reads it is told.
    """
    above = _info_of(env, version.version + 1)
    previous = None if above is None else above.previous
    if (
        above is None
        or previous is None
        or None in {previous.token, version.token}
        or above.tableId != table_of(version)
    ):
        return
    if previous.token != version.token:
        next_one = _info_of(env, version.version + 2)
        if next_one is None or next_one.previous is None or next_one.previous.token == above.token:
            raise corrupt(version.version, None, f"it is not the version that version {version.version + 1} follows")
    elif None not in {previous.crc32c, version.crc32c} and previous.crc32c != version.crc32c:
        reason = f"its bytes have been changed since version {version.version + 1} was committed on top of it"
        raise corrupt(version.version, None, reason)


def _info_of(env: Env, version: int) -> CommitInfo | None:
    """Who wrote a version; None where its file is missing or damaged. Raises StoreError."""
    try:
        return commit_info_of(env.store.get(version_key(version)), version)
    except (ObjectNotFound, LogCorrupt, LimitExceeded):
        return None


def _left_open(env: Env, open_: Sequence[V], log: Known) -> list[V]:
    """The versions, newest first, that neither the anchor nor a checkpoint that is known proves. Raises Superseded."""
    above = [version for version in open_ if version.version >= log.anchored]
    if above and by_anchor(env, log.anchored, log.anchor, ()) is not None:
        open_ = [version for version in open_ if version.version < log.anchored]
    left: list[V] = []
    told: dict[StateRef, Told | None] = {}
    for version in open_:
        refs = sorted((ref for ref in log.states if ref.version >= version.version), key=lambda ref: ref.version)
        if not any(_vouches(env, version, ref, told) for ref in refs):
            left.append(version)
    return left


def _vouches(env: Env, version: Stamped, ref: StateRef, told: dict[StateRef, Told | None]) -> bool:
    """True if a checkpoint lists the token of a version; False if it does not tell. Raises Superseded, StoreError."""
    if ref not in told:
        told[ref] = told_by(env, ref)
    found = told[ref]
    if found is None or not found.covers(version.version) or found.table_id != table_of(version):
        return False
    if version.token is not None and found.token_at(version.version) == version.token:
        return True
    _check_history(env, found, version)
    return False


def _ask_checkpoints(env: Env, open_: Sequence[V], seen: Survey | None) -> None:
    """Raises Superseded unless every one of the versions, newest first, is known by rules 2 and 3."""
    for _ in range(_ATTEMPTS):
        listed = seen if seen is not None else survey(env, open_[-1].version)
        seen = None
        told: dict[StateRef, Told | None] = {}
        for version in open_:
            if not _is_told(env, version, listed, told):
                break
        else:
            return
    raise _superseded(open_[0])


def _is_told(env: Env, version: V, listed: Survey, told: dict[StateRef, Told | None]) -> bool:
    """True if nothing contradicts a version; False if a checkpoint went while it was read. Raises Superseded."""
    above = [ref for ref in listed.states if ref.version >= version.version]
    # The newest reaches down to almost everything that is ever read. If not, the nearest does.
    lowest: Told | None = None
    for ref in [*above[:1], *reversed(above[1:])]:
        if ref not in told:
            told[ref] = tell(env, ref)
        found = told[ref]
        if found is None:
            return False
        if None not in {found.table_id, table_of(version)} and found.table_id != table_of(version):
            if _is_followed(env, found, listed):
                raise _superseded(version)
            continue
        if found.covers(version.version):
            if found.token_at(version.version) == version.token:
                return True
            _check_history(env, found, version)
            told[ref] = Told(ref, readable=False)
        elif found.window is not None and (lowest is None or found.first < lowest.first):
            lowest = found
    if lowest is not None and not _leads_up(env, version, lowest):
        _check_history(env, lowest, version)
        told[lowest.ref] = Told(lowest.ref, readable=False)
        return _is_told(env, version, listed, told)
    return True


def _check_history(env: Env, found: Told, version: Stamped) -> None:
    """Raises Superseded if a checkpoint that tells another token than was read is of this history of the table."""
    if not has_parted(env, found.ref.version, found.window):
        raise _superseded(version)


def _is_followed(env: Env, found: Told, listed: Survey) -> bool:
    """True if the newest version belongs to the table of a checkpoint: then a file of another table is the stranger.

    It is one that a creator which lost the race for version 0 put when that had been cleaned up.
    """
    newest = listed.newest_version
    if newest is None or newest < found.ref.version:
        return False
    info = commit_info_of(env.store.get(version_key(newest)), newest)
    return info is not None and info.tableId == found.table_id


def _leads_up(env: Env, version: Stamped, found: Told) -> bool:
    """True if the files above a version name each other, from it up to the first one whose token a checkpoint tells."""

    def info_of(number: int) -> CommitInfo | None:
        return commit_info_of(env.store.get(version_key(number)), number)

    token = version.token
    try:
        for info in env.ambient.map("versions", info_of, range(version.version + 1, found.first + 1)):
            if token is None or info is None or info.previous is None or info.previous.token != token:
                return False
            token = info.token
    except ObjectNotFound:
        return False
    return token is not None and token == found.token_at(found.first)


def _superseded(version: Stamped) -> Superseded:
    message = f"version {version.version} was cleaned up while it was read"
    return Superseded(message, key=version_key(version.version), version=version.version)
