"""What may be deleted from a log? A pure decision over one listing.

Cleanup cuts at a checkpoint K. Everything that is needed for versions from K on stays; of what is older, all
checkpoints go first, then the version files up to K in ascending order. So nothing kept needs a deleted file, and no
base remains from which a slot that a stalled writer re-creates could be read.

K is the newest checkpoint for which all of this holds:

1. every version file up to K is older than the log's retention, by the store's time and by commit time, and at least
   `checkpoint.retention` versions stay (where that is set);
2. every checkpoint below K is older than `state.retention.hours` (JSON and Parquet: `checkpointRetention.duration`)
   and either older than the log's retention too, or let go by number (`state.retention.versions` older ones are kept
   beside the newest): beyond the log's retention the newest usable checkpoint is enough;
3. the version files above K are there without a gap, and K carries the commit tokens;
4. no live reader protects an older version than K.

A time that is still to come was told by a clock that was wrong, and tells no age: that of a commit counts for nothing,
a version file or checkpoint is then as old as the next one above it. So a clock that was ahead once keeps no log until
then.

The current version's file never goes. A checkpoint that a dropped table left here is none of these: it goes once it is
past the log's retention and that of its format. A file that has no place in the protocol is never touched.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import msgspec

from indextables import options as opt
from indextables.log.checkpoint import find_states
from indextables.log.wire import MAX_VERSION, StateRef, parse_key
from indextables.options import Options
from indextables.storage.store import ObjectMeta

__all__ = [
    "Candidate",
    "Cut",
    "Rules",
    "choose_cut",
    "collectable_left_overs",
    "collectable_manifests",
    "commit_is_old",
]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST_MS = 253_402_300_799_000
"""The last moment that a calendar has."""

_HOUR_MS = 3_600_000
_CHECKPOINT_KINDS = frozenset(
    {
        "state",
        "json-checkpoint",
        "json-checkpoint-part",
        "parquet-checkpoint",
        "parquet-checkpoint-part",
        "flat-checkpoint",
    }
)


class Rules(msgspec.Struct, frozen=True):
    """The retention in milliseconds and numbers. `now_ms` is the store's clock, `keep_from` what readers protect.

    `keeper` says for people who protects it.
    """

    now_ms: int
    log_ms: int
    min_versions: int
    old_states: int
    state_ms: int
    checkpoint_ms: int
    manifest_ms: int
    keep_from: int | None = None
    keeper: str = ""

    @classmethod
    def of(cls, options: Options, now_ms: int) -> Rules:
        """As the options say: `purge.txLogRetentionHours` where it is set, else `logRetention.duration`."""
        log_ms = options[opt.LOG_RETENTION_DURATION]
        if options.given(opt.PURGE_TX_LOG_RETENTION_HOURS):
            log_ms = options[opt.PURGE_TX_LOG_RETENTION_HOURS] * _HOUR_MS
        return cls(
            now_ms=now_ms,
            log_ms=log_ms,
            min_versions=options[opt.CHECKPOINT_RETENTION],
            old_states=options[opt.STATE_RETENTION_VERSIONS],
            state_ms=options[opt.STATE_RETENTION_HOURS] * _HOUR_MS,
            checkpoint_ms=options[opt.CHECKPOINT_RETENTION_DURATION],
            manifest_ms=options[opt.STATE_GC_MIN_MANIFEST_AGE_HOURS] * _HOUR_MS,
        )


class Candidate(msgspec.Struct, frozen=True):
    """What only the checkpoint itself tells: its commit's time, and whether the tokens are in it."""

    commit_ms: int | None
    has_tokens: bool


class Cut(msgspec.Struct, frozen=True):
    """Where to cut, and what goes: `states` before `versions`, both in ascending order. `reason` says why nothing."""

    at: StateRef | None
    states: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    reason: str = ""


def choose_cut(listing: Sequence[ObjectMeta], rules: Rules, facts: Callable[[StateRef], Candidate | None]) -> Cut:
    """The cut for the log folder's `listing`; `facts` reads a checkpoint, None for one that cannot be used.

    Where only `keep_from` stands in the way, the reason is whoever asks for that.
    """
    cut = _cut_by(listing, rules, facts)
    if cut.at is not None or rules.keep_from is None:
        return cut
    if _cut_by(listing, msgspec.structs.replace(rules, keep_from=None), facts).at is None:
        return cut
    return Cut(at=None, reason=rules.keeper or f"a reader needs version {rules.keep_from}")


def _cut_by(listing: Sequence[ObjectMeta], rules: Rules, facts: Callable[[StateRef], Candidate | None]) -> Cut:
    states = find_states(listing)
    slots = {f.version: meta for meta in listing if (f := parse_key(meta.key)) and f.kind == "version"}
    if not states:
        return Cut(at=None, reason="there is no checkpoint")
    head = max([*slots, states[0].version])
    old_slots, whole_from = _old_up_to(slots, rules), _whole_from(slots, head)
    stay_from = _stay_from(states, rules)
    young = ""
    for ref in states:
        if ref.version > old_slots:
            if _old(ref.modified_ms, rules.log_ms, rules.now_ms):
                young = _kept(old_slots + 1, "file", slots[old_slots + 1].modified_ms, rules)
            continue
        if head - ref.version < rules.min_versions:
            continue
        if rules.keep_from is not None and ref.version > rules.keep_from:
            continue
        if ref.version > stay_from:
            continue
        if ref.version == states[-1].version and not any(v <= ref.version and v != head for v in slots):
            return Cut(at=None, reason=young or "there is nothing older than the oldest checkpoint")
        if ref.version + 1 < whole_from:
            return Cut(at=None, reason=f"a version file above {ref.version} is missing")
        fact = facts(ref)
        if fact is None or not fact.has_tokens or fact.commit_ms is None:
            continue
        if not commit_is_old(fact.commit_ms, rules):
            young = _kept(ref.version, "commit", fact.commit_ms, rules)
            continue
        return _cut_at(ref, listing, head)
    return Cut(at=None, reason=young or "nothing is old enough")


def commit_is_old(commit_ms: int, rules: Rules) -> bool:
    """True unless the commit is within the log's retention by the time that it tells of itself, if that has come."""
    return commit_ms > rules.now_ms or _old(commit_ms, rules.log_ms, rules.now_ms)


def _kept(version: int, what: str, time_ms: int, rules: Rules) -> str:
    """Why a version is kept that tells a later time than what was written after it; empty if that is still to come."""
    if time_ms > rules.now_ms:
        return ""
    told = f"by its {what} version {version} is of {_moment(time_ms)}, although what was written after it is older"
    return f"{told} (a clock was ahead, or the log was copied): it is kept until {_moment(time_ms + rules.log_ms)}"


def _moment(time_ms: int) -> str:
    return f"{_EPOCH + dt.timedelta(milliseconds=min(time_ms, _LAST_MS)):%Y-%m-%dT%H:%M:%SZ}"


def collectable_manifests(listing: Sequence[ObjectMeta], referenced: frozenset[str], rules: Rules) -> tuple[str, ...]:
    """The manifests that no retained state names and that are older than the safety window."""
    return tuple(
        meta.key
        for meta in listing
        if (file := parse_key(meta.key)) is not None
        and file.kind == "manifest"
        and meta.key not in referenced
        and _old(meta.modified_ms, rules.manifest_ms, rules.now_ms)
    )


def collectable_left_overs(refs: Sequence[StateRef], rules: Rules) -> list[StateRef]:
    """Of checkpoints that another table left here, those past the retention of the log and of checkpoints.

    Nobody believes them; until then their writer may take them back itself.
    """
    return [
        ref
        for ref in refs
        if _old(ref.modified_ms, rules.log_ms, rules.now_ms)
        and _old(ref.modified_ms, _state_ms(ref, rules), rules.now_ms)
    ]


def _cut_at(ref: StateRef, listing: Sequence[ObjectMeta], head: int) -> Cut:
    files = sorted((f for meta in listing if (f := parse_key(meta.key))), key=lambda f: (f.version, f.key))
    states = [f.key for f in files if f.kind in _CHECKPOINT_KINDS and f.version < ref.version]
    versions = [f.key for f in files if f.kind in {"version", "crc"} and f.version <= ref.version and f.version != head]
    return Cut(at=ref, states=tuple(states), versions=tuple(versions))


def _old_up_to(slots: dict[int, ObjectMeta], rules: Rules) -> int:
    """The newest version up to which no version file is within the retention by the store's time."""
    upto, time_ms = MAX_VERSION, MAX_VERSION
    for version in sorted(slots, reverse=True):
        time_ms = _come(slots[version].modified_ms, time_ms, rules)
        if not _old(time_ms, rules.log_ms, rules.now_ms):
            upto = version - 1
    return upto


def _come(time_ms: int, above_ms: int, rules: Rules) -> int:
    """The time of a file, or of what is above it where its own is still to come."""
    return above_ms if time_ms > rules.now_ms else time_ms


def _whole_from(slots: dict[int, ObjectMeta], head: int) -> int:
    """The version from which on every version file up to the newest is there."""
    start = head + 1
    while start - 1 in slots:
        start -= 1
    return start


def _stay_from(states: Sequence[StateRef], rules: Rules) -> int:
    """The version of the oldest checkpoint that has to stay; `states` are ordered by version, newest first."""
    stays, newer, above, time_ms = MAX_VERSION, 0, MAX_VERSION + 1, MAX_VERSION
    for ref in states:
        if ref.version < above:
            newer, above = newer + (above <= MAX_VERSION), ref.version
        time_ms = _come(ref.modified_ms, time_ms, rules)
        if not _may_go(ref, time_ms, newer, rules):
            stays = ref.version
    return stays


def _may_go(ref: StateRef, time_ms: int, newer: int, rules: Rules) -> bool:
    """True if a checkpoint of that time is past retention; `newer` versions above its own have one too."""
    if not _old(time_ms, _state_ms(ref, rules), rules.now_ms):
        return False
    return newer > rules.old_states or _old(time_ms, rules.log_ms, rules.now_ms)


def _state_ms(ref: StateRef, rules: Rules) -> int:
    return rules.state_ms if ref.format == "avro-state" else rules.checkpoint_ms


def _old(time_ms: int | None, retention_ms: int, now_ms: int) -> bool:
    return time_ms is not None and now_ms - time_ms > retention_ms
