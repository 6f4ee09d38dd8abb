"""When is a checkpoint written, and from what? After commits, on demand, and never at a commit's expense."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from indextables import measures, process
from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    CheckpointInvalid,
    CheckpointWriteFailed,
    IndexTablesError,
    LimitExceeded,
    LogError,
    ObjectNotFound,
    PathEscape,
)
from indextables.log.care.advance import advance_state, file_of
from indextables.log.care.check_file import note_commit
from indextables.log.care.cleanup import clean_up
from indextables.log.care.intents import protections
from indextables.log.care.retention import Rules, commit_is_old
from indextables.log.checkpoint import (
    Pointer,
    agrees,
    find_states,
    has_parted,
    inspect_state,
    left_over_error,
    list_checkpoints,
    names_something,
    newest_at,
    own_states,
    point_to,
    read_pointer,
    read_state,
    table_of_version,
    totals_of,
    write_checkpoint,
)
from indextables.log.checkpoint.avro import Mode, check_manifests, read_list, rewrite
from indextables.log.commit import upgrade_protocol
from indextables.log.read import Log, oldest_version, read_check_file, read_stamp
from indextables.log.wire import (
    LOG_DIR,
    READER_VERSION,
    StateRef,
    StateTotals,
    TokenWindow,
    check_writable,
    crc_key,
    state_dir,
    state_key,
    version_key,
)
from indextables.storage.store import ObjectMeta

__all__ = ["checkpoint", "is_due", "maybe_checkpoint"]

_LOGGER = logging.getLogger("indextables")

# What is past retention may stay so much longer at most before a commit cleans up.
_PATIENCE_MS = 24 * 3_600_000

_RUNNING: set[str] = set()

_MEMORY = process.declare(
    process.Memory(
        name="running checkpoints",
        where=f"{__name__}._RUNNING",
        key="URL of the table",
        bound="those that run",
        fork="the child forgets them: they run in the parent",
        ends="when the checkpoint ends",
        after_fork=_RUNNING.clear,
    )
)


def checkpoint(env: Env, *, compact: Mode = "auto") -> StateRef:
    """Write the state of the newest version now; `compact="full"` lays it out anew, sorted by partition.

    A table of protocol V1 to V3 is upgraded first, by a version file of its own. Raises NotSupported for tables of
    other systems, ProtocolUnsupported, CheckpointError, LogError, StoreError, CommitError.
    """
    # The upgrade's own commit must not start another checkpoint.
    log = Log(env, after_commit=note_commit)
    version, protocol, _ = log.metadata_at()
    check_writable(protocol, env.store.url)
    if protocol.minReaderVersion < READER_VERSION and env.options[opt.STATE_FORMAT] == "avro":
        version = upgrade_protocol(log, READER_VERSION, READER_VERSION).version
    return _write(env, version, compact, checked=True)


def maybe_checkpoint(env: Env, version: int, *, newest: int = -1, after_merge: bool = False) -> int:
    """After the commit of `version`: a checkpoint if one is due, then cleanup. The newest checkpoint known afterwards.

    `is_due` tells when; `newest` is the checkpoint that the caller knows of, so that most commits ask nobody. With
    `checkpoint.async` the work is handed to the background. What fails is logged and raised nowhere: the commit stands.
    """
    if not env.options[opt.CHECKPOINT_ENABLED]:
        return newest
    interval = env.options[opt.CHECKPOINT_INTERVAL]
    compact: Mode = "hit" if after_merge and env.options[opt.STATE_COMPACTION_AFTER_MERGE] else "auto"
    if compact == "auto" and not is_due(version, newest, interval):
        return newest
    try:
        found = _newest_above(env, max(newest, version - 2 * interval), version)
    except IndexTablesError as error:
        _LOGGER.warning("the checkpoints of %s could not be listed: %s", env.store.url, error)
        return newest
    if found is not None and (found >= version or (compact == "auto" and not is_due(version, found, interval))):
        return found
    url = env.store.url
    if not env.options[opt.CHECKPOINT_ASYNC]:
        return max(newest, _attempt(env, version, compact))
    with _MEMORY.lock:
        if url in _RUNNING:
            return newest
        _RUNNING.add(url)

    def run() -> None:
        try:
            _attempt(env, version, compact)
        finally:
            with _MEMORY.lock:
                _RUNNING.discard(url)

    try:
        env.ambient.submit("checkpoint", run)
    except BaseException:
        with _MEMORY.lock:
            _RUNNING.discard(url)
        raise
    return newest


def is_due(version: int, newest: int, interval: int) -> bool:
    """True if the writer of `version` writes a checkpoint, where `newest` is the newest one. Pure.

    That is one writer: the one whose commit is the `interval`-th since then. Those that commit while it writes leave it
    to that one, and take over where it has died: an interval later there is none.
    """
    behind = version - newest
    return behind == interval or behind >= 2 * interval


def _attempt(env: Env, version: int, compact: Mode) -> int:
    """Write and clean up; the version of the checkpoint, or -1. Whatever goes wrong is logged."""
    try:
        ref = _upgraded_or_written(env, version, compact)
    except (IndexTablesError, pa.ArrowException) as error:
        _LOGGER.warning("the checkpoint of version %d of %s failed: %s", version, env.store.url, error)
        return -1
    Log(env).learn_state(ref)
    try:
        if env.options[opt.CLEANUP_ENABLED] and _something_is_old(env, ref.version):
            clean_up(env)
    except IndexTablesError as error:
        _LOGGER.warning("cleanup of %s failed: %s", env.store.url, error)
    return ref.version


def _upgraded_or_written(env: Env, version: int, compact: Mode) -> StateRef:
    # Of the newest version: a client that knows more may have raised the protocol since the commit.
    protocol = Log(env).metadata_at().protocol
    check_writable(protocol, env.store.url)
    if protocol.minReaderVersion < READER_VERSION and env.options[opt.STATE_FORMAT] == "avro":
        return checkpoint(env, compact=compact)
    return _write(env, version, compact)


def _write(env: Env, version: int, compact: Mode, *, checked: bool = False) -> StateRef:
    """Write the state of a version, and count that. Raises as `checkpoint`."""
    began = env.ambient.monotonic()
    ref = _written(env, version, compact, checked=checked)
    told = {"version": ref.version, "size_bytes": ref.size}
    measures.note(env.store.url, "checkpoint", env.ambient.monotonic() - began, told=told)
    return ref


def _written(env: Env, version: int, compact: Mode, *, checked: bool) -> StateRef:
    """From the last Avro state where there is one that can be built on, else from the whole table.

    `checked` reads all that is built on; else a manifest that no commit touches is looked for, but not opened.
    """
    previous = _previous(env, version) if env.options[opt.STATE_FORMAT] == "avro" else None
    if previous is not None and previous.version <= version:
        again = previous.version == version
        try:
            return _again(env, previous, compact) if again else _advanced(env, previous, version, compact, checked)
        except CheckpointWriteFailed:
            raise
        except (CheckpointError, ObjectNotFound, LimitExceeded, PathEscape) as error:
            if error.details.get("newer") or error.details.get("reason") == "another table":
                raise
            _LOGGER.warning("the state of version %d cannot be built upon: %s", previous.version, error)
            return _write_whole(env, version, compact, replace=again or checked)
    return _write_whole(env, version, compact)


def _advanced(env: Env, previous: StateRef, version: int, compact: Mode, checked: bool) -> StateRef:  # noqa: FBT001
    base = read_list(env, previous).manifests if checked else ()
    check_manifests(env, previous, base)
    ref, written = advance_state(
        env, previous, version, compact, check=lambda draft: _agree(env, version, draft.totals, draft.tokens)
    )
    if checked:
        # Another writer's state of this version may have been there: what it adds has not been read.
        known = {info.path for info in base}
        check_manifests(env, ref, [info for info in written.manifests if info.path not in known])
    assert written.protocol is not None  # noqa: S101 - advance_state wrote it
    point_to(env, ref, written.totals, written.num_entries, written.protocol.minReaderVersion)
    return ref


def _again(env: Env, ref: StateRef, compact: Mode) -> StateRef:
    """The state is there already: read it, compact it where that is asked for, and let the pointer say so.

    Raises as `read_state` for one that is damaged: it must not be pointed to.
    """
    if compact != "full":
        # A full compaction reads every entry anyway, and compares what it writes with what the state says.
        read_state(env, ref)
    state = read_list(env, ref)
    if table_of_version(env, ref.version) not in {None, state.table_id}:
        known = own_states(env, list_checkpoints(env))
        if ref.keys not in {own.keys for own in known}:
            raise left_over_error(env.store.url, ref)
    if has_parted(env, ref.version, state.tokens):
        # What is in hand takes its place: nobody of this history relies on it.
        message = f"{ref.keys[0]} at {env.store.url} is of another history of the table"
        raise CheckpointInvalid(message, version=ref.version, path=ref.keys[0], reason="another history")
    if compact in {"full", "hit"}:
        ref, state = rewrite(env, ref, state, compact)
    point_to(env, ref, state.totals, state.num_entries, READER_VERSION)
    return ref


def _write_whole(env: Env, version: int, compact: Mode, *, replace: bool = False) -> StateRef:
    file, log = file_of(env, version), Log(env)
    # What is in memory may be of a table that was dropped before the file was looked at.
    log.look_again()
    state = log.snapshot(version).state
    _agree(env, version, totals_of(state.files), state.tokens)
    return write_checkpoint(env, state, compact=compact, replace=replace, version_file=file)


def _previous(env: Env, version: int) -> StateRef | None:
    """An Avro state to build on: the one that the pointer names if it is there, else the newest by listing."""
    pointer = read_pointer(env)
    if (
        pointer is not None
        and pointer.version <= version
        and pointer.stateDir == state_dir(pointer.version)[len(LOG_DIR) : -1]
    ):
        key = state_dir(pointer.version) + "_manifest.avro"
        if env.store.exists(key):
            return StateRef(version=pointer.version, format="avro-state", keys=(key,))
    found = newest_at(find_states(list_checkpoints(env)), version)
    return found if found is not None and found.format == "avro-state" else None


def _newest_above(env: Env, version: int, committed: int) -> int | None:
    """The newest checkpoint above `version` that is heard of after the commit of `committed`; None if there is none.

    The pointer is asked first. One that is old costs a checkpoint more, and no result; one that names a version above
    the commit may be another table's, unless its checkpoint lists the token of the commit.
    """
    pointer = read_pointer(env)
    if pointer is not None and pointer.version <= committed:
        return pointer.version if pointer.version > version and names_something(env, pointer) else None
    if pointer is not None and _lists(env, pointer, committed):
        return pointer.version
    floor = max(version, 0)
    numbered = (meta for meta in env.store.list_from(LOG_DIR, version_key(floor)))
    found = find_states(_until_manifests(numbered))
    found += find_states(env.store.list_from(LOG_DIR, state_dir(floor) + "~"))
    newest = max((ref.version for ref in found if ref.version > version), default=None)
    if newest is not None and newest > committed:
        # Other writers may have gone on; or it is another table's, and would keep this one waiting for ever.
        found = own_states(env, list_checkpoints(env))
        newest = max((ref.version for ref in found if ref.version > version), default=None)
    return newest


def _lists(env: Env, pointer: Pointer, version: int) -> bool:
    """True if the checkpoint that a pointer names lists the token that the file of a version has."""
    try:
        found = inspect_state(env, StateRef(pointer.version, "avro-state", (state_key(pointer.version),)))
    except (CheckpointError, LimitExceeded, ObjectNotFound, PathEscape):
        return False
    return bool(agrees(env, range(version, version + 1), version, found.tokens))


def _until_manifests(listing: Iterator[ObjectMeta]) -> Iterator[ObjectMeta]:
    for meta in listing:
        if meta.key[len(LOG_DIR) : len(LOG_DIR) + 1].isalpha():
            return
        yield meta


def _something_is_old(env: Env, version: int) -> bool:
    """False if nothing may be cut from a log whose newest checkpoint is of `version`: then nothing need be listed.

    Cleanup lists the whole log and looks into its checkpoints, so that it waits until a tenth of what retention keeps
    has come on top. It cuts at a checkpoint, and two intervals above the oldest version file there surely is one: until
    that version is past retention, by its file and by its commit, or while a reader protects one below it, few versions
    could go, or none.
    Above version 0 the log was cut before, at a checkpoint, and is not cut again before that one may go.
    """
    rules = Rules.of(env.options, env.ambient.now_ms())
    oldest = oldest_version(env, version)
    upto = min(oldest + 2 * env.options[opt.CHECKPOINT_INTERVAL] - 1, version)
    of_checkpoint_ms = rules.state_ms if env.options[opt.STATE_FORMAT] == "avro" else rules.checkpoint_ms
    kept_ms = rules.log_ms if oldest == 0 else max(rules.log_ms, of_checkpoint_ms)
    try:
        modified_ms = _modified_ms(env, upto, version, rules.now_ms)
        if rules.now_ms - modified_ms <= kept_ms + min(rules.log_ms // 10, _PATIENCE_MS):
            return False
        told_ms = _told_ms(env, upto)
    except ObjectNotFound:
        return True
    if told_ms is not None and not commit_is_old(told_ms, rules):
        return False
    held = protections(env, rules.now_ms)
    return held.everything is None and (held.oldest_version is None or held.oldest_version > upto)


def _modified_ms(env: Env, version: int, newest: int, now_ms: int) -> int:
    """When the file of a version was put; one above it tells, if that is still to come. Raises ObjectNotFound."""
    modified_ms = now_ms
    for number in range(version, newest + 1, env.options[opt.CHECKPOINT_INTERVAL]):
        modified_ms = env.store.head(version_key(number)).modified_ms
        if modified_ms <= now_ms:
            break
    return modified_ms


def _told_ms(env: Env, version: int) -> int | None:
    """When a version was committed by what it tells; None if it cannot be read. Raises ObjectNotFound, StoreError."""
    try:
        commit = read_stamp(env, version).commit_info
    except (LogError, LimitExceeded):
        return None
    return None if commit is None else commit.inCommitTimestamp


def _agree(env: Env, version: int, counted: StateTotals, tokens: TokenWindow | None) -> None:
    """Raises CheckpointInvalid where the check file of this commit says other totals than replay gives.

    One of the two is wrong, and a checkpoint would make it the truth for everybody.
    """
    crc = read_check_file(env, version)
    stated = None if crc is None else crc.totals()
    token = tokens.token_at(version) if tokens is not None and tokens.covers(version) else None
    if crc is None or stated is None or token is None or crc.token != token:
        return
    said = (stated.num_files, stated.size_bytes, stated.set_hash)
    if said != (counted.num_files, counted.total_bytes, counted.set_hash):
        key = crc_key(version)
        message = (
            f"{key} says {stated.num_files} files and {stated.size_bytes} bytes, the log gives {counted.num_files} and "
            f"{counted.total_bytes}, or other files: no checkpoint is written. Compare the log with a copy; if it is "
            "right, delete this check file"
        )
        raise CheckpointInvalid(message, version=version, path=key, reason="totals")
