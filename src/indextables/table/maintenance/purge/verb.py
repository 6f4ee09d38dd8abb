"""Purge: data files that no version needs, old version files, old checkpoints, manifests that nobody names.

The order is what makes it safe. First the data is listed, then the log is read, so that whatever was committed before
the listing is known; what is to go is decided once, from that; then the log is cut, so that no version that can still
be read needs a file that goes; then data files go in batches, before each of which the log's new versions, the intents
of live writers and readers, and our own lease are looked at again. Any listing or read that fails ends it with nothing
deleted. Names that this library does not give are never touched.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    ClockSkew,
    IndexTablesError,
    InvalidArgument,
    ObjectNotFound,
    StoreError,
    TableReplaced,
    VersionExpired,
)
from indextables.log.care import (
    CleanupPlan,
    CleanupReport,
    Foreseen,
    Lease,
    Protections,
    Rules,
    acquire,
    await_sweeps,
    carry_out,
    checkpoint,
    listed,
    only,
    plan_cleanup,
    protect_version,
    protections,
    who_holds,
)
from indextables.log.commit import Transaction
from indextables.log.read import Log, Snapshot, clock
from indextables.log.wire import check_writable, text_array
from indextables.table.environment import table_env
from indextables.table.maintenance.purge.deleting import BULK, delete
from indextables.table.maintenance.purge.idle import idle_checkpoint
from indextables.table.maintenance.purge.keys import Keys, named_by
from indextables.table.maintenance.purge.listing import Listed, list_data
from indextables.table.maintenance.purge.plan import LISTED, NAMED, Claims, Decision, decide
from indextables.table.maintenance.purge.reachable import Reach, is_same, named_since, reach
from indextables.table.maintenance.truncate import truncated_at
from indextables.table.requests import Purge
from indextables.table.running import Progress, Runner, Step
from indextables.table.writing import LEASE, leave_mark, safe_age_ms

__all__ = ["LEASE", "PurgeReport", "purge"]

_LOGGER = logging.getLogger("indextables")

_HOUR_MS = 3_600_000
_BULKS_PER_BATCH = 16
_ATTEMPTS = 3
_KEPT_MS = 2 * _HOUR_MS
"""How long a purge that is killed at its plan keeps the log from being cut."""


class PurgeReport(msgspec.Struct, frozen=True):
    """What a purge did, or would do in a dry run.

    `files` has a row for each object that went (in a dry run: would go): `path` below the table's root, `kind` (split,
    vector, version, state, manifest or intent), `size` and `modified`, null where nobody asked. `failed` may still be
    there, each with the reason. `kept` counts the table's own data files that stay, by reason. `foreign` objects below
    the root have names that this library does not give: they were not touched. `reason` says why nothing was done, or
    why it ended early. `cut` is the oldest version that can still be read, where versions went.
    """

    version: int
    dry_run: bool
    files: pa.Table
    kept: dict[str, int] = {}
    failed: dict[str, str] = {}
    foreign: int = 0
    cut: int | None = None
    reason: str = ""

    @property
    def deleted(self) -> int:
        """How many objects went, or would go."""
        return int(self.files.num_rows)

    @property
    def bytes(self) -> int:
        """How many bytes of data files went, or would go."""
        return int(pc.sum(self.files["size"], min_count=0).as_py() or 0)

    def count(self, kind: str) -> int:
        """How many objects of a kind went, or would go."""
        return int(pc.sum(pc.equal(self.files["kind"], kind), min_count=0).as_py() or 0)


class _Asked(msgspec.Struct, frozen=True):
    """What was asked for, checked: retention of data files and of the log."""

    retention_ms: int
    rules: Rules
    now_ms: int


class _Plan(msgspec.Struct, frozen=True):
    """Everything that goes, decided at one instant. `oldest` is the oldest version whose files were asked for."""

    snapshot: Snapshot
    log: CleanupPlan
    data: Decision
    protections: Protections
    foreign: int
    oldest: int


def purge(
    log: Log,
    request: Purge,
    *,
    runner: Runner,
    progress: Progress | None = None,
    parameters: dict[str, str | None] | None = None,
) -> PurgeReport:
    """Delete old versions, and the data files, checkpoints and manifests that no remaining version needs.

    Args:
        log: The table's log.
        request: Which ages. Data files younger than `older_than_hours` stay, whatever they are; by default
            `purge.defaultRetentionHours`. Versions stay readable for `tx_log_retention_hours`; by default
            `purge.txLogRetentionHours` or `logRetention.duration`. A dry run lists exactly what would go, and writes
            nothing. `force` allows ages below `purge.minRetentionHours`: a writer that is at work longer than that
            loses its files.
        runner: Where the listing and the deleting happen.
        progress: Told after each listing and batch.
        parameters: Further parameters for the history.

    Raises:
        InvalidArgument: An age is below the safe one, without `force`.
        ClockSkew: The store's clock and ours are too far apart to judge any age.
        ProtocolUnsupported, NotSupported: The table is not ours to change.
        LogError, StoreError: A listing or a part of the log could not be read. Nothing was deleted.
    """
    _, protocol, metadata = log.metadata_at()
    check_writable(protocol, log.url)
    env = table_env(log.env, metadata)
    asked = _checked(env, request)
    if request.dry_run:
        plan = _planned(log, env, asked, runner, progress, will_be=idle_checkpoint(log, env, asked.rules))
        return _report_of(plan, listed(plan.log), plan.data.goes, dry_run=True)
    lease = acquire(env, LEASE)
    if lease is None:
        held = who_holds(env, LEASE)
        reason = "another process purges or restores it now" + ("" if held is None else f": {held}")
        return PurgeReport(log.latest_version(), dry_run=False, files=LISTED.empty_table(), reason=reason)
    with lease:
        _check_stepped_clock(env, lease, asked.now_ms)
        foreseen = _checkpointed(log, env, asked)
        plan = _planned(log, env, asked, runner, progress, may_write=True)
        if foreseen is not None:
            # Nothing goes that a dry run would not have listed.
            plan = msgspec.structs.replace(plan, log=only(plan.log, frozenset(foreseen.keys)))
        plan, cleaned, reason = _cut_log(log, env, plan, asked, lease, runner, progress)
        report = _carried_out(log, env, plan, asked, lease, runner, progress, cleaned, reason)
    _tell_history(log, report, parameters or {})
    return report


def _checked(env: Env, request: Purge) -> _Asked:
    options = env.options
    older_than, tx_log = request.older_than_hours, request.tx_log_retention_hours
    hours = options[opt.PURGE_DEFAULT_RETENTION_HOURS] if older_than is None else older_than
    for what, given in (("older_than_hours", older_than), ("tx_log_retention_hours", tx_log)):
        floor = options[opt.PURGE_MIN_RETENTION_HOURS]
        judged = hours if what == "older_than_hours" else given
        if judged is not None and judged < floor and not request.force and options[opt.PURGE_RETENTION_CHECK_ENABLED]:
            message = (
                f"{what} = {judged} is below the safe age of {floor} hours: a writer that is at work, or a reader of "
                "an older version, could lose its files. Give more hours; where nobody else uses the table, force it: "
                "purge(force=True), PURGE INDEXTABLE t OLDER THAN 0 HOURS FORCE, or indextables purge --force"
            )
            raise InvalidArgument(message, argument=what, floor=floor)
    # Clocks are compared by a write, which a dry run does not make.
    skew = (clock.known_skew_ms(env) or 0) if request.dry_run else clock.skew_ms(env)
    if abs(skew) > options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:
        message = f"the clock of {env.store.url} is {skew} ms off ours: no age can be judged, nothing was deleted"
        raise ClockSkew(message, skew_ms=skew)
    now_ms = env.ambient.now_ms() + skew
    rules = Rules.of(options, now_ms)
    if tx_log is not None:
        rules = msgspec.structs.replace(rules, log_ms=round(tx_log * _HOUR_MS))
    return _Asked(round(hours * _HOUR_MS), rules, now_ms)


def _check_stepped_clock(env: Env, lease: Lease, now_ms: int) -> None:
    """The lease has just been written: the store's time of it is the store's time now."""
    told = lease.modified_ms()
    if abs(told - now_ms) > env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:
        message = f"the clock of this machine was set by {now_ms - told} ms since it was compared: nothing was deleted"
        raise ClockSkew(message, skew_ms=told - now_ms)


def _checkpointed(log: Log, env: Env, asked: _Asked) -> CleanupPlan | None:
    """Write the checkpoint without which nothing of an idle table could go; what was planned with it, None without."""
    will_be = idle_checkpoint(log, env, asked.rules)
    if will_be is None:
        return None
    foreseen = plan_cleanup(env, asked.rules, will_be=will_be)
    try:
        checkpoint(env)
    except CheckpointError as error:
        _LOGGER.warning("purge of %s goes on without a new checkpoint: %s", log.url, error)
        return None
    log.invalidate()
    return foreseen


def _planned(
    log: Log,
    env: Env,
    asked: _Asked,
    runner: Runner,
    progress: Progress | None,
    will_be: Foreseen | None = None,
    *,
    may_write: bool = False,
    keep_log: bool = False,
) -> _Plan:
    """What goes. A version file that somebody else's cleanup takes meanwhile starts it over, from the listing on.

    From then on the log is kept whole, if that `may_write`, or from the first attempt on with `keep_log`: where writers
    clean up more often than a plan takes, none would ever be made. Of the log nothing goes by such a plan; they see to
    that.
    """
    for attempt in range(_ATTEMPTS):
        try:
            with _log_kept(log, env) if may_write and (attempt or keep_log) else contextlib.nullcontext():
                return _plan(log, env, asked, runner, progress, will_be)
        except (ObjectNotFound, VersionExpired):
            log.invalidate()
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


@contextlib.contextmanager
def _log_kept(log: Log, env: Env) -> Iterator[None]:
    """No cleanup takes a version file meanwhile. Raises LogError, StoreError."""
    with protect_version(env, 0, ttl_ms=_KEPT_MS):
        await_sweeps(env)
        # Whoever needs versions that are gone already would keep every data file. A version that is kept may lose its
        # file to its checkpoint, so that it is the one below the oldest file.
        log.invalidate()
        kept = protect_version(env, max(0, log.versions().start - 1), ttl_ms=_KEPT_MS)
    with kept:
        yield


def _plan(
    log: Log, env: Env, asked: _Asked, runner: Runner, progress: Progress | None, will_be: Foreseen | None
) -> _Plan:
    known = log.snapshot()
    named = named_by(known, log.url)
    found = list_data(known, named, runner, progress)
    cleanup = plan_cleanup(env, asked.rules, will_be=will_be)
    held = protections(env, asked.now_ms, table_id=known.table_id)
    snapshot = log.snapshot()
    if not is_same(snapshot, known):
        named = named_by(snapshot, log.url)
    data = _decided(found, _claims(named.keys, held, snapshot), asked)
    oldest = cleanup.cut.at.version if cleanup.cut.at is not None else 0
    if data.goes.num_rows and held.everything is None:
        # Only now is it worth reading every version.
        cut_removals = asked.rules.log_ms < asked.retention_ms
        told = reach(log, cleanup, runner, told=(snapshot, named), cut_removals=cut_removals, progress=progress)
        data = _decided(found, _claims_of(told, held), asked)
        snapshot, oldest = told.snapshot, told.oldest
    everything = held.everything or _unknown_reader(held, oldest)
    if everything is not None:
        data = Decision(LISTED.empty_table(), {**data.kept, everything: data.goes.num_rows})
    return _Plan(snapshot, cleanup, data, held, found.foreign, oldest)


def _unknown_reader(held: Protections, oldest: int) -> str | None:
    """Why nothing may go: a reader needs a version whose files nobody can tell any more. None if there is none."""
    if held.oldest_version is None or held.oldest_version >= oldest:
        return None
    return f"a reader needs version {held.oldest_version}, and {oldest} is the oldest that can be read"


def _claims_of(told: Reach, held: Protections) -> Claims:
    claims = _claims(told.named, held, told.snapshot)
    return msgspec.structs.replace(claims, removed=told.removed, removed_ms=told.removed_ms)


def _claims(named: Keys, held: Protections, snapshot: Snapshot) -> Claims:
    return Claims(named, protected=held.keys, since_ms=held.since_ms, truncated_ms=truncated_at(snapshot))


def _decided(found: Listed, claims: Claims, asked: _Asked) -> Decision:
    nested, now_ms = sorted(found.nested), asked.now_ms
    decision = decide(found.files, claims, now_ms=now_ms, retention_ms=asked.retention_ms, nested=nested)
    kept = {NAMED: decision.kept.get(NAMED, 0) + found.named} if found.named else {}
    return msgspec.structs.replace(decision, kept={**decision.kept, **kept})


def _cut_log(
    log: Log, env: Env, plan: _Plan, asked: _Asked, lease: Lease, runner: Runner, progress: Progress | None
) -> tuple[_Plan, CleanupReport, str]:
    """Delete what goes of the log: the plan for the data, what went, and why nothing more may go, or empty.

    Where somebody else has cut further meanwhile, the log is theirs, and the data is planned anew while it is kept.
    """
    goes_on = bool(plan.log.keys or plan.data.goes.num_rows or plan.protections.expired)
    reason = _why_not(log, env, lease, asked, plan) if goes_on else ""
    if reason:
        return plan, CleanupReport(), reason
    cleaned = carry_out(env, plan.log)
    if progress is not None:
        progress(Step("log", 1, 1, files=cleaned.deleted))
    if not (cleaned.failed and _is_overtaken(env, plan.log)):
        return plan, cleaned, ""
    log.invalidate()
    again = _planned(log, env, asked, runner, progress, may_write=True, keep_log=True)
    plan = msgspec.structs.replace(again, log=plan.log)
    return plan, msgspec.structs.replace(cleaned, cut=None, failed={}), _why_not(log, env, lease, asked, plan)


def _is_overtaken(env: Env, planned: CleanupPlan) -> bool:
    """True if the checkpoint that was to be cut at is gone: somebody else has cut further."""
    return planned.cut.at is not None and not all(env.store.exists(key) for key in planned.cut.at.keys)


def _carried_out(
    log: Log,
    env: Env,
    plan: _Plan,
    asked: _Asked,
    lease: Lease,
    runner: Runner,
    progress: Progress | None,
    cleaned: CleanupReport,
    reason: str,
) -> PurgeReport:
    """Delete the data that goes, unless there is a `reason` not to; `cleaned` is what has gone of the log."""
    if reason:
        return _report_of(plan, cleaned, LISTED.empty_table(), reason=reason)
    if cleaned.failed:
        # Versions that were to go can still be read: their data stays.
        reason = f"{len(cleaned.failed)} files of the log could not be deleted: no data file was"
        return _report_of(plan, cleaned, LISTED.empty_table(), reason=reason)
    left = plan.data.goes.sort_by("path")
    done: list[pa.Table] = []
    failed: dict[str, str] = {}
    head, named, became_live = plan.snapshot.version, Keys(), 0
    size = BULK * max(_BULKS_PER_BATCH, 2 * runner.width)
    if left.num_rows and asked.retention_ms < safe_age_ms(plan.snapshot.metadata):
        leave_mark(env, asked.retention_ms, pc.max(left["modified"].cast(pa.int64())).as_py())
    for start in range(0, left.num_rows, size):
        batch = left.slice(start, size)
        reason = _why_not(log, env, lease, asked, plan)
        if reason:
            break
        head, more = named_since(log, head)
        named = named.union(more)
        whole, batch = batch.num_rows, batch.filter(pc.invert(named.hold(batch["path"])))
        became_live += whole - batch.num_rows
        lost, late = delete(runner, batch, lease.ticket)
        failed |= lost
        done.append(_without(batch, text_array([*lost, *late])) if lost or late else batch)
        if progress is not None:
            progress(Step("delete", min(start + size, left.num_rows), left.num_rows, files=sum(map(len, done))))
        if late:
            reason = "it took longer than its lease lasts: run it again"
            break
    kept = {**plan.data.kept, "became live": became_live}
    plan = msgspec.structs.replace(plan, data=Decision(plan.data.goes, kept))
    gone = pa.concat_tables(done) if done else LISTED.empty_table()
    intents = [] if reason else _forget_intents(env, plan.protections, asked)
    return _report_of(plan, cleaned, gone, failed=failed, reason=reason, intents=intents)


def _why_not(log: Log, env: Env, lease: Lease, asked: _Asked, plan: _Plan) -> str:
    """Why what was planned must not go on; empty if it may. Raises LogError, StoreError."""
    skew = clock.skew_ms(env)
    if abs(skew) > env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:
        return f"the clock of {env.store.url} is {skew} ms off ours: no age can be judged"
    if not lease.is_held():
        return "somebody else took over: the rest is theirs"
    lease.renew()
    try:
        found = log.metadata_at().metadata.id
    except TableReplaced:
        found = None
    if {found, plan.log.table_id} != {plan.snapshot.table_id}:
        return "another table lives here now"
    held = protections(env, asked.now_ms, table_id=plan.snapshot.table_id)
    if held.everything is not None:
        return held.everything
    if _is_claimed(plan.data.goes, held):
        return "a writer has announced itself meanwhile: run it again"
    return _unknown_reader(held, plan.oldest) or ""


def _is_claimed(goes: pa.Table, held: Protections) -> bool:
    """True if an intent protects something that is to go: it was not there when that was decided."""
    if held.since_ms is not None and goes.num_rows:
        newest = pc.max(goes["modified"].cast(pa.int64())).as_py()
        if newest >= held.since_ms:
            return True
    return bool(held.keys) and pc.any(pc.is_in(goes["path"], value_set=text_array(sorted(held.keys)))).as_py() is True


def _forget_intents(env: Env, held: Protections, asked: _Asked) -> list[str]:
    """Intents that were over and still are: one may have been renewed late. What cannot be deleted is nobody's loss."""
    if not held.expired:
        return []
    try:
        still = set(protections(env, asked.now_ms).expired)
        over = [key for key in held.expired if key in still]
        failed = env.store.delete_many(over)
    except StoreError:
        return []
    return [key for key in over if key not in failed]


def _without(table: pa.Table, keys: pa.Array) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["path"], value_set=keys)))


def _report_of(
    plan: _Plan,
    cleaned: CleanupReport,
    data: pa.Table,
    *,
    dry_run: bool = False,
    failed: dict[str, str] | None = None,
    reason: str = "",
    intents: list[str] | None = None,
) -> PurgeReport:
    of_log = {
        "state": cleaned.states,
        "version": cleaned.versions,
        "manifest": cleaned.manifests,
        "intent": tuple(plan.protections.expired if dry_run else intents or ()),
    }
    sizes = {meta.key: meta for meta in plan.log.listing}
    tables = [data]
    for kind, keys in of_log.items():
        metas = [sizes.get(key) for key in keys]
        rows = [
            text_array(list(keys)),
            pa.array([kind] * len(keys), pa.string()),
            pa.array([None if meta is None else meta.size for meta in metas], pa.int64()),
            pa.array([None if meta is None else meta.modified_ms for meta in metas], LISTED.field("modified").type),
        ]
        tables.append(pa.table(rows, schema=LISTED))
    return PurgeReport(
        version=plan.snapshot.version,
        dry_run=dry_run,
        files=pa.concat_tables(tables),
        kept={key: count for key, count in plan.data.kept.items() if count},
        failed={**cleaned.failed, **(failed or {})},
        foreign=plan.foreign,
        cut=cleaned.cut,
        reason=reason or ("" if cleaned.versions or data.num_rows else cleaned.reason),
    )


def _tell_history(log: Log, report: PurgeReport, parameters: dict[str, str | None]) -> None:
    """One commit that says what went, if anything did. The files are gone whether or not it can be written."""
    if not report.deleted and not report.failed:
        return
    kinds = ("split", "vector", "version", "state", "manifest")
    metrics: dict[str, str | None] = {f"num{kind.capitalize()}sDeleted": str(report.count(kind)) for kind in kinds}
    metrics |= {"numFailed": str(len(report.failed)), "bytesDeleted": str(report.bytes)}
    try:
        Transaction(log, operation="PURGE", parameters=parameters, metrics=metrics).commit_or_raise()
    except IndexTablesError as error:
        _LOGGER.warning("the purge of %s is not in its history: %s", log.url, error)
