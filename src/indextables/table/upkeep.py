"""A table merges its small splits by itself, by tiers: who does it, when, and how much of it.

So it folds splits that have lost many rows: they are written anew without them.

Whoever writes a version asks whether something may be due, by the number of the version alone. Who is to look reads
the files and plans; a lease keeps others from doing the same work, and keeps for them what came of it. A process gives
a tenth of its age to what is due, and a small piece in any case, so that the number of small splits is bounded even if
every writer lives for one append. Nothing here is needed for the table to be right: it is left to the next writer.
"""

from __future__ import annotations

import msgspec

from indextables import options as opt
from indextables.ambient import Ambient
from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.care import MOST_BACK_OFF_MS, Lease, Work, acquire, failed, store_now_ms
from indextables.log.commit import retry_times
from indextables.log.read import Log, Snapshot
from indextables.options import Options
from indextables.table.environment import table_env
from indextables.table.merge import (
    Limits,
    MergePlan,
    Tiers,
    files_beside_the_newest,
    merge_planned,
    plan_due,
    within,
)
from indextables.table.running import Threads

__all__ = ["LEASE", "Allowance", "allowance", "merge_if_due", "tiers_of"]

LEASE = "merge"
"""The lease of whoever merges unasked."""

_PARAMETERS: dict[str, str | None] = {"auto": "mergeOnWrite"}

_SHARE = 0.1
"""What a process gives to what is due, of the time that it has lived."""

_STEP_S = 2.0
"""What a batch of a stream waits for, and what a job of Spark leaves behind; larger pieces wait for a crowd."""

_NO_BOUND_S = 3600.0

_LEASE_S, _LEASE_PER_SECOND = 20, 10
"""How long a lease lasts, and more for each second that the work may take: one whose holder was killed is soon over.

It lasts longer where the work before took longer than that, or was not done in time: a busy machine is slow.
"""


class Allowance(msgspec.Struct, frozen=True):
    """How much a writer does: what takes `seconds` together, and `crowded` groups of crowded partitions in any case.

    `once`: one commit at most, because somebody waits for it.
    """

    seconds: float
    crowded: int
    once: bool = False


def allowance(ambient: Ambient, options: Options, added: int, by: str) -> Allowance:
    """How much of what is due a write does that has added so many files. Pure, but for the age of the process.

    In the background a tenth of what the process has lived, so that one which ends waits no longer than that. A write
    that is asked to wait does what one commit holds, a write of Spark or a batch of a stream a little.
    """
    most = options[opt.MERGE_ON_WRITE_MAX_GROUPS]
    if not options[opt.MERGE_ON_WRITE_ASYNC]:
        return Allowance(_NO_BOUND_S, crowded=most, once=True)
    if by == "stream":
        return Allowance(_STEP_S, crowded=max(1, added), once=True)
    if by == "batch":
        return Allowance(_STEP_S, crowded=max(most, added), once=True)
    least = _STEP_S if by == "driver" else 0.0
    return Allowance(max(least, _SHARE * ambient.age()), crowded=max(most, added))


def merge_if_due(log: Log, given: Allowance) -> list[int]:
    """Merge what is due as far as the allowance goes; the versions that this made.

    Nothing is done while another process does it, or soon after it went wrong. Raises as `merge_splits`; the lease has
    kept the reason by then.
    """
    snapshot = log.snapshot()
    env = table_env(log.env, snapshot.metadata)
    run = _Run(log, env, given)
    plan = run.chosen(snapshot, first=True)
    if not plan.groups:
        return []
    most = env.options[opt.MERGE_LEASE_SECONDS]
    seconds = min(most, _LEASE_S + _LEASE_PER_SECOND * int(run.expected))
    began = env.ambient.monotonic()
    lease = acquire(env, LEASE, ttl_ms=seconds * 1000, tells=True, most_ms=most * 1000)
    if lease is None:
        return []
    run.held_from = began
    with lease:
        if _is_backing_off(env, lease):
            return []
        try:
            run.all(lease, snapshot, plan)
        except (IndexTablesError, OSError, MemoryError, RuntimeError) as error:
            _tell_failure(env, lease, str(error) or type(error).__name__)
            raise
    return run.versions


def tiers_of(env: Env) -> Tiers:
    """How the table is kept, by its properties and by what this process was told."""
    options = env.options
    target = options[opt.MERGE_TARGET_SIZE]
    return Tiers(
        fan_in=options[opt.MERGE_ON_WRITE_MIN_SPLITS],
        # Any two small files fit one.
        small_bytes=min(options[opt.MERGE_ON_WRITE_SMALL_SIZE], target // 2),
        target_bytes=target,
        memory_bytes=options[opt.SPLIT_MEMORY_BUDGET],
        fold_above=options[opt.MERGE_ON_WRITE_MAX_DELETED_ROWS_RATIO],
    )


class _Run:
    """What one writer does, commit by commit."""

    def __init__(self, log: Log, env: Env, given: Allowance) -> None:
        self._log = log
        self._env = env
        self._tiers = tiers_of(env)
        self._most = env.options[opt.MERGE_ON_WRITE_MAX_GROUPS]
        self._seconds = given.seconds
        self._crowded = given.crowded
        self._once = given.once
        self._is_more = False
        self._took_ms = 0
        self.held_from = 0.0
        """When the lease was taken, or renewed."""
        self.expected = 0.0
        self.versions: list[int] = []

    def chosen(self, snapshot: Snapshot, *, first: bool) -> MergePlan:
        """What is merged and committed next, on top of this version."""
        cooling = retry_times(snapshot, self._env.ambient.now_ms())
        # Who looks next comes after fewer versions: so nothing that was added is overlooked.
        files = files_beside_the_newest(self._env, self._log, snapshot, self._tiers.fan_in)
        due = plan_due(files, snapshot.partition_columns, cooling, self._tiers)
        plan, self.expected = within(due, self._seconds, most=self._most, crowded=self._crowded, piece=first)
        self._is_more = len(plan.groups) < len(due.plan.groups)
        return plan

    def all(self, lease: Lease, snapshot: Snapshot, plan: MergePlan) -> None:
        """Merge what was due until the allowance is used up, or nothing was merged. Raises as `merge_splits`.

        `plan` is over a version that was read before the lease was there. What becomes due by a merge itself is left to
        whoever looks next.
        """
        began, seconds = self._env.ambient.monotonic(), self._seconds
        if self._log.latest_version() != snapshot.version:
            # Who held the lease may have merged the same files.
            snapshot = self._log.snapshot()
            plan = self.chosen(snapshot, first=True)
        while plan.groups and self._merged(snapshot, plan, lease) and self._is_more and not self._once:
            self._crowded -= len(plan.groups)
            self._seconds = seconds - (self._env.ambient.monotonic() - began)
            snapshot = self._log.snapshot()
            plan = self.chosen(snapshot, first=False)
            if plan.groups:
                began = self._env.ambient.monotonic()
                lease.renew()
                self.held_from = began

    def _merged(self, snapshot: Snapshot, plan: MergePlan, lease: Lease) -> bool:
        env = self._env
        limits = Limits(self._tiers.target_bytes, self._tiers.fan_in**2, self._tiers.memory_bytes)
        # A write that waits for it gains nothing by standing back.
        runner = Threads(env, "overdue" if self._once else "upkeep", width=self._most)
        report = merge_planned(self._log, snapshot, plan, limits, dict(_PARAMETERS), runner=runner)
        self.versions += report.versions
        if report.failed:
            _tell_failure(env, lease, report.failed[0])
            return False
        if report.versions:
            took_ms = int(1000 * (env.ambient.monotonic() - self.held_from))
            self._took_ms = max(self._took_ms, took_ms)
            lease.tell(Work(lastMs=store_now_ms(env), tookMs=self._took_ms))
        return bool(report.versions)


def _is_backing_off(env: Env, lease: Lease) -> bool:
    """True if the work went wrong not long ago; a time that nobody can have meant is none."""
    wait = (lease.work or Work()).notBeforeMs - store_now_ms(env)
    return 0 < wait <= MOST_BACK_OFF_MS


def _tell_failure(env: Env, lease: Lease, reason: str) -> None:
    lease.tell(failed(lease.work or Work(), reason, store_now_ms(env)))
