"""A table that lies idle: which checkpoint would let go what retention no longer protects?

Checkpoints are written every so many commits. A table that rests between two of them keeps all that its last versions
removed, however old that is, because nothing newer can take their place. Purge writes that checkpoint.
"""

from __future__ import annotations

import logging

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointError, ObjectNotFound
from indextables.log.care import CleanupPlan, Foreseen, Rules, checkpoint, newest_usable, plan_cleanup
from indextables.log.read import Log
from indextables.log.wire import LOG_DIR, READER_VERSION, version_key

__all__ = ["idle_checkpoint", "with_checkpoint"]

_LOGGER = logging.getLogger("indextables")


def idle_checkpoint(log: Log, env: Env, rules: Rules) -> Foreseen | None:
    """The checkpoint that purge should write first; None where there is one already, or where it would not help.

    It helps if the newest version is beyond the retention, and either no checkpoint can be used or versions since the
    newest usable one removed files. Writes nothing. Raises LogError, StoreError.
    """
    version, protocol, _ = log.metadata_at()
    if protocol.minReaderVersion < READER_VERSION and env.options[opt.STATE_FORMAT] == "avro":
        # Its first Avro state comes with a new version, which is young.
        return None
    try:
        touched_ms = env.store.head(version_key(version)).modified_ms
    except ObjectNotFound:
        return None
    if rules.now_ms - touched_ms <= rules.log_ms:
        return None
    covered = newest_usable(env, list(env.store.list_from(LOG_DIR)))
    if covered is not None and not _removes_since(log, covered, version):
        return None
    foreseen = Foreseen(version, log.read_version(version).timestamp_ms)
    cut = plan_cleanup(env, rules, will_be=foreseen).cut
    return foreseen if cut.at is not None and cut.at.version == version else None


def with_checkpoint(log: Log, env: Env, rules: Rules) -> CleanupPlan | None:
    """Write that checkpoint; what was planned with it, None where none is written. Raises as `idle_checkpoint`."""
    will_be = idle_checkpoint(log, env, rules)
    if will_be is None:
        return None
    foreseen = plan_cleanup(env, rules, will_be=will_be)
    try:
        checkpoint(env)
    except CheckpointError as error:
        _LOGGER.warning("purge of %s goes on without a new checkpoint: %s", log.url, error)
        return None
    log.invalidate()
    return foreseen


def _removes_since(log: Log, version: int, newest: int) -> bool:
    return any(log.read_version(number).removes.num_rows for number in range(version + 1, newest + 1))
