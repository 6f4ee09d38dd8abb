"""Purge: data files that no version needs, old version files, old checkpoints, manifests that nobody names.

The order is what makes it safe. First the data is listed, then the log is read, so that whatever was committed before
the listing is known; what is to go is decided once, from that; then the log is cut, so that no version that can still
be read needs a file that goes; then data files go in batches, before each of which the log's new versions, the intents
of live writers and readers, and our own lease are looked at again. Any listing or read that fails ends it with nothing
deleted. Names that this library does not give are never touched.
"""

from __future__ import annotations

import logging

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    ClockSkew,
    IndexTablesError,
    InvalidArgument,
    StoreError,
    TableReplaced,
)
from indextables.log.care import (
    CleanupPlan,
    CleanupReport,
    Lease,
    Protections,
    Rules,
    acquire,
    anchors,
    carry_out,
    listed,
    open_log,
    protections,
    who_holds,
)
from indextables.log.commit import Transaction
from indextables.log.read import Log, clock
from indextables.log.wire import check_writable, text_array
from indextables.table.environment import table_env
from indextables.table.maintenance.purge.deleting import BULK, delete
from indextables.table.maintenance.purge.keys import Keys
from indextables.table.maintenance.purge.plan import LISTED, Decision
from indextables.table.maintenance.purge.planning import THEIRS, Asked, Plan, planned, renewing, unknown_reader
from indextables.table.maintenance.purge.reachable import MOVED, named_since
from indextables.table.maintenance.purge.report import PurgeReport, rows_of
from indextables.table.requests import Purge
from indextables.table.running import Progress, Runner, Step
from indextables.table.writing import LEASE, leave_mark, safe_age_ms

__all__ = ["LEASE", "PurgeReport", "purge"]

_LOGGER = logging.getLogger("indextables")

_HOUR_MS = 3_600_000
_BULKS_PER_BATCH = 16


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
        plan = planned(log, env, asked, runner, progress, dry_run=True)
        if isinstance(plan, str):
            return _nothing_done(log, plan, dry_run=True)
        return _report_of(plan, listed(plan.log), plan.data.goes, dry_run=True)
    lease = acquire(env, LEASE)
    if lease is None:
        held = who_holds(env, LEASE)
        reason = "another process purges or restores it now" + ("" if held is None else f": {held}")
        return _nothing_done(log, reason)
    with lease:
        _check_stepped_clock(env, lease, asked.now_ms)
        progress = renewing(env, lease.renew_if_held, progress)
        plan = planned(log, env, asked, runner, progress)
        if isinstance(plan, str):
            return _nothing_done(log, plan)
        plan, cleaned, reason = _cut_log(log, env, plan, asked, lease, runner, progress)
        report = _carried_out(log, env, plan, asked, lease, runner, progress, cleaned, reason)
    _tell_history(log, report, parameters or {})
    return report


def _checked(env: Env, request: Purge) -> Asked:
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
    return Asked(round(hours * _HOUR_MS), rules, now_ms)


def _check_stepped_clock(env: Env, lease: Lease, now_ms: int) -> None:
    """The lease has just been written: the store's time of it is the store's time now."""
    told = lease.modified_ms()
    if abs(told - now_ms) > env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:
        message = f"the clock of this machine was set by {now_ms - told} ms since it was compared: nothing was deleted"
        raise ClockSkew(message, skew_ms=told - now_ms)


def _cut_log(
    log: Log, env: Env, plan: Plan, asked: Asked, lease: Lease, runner: Runner, progress: Progress | None
) -> tuple[Plan, CleanupReport, str]:
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
    # What is left of it for the log is theirs; so far this one has gone.
    cleaned = msgspec.structs.replace(cleaned, cut=None, failed={})
    again = planned(log, env, asked, runner, progress, keep_log=True)
    if isinstance(again, str):
        return plan, cleaned, again
    plan, cleaned = msgspec.structs.replace(again, log=plan.log), msgspec.structs.replace(cleaned, reason=THEIRS)
    return plan, cleaned, _why_not(log, env, lease, asked, plan)


def _is_overtaken(env: Env, plan: CleanupPlan) -> bool:
    """True if a file that the plan stands on is gone: somebody else has cut further. Raises StoreError."""
    return not all(env.store.exists(meta.key) for meta in anchors(plan.listing, plan.cut.at))


def _carried_out(
    log: Log,
    env: Env,
    plan: Plan,
    asked: Asked,
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
        try:
            head, more = named_since(log, head)
        except MOVED as error:
            reason = f"what was committed meanwhile cannot be read: run it again. {error}"
            break
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


def _why_not(log: Log, env: Env, lease: Lease, asked: Asked, plan: Plan) -> str:
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
    return unknown_reader(held, plan.oldest) or ""


def _is_claimed(goes: pa.Table, held: Protections) -> bool:
    """True if an intent protects something that is to go: it was not there when that was decided."""
    if held.since_ms is not None and goes.num_rows:
        newest = pc.max(goes["modified"].cast(pa.int64())).as_py()
        if newest >= held.since_ms:
            return True
    return bool(held.keys) and pc.any(pc.is_in(goes["path"], value_set=text_array(sorted(held.keys)))).as_py() is True


def _forget_intents(env: Env, held: Protections, asked: Asked) -> list[str]:
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


def _nothing_done(log: Log, reason: str, *, dry_run: bool = False) -> PurgeReport:
    return PurgeReport(log.latest_version(), dry_run=dry_run, files=LISTED.empty_table(), reason=reason)


def _report_of(
    plan: Plan,
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
    files = pa.concat_tables([data, rows_of(of_log, plan.log.listing)])
    failed = {**cleaned.failed, **(failed or {})}
    reason = reason or plan.hindered
    if not reason and failed and not files.num_rows:
        reason = f"{len(failed)} {'file' if len(failed) == 1 else 'files'} could not be deleted"
    return PurgeReport(
        version=plan.snapshot.version,
        dry_run=dry_run,
        files=files,
        kept={key: count for key, count in plan.data.kept.items() if count},
        failed=failed,
        foreign=plan.foreign,
        cut=None if cleaned.cut is None else min(cleaned.cut, plan.oldest),
        reason=reason or ("" if files.num_rows else cleaned.reason or "nothing is old enough"),
    )


def _tell_history(log: Log, report: PurgeReport, parameters: dict[str, str | None]) -> None:
    """One commit that says what went, if anything did. The files are gone whether or not it can be written.

    It is followed by no cleanup: that would go by the table's retention, not by what was asked for.
    """
    if not report.deleted and not report.failed:
        return
    kinds = ("split", "vector", "version", "state", "manifest")
    metrics: dict[str, str | None] = {f"num{kind.capitalize()}sDeleted": str(report.count(kind)) for kind in kinds}
    metrics |= {"numFailed": str(len(report.failed)), "bytesDeleted": str(report.bytes)}
    options = log.env.options.also({opt.CLEANUP_ENABLED.key: False})
    quiet = open_log(msgspec.structs.replace(log.env, options=options))
    try:
        Transaction(quiet, operation="PURGE", parameters=parameters, metrics=metrics).commit_or_raise()
    except IndexTablesError as error:
        _LOGGER.warning("the purge of %s is not in its history: %s", log.url, error)
