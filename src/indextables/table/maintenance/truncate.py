"""Truncate time travel: only the newest version stays readable. It cannot be undone.

A commit records the cut in the history, a checkpoint of it is written, and what is older goes: checkpoints first, then
version files in ascending order. Data files stay until purge takes them, and count as removed at the time of the cut:
cutting the history forgets when they were removed, so a named piece of the metadata remembers when it was cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import ClockSkew, ObjectNotFound, TableReplaced
from indextables.log.care import (
    CleanupPlan,
    Rules,
    carry_out,
    checkpoint,
    collectable_manifests,
    listed,
    only,
    plan_cleanup,
    protections,
    seen_now_ms,
    store_now_ms,
)
from indextables.log.checkpoint import inspect_state, own_states
from indextables.log.commit import Transaction
from indextables.log.read import Log, Snapshot, Stamp, clock, read_stamp
from indextables.log.wire import LOG_DIR, DomainMetadata, check_writable, parse_key, version_key
from indextables.storage.store import ObjectMeta
from indextables.table.environment import table_env
from indextables.table.requests import TruncateTimeTravel
from indextables.table.running import Progress, Runner, Step

__all__ = ["TRUNCATED", "TruncateReport", "Truncation", "truncate_time_travel", "truncated_at", "truncation_of"]

_NO_AGE_MS = -(2**62)
"""Older than any file: whatever its time is, it may go."""

TRUNCATED = "indextables.truncated"
"""The domain: the newest cut of the history."""


class TruncateReport(msgspec.Struct, frozen=True):
    """What went, or would go in a dry run: keys of checkpoints, version files and manifests.

    `version` is the newest version, `oldest` the oldest one that can be read afterwards. `failed` may still be there.
    `reason` says why less went than was asked for.
    """

    version: int
    oldest: int
    dry_run: bool
    states: list[str] = []
    versions: list[str] = []
    manifests: list[str] = []
    failed: dict[str, str] = {}
    reason: str = ""

    @property
    def deleted(self) -> int:
        """How many objects."""
        return len(self.states) + len(self.versions) + len(self.manifests)


def truncate_time_travel(
    log: Log, request: TruncateTimeTravel, *, runner: Runner | None = None, progress: Progress | None = None
) -> TruncateReport:
    """Make every version but the newest unreadable, for good. The rows of the newest version stay as they are.

    A dry run lists what would go, and writes nothing. Versions that live readers protect stay, and so do manifests
    younger than `state.gc.minManifestAgeHours`. Run again after an interruption, it goes on where it ended.

    Raises ClockSkew, ProtocolUnsupported, NotSupported, LogError, StoreError, CheckpointError, CommitConflict where
    somebody else truncates at the same time, CommitStateUnknown, TableReplaced.
    """
    del runner
    version, protocol, metadata = log.metadata_at()
    check_writable(protocol, log.url)
    env = table_env(log.env, metadata)
    # Clocks are compared by a write, which a dry run does not make.
    skew = (clock.known_skew_ms(env) or 0) if request.dry_run else clock.skew_ms(env)
    if abs(skew) > env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:
        message = f"the clock of {log.url} is {skew} ms off ours: no commit can be made, nothing was deleted"
        raise ClockSkew(message, skew_ms=skew)
    foreseen = _foreseen(env, version)
    if request.dry_run or foreseen.oldest == version:
        return msgspec.structs.replace(foreseen, dry_run=request.dry_run)
    version = _recorded(log, env)
    recorded = _stamp(env, version)
    checkpoint(env)
    if progress is not None:
        progress(Step("checkpoint", 1, 2))
    # Nothing goes that a dry run would not have listed.
    told = {*foreseen.states, *foreseen.versions, *foreseen.manifests}
    plan = only(plan_cleanup(env, _rules(env, store_now_ms(env))), told)
    _check_same_table(env, plan, metadata.id, version, recorded)
    done = carry_out(env, plan)
    log.invalidate()
    if progress is not None:
        progress(Step("log", 2, 2, files=done.deleted))
    return TruncateReport(
        version,
        _oldest(env, list(env.store.list_from(LOG_DIR)), version),
        dry_run=False,
        states=list(done.states),
        versions=list(done.versions),
        manifests=list(done.manifests),
        failed=done.failed,
        reason=_reason(plan, version) or next(iter(done.failed.values()), ""),
    )


def _check_same_table(env: Env, plan: CleanupPlan, table_id: str, version: int, recorded: Stamp | None) -> None:
    """Raises TableReplaced unless the plan is for the table whose history says that it was cut."""
    if plan.table_id == table_id:
        # By name, since a listing may lag. Cleanup takes the file only once there are newer versions.
        held = _stamp(env, version)
        if held == recorded or (held is None and any(meta.key > version_key(version) for meta in _versions(plan))):
            return
    message = (
        f"the table at {env.store.url} is not the one that was to be truncated (id {table_id}): it was dropped and "
        "re-created, or a backup took its place. Nothing was deleted: open it again"
    )
    raise TableReplaced(message, url=env.store.url, table_id=table_id)


def _versions(plan: CleanupPlan) -> Iterator[ObjectMeta]:
    files = ((meta, parse_key(meta.key)) for meta in plan.listing)
    return (meta for meta, file in files if file is not None and file.kind == "version")


def _stamp(env: Env, version: int) -> Stamp | None:
    """Who a version is, by what its file holds; None if that is gone. Raises LogCorrupt, LimitExceeded, StoreError."""
    try:
        return read_stamp(env, version)
    except ObjectNotFound:
        return None


def _recorded(log: Log, env: Env) -> int:
    """The version that says that the history was cut; an earlier run that was interrupted may have made it."""
    snapshot = log.snapshot()
    before = truncation_of(snapshot)
    if before is not None and before.version == snapshot.version - 1:
        return snapshot.version
    cut = Truncation(store_now_ms(env), snapshot.version)
    transaction = Transaction(log, snapshot, operation="TRUNCATE TIME TRAVEL").set_domain(cut.as_domain())
    return transaction.commit_or_raise().version


def _rules(env: Env, now_ms: int) -> Rules:
    """No age and no number keeps a version or a checkpoint; manifests keep their window, for writers at work."""
    rules = Rules.of(env.options, now_ms)
    return msgspec.structs.replace(
        rules, log_ms=_NO_AGE_MS, state_ms=_NO_AGE_MS, checkpoint_ms=_NO_AGE_MS, min_versions=0, old_states=0
    )


def _reason(plan: CleanupPlan, version: int) -> str:
    if plan.cut.at is None:
        return plan.cut.reason
    if plan.cut.at.version < version:
        return (
            f"versions from {plan.cut.at.version} on stay: a reader protects one, or a newer checkpoint has no tokens"
        )
    return ""


def _foreseen(env: Env, version: int) -> TruncateReport:
    """What goes once the newest version is covered by a checkpoint: all that is below it, or below what readers need.

    `oldest` is `version` where there is nothing to do.
    """
    rules = _rules(env, seen_now_ms(env))
    listing = list(env.store.list_from(LOG_DIR))
    if _oldest(env, listing, version) == version:
        return TruncateReport(version, version, dry_run=True, reason="there is no older version")
    held = protections(env, rules.now_ms)
    if held.everything is not None or held.oldest_version is not None:
        plan = plan_cleanup(env, rules)
        told = listed(plan)
        oldest = _oldest(env, listing, version) if told.cut is None else told.cut
        return TruncateReport(
            version,
            oldest,
            dry_run=True,
            states=list(told.states),
            versions=list(told.versions),
            manifests=list(told.manifests),
            reason=told.reason,
        )
    files = sorted(
        (f for meta in listing if (f := parse_key(meta.key)) is not None and 0 <= f.version <= version),
        key=lambda file: (file.version, file.key),
    )
    versions = [file.key for file in files if file.kind in {"version", "crc"}]
    states = [file.key for file in files if file.kind not in {"version", "crc"}]
    refs = own_states(env, listing)
    named = inspect_state(env, refs[0]).manifests if refs else {}
    manifests = collectable_manifests(listing, frozenset(named), rules)
    return TruncateReport(
        version, version + 1, dry_run=True, states=states, versions=versions, manifests=list(manifests)
    )


def _oldest(env: Env, listing: Sequence[ObjectMeta], newest: int) -> int:
    """The oldest version that can be read, by its listing. What another table left counts for nothing."""
    slots = {file.version for meta in listing if (file := parse_key(meta.key)) is not None and file.kind == "version"}
    if 0 in slots:
        return 0
    return min((ref.version for ref in own_states(env, listing)), default=newest)


class Truncation(msgspec.Struct, frozen=True):
    """The store's time of the cut, and the version that was newest then."""

    atMs: int
    version: int

    def as_domain(self) -> DomainMetadata:
        """As the log keeps it."""
        return DomainMetadata(TRUNCATED, msgspec.json.encode(self).decode())


def truncation_of(snapshot: Snapshot) -> Truncation | None:
    """The newest cut of the history, None if there was none or its record cannot be read."""
    domain = snapshot.domains.get(TRUNCATED)
    if domain is None:
        return None
    try:
        return _READ_TRUNCATION.decode(domain.configuration)
    except msgspec.MsgspecError:
        return None


def truncated_at(snapshot: Snapshot) -> int | None:
    """The store's time, in milliseconds, of the newest cut."""
    cut = truncation_of(snapshot)
    return None if cut is None else cut.atMs


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_TRUNCATION = msgspec.json.Decoder(Truncation)
