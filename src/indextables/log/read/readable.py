"""Reads what can still be read of a broken log: versions below the damage, for repair and for whoever asks for one.

Only readers come here. Nothing that is learned goes into the shared cache: a writer must not take a version below the
damage for the newest one.
"""

from __future__ import annotations

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError, LimitExceeded, LogError, LogGap, ProtocolUnsupported, VersionExpired
from indextables.log.read.cache import LogCache
from indextables.log.read.log import Log, Snapshot
from indextables.log.wire import TableState

__all__ = ["Readable", "newest_readable", "snapshot_at"]


class Readable(msgspec.Struct, frozen=True):
    """The newest version that can be read; `lost` says why newer ones cannot, empty if there are none."""

    state: TableState
    lost: str = ""


def newest_readable(env: Env) -> Readable:
    """The newest version of which every file can be read. Nothing is taken from memory.

    Raises TableNotFound, LogError of the newest version where no version can be read, ProtocolUnsupported where one can
    that needs a newer library, StoreError.
    """
    log = _up_to_gap(env)
    failure: IndexTablesError | None = None
    try:
        return Readable(Log(env, LogCache()).snapshot().state)
    except ProtocolUnsupported:
        raise
    except (LogError, LimitExceeded) as error:
        failure = error
    version = log.latest_version()
    while version >= 0:
        try:
            state = log.snapshot(version).state
        except (ProtocolUnsupported, VersionExpired) as error:
            raise (error if isinstance(error, ProtocolUnsupported) else failure) from error
        except (LogError, LimitExceeded) as error:
            told = error.details.get("version")
            version = min(told, version) - 1 if isinstance(told, int) else version - 1
            continue
        return Readable(state, f"versions above {state.version} cannot be read and are left out: {failure}")
    raise failure


def snapshot_at(log: Log, version: int) -> Snapshot:
    """The table at `version`, also where a version file above it is lost. Raises as `Log.snapshot`."""
    try:
        return log.snapshot(version)
    except LogGap as error:
        lost = error.details.get("version")
        if not isinstance(lost, int) or lost <= version:
            raise
    return _up_to_gap(log.env).snapshot(version)


def _up_to_gap(env: Env) -> Log:
    options = env.options.also({opt.LOG_STOP_AT_GAP.key: True})
    return Log(msgspec.structs.replace(env, options=options), LogCache())
