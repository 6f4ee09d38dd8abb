"""Who owns a slot? The checkpoints above it say so, found by listing and never by the pointer."""

from __future__ import annotations

import itertools

import msgspec

from indextables.env import Env
from indextables.errors import CheckpointError, LimitExceeded, ObjectNotFound
from indextables.log.checkpoint import find_states, has_parted, inspect_state
from indextables.log.read import clock
from indextables.log.wire import LOG_DIR, FileIdentity, StateRef, TokenWindow, parse_key, state_dir, version_key
from indextables.storage.store import ObjectMeta

__all__ = [
    "Survey",
    "Told",
    "glance",
    "identity_of",
    "look_at_ours",
    "newest_tokens",
    "numbered_from",
    "survey",
    "tell",
    "told_by",
]

_PAGE = 1000
"""After so many keys between the two ends a listing is given up for one that skips them: a page of an object store."""


class Survey(msgspec.Struct, frozen=True):
    """What a listing shows at and above a version: the checkpoints, newest first, and the identities of the files.

    `times` are the store's times of the same files, `sizes` their bytes.
    """

    states: tuple[StateRef, ...]
    etags: dict[str, str | None]
    times: dict[str, int] = {}
    sizes: dict[str, int] = {}

    @property
    def newest(self) -> StateRef | None:
        """The newest checkpoint."""
        return self.states[0] if self.states else None

    @property
    def newest_version(self) -> int | None:
        """The newest version whose file was listed."""
        files = (file for key in self.etags if (file := parse_key(key)) is not None and file.kind == "version")
        return max((file.version for file in files), default=None)

    def holds(self, version: int) -> bool:
        """True if the file of `version` was listed."""
        return version_key(version) in self.etags

    def etag(self, version: int) -> str | None:
        """The identity of the file of `version`, if the store tells one."""
        return self.etags.get(version_key(version))

    def identity(self, version: int) -> FileIdentity | None:
        """What tells the file of `version` from a later one; None if it was not listed."""
        key = version_key(version)
        return FileIdentity(self.sizes[key], self.times[key], self.etags[key] or None) if key in self.sizes else None

    def file(self, version: int, size: int) -> ObjectMeta | None:
        """The file of `version`, which has this many bytes; None if its time was not listed."""
        key = version_key(version)
        return ObjectMeta(key, size, self.times[key], self.etag(version)) if key in self.times else None

    def above(self, version: int) -> list[int]:
        """The versions above `version` whose files were listed, ascending."""
        files = (file for key in self.etags if (file := parse_key(key)) is not None and file.kind == "version")
        return sorted(file.version for file in files if file.version > version)


class Told(msgspec.Struct, frozen=True):
    """What a checkpoint says about who is who: the tokens of recent versions, the table's id, the time of its commit.

    `window` is None where it carries no tokens, `table_id` where another system left it out; both where it cannot be
    read: then `readable` is False.
    """

    ref: StateRef
    window: TokenWindow | None = None
    table_id: str | None = None
    time_ms: int | None = None
    readable: bool = True

    @property
    def first(self) -> int:
        """The lowest version whose token it tells."""
        return self.ref.version + 1 if self.window is None else self.window.first

    def covers(self, version: int) -> bool:
        """True if it can say which token `version` carries."""
        return self.window is not None and self.window.covers(version)

    def token_at(self, version: int) -> str | None:
        """The token of a covered version."""
        return None if self.window is None else self.window.token_at(version)


def survey(env: Env, version: int) -> Survey:
    """List the log from `version` on: the numbered files and the Avro states, then the numbered files again.

    Checkpoints lie at both ends of the order of keys. One of the other format can be published and become the cut of a
    cleanup while a listing is on its way from one end to the other: the end that was read first does not show it yet,
    the other one not any more what it replaced. Where nothing was found, the first end is therefore read again, until
    it shows no checkpoint and every file that it showed before.
    """
    while True:
        seen = glance(env, version)
        if not seen.states:
            again = numbered_from(env, max(version, 0))
            # Parts of a checkpoint whose writer died are none: they stay, however often they are listed.
            if seen.etags.keys() - {meta.key for meta in again} or find_states(again):
                continue
        return seen


def glance(env: Env, version: int) -> Survey:
    """List the log from `version` on, once: it may miss a checkpoint that comes meanwhile, and what that one replaced.

    That is enough for who has found the slot above the newest version empty before (`log.read.hint`), for nobody else.
    """
    floor = max(version, 0)
    numbered, ends = _both_ends(env, floor)
    return Survey(
        tuple(ref for ref in find_states([*numbered, *ends]) if ref.version >= floor),
        {meta.key: meta.etag for meta in numbered},
        {meta.key: meta.modified_ms for meta in numbered},
        {meta.key: meta.size for meta in numbered},
    )


def numbered_from(env: Env, floor: int) -> list[ObjectMeta]:
    """The files that begin with a version, from `floor` on, by a listing of their own."""
    first = len(LOG_DIR)
    listing = env.store.list_from(LOG_DIR, version_key(floor).removesuffix("json"))
    return list(itertools.takewhile(lambda meta: "0" <= meta.key[first : first + 1] <= "9", listing))


def newest_tokens(env: Env, version: int, table: str, ours: str | None = None) -> Told | None:
    """What the newest checkpoint of `table` at or above `version` tells; None if there is no such checkpoint.

    One of another history of the table is passed over, unless it lists the token `ours`, which only this one has. A
    file with that token does not tell the history, since whoever put it asks whether it is a version. A checkpoint that
    cleanup takes while it is read has been superseded by a newer one, which is then looked for.
    """

    def is_own(told: Told) -> bool:
        if told.table_id not in {None, table}:
            return False
        is_ours = ours is not None and told.window is not None and ours in told.window.tokens
        return is_ours or not has_parted(env, told.ref.version, told.window, ours)

    while states := survey(env, version).states:
        told = tell(env, states[0])
        if told is None:
            continue
        # Below one that another table left over lies what is ours.
        older = (tell(env, ref) for ref in states[1:])
        return next((t for t in itertools.chain([told], older) if t is not None and is_own(t)), None)
    return None


def tell(env: Env, ref: StateRef) -> Told | None:
    """What a listed checkpoint tells; None if cleanup took it: then there is a newer one. Raises StoreError."""
    found = told_by(env, ref)
    if found is not None:
        return found
    newest = survey(env, ref.version).newest
    return Told(ref, readable=False) if newest is not None and newest.version == ref.version else None


def told_by(env: Env, ref: StateRef) -> Told | None:
    """What a checkpoint tells, however it was found; None if it is not there. Raises StoreError."""
    try:
        found = inspect_state(env, ref)
    except ObjectNotFound:
        return None
    except (CheckpointError, LimitExceeded):
        return Told(ref, readable=False)
    return Told(ref, found.tokens, found.table_id, found.in_commit_timestamp)


def identity_of(env: Env, version: int) -> str | None:
    """What tells the file of `version` from any other file of that name; None if it is gone or the store cannot."""
    try:
        return env.store.head(version_key(version)).etag
    except ObjectNotFound:
        return None


def look_at_ours(env: Env, version: int) -> ObjectMeta | None:
    """The file that we have just written, None if it is gone: its time says whether our clock is still right."""
    try:
        meta = env.store.head(version_key(version))
    except ObjectNotFound:
        return None
    clock.saw(env, meta.modified_ms)
    return meta


def _both_ends(env: Env, floor: int) -> tuple[list[ObjectMeta], list[ObjectMeta]]:
    """The numbered files and the Avro states from `floor` on, by one listing where little lies between them."""
    numbered: list[ObjectMeta] = []
    states: list[ObjectMeta] = []
    first, above = len(LOG_DIR), state_dir(floor).removesuffix("/")
    others = 0
    for meta in env.store.list_from(LOG_DIR, version_key(floor).removesuffix("json")):
        if "0" <= meta.key[first : first + 1] <= "9":
            numbered.append(meta)
        elif meta.key > above:
            states.append(meta)
        else:
            others += 1
            if len(numbered) + others >= _PAGE:
                # Manifests, thousands under long retention, are passed over.
                return numbered, list(env.store.list_from(LOG_DIR, above))
    return numbered, states
