"""Files that are about to be committed must be there: the one rule, for everything that adds files.

They have no version yet. Their age protects them from purge, or an intent does for as long as it lives; one that sleeps
longer, or is in the way of a purge below the safe age, has to look for them right before its put.
"""

from __future__ import annotations

import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CommitError
from indextables.log.care import Holder, who_holds
from indextables.log.commit import Files, Staged, changes_data, files_of
from indextables.log.wire import Metadata, PathRule
from indextables.options import Options
from indextables.table.writing.keys import data_keys
from indextables.table.writing.purge_mark import LEASE, is_marked_since, is_spared

__all__ = ["check_kept", "check_there", "safe_age_ms"]

_HOUR_MS = 3_600_000
_SAFE_MS = opt.PURGE_MIN_RETENTION_HOURS.default * _HOUR_MS
"""A purge that takes anything younger leaves a mark, whatever the table or anybody's options say."""


def safe_age_ms(metadata: Metadata) -> int:
    """The age below which a purge of this table leaves a mark. No option of the purger lowers it: writers know none."""
    told = Options(environ={}).over(metadata.configuration).if_readable(opt.PURGE_MIN_RETENTION_HOURS)
    return max(_SAFE_MS, (told or 0) * _HOUR_MS)


def check_kept(env: Env, staged: Staged) -> None:
    """Raises CommitError if purge has taken files that this commit adds, or may be about to. Raises StoreError.

    Files of half the safe age are looked for, and all of them where a purge below it may have left its mark since the
    first was written, or where the commit takes away the files that hold the same rows. Others cost one look for the
    mark; where that is not much older than the files, their times in the store are asked for.
    """
    if not len(staged.adds):
        return
    made = _made_ms(staged.adds)
    first_ms, now_ms = min(made), env.ambient.now_ms()
    oldest_ms = now_ms - first_ms
    marked = is_marked_since(env, first_ms) and not is_spared(env, first_ms, _keys(env, staged.adds))
    moves = len(staged.removes) > 0 and not changes_data(staged)
    # Whoever moves rows has announced its files since before they were written: no purge takes them while that holds.
    if (marked and not moves) or oldest_ms > _SAFE_MS - _HOUR_MS:
        held = who_holds(env, LEASE)
        if held is not None:
            raise _at_work(env, held)
    if marked or moves or oldest_ms > _SAFE_MS // 2 or max(made) > now_ms:
        check_there(env, staged.adds)


def check_there(env: Env, adds: Files) -> None:
    """Raises CommitError if a file of these is gone. Raises StoreError.

    For who has written files before there was a table: one that was here, and was dropped since, took them with it.
    """
    if not len(adds):
        return
    keys = _keys(env, adds)
    there = env.ambient.map("splits", env.store.exists, keys)
    gone = [key for key, found in zip(keys, there, strict=True) if not found]
    if gone:
        message = (
            f"{len(gone)} data files of this commit are gone from {env.store.url} ({gone[0]}): it waited so long, or "
            "a purge was forced to so low an age, that purge took them, or a table here was dropped meanwhile. Nothing "
            "was committed: do it again"
        )
        reason = f"{len(gone)} of its data files are gone ({gone[0]})"
        raise CommitError(message, missing=gone, url=env.store.url, reason=reason)


def _keys(env: Env, adds: Files) -> list[str]:
    """The keys of the files and of their vectors."""
    files = adds if isinstance(adds, pa.Table) else files_of(adds)
    keys: list[str] = data_keys(files, env.store.url, PathRule.ENCODED).to_pylist()
    return keys


def _made_ms(adds: Files) -> list[int]:
    if isinstance(adds, pa.Table):
        return [int(value) for value in adds["modificationTime"].to_pylist()]
    return [add.modificationTime for add in adds]


def _at_work(env: Env, held: Holder) -> CommitError:
    message = (
        f"a purge that may take the files of this commit is at work at {env.store.url} ({held}). Nothing was "
        "committed: do it again when it has ended"
    )
    return CommitError(message, url=env.store.url, reason="a purge that may take its data files is at work")
