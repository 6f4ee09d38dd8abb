"""Plans a purge: lists the data, reads the log, decides what goes, and starts over where the log moves meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator

import msgspec

from indextables.env import Env
from indextables.log.care import (
    CleanupPlan,
    Foreseen,
    Protection,
    Protections,
    Rules,
    lasting_sweep,
    only,
    plan_cleanup,
    protect_version,
    protections,
)
from indextables.log.checkpoint import list_checkpoints
from indextables.log.read import Log, Snapshot
from indextables.table.maintenance.purge.idle import idle_checkpoint, with_checkpoint
from indextables.table.maintenance.purge.keys import Keys, named_by
from indextables.table.maintenance.purge.listing import Listed, list_data
from indextables.table.maintenance.purge.plan import LISTED, NAMED, Claims, Decision, decide
from indextables.table.maintenance.purge.reachable import MOVED, Reach, is_same, reach
from indextables.table.maintenance.truncate import truncated_at
from indextables.table.running import Progress, Runner, Step

__all__ = ["THEIRS", "Asked", "Plan", "planned", "renewing", "unknown_reader"]

_ATTEMPTS = 3
_KEPT_MS = 600_000
"""How long a purge that is killed at its plan keeps the log from being cut: no longer than its lease."""
_RENEWED_S = 60.0
_TASK = "purge"
THEIRS = "others clean up this log while it is purged: what is left of it is theirs"


class Asked(msgspec.Struct, frozen=True):
    """What was asked for, checked: retention of data files and of the log."""

    retention_ms: int
    rules: Rules
    now_ms: int


class Plan(msgspec.Struct, frozen=True):
    """Everything that goes, decided at one instant: `data` is what nobody needs once `log` is carried out as it is.

    `oldest` is the oldest version whose files were asked for, `hindered` why no data file may go; empty if they may.
    """

    snapshot: Snapshot
    log: CleanupPlan
    data: Decision
    protections: Protections
    foreign: int
    oldest: int
    hindered: str = ""


def planned(
    log: Log,
    env: Env,
    asked: Asked,
    runner: Runner,
    progress: Progress | None,
    *,
    dry_run: bool = False,
    keep_log: bool = False,
) -> Plan | str:
    """What goes, or why nobody can tell now. An idle table gets the checkpoint first that lets its files go.

    What somebody else's cleanup takes meanwhile starts it over, from the listing on. From then on the log is kept
    whole, but for a dry run, which writes nothing; with `keep_log` from the first attempt on: where writers clean up
    more often than a plan takes, none would ever be made. Of the log nothing goes by such a plan; they see to that.

    Raises LogError, StoreError for what is lost while the log stays as it is.
    """
    before: frozenset[str] | None = None
    for attempt in range(_ATTEMPTS):
        try:
            if dry_run:
                return _plan(log, env, asked, runner, progress, idle_checkpoint(log, env, asked.rules))
            if attempt == 0 and not keep_log:
                foreseen = with_checkpoint(log, env, asked.rules)
                # Nothing goes that a dry run would not have listed.
                may_go = None if foreseen is None else frozenset(foreseen.keys)
                return _plan(log, env, asked, runner, progress, may_go=may_go)
            with _log_kept(log, env) as mark:
                if isinstance(mark, str):
                    return mark
                return _plan(log, env, asked, runner, renewing(env, mark.renew, progress), mark=mark)
        except MOVED as error:
            log.invalidate()
            found = frozenset(meta.key for meta in list_checkpoints(env))
            if found == before:
                raise
            before, reason = found, str(error)
    return f"the log moved on faster than it could be read, {_ATTEMPTS} times: nothing was deleted. {reason}"


@contextlib.contextmanager
def _log_kept(log: Log, env: Env) -> Iterator[Protection | str]:
    """No cleanup takes a version file while the mark lives that says so; or why there is none.

    Raises LogError, StoreError.
    """
    with protect_version(env, 0, ttl_ms=_KEPT_MS, task=_TASK):
        sweep = lasting_sweep(env)
        if sweep is None:
            # Whoever needs versions that are gone already would keep every data file. A version that is kept may lose
            # its file to its checkpoint, so that it is the one below the oldest file.
            log.invalidate()
            kept = protect_version(env, max(0, log.versions().start - 1), ttl_ms=_KEPT_MS, task=_TASK)
    if sweep is not None:
        what = "a cleanup is at work, or got no answer to a delete that may still arrive"
        yield f"{what}: no data file was deleted, try again when it has ended. {sweep}"
        return
    with kept:
        yield kept


def renewing(env: Env, renew: Callable[[], object], progress: Progress | None) -> Progress:
    """The same progress; `renew` is called with each step that comes long after the one before."""
    renewed_s = env.ambient.monotonic()

    def step(done: Step) -> None:
        nonlocal renewed_s
        if env.ambient.monotonic() - renewed_s > _RENEWED_S:
            renew()
            renewed_s = env.ambient.monotonic()
        if progress is not None:
            progress(done)

    return step


def _plan(
    log: Log,
    env: Env,
    asked: Asked,
    runner: Runner,
    progress: Progress | None,
    will_be: Foreseen | None = None,
    may_go: Collection[str] | None = None,
    mark: Protection | None = None,
) -> Plan:
    """What goes by one look at data and log. `mark` is ours, and keeps the log: then nothing of it goes."""
    known = log.snapshot()
    named = named_by(known, log.url)
    found = list_data(known, named, runner, progress)
    cleanup = plan_cleanup(env, asked.rules, will_be=will_be)
    if mark is not None or may_go is not None:
        # Before the data is decided: what stays of the log tells of files that stay, too.
        cleanup = only(cleanup, may_go or ())
    if mark is not None:
        cleanup = msgspec.structs.replace(cleanup, cut=msgspec.structs.replace(cleanup.cut, reason=THEIRS))
    held = protections(env, asked.now_ms, table_id=known.table_id, but=None if mark is None else mark.key)
    snapshot = log.snapshot()
    if not is_same(snapshot, known):
        named = named_by(snapshot, log.url)
    data = _decided(found, _claims(named.keys, held, snapshot), asked)
    oldest, doubt = cleanup.cut.at.version if cleanup.cut.at is not None else 0, ""
    if data.goes.num_rows and held.everything is None:
        # Only now is it worth reading every version.
        cut_removals = asked.rules.log_ms < asked.retention_ms
        told = reach(log, cleanup, runner, told=(snapshot, named), cut_removals=cut_removals, progress=progress)
        data = _decided(found, _claims_of(told, held), asked)
        snapshot, oldest, doubt = told.snapshot, told.oldest, told.doubt
    hindered = held.everything or unknown_reader(held, oldest) or doubt
    if hindered:
        data = Decision(LISTED.empty_table(), {**data.kept, hindered: data.goes.num_rows})
    return Plan(snapshot, cleanup, data, held, found.foreign, oldest, hindered)


def unknown_reader(held: Protections, oldest: int) -> str | None:
    """Why nothing may go: a reader needs a version whose files nobody can tell any more. None if there is none."""
    if held.oldest_version is None or held.oldest_version >= oldest:
        return None
    return f"{held.needs}, and {oldest} is the oldest that can be read"


def _claims_of(told: Reach, held: Protections) -> Claims:
    claims = _claims(told.named, held, told.snapshot)
    return msgspec.structs.replace(claims, removed=told.removed, removed_ms=told.removed_ms)


def _claims(named: Keys, held: Protections, snapshot: Snapshot) -> Claims:
    return Claims(named, protected=held.keys, since_ms=held.since_ms, truncated_ms=truncated_at(snapshot))


def _decided(found: Listed, claims: Claims, asked: Asked) -> Decision:
    nested, now_ms = sorted(found.nested), asked.now_ms
    decision = decide(found.files, claims, now_ms=now_ms, retention_ms=asked.retention_ms, nested=nested)
    kept = {NAMED: decision.kept.get(NAMED, 0) + found.named} if found.named else {}
    return msgspec.structs.replace(decision, kept={**decision.kept, **kept})
