"""Writes the mirror: after each commit one small file, and what is missing where a process ended before that.

A version of the mirror is put after the one below it, never over another one. So a mirror that is behind is an older
version of the table, whole; one that somebody else wrote into is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError, MirrorConflict, NotSupported, ObjectNotFound, StoreUnavailable
from indextables.log.mirror.actions import Basis, Content, delta_version, obstacle, read_content
from indextables.log.mirror.names import MIRROR_DIR, POINTER, Found, checkpoint_key, found_in, json_key
from indextables.log.mirror.state import checkpoint_bytes, pointer_bytes, state_has_vectors
from indextables.log.read import Log
from indextables.log.wire import DELTA_MIRROR, Metadata, Protocol, version_key
from indextables.options import Options
from indextables.storage import put_in_order
from indextables.storage.folders import remove_empty

__all__ = ["Standing", "catch_up", "check_mirror", "follow", "is_mirrored", "make_room", "remove_mirror", "standing_of"]

_LOGGER = logging.getLogger("indextables")

_CONFIRMED = 2048
"""Versions that are confirmed together: that costs a look at the whole log, however few they are."""
_AT_ONCE = 256
"""Versions that are in memory together."""


class Standing(msgspec.Struct, frozen=True):
    """How far the mirror is: its newest version (None if there is none), how many it lacks, and what hinders it."""

    version: int | None
    behind: int
    reason: str | None = None


def is_mirrored(protocol: Protocol, metadata: Metadata) -> bool:
    """True if commits of this table are mirrored: it is asked for, and no library that does not know it may write.

    The property of the table alone counts: what one caller says would leave the mirror without files that it shows.
    """
    asked = Options(environ={}).over(metadata.configuration)[opt.MIRROR_DELTA]
    return asked and DELTA_MIRROR in (protocol.writerFeatures or [])


def follow(log: Log, version: int, data: bytes, basis: Basis, below: int) -> int:
    """Mirror a version that was just committed, whose file is `data`; `below` is the version that is mirrored already.

    The version that is mirrored now, -1 if that is not known. Whatever goes wrong is logged, and the mirror is behind.
    """
    if not is_mirrored(basis.protocol, basis.metadata):
        return -1
    try:
        if below != version - 1:
            return catch_up(log, version)
        _put(log, version, read_content(data), basis)
        _checkpoint_if_due(log, version, basis)
    except (IndexTablesError, msgspec.DecodeError) as error:
        _LOGGER.warning("version %d of %s is not in its Delta mirror: %s", version, log.url, error)
        return -1
    return version


def catch_up(log: Log, upto: int) -> int:
    """Mirror what is missing up to a version; the newest version of the mirror.

    A table that has no mirror gets one that begins with this version. Raises MirrorConflict where somebody else wrote
    into the mirror, NotSupported for what Delta cannot show, LogError, StoreError.
    """
    found = found_in(log.env.store)
    newest = found.newest
    if newest is None:
        _begin(log, upto)
        return upto
    _check_ours(log, newest)
    if not found.is_whole:
        # Somebody took files out of it: what is left shows nothing.
        _begin(log, max(newest, upto))
        _drop_below(log.env, found, max(newest, upto))
        return max(newest, upto)
    if newest >= upto:
        return newest
    first = log.versions().start
    if newest + 1 < first:
        _begin(log, first)
        _drop_below(log.env, found, first)
        newest = first
    _, protocol, metadata = log.metadata_at(newest)
    basis = Basis(protocol, metadata)
    # The first for itself: where Delta cannot show it, every commit finds that out anew, and needs no more for it.
    missing = range(newest + 1, upto + 1)
    for some in (missing[:1], *(missing[at : at + _CONFIRMED] for at in range(1, len(missing), _CONFIRMED))):
        due = 0
        try:
            for contents in _contents(log, some):
                basis, due = _put_many(log, contents, basis, due)
        finally:
            if due:
                _write_checkpoint(log, due)
    return upto


def _put_many(log: Log, contents: Sequence[tuple[int, Content]], basis: Basis, due: int) -> tuple[Basis, int]:
    """Mirror versions that follow each other, after one whose basis this is; the basis of the last one.

    Of the checkpoints that are due, who catches up writes the last one: readers find every version without the others.
    `due` is its version, 0 for none. Raises as `_put`; the versions before the one that cannot be shown are there.
    """
    wanted: list[tuple[int, bytes]] = []
    try:
        for version, content in contents:
            basis = basis.after(content)
            _check_shown(log, version, basis, (add.partitionValues for add in content.adds))
            wanted.append((version, _bytes_of(log, version, content, basis)))
            due = version if _is_due(log, version, basis) else due
    finally:
        _put_bytes(log, wanted)
    return basis, due


def make_room(log: Log, cut: int) -> str | None:
    """Before versions below `cut` go: bring the mirror up to date, and let its versions below go. Why not, if not.

    Files of a version that the mirror shows are never deleted.
    """
    version, protocol, metadata = log.metadata_at()
    if not is_mirrored(protocol, metadata):
        return None
    try:
        found = found_in(log.env.store)
        if not (found.versions or found.checkpoints):
            # It shows nothing that could go.
            return None
        catch_up(log, version)
        found = found_in(log.env.store)
        if any(number < cut for number in (*found.versions, *found.checkpoints)):
            if cut not in found.checkpoints:
                # One above is not enough: the versions from the cut to it would stand on nothing.
                _write_checkpoint(log, cut, is_newest=not any(number > cut for number in found.checkpoints))
            _drop_below(log.env, found, cut)
    except (IndexTablesError, msgspec.DecodeError) as error:
        return f"the Delta mirror shows versions that would go, and cannot follow: {error}"
    return None


def check_mirror(log: Log) -> None:
    """Raises MirrorConflict if the newest version of the mirror is not ours; LogError, StoreError."""
    newest = found_in(log.env.store).newest
    if newest is not None:
        _check_ours(log, newest)


def remove_mirror(log: Log) -> int:
    """Delete the mirror, newest version first; how many objects. Raises MirrorConflict, LogError, StoreError."""
    found = found_in(log.env.store)
    if found.newest is not None:
        _check_ours(log, found.newest)
    checkpoints = [key for number in sorted(found.checkpoints, reverse=True) for key in found.checkpoints[number]]
    versions = [found.versions[number] for number in sorted(found.versions, reverse=True)]
    keys = [*found.extras, *versions, *checkpoints]
    failed = log.env.store.delete_many(keys) if keys else {}
    if failed:
        key, reason = next(iter(failed.items()))
        raise StoreUnavailable(f"{key} of the Delta mirror was not deleted: {reason}", path=key)
    if log.env.store.is_local:
        remove_empty(f"{log.env.store.url}/{MIRROR_DIR}")
    return len(keys)


def standing_of(log: Log) -> Standing | None:
    """How far the mirror of a table is; None if it has none. Nothing is written. Raises LogError, StoreError."""
    version, protocol, metadata = log.metadata_at()
    if not is_mirrored(protocol, metadata):
        return None
    found = found_in(log.env.store)
    newest = found.newest
    if newest is None:
        return Standing(None, 1, obstacle(Basis(protocol, metadata)))
    try:
        _check_ours(log, newest)
    except MirrorConflict as conflict:
        return Standing(newest, max(version - newest, 0), str(conflict))
    if not found.is_whole:
        return Standing(None, 1)
    if newest >= version:
        return Standing(newest, 0)
    following = newest + 1
    reason = None
    if following >= log.versions().start:
        _, protocol, metadata = log.metadata_at(following)
        content = read_content(log.stored(following))
        reason = obstacle(Basis(protocol, metadata), (add.partitionValues for add in content.adds))
    return Standing(newest, version - newest, reason)


def _contents(log: Log, versions: range) -> Iterator[list[tuple[int, Content]]]:
    """The actions of each version, of files that are the committed ones, many at a time."""
    confirmed = log.read_versions(versions, files=False)
    for start in range(0, len(versions), _AT_ONCE):
        some = versions[start : start + _AT_ONCE]
        raw = log.env.ambient.map("versions", log.env.store.get, [version_key(version) for version in some])
        found = []
        for version, known, data in zip(some, confirmed[start : start + _AT_ONCE], raw, strict=True):
            content = read_content(data)
            if content.info is None or known.token is None or content.info.token != known.token:
                content = read_content(log.stored(version))
            found.append((version, content))
        yield found


def _begin(log: Log, version: int) -> None:
    """A mirror that begins with a version: its checkpoint, unless that is the first of all, then its file."""
    _, protocol, metadata = log.metadata_at(version)
    basis = Basis(protocol, metadata)
    content = read_content(log.stored(version))
    if version:
        files = log.snapshot(version).files
        values = files["partitionValues"].to_pylist() if metadata.partitionColumns else []
        _check_shown(log, version, basis, (dict(pairs or ()) for pairs in values))
        _write_checkpoint(log, version)
    _put(log, version, content, basis)


def _put(log: Log, version: int, content: Content, basis: Basis) -> None:
    """Raises NotSupported, MirrorConflict, StoreError."""
    _check_shown(log, version, basis, (add.partitionValues for add in content.adds))
    _put_bytes(log, [(version, _bytes_of(log, version, content, basis))])


def _put_bytes(log: Log, wanted: Sequence[tuple[int, bytes]]) -> None:
    """Put versions in their order; those that are there must be what we would write. Raises as `_put`.

    After a power loss the last ones may be missing: the mirror is then behind, and the next commit finds that out.
    """
    left = list(wanted)
    while left:
        done = put_in_order(log.env.store, [(json_key(version), data) for version, data in left])
        for version, data in left[done : done + 1]:
            _check_same(log, version, data)
        left = left[done + 1 :]


def _check_same(log: Log, version: int, data: bytes) -> None:
    key = json_key(version)
    try:
        there = log.env.store.get(key)
    except ObjectNotFound as error:
        raise StoreUnavailable(f"the store did not tell whether {key} was written", path=key) from error
    if there != data:
        raise _conflict(log, version)


def _bytes_of(log: Log, version: int, content: Content, basis: Basis) -> bytes:
    return delta_version(content, basis, version, lambda: state_has_vectors(log.snapshot(version).files))


def _check_shown(log: Log, version: int, basis: Basis, partitions: object) -> None:
    reason = obstacle(basis, partitions)  # type: ignore[arg-type]
    if reason is not None:
        message = f"version {version} of {log.url} cannot be mirrored: {reason}"
        raise NotSupported(message, version=version, url=log.url)


def _check_ours(log: Log, version: int) -> None:
    """Raises MirrorConflict unless the newest version of the mirror is what we write for it."""
    if version > log.latest_version():
        raise _conflict(log, version)
    if version < log.versions().start:
        # What it was made from is gone: it is replaced by a newer one.
        return
    _, protocol, metadata = log.metadata_at(version)
    wanted = _bytes_of(log, version, read_content(log.stored(version)), Basis(protocol, metadata))
    if log.env.store.get(json_key(version)) != wanted:
        raise _conflict(log, version)


def _checkpoint_if_due(log: Log, version: int, basis: Basis) -> None:
    if _is_due(log, version, basis):
        _write_checkpoint(log, version)


def _is_due(log: Log, version: int, basis: Basis) -> bool:
    interval = log.env.over(basis.metadata.configuration)[opt.MIRROR_CHECKPOINT_INTERVAL]
    return version > 0 and version % interval == 0


def _write_checkpoint(log: Log, version: int, *, is_newest: bool = True) -> None:
    state = log.snapshot(version).state
    log.env.store.put_if_absent(checkpoint_key(version), checkpoint_bytes(state))
    if is_newest:
        log.env.store.put(POINTER, pointer_bytes(version, state.files.num_rows + len(state.txns) + 2))


def _drop_below(env: Env, found: Found, version: int) -> None:
    """Delete what the mirror has below a version; what cannot be deleted now goes next time."""
    old = [found.versions[number] for number in sorted(found.versions) if number < version]
    old += [key for number in sorted(found.checkpoints) if number < version for key in found.checkpoints[number]]
    failed = env.store.delete_many(old) if old else {}
    if failed:
        key, reason = next(iter(failed.items()))
        raise StoreUnavailable(f"{key} of the Delta mirror was not deleted: {reason}", path=key)


def _conflict(log: Log, version: int) -> MirrorConflict:
    message = (
        f"{json_key(version)} at {log.url} is not what this table's mirror has there: somebody else wrote it, and "
        "nothing was changed. The table itself is as it was. Move the folder _delta_log away, and run MIRROR "
        "INDEXTABLES again"
    )
    return MirrorConflict(message, version=version, path=json_key(version), url=log.url)
