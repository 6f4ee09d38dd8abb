"""Loads a state from known files: the newest checkpoint that can be read, and the versions after it.

A checkpoint that cannot be read is passed over, with a warning, for an older one or for all version files. If
neither reaches far enough back, its error is raised: never an empty or a shorter table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar
from typing import Protocol as Shape

import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    IndexTablesError,
    LimitExceeded,
    LogGap,
    ObjectNotFound,
    PathEscape,
    VersionExpired,
)
from indextables.lazy import pc
from indextables.log.checkpoint import Opened, contradicts, open_state, read_pruned, read_state
from indextables.log.checkpoint.avro import PathsRepeat, StateList, Where, live_parts, live_ranges
from indextables.log.read.checked import check_counts, read_check_file
from indextables.log.read.confirming import Confirmed, Mixed, follows, table_of
from indextables.log.read.folding import header_after, live_files, replay, replay_plainly, replay_pruned
from indextables.log.read.meant import prove
from indextables.log.read.newest import Known, discover
from indextables.log.read.segment import LogSegment, build_segment
from indextables.log.wire import (
    CrcFile,
    Metadata,
    Protocol,
    PrunedState,
    StateHeader,
    StateRef,
    TableState,
    TokenWindow,
    VersionContent,
    combined,
    empty_files,
    header_fields,
    int64_array,
    int64_values,
    token_of,
    under_rule,
    version_key,
)

__all__ = [
    "UNREADABLE",
    "LoadSome",
    "Make",
    "OpenedState",
    "Parts",
    "Way",
    "Where",
    "fold",
    "header_of",
    "is_another",
    "load_pruned",
    "load_state",
    "segments",
]

T = TypeVar("T")
S = TypeVar("S", bound=TableState | PrunedState)

_LOGGER = logging.getLogger("indextables")

UNREADABLE = (CheckpointError, LimitExceeded, PathEscape, ObjectNotFound)


class _Header(NamedTuple):
    """What a checkpoint says without its files."""

    protocol: Protocol
    metadata: Metadata
    tokens: TokenWindow | None


_Named: TypeAlias = TableState | PrunedState | _Header
"""What tells of which table and which history it is."""

ReadVersions = Callable[[LogSegment], Confirmed[VersionContent]]

Make = Callable[[pa.Table], pa.Table]
"""What is wanted of files. It looks at each row alone, so that it may be given them part by part, in any order.

Where it is given whole partitions it looks at each of these alone. What it makes then holds no memory of the files.
"""

_RANGES = 10
"""Of whole partitions this part of the files that memory is for is looked at together."""


class _Listed(PrunedState, frozen=True, kw_only=True):
    """An Avro state of which only the list is read."""

    ref: StateRef
    listed: StateList


class OpenedState:
    """The checkpoint that the header was read from, until the files are: it is fetched once for both.

    It holds one at most, for one version of one table, and gives it away once: where manifests of its list are gone by
    then, the list is read again. `proven` is the checkpoint that version files were found to agree with, `newest` the
    newest version file below `version` that was read beside it.
    """

    __slots__ = ("_held", "newest", "proven")

    def __init__(self, ref: StateRef | None = None, opened: Opened | None = None) -> None:
        self.proven = ref
        self.newest: VersionContent | None = None
        self._held = None if ref is None or opened is None else (ref, opened)

    def keep(self, ref: StateRef, opened: Opened) -> None:
        """Hold what was read of `ref`."""
        self._held = (ref, opened)

    def header(self, ref: StateRef) -> Opened | None:
        """What is held of `ref`; it stays."""
        held = self._held
        return None if held is None or held[0] != ref else held[1]

    def token_at(self, version: int, base: TableState | None, contents: Sequence[VersionContent]) -> str | None:
        """The token of a version that is read from these, else from what its header was; None where nothing tells."""
        newest = contents[-1] if contents else self.newest
        if newest is not None and newest.version == version:
            return newest.token
        below = base if base is not None or self._held is None else self._held[1]
        return None if below is None else token_of(below.tokens, version)

    def take(self, ref: StateRef) -> Opened | None:
        """What is held of `ref`, if anything is."""
        held, self._held = self._held, None
        return None if held is None or held[0] != ref else held[1]


class Parts(NamedTuple):
    """What is made of the files of a table that has more than `most`, by default `state.filesInMemory`, part by part.

    With `whole` a part has all files of some partitions.
    """

    make: Make
    most: int | None = None
    whole: bool = False


class LoadSome(Shape):
    """Reads what matches a predicate; with `parts`, a `PrunedState` has what those make of it instead of files.

    That is where there are more files than `parts` say.
    """

    def __call__(self, where: Where, parts: Parts | None = None, /) -> TableState | PrunedState: ...


class Way(NamedTuple):
    """A version's protocol and metadata, and how its files are read; ObjectNotFound if cleanup takes them meanwhile.

    `token` is that of the commit, None where nothing tells it: what is loaded is proven to lead to it.
    """

    protocol: Protocol
    metadata: Metadata
    load: Callable[[], TableState]
    load_some: LoadSome
    history: int
    token: str | None


def load_state(
    env: Env,
    known: Known,
    version: int,
    read_versions: ReadVersions,
    *,
    log_table: str,
    token: str | None = None,
    opened: OpenedState | None = None,
    told: CrcFile | None = None,
) -> TableState:
    """The table at `version`; what is loaded is proven to be of `log_table` and `token`, which its header told.

    `opened` is what reading the header left, `told` the version's check file where that was read: what a checkpoint
    contributes is held against it. Raises VersionNotFound, VersionExpired, LogGap, LogCorrupt, Superseded where another
    table or history has taken the place since, CheckpointError, PathEscape, StoreError.
    """
    opened = opened or OpenedState()

    def read(ref: StateRef) -> TableState:
        return read_state(env, ref, opened.take(ref))

    base, contents = _base_and_tail(env, known, version, read_versions, read, opened.proven)
    return prove(env, _held_against(env, told, base, fold(env, base, contents)), log_table, token)


def load_pruned(
    env: Env,
    known: Known,
    version: int,
    read_versions: ReadVersions,
    where: Where,
    parts: Parts | None = None,
    *,
    log_table: str,
    token: str | None = None,
    opened: OpenedState | None = None,
    told: CrcFile | None = None,
) -> TableState | PrunedState:
    """The files of the table at `version`, without those that its checkpoint shows not to match.

    With `parts`, where the table has more files than those say: what their `make` makes of them instead. The whole
    table where nothing could be left out. As `load_state`.
    """
    opened = opened or OpenedState()
    if parts is not None:
        made = _load_made(env, known, version, read_versions, parts, opened, told)
        if made is not None:
            return prove(env, made, log_table, token)

    def read(ref: StateRef) -> TableState | PrunedState:
        return read_pruned(env, ref, where, opened.take(ref))

    base, contents = _base_and_tail(env, known, version, read_versions, read, opened.proven)
    if isinstance(base, PrunedState):
        some = replay_pruned(base, contents, plainly=not env.options[opt.TRANSACTION_USE_OPTIMIZED])
        return prove(env, some, log_table, token)
    return prove(env, _held_against(env, told, base, fold(env, base, contents)), log_table, token)


def _load_made(
    env: Env,
    known: Known,
    version: int,
    read_versions: ReadVersions,
    parts: Parts,
    opened: OpenedState,
    told: CrcFile | None,
) -> PrunedState | None:
    """What is made of all files of the table at `version`, of which a part is in memory at a time.

    None where the table has no more files than `parts` say and is kept whole, and where only the whole of it tells: it
    has no Avro state, that cannot be read, or it names a path twice. Raises as `load_state`.
    """

    def read(ref: StateRef) -> TableState | _Listed:
        listed = opened.header(ref) or open_state(env, ref)
        opened.keep(ref, listed)
        if isinstance(listed, TableState):
            return listed
        return _Listed(**header_fields(listed), files=empty_files(), ref=ref, listed=listed)

    most = env.options[opt.STATE_FILES_IN_MEMORY] if parts.most is None else parts.most
    base, contents = _base_and_tail(env, known, version, read_versions, read, opened.proven)
    if not isinstance(base, _Listed) or base.listed.num_entries <= most:
        return None
    try:
        return _streamed(env, base, under_rule(base.protocol, contents), parts, told)
    except (PathsRepeat, *UNREADABLE):
        return None


def _streamed(
    env: Env, base: _Listed, contents: Sequence[VersionContent], parts: Parts, told: CrcFile | None
) -> PrunedState:
    made = []
    count = size = 0
    for files in _by_partitions(env, base, contents) if parts.whole else _in_parts(env, base, contents):
        count, size = count + files.num_rows, size + int(int64_values(files.column("size")).sum())
        found = parts.make(files)
        # A copy: a column of a part would hold the memory of all others.
        made.append(found if parts.whole else found.take(int64_array(np.arange(found.num_rows))))
    header = header_after(base, contents, token_window=env.options[opt.COMMIT_TOKEN_WINDOW])
    told = told or _own_check_file(env, base, header)
    check_counts(env.store.url, told, header.version, count, size)
    return PrunedState(**header_fields(header), files=pa.concat_tables(made))


def _in_parts(env: Env, base: _Listed, contents: Sequence[VersionContent]) -> Iterator[pa.Table]:
    """The versions are replayed over those files of the state that they name; all others stay as they are."""
    paths = _named_in(contents)
    aside = [empty_files()]
    for part in live_parts(env, base.ref, base.listed, base.listed.manifests):
        named, others = _split_by(part, paths)
        aside.append(named)
        yield others
    yield live_files(pa.concat_tables(aside), contents)


def _by_partitions(env: Env, base: _Listed, contents: Sequence[VersionContent]) -> Iterator[pa.Table]:
    """As `_in_parts`, the files of some partitions at a time, among which are those that the versions added to them."""
    paths = _named_in(contents)
    size = max(1, env.options[opt.STATE_FILES_IN_MEMORY] // _RANGES)
    for within, part in live_ranges(env, base.ref, base.listed, size):
        named, others = _split_by(part, paths)
        late = live_files(named, contents)
        yield pa.concat_tables([others, late.filter(within(late))])


def _named_in(contents: Sequence[VersionContent]) -> pa.Array:
    named = [combined(rows.column("path")) for content in contents for rows in (content.adds, content.removes)]
    return pa.concat_arrays(named) if named else pa.nulls(0, pa.string())


def _split_by(part: pa.Table, paths: pa.Array) -> tuple[pa.Table, pa.Table]:
    """The files with these paths, and the others."""
    is_named = pc.is_in(combined(part.column("path")), value_set=paths)
    named = part.filter(is_named)
    return named, part.filter(pc.invert(is_named)) if named.num_rows else part


def _held_against(env: Env, told: CrcFile | None, base: TableState | None, state: TableState) -> TableState:
    """The state. Raises LogCorrupt if it was built on a checkpoint and the check file of its version tells otherwise.

    Version files prove each other: where there is nothing but them, a check file that differs is the one that is wrong.
    """
    if base is None:
        return state
    told = told or _own_check_file(env, base, state)
    size = int(int64_values(state.files.column("size")).sum())
    check_counts(env.store.url, told, state.version, state.files.num_rows, size)
    return state


def _own_check_file(env: Env, base: StateHeader, state: StateHeader) -> CrcFile | None:
    """The check file of a version of which the checkpoint is all that there is."""
    if base.version != state.version:
        return None
    found = read_check_file(env, state.version)
    is_own = found is not None and found.token is not None and found.token == token_of(state.tokens, state.version)
    return found if is_own else None


def _base_and_tail(
    env: Env,
    known: Known,
    version: int,
    read_versions: ReadVersions,
    read: Callable[[StateRef], S],
    proven: StateRef | None,
) -> tuple[S | None, Confirmed[VersionContent]]:
    """The newest checkpoint of this table that can be read, as `read` makes it, and the versions after it.

    Where cleanup took what is known, what a new listing of the same table tells is read instead.
    """
    try:
        segment, base = _first_readable(env, known, version, read)
        contents = read_versions(segment)
    except ObjectNotFound:
        fresh = discover(env, known)
        is_same = (fresh.head, fresh.head_identity) == (known.head, known.head_identity)
        if not is_same or fresh.states == known.states:
            raise
        return _base_and_tail(env, fresh, version, read_versions, read, proven)
    ref = segment.base
    if base is None or ref is None:
        return base, contents
    if is_another(base, contents) or (ref != proven and _is_foreign(env, known, ref, base, contents)):
        rest = _without(env, known, ref)
        try:
            return _base_and_tail(env, rest, version, read_versions, read, proven)
        except (VersionExpired, LogGap) as error:
            raise _mixed(env, ref, contents[0].version if contents else known.head) from error
    return base, contents


def _without(env: Env, known: Known, ref: StateRef) -> Known:
    _LOGGER.warning("%s: %s belongs to another table or history and is passed over", env.store.url, ref.keys[0])
    return msgspec.structs.replace(known, states=tuple(state for state in known.states if state != ref))


def _mixed(env: Env, ref: StateRef, version: int) -> Mixed:
    message = (
        f"{ref.keys[0]} at {env.store.url} does not belong to {version_key(version)}: one of them is of another table "
        "or of another history, and nothing else is left to read the table from. Nothing was read. Run verify, and "
        "restore the one that is wrong from a copy"
    )
    return Mixed(message, version=version, url=env.store.url, reason="another table")


def _is_foreign(env: Env, known: Known, ref: StateRef, found: _Named, contents: Sequence[VersionContent]) -> bool:
    """True if a state is of another table or history, by the versions after it, else by the newest file and its own."""
    table = found.metadata.id
    if any(table_of(content) not in {None, table} for content in contents):
        return True
    if contents and contents[0].version == ref.version + 1:
        return not follows(contents[0], token_of(found.tokens, ref.version))
    if known.head_identity is None:
        return False
    return contradicts(env, range(known.first, known.head + 1), known.states, ref, table, found.tokens)


def is_another(base: TableState | PrunedState, contents: Confirmed[VersionContent]) -> bool:
    """True if the versions after a state belong to another table, or follow another version than the state's. Pure."""
    if any(table_of(content) not in {None, base.metadata.id} for content in contents):
        return True
    token = token_of(base.tokens, base.version)
    return bool(contents) and contents[0].version == base.version + 1 and not follows(contents[0], token)


def header_of(
    env: Env,
    known: Known,
    version: int,
    contents: Sequence[VersionContent] = (),
    *,
    opened: OpenedState | None = None,
) -> tuple[LogSegment, tuple[Protocol, Metadata] | None]:
    """The newest checkpoint of this table at or below `version` that can be read: its protocol and its metadata.

    `contents` are versions up to `version` that have been read, `opened` keeps what the files can be read from. Without
    a checkpoint the segment starts at version 0, and there is nothing to tell. Raises as `load_state`.
    """
    opened = opened or OpenedState()
    segment, found = _first_readable(env, known, version, lambda ref: _read_header(env, ref, opened))
    ref = segment.base
    if found is None or ref in {None, opened.proven} or not _is_foreign(env, known, ref, found, contents):
        opened.proven = ref
        return segment, None if found is None else (found.protocol, found.metadata)
    try:
        return header_of(env, _without(env, known, ref), version, contents, opened=opened)
    except (VersionExpired, LogGap) as error:
        raise _mixed(env, ref, contents[0].version if contents else known.head) from error


def fold(env: Env, base: TableState | None, contents: Confirmed[VersionContent]) -> TableState:
    """Replay as the options ask for: in columns, or plainly one action after the other. The results are the same."""
    window = env.options[opt.COMMIT_TOKEN_WINDOW]
    how = replay if env.options[opt.TRANSACTION_USE_OPTIMIZED] else replay_plainly
    return how(base, contents, token_window=window)


def segments(env: Env, known: Known, version: int) -> Iterator[LogSegment]:
    """Every way to rebuild `version`, the cheapest first. The first raises if there is none; later ones just end.

    Raises VersionNotFound, VersionExpired, LogGap.
    """
    there = range(known.first, known.head + 1)
    url = env.store.url
    states: Sequence[StateRef] = known.states
    if not env.options[opt.CHECKPOINT_ENABLED] and known.first == 0:
        states = ()
    segment = build_segment(version, there, states, url, head=known.head)
    yield segment
    while segment.base is not None:
        states = [state for state in states if state is not segment.base]
        try:
            segment = build_segment(version, there, states, url, head=known.head)
        except (VersionExpired, LogGap):
            return
        yield segment


def _first_readable(env: Env, known: Known, version: int, read: Callable[[StateRef], T]) -> tuple[LogSegment, T | None]:
    """The first segment whose checkpoint can be read, with what `read` made of it (None for one without)."""
    failure: IndexTablesError | None = None
    for segment in segments(env, known, version):
        if segment.base is None:
            return segment, None
        try:
            return segment, read(segment.base)
        except UNREADABLE as error:
            failure = failure or error
            _LOGGER.warning(
                "%s: the checkpoint of version %d cannot be read (%s); going back further",
                env.store.url,
                segment.base.version,
                error,
            )
    if failure is None:
        raise AssertionError
    if isinstance(failure, CheckpointError):
        rest = f"nothing else is left to read version {version} at {env.store.url} from: restore it from a copy"
        message = f"{failure}; {rest}"
        raise type(failure)(message, **failure.details) from failure
    raise failure


def _read_header(env: Env, ref: StateRef, opened: OpenedState) -> _Header:
    found = opened.header(ref) or open_state(env, ref)
    opened.keep(ref, found)
    assert found.protocol is not None  # noqa: S101 - open_state found both
    assert found.metadata is not None  # noqa: S101 - as above
    return _Header(found.protocol, found.metadata, found.tokens)
