"""Deletes what retention lets go: old checkpoints, the version files that they covered, manifests nobody names."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointError, LimitExceeded, ObjectNotFound, StoreError
from indextables.log.care.intents import INTENT_DIR, announce_sweep, protections
from indextables.log.care.retention import (
    Candidate,
    Cut,
    Rules,
    choose_cut,
    collectable_left_overs,
    collectable_manifests,
)
from indextables.log.care.sweeping import Leave
from indextables.log.checkpoint import find_states, glance, inspect_state, own_states, read_state
from indextables.log.commit import permission
from indextables.log.read import clock
from indextables.log.wire import LOG_DIR, MAX_VERSION, StateRef, parse_key, state_key
from indextables.storage.folders import remove_empty
from indextables.storage.store import ObjectMeta

__all__ = [
    "CleanupPlan",
    "CleanupReport",
    "Foreseen",
    "carry_out",
    "clean_up",
    "listed",
    "newest_usable",
    "only",
    "plan_cleanup",
]

_LOGGER = logging.getLogger("indextables")

# Whether the plan still holds is asked before so many deletes at most; on local files before each.
_BATCH = 200

# So many lists of manifests are read again before a manifest goes: a millisecond each on a local disk. Retention can
# keep a thousand of them.
_READ_AGAIN = 4


class CleanupReport(msgspec.Struct, frozen=True):
    """What went, or would go in a dry run. `failed` may still be there, each with the reason; it is in no other list.

    `cut` is the checkpoint from which on every version stays readable, None where nothing was cut; then `reason` says
    why.
    """

    cut: int | None = None
    states: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    failed: dict[str, str] = {}
    dry_run: bool = False
    reason: str = ""

    @property
    def deleted(self) -> int:
        """How many objects."""
        return 0 if self.dry_run else len(self.states) + len(self.versions) + len(self.manifests)


class CleanupPlan(msgspec.Struct, frozen=True):
    """What is to go, decided at one instant: `cut`, `manifests`, then `left_over`, the checkpoints of dropped tables.

    It is a plan for the table `table_id`, and for the very files of `listing`, which it was decided from, and of
    `left_over`; the listing holds no checkpoint of another table.
    """

    table_id: str
    cut: Cut
    manifests: tuple[str, ...] = ()
    listing: tuple[ObjectMeta, ...] = ()
    left_over: tuple[ObjectMeta, ...] = ()

    @property
    def states(self) -> tuple[str, ...]:
        """The checkpoints that go."""
        return (*self.cut.states, *(meta.key for meta in self.left_over))

    @property
    def keys(self) -> tuple[str, ...]:
        """Everything that goes, in order."""
        return (*self.cut.states, *self.cut.versions, *self.manifests, *(meta.key for meta in self.left_over))


class Foreseen(msgspec.Struct, frozen=True):
    """A checkpoint that is about to be written: its version, and the time of that version's commit."""

    version: int
    commit_ms: int | None


def clean_up(env: Env, *, dry_run: bool | None = None) -> CleanupReport:
    """Delete what `retention` lets go; `dry_run` (default: `cleanup.dryRun`) only lists it.

    Nothing is deleted if a listing or a checkpoint that is to stay cannot be read, or if the store's clock and ours are
    too far apart. What live readers protect stays. A failed delete ends the run before anything that relies on it; with
    `cleanup.failurePolicy=fail` it raises StoreError. Running it again, or twice at once, does no harm. Raises
    StoreError for a failed listing.
    """
    dry = env.options[opt.CLEANUP_DRY_RUN] if dry_run is None else dry_run
    for needed in (opt.CLEANUP_ENABLED, opt.CLEANUP_FAILURE_POLICY):
        _ = env.options[needed]
    # Clocks are compared by a write, which a dry run does not make.
    skew = (clock.known_skew_ms(env) or 0) if dry else clock.skew_ms(env)
    if abs(skew) > env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:
        return _done(env, CleanupReport(dry_run=dry, reason=f"the store's clock is {skew} ms off ours"))
    plan = plan_cleanup(env, Rules.of(env.options, env.ambient.now_ms() + skew))
    return _done(env, listed(plan) if dry else carry_out(env, plan))


def plan_cleanup(env: Env, rules: Rules, *, will_be: Foreseen | None = None) -> CleanupPlan:
    """What `rules` let go, less what live readers protect; nothing is deleted.

    `will_be` is taken for a checkpoint that is there. Which manifests it will name is not known: none goes that any
    checkpoint names now. A plan is the leave to carry it out: none is made for a table that this library may not write.
    Raises ProtocolUnsupported, NotSupported, LogError, StoreError.
    """
    table_id = permission.ask(env)
    listing, strangers = _without_left_overs(env, list(env.store.list_from(LOG_DIR)))
    if any(meta.key.startswith(INTENT_DIR) for meta in listing):
        found = protections(env, rules.now_ms)
        if found.everything is not None:
            return CleanupPlan(table_id, Cut(at=None, reason=found.everything))
        if found.oldest_version is not None:
            rules = msgspec.structs.replace(rules, keep_from=found.oldest_version, keeper=found.needs)
    going = {key for ref in collectable_left_overs(find_states(strangers), rules) for key in ref.keys}
    left_over = tuple(meta for meta in strangers if meta.key in going)
    if will_be is not None:
        foreseen = _foreseen(env, table_id, rules, listing, will_be)
        return msgspec.structs.replace(foreseen, left_over=left_over)
    cut = choose_cut(listing, rules, lambda ref: _facts(env, ref, listing, table_id))
    if cut.at is not None and not _newest_is_usable(env, listing, table_id):
        cut = Cut(at=None, reason="the newest checkpoint cannot be used")
    gone = set(cut.states)
    manifests = _unreferenced(env, [meta for meta in listing if meta.key not in gone], rules)
    return CleanupPlan(table_id, cut, manifests, tuple(listing), left_over)


def _without_left_overs(env: Env, listing: list[ObjectMeta]) -> tuple[list[ObjectMeta], list[ObjectMeta]]:
    """The listing without checkpoints of another table, and those: they are no cut, and what they name is nobody's."""
    own = {key for ref in own_states(env, listing) for key in ref.keys}
    left = {key for ref in find_states(listing) for key in ref.keys} - own
    if not left:
        return listing, []
    return [meta for meta in listing if meta.key not in left], [meta for meta in listing if meta.key in left]


def _foreseen(env: Env, table_id: str, rules: Rules, listing: list[ObjectMeta], will_be: Foreseen) -> CleanupPlan:
    key = state_key(will_be.version)
    shown = [*(meta for meta in listing if meta.key != key), ObjectMeta(key, 0, rules.now_ms)]

    def facts(ref: StateRef) -> Candidate | None:
        if ref.version == will_be.version:
            return Candidate(commit_ms=will_be.commit_ms, has_tokens=True)
        return _facts(env, ref, listing, table_id)

    return CleanupPlan(table_id, choose_cut(shown, rules, facts), _unreferenced(env, listing, rules), tuple(shown))


def only(plan: CleanupPlan, keys: Collection[str]) -> CleanupPlan:
    """The plan without what is not among `keys`.

    It stays one that may be carried out: no version file goes above one that stays, and none above a checkpoint that
    stays, which is the base of what follows; no manifest goes then, since that checkpoint may name it. Where nothing is
    left of the cut, there is none.
    """
    cut = msgspec.structs.replace(
        plan.cut,
        states=tuple(key for key in plan.cut.states if key in keys),
        versions=_unbroken(plan.cut, keys),
    )
    manifests = tuple(key for key in plan.manifests if key in keys) if cut.states == plan.cut.states else ()
    if plan.cut.at is not None and not (cut.states or cut.versions):
        cut = Cut(at=None, reason="what may go of the log by now was not foreseen: it goes the next time")
    return msgspec.structs.replace(
        plan,
        cut=cut,
        manifests=manifests,
        left_over=tuple(meta for meta in plan.left_over if meta.key in keys),
    )


def _unbroken(cut: Cut, keys: Collection[str]) -> tuple[str, ...]:
    """The version and check files of a cut, in order, up to the first that has to stay with what is among `keys`."""
    bases = (file.version for key in cut.states if key not in keys and (file := parse_key(key)) is not None)
    base = min(bases, default=MAX_VERSION)
    found: list[str] = []
    for key in cut.versions:
        file = parse_key(key)
        if file is None or file.version > base or (file.kind == "version" and key not in keys):
            break
        if key in keys:
            found.append(key)
    return tuple(found)


def newest_usable(env: Env, listing: list[ObjectMeta]) -> int | None:
    """The version of the newest checkpoint from which cleanup could cut; None if there is none. Raises StoreError."""
    for ref in own_states(env, listing):
        fact = _facts(env, ref, listing, env.table_id)
        if fact is not None and fact.has_tokens:
            return ref.version
    return None


def listed(plan: CleanupPlan) -> CleanupReport:
    """What carrying out the plan would delete."""
    cut = plan.cut
    return CleanupReport(
        cut=None if cut.at is None else cut.at.version,
        states=plan.states,
        versions=cut.versions,
        manifests=plan.manifests,
        dry_run=True,
        reason=cut.reason,
    )


def carry_out(env: Env, plan: CleanupPlan) -> CleanupReport:
    """Delete what the plan names, but for manifests that a newer state names by now.

    Right before each delete the plan must still hold (`sweeping.Leave`): where another table or a backup is here by
    then, or a reader protects a version that is to go, the rest stays and counts as failed. After a delete without an
    answer the sweep stays announced until its time is over. Raises StoreError.
    """
    cut = plan.cut
    if not plan.keys:
        return msgspec.structs.replace(listed(plan), dry_run=False)
    hindered = _mirror_hinders(env, plan)
    if hindered is not None:
        return CleanupReport(failed=dict.fromkeys(plan.keys, hindered), reason=hindered)
    with announce_sweep(env) as sweep:
        leave = Leave(env, sweep, listing=plan.listing, cut=cut.at, table_id=plan.table_id, strangers=plan.left_over)
        try:
            return _deleted(env, plan, _Batches(env, leave))
        finally:
            if leave.is_in_doubt:
                # The delete may yet arrive: who protects a version, or drops the table, waits until it cannot.
                sweep.outlive()


def _deleted(env: Env, plan: CleanupPlan, batches: _Batches) -> CleanupReport:
    cut = plan.cut
    failed = batches.delete(cut.states)
    _forget_folders(env, _without(cut.states, failed))
    versions = cut.versions if not failed else ()
    if not failed:
        failed |= _delete_versions(batches, versions)
    manifests = plan.manifests if not failed else ()
    if not failed:
        manifests = _still_unreferenced(env, plan.listing, manifests)
        failed |= batches.delete(manifests)
    left_over = tuple(meta.key for meta in plan.left_over) if not failed else ()
    if not failed:
        failed |= batches.delete(left_over)
    return CleanupReport(
        cut=None if cut.at is None else cut.at.version,
        states=_without((*cut.states, *left_over), failed),
        versions=_without(versions, failed),
        manifests=_without(manifests, failed),
        failed=failed,
        reason=cut.reason,
    )


def _forget_folders(env: Env, keys: Iterable[str]) -> None:
    """Take the folders of these checkpoints off a disk, each if it is empty: every listing would look into it."""
    if env.store.url.startswith("file:"):
        for key in keys:
            file = parse_key(key)
            if file is not None and file.kind == "state":
                remove_empty(f"{env.store.url}/{key.rpartition('/')[0]}")


def _mirror_hinders(env: Env, plan: CleanupPlan) -> str | None:
    """Let the Delta mirror, where there is one, forget the versions that go; why they must stay, if it cannot."""
    cut = plan.cut
    if cut.at is None or not (cut.versions or cut.states):
        return None
    from indextables.log.care.opening import open_log
    from indextables.log.mirror import make_room

    return make_room(open_log(env).of_table(plan.table_id), cut.at.version)


class _Batches:
    """Deletes, each under the plan's leave."""

    def __init__(self, env: Env, leave: Leave) -> None:
        self.env = env
        self._leave = leave

    def delete(self, keys: Iterable[str], *, size: int = _BATCH) -> dict[str, str]:
        """In bulk; the keys that may still be there, each with the reason. What follows a failure is not tried."""
        ordered = list(keys)
        for start in range(0, len(ordered), size):
            failed = self.env.store.delete_many(ordered[start : start + size], guard=self._leave)
            self._leave.answered(failed)
            if failed:
                return failed | dict.fromkeys(ordered[start + size :], "a delete before it failed")
        return {}


def _delete_versions(batches: _Batches, keys: Iterable[str]) -> dict[str, str]:
    """Delete in ascending order, so that whoever sees an old version file knows that no newer one has been deleted.

    On local files a failure ends it: a writer takes the file below its own for a proof (`log.commit`). Each delete
    is on the disk before the next one, so that a power loss leaves no gap either; check files prove nothing and go
    last. Object stores delete the oldest one first and the rest in bulk: a reader that started at version 0 looks for
    it afterwards.
    """
    ordered = sorted(keys)
    if batches.env.store.is_local:
        slots = [key for key in ordered if key.endswith(".json")]
        checks = [key for key in ordered if not key.endswith(".json")]
        failed = batches.delete(slots, size=1)
        return failed | dict.fromkeys(checks, "a delete before it failed") if failed else batches.delete(checks)
    oldest = next((key for key in ordered if key.endswith(".json")), None)
    failed = batches.delete([oldest] if oldest is not None else [])
    return failed or batches.delete([key for key in ordered if key != oldest])


def _unreferenced(env: Env, listing: list[ObjectMeta], rules: Rules) -> tuple[str, ...]:
    """Empty unless every state that stays could be read: an unread state may name anything."""
    if not collectable_manifests(listing, frozenset(), rules):
        return ()
    referenced: set[str] = set()
    for ref in find_states(listing):
        if ref.format != "avro-state":
            continue
        try:
            referenced.update(glance(env, ref).manifests)
        except (CheckpointError, LimitExceeded, ObjectNotFound):
            return ()
    return collectable_manifests(listing, frozenset(referenced), rules)


def _still_unreferenced(env: Env, seen: Sequence[ObjectMeta], manifests: tuple[str, ...]) -> tuple[str, ...]:
    """Without those that a state names which came after the listing; none if such a state cannot be read.

    On local files the newest of all others are read once more, too: what tells a file there from another one is no part
    of its content, and what is live must not rest on what this process remembers.
    """
    if not manifests:
        return ()
    before = {meta.key for meta in seen}
    states = find_states(env.store.list_from(LOG_DIR, LOG_DIR + "state-v"))
    again = states[:_READ_AGAIN] if env.store.is_local else []
    named: set[str] = set()
    for ref in states:
        if ref not in again and before.issuperset(ref.keys):
            continue
        try:
            named.update(inspect_state(env, ref).manifests)
        except (CheckpointError, LimitExceeded, ObjectNotFound):
            return ()
    return tuple(key for key in manifests if key not in named)


def _facts(env: Env, ref: StateRef, listing: list[ObjectMeta], table_id: str | None) -> Candidate | None:
    """None for a checkpoint that is damaged, of another table, or names a manifest that is gone or has another size.

    JSON and Parquet are read in full; of an Avro state the list is, and its manifests are looked for.
    """
    try:
        if ref.format != "avro-state":
            read_state(env, ref)
        found = inspect_state(env, ref)
    except (CheckpointError, LimitExceeded, ObjectNotFound):
        return None
    if found.table_id is not None and table_id not in {None, found.table_id}:
        return None
    sizes = {meta.key: meta.size for meta in listing}
    for key, size in found.manifests.items():
        if key not in sizes or (size is not None and sizes[key] != size):
            return None
    return Candidate(commit_ms=found.in_commit_timestamp, has_tokens=found.tokens is not None)


def _newest_is_usable(env: Env, listing: list[ObjectMeta], table_id: str) -> bool:
    fact = _facts(env, find_states(listing)[0], listing, table_id)
    return fact is not None and fact.has_tokens


def _without(keys: tuple[str, ...], failed: dict[str, str]) -> tuple[str, ...]:
    return tuple(key for key in keys if key not in failed) if failed else keys


def _done(env: Env, report: CleanupReport) -> CleanupReport:
    if report.states or report.versions or report.manifests:
        _LOGGER.info(
            "cleanup of %s: %d checkpoints, %d version files, %d manifests %s, cut at %s",
            env.store.url,
            len(report.states),
            len(report.versions),
            len(report.manifests),
            "would be deleted (cleanup.dryRun)" if report.dry_run else "deleted",
            report.cut,
        )
    if report.failed:
        message = f"cleanup of {env.store.url} could not delete {len(report.failed)} files"
        if env.options[opt.CLEANUP_FAILURE_POLICY] == "fail":
            raise StoreError(f"{message}; they are left for the next run", key=next(iter(report.failed)))
        _LOGGER.warning("%s: %s", message, next(iter(report.failed.values())))
    return report
