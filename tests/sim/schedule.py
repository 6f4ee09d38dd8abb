"""Schedules: which processes a seed puts into a world, and what they do there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import NamedTuple

import msgspec

from indextables.errors import (
    CommitStateUnknown,
    LogError,
    SchemaMismatch,
    StoreError,
    TableNotFound,
    VersionExpired,
)
from indextables.log.care.cleanup import clean_up
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit.create import create_table
from indextables.log.commit.resolve import resolve_token
from indextables.log.commit.staged import Staged, removes_of
from indextables.log.commit.transaction import Transaction
from indextables.log.read.log import Log, Snapshot
from indextables.log.wire.actions import Add, DeletionVector, DomainMetadata, Metadata, Remove
from indextables.log.wire.outcome import Committed, Conflicted, Outcome, Unknown
from indextables.split.file import dv
from tests.log.commits import open_log
from tests.sim.playing import played
from tests.sim.truth import Broken
from tests.sim.watching import follower, historian, protector, told
from tests.sim.world import ANY_CALL, CHECKPOINT, COMMIT, LAG_MS, PUT_FAULTS, Actor, Chances, Sleeper, World

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{"indextables.id":1}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{"indextables.id":2}}]}'
)
PARTITIONS = ("a", "", None, "a/b c%25", "ü")
RETENTION_MS = 600
MOST_STEPS = 20_000
ROWS = 5

# What a process may run into because of the faults, and report as what it is.
TROUBLE = (StoreError, LogError)


class Report(NamedTuple):
    """What one schedule came to."""

    seed: int
    trace: str
    steps: int
    versions: int
    refills: int
    outcomes: Counter[str]
    coverage: Counter[tuple[str, str, str]]


def run(seed: int) -> Report:
    """Play the schedule of a seed to its end. Raises Broken or Stuck, which name the seed."""
    world, outcomes = build(seed)
    played(world, outcomes, settle, MOST_STEPS)
    truth = world.truth
    return Report(
        seed, world.trace.hexdigest(), world.steps, len(truth.history), truth.refills, outcomes, world.coverage
    )


def build(seed: int) -> tuple[World, Counter[str]]:
    """The world of a seed, before its first step."""
    dice = random.Random(f"schedule {seed}")
    quiet = dice.random() < 0.15
    chances = (
        Chances()
        if quiet
        else Chances(
            put=dice.choice((0.1, 0.3, 0.6)),
            read=dice.choice((0.0, 0.0, 0.03)),
            delete=dice.choice((0.0, 0.4)),
            stale=dice.choice((0.0, 0.3)),
            torn=dice.choice((0.0, 0.3)),
            die=dice.choice((0.0, 0.01, 0.04)),
            stall=dice.choice((0.0, 0.05, 0.2)),
            skew_ms=dice.choice((0, 60_000, 200_000)),
        )
    )
    options = {
        "state.format": dice.choice((*(7 * ("json",)), "avro")),
        "checkpoint.interval": dice.choice((*(7 * ("1000000",)), "2")),
        "logRetention.duration": str(RETENTION_MS),
        "checkpointRetention.duration": "0",
        "state.retention.versions": "1",
        "state.retention.hours": "0",
        "commit.tokenWindow": dice.choice(("8192", "8192", "2")),
    }
    world = World(seed, chances, local=dice.random() < 0.5, options=options)
    world.naps_ms = (1500, 3000, 6000)
    outcomes: Counter[str] = Counter()
    populate(world)
    # Seeds take turns with who meets whom, so that rare company is met as often as common company.
    pair = PAIRS[seed % len(PAIRS)]
    for i in range(dice.choice((2, 2, 3))):
        verbs = [pair[i] if i < len(pair) else dice.choice(VERBS)]
        verbs += [dice.choice(VERBS) for _ in range(dice.choice((0, 1)))]
        # Some start when the cleaner is at work already.
        delay_s = dice.choice((0.0, 0.0, 0.4, 1.0))
        world.spawn(f"writer{i}", writer(verbs, outcomes, f"app{dice.randrange(2)}", delay_s), lives=2)
    if dice.random() < 0.9:
        writers = [a for a in world.actors if a.name.startswith("writer")][: dice.choice((1, 2, 2))]
        world.sleepers = [Sleeper(actor, COMMIT) for actor in writers]
    cleaning = world.spawn("cleaner", cleaner(dice.choice((2, 3, 3))), lives=2)
    if dice.random() < 0.25:
        world.sleepers.append(Sleeper(cleaning, dice.choice((CHECKPOINT, ANY_CALL)), dice.randrange(3)))
    if dice.random() < 0.3:
        world.spawn("cleaner2", cleaner(1))
    world.spawn("reader", reader(2), lives=2)
    if dice.random() < 0.5:
        name = dice.choice(sorted(WATCHERS))
        world.spawn(name, WATCHERS[name](dice.choice((2, 3)), outcomes, 1.5), lives=2)
    return world, outcomes


def is_possible(one: str, other: str, fault: str) -> bool:
    """False for pairs that no schedule can hold, or that a fault cannot meet."""
    singles = {"read"}
    pair = {one, other}
    if one == other and one in singles:
        return False
    if fault == "delete-5xx":
        return "clean up" in pair
    if fault in {*PUT_FAULTS, "sleep"}:
        # Only commits and checkpoints are put if absent, and only writers oversleep.
        return bool(pair - {"read", "clean up"}) and not (
            fault == "sleep" and not pair - {"checkpoint", "clean up", "read"}
        )
    return True


def populate(world: World) -> None:
    """Version 0 comes from racing creators in one world out of eight, else it is just there, with a file."""
    if world.random.random() < 0.12:
        for i in range(2):
            world.spawn(f"creator{i}", create)
        return
    quiet, world.chances = world.chances, Chances()
    maker = world.spawn("maker", make)
    world.run()
    world.chances = quiet
    world.actors.remove(maker)


def make(actor: Actor) -> None:
    log = open_log(actor.env())
    create_table(log, _metadata(actor))
    for _ in range(2):
        tx = Transaction(log, operation="WRITE").add([_file(actor)])
        _record(actor, tx.commit(), Counter())


def create(actor: Actor) -> None:
    actor.doing = "create"
    log = open_log(actor.env())
    try:
        created = create_table(log, _metadata(actor))
    except CommitStateUnknown:
        return
    except SchemaMismatch:
        raise
    except TROUBLE:
        return
    if created.is_new:
        actor.world.truth.acked = max(actor.world.truth.acked, 0)
        if actor.world.truth.metadata[0]["id"] != created.metadata.id:
            raise Broken(f"seed {actor.world.seed}: L11: two creators of version 0")


def writer(
    verbs: list[str], outcomes: Counter[str], app: str, delay_s: float = 0.0, *, pause_s: float = 0.0
) -> Callable[[Actor], None]:
    """Each verb once; after a death the next life goes on with the verb that was under way."""
    left = list(verbs)
    batches = iter(range(100))
    batch = [next(batches)]

    def script(actor: Actor) -> None:
        log = open_log(actor.env())
        actor.skew_ms += actor.world.random.choice((0, 0, 5_000, -5_000)) if actor.world.chances.skew_ms else 0
        actor.doing = left[0] if left else "nothing"
        actor.ambient.sleep(delay_s * actor.ambient.random())
        while left:
            actor.doing = left[0]
            if left[0] == "batch":
                _batch(actor, log, app, batch[0], outcomes)
                batch[0] = next(batches)
            else:
                _attempt(actor, log, VERB_SCRIPTS[left[0]], outcomes)
            left.pop(0)
            if pause_s:
                actor.ambient.sleep(pause_s * actor.ambient.random())

    return script


def _batch(actor: Actor, log: Log, app: str, number: int, outcomes: Counter[str]) -> None:
    """Both writers of an application write the same batches, as a job does that is started twice."""

    def stage() -> Transaction:
        return Transaction(log, operation="WRITE").add([_file(actor)]).set_txn(app, number)

    outcome = _attempt(actor, log, lambda _actor, _log: stage(), outcomes)
    if isinstance(outcome, Committed) and outcome.repeated:
        actor.world.truth.repeated(app, number)


def _attempt(
    actor: Actor, log: Log, stage: Callable[[Actor, Log], Transaction | None], outcomes: Counter[str]
) -> Outcome | None:
    acked, faults = actor.world.truth.acked, actor.faults
    tx: Transaction | None = None
    try:
        tx = stage(actor, log)
        outcome = None if tx is None else tx.commit()
    except TableNotFound:
        _expect_no_table(actor, acked)
        outcomes["no table"] += 1
        actor.ambient.sleep(0.05)
        return None
    except TROUBLE as error:
        outcomes[type(error).__name__] += 1
        if tx is not None:
            actor.world.truth.conflicted(tx.token)
        return None
    if outcome is not None and tx is not None:
        _check_blind(actor, tx, outcome)
        if (
            isinstance(outcome, Unknown)
            and actor.faults == faults
            and actor.world.options.get("commit.tokenWindow") != "2"
        ):
            # Nobody may be left in doubt for whom the store answered every call.
            raise Broken(f"seed {actor.world.seed}: L4: {outcome} without a fault")
        _record(actor, outcome, outcomes)
    return outcome


def _record(actor: Actor, outcome: Outcome, outcomes: Counter[str]) -> None:
    truth = actor.world.truth
    actor.world.note(actor, "outcome", type(outcome).__name__, outcome.token)
    outcomes[type(outcome).__name__] += 1
    if isinstance(outcome, Committed):
        if not outcome.repeated:
            truth.committed(outcome.version, outcome.token)
    elif isinstance(outcome, Conflicted):
        truth.conflicted(outcome.token)
    else:
        truth.unknown(outcome.token, outcome.version)


def _check_blind(actor: Actor, tx: Transaction, outcome: Outcome) -> None:
    if tx.is_blind_append and isinstance(outcome, Conflicted):
        changed = any(version.changes_table for version in actor.world.truth.history[1:])
        if not changed or outcome.kind not in {"metadata", "protocol"}:
            raise Broken(f"seed {actor.world.seed}: L10: a blind append clashes: {outcome}")


def _append(actor: Actor, log: Log) -> Transaction:
    return Transaction(log, operation="WRITE", parameters={"mode": "Append"}).add([_file(actor)])


def _overwrite(actor: Actor, log: Log) -> Transaction:
    file = _file(actor)

    def remove_all(snapshot: Snapshot) -> Staged:
        return Staged(removes=removes_of(snapshot.files, actor.ambient.now_ms()), removed_rows=snapshot.files)

    tx = Transaction(log, operation="WRITE", parameters={"mode": "Overwrite"})
    return tx.add([file]).bind(remove_all, replaces_range=True)


def _rewrite(actor: Actor, log: Log) -> Transaction | None:
    """Read a file, replace it by another one: two of these on one file must never both commit."""
    snapshot = log.snapshot()
    paths = snapshot.files["path"].to_pylist()
    if not paths:
        return None
    chosen = int(actor.ambient.random() * len(paths))
    tx = Transaction(log, snapshot, operation="UPDATE")
    return tx.read_files([paths[chosen]]).remove([_remove(snapshot, chosen)]).add([_file(actor)])


def _mask(actor: Actor, log: Log) -> Transaction | None:
    """Give a file a new vector, by an `add` alone or with the removal of the old one: both are allowed."""
    snapshot = log.snapshot()
    rows = snapshot.files.to_pylist()
    if not rows:
        return None
    chosen = int(actor.ambient.random() * len(rows))
    row = rows[chosen]
    made = dv.inline(dv.encode([int(actor.ambient.random() * ROWS)]))
    vector = DeletionVector(**msgspec.structs.asdict(made))
    values, base = dict(row["partitionValues"]), row["baseRowId"]
    add = Add(row["path"], values, 4, 1, dataChange=True, numRecords=ROWS, deletionVector=vector, baseRowId=base)
    tx = Transaction(log, snapshot, operation="DELETE").read_files([row["path"]])
    return (tx if actor.ambient.random() < 0.5 else tx.remove([_remove(snapshot, chosen)])).add([add])


def _sum_up(actor: Actor, log: Log) -> Transaction:
    """Read everything, add one file: a serializable transaction, which must have seen every version below it."""
    snapshot = log.snapshot()
    parameters = {"saw": str(snapshot.version), "files": str(snapshot.files.num_rows)}
    tx = Transaction(log, snapshot, operation="SUM", parameters=parameters, isolation="Serializable")
    return tx.read_all().add([_file(actor)])


def _merge(actor: Actor, log: Log) -> Transaction | None:
    snapshot = log.snapshot()
    if snapshot.files.num_rows < 2:
        return None
    tx = Transaction(log, snapshot, operation="MERGE SPLITS")
    gone = [_remove(snapshot, number, data_change=False) for number in range(2)]
    return tx.remove(gone).add([_file(actor, data_change=False)])


def _remove(snapshot: Snapshot, number: int, *, data_change: bool = True) -> Remove:
    path, held = (snapshot.files[name][number].as_py() for name in ("path", "deletionVector"))
    vector = None if held is None else msgspec.convert(held, DeletionVector)
    return Remove(path, dataChange=data_change, deletionVector=vector)


def _set_property(actor: Actor, log: Log) -> Transaction:
    snapshot = log.snapshot()
    before = snapshot.metadata
    changed = Metadata(
        before.id,
        before.schemaString,
        partitionColumns=before.partitionColumns,
        configuration={"k": actor.ambient.token()},
        createdTime=before.createdTime,
    )
    return Transaction(log, snapshot, operation="SET TBLPROPERTIES").set_metadata(changed)


def _set_domain(actor: Actor, log: Log) -> Transaction:
    tx = Transaction(log, log.snapshot(), operation="DOMAIN")
    return tx.set_domain(DomainMetadata("test.domain", actor.ambient.token()))


VERB_SCRIPTS: dict[str, Callable[[Actor, Log], Transaction | None]] = {
    "append": _append,
    "overwrite": _overwrite,
    "rewrite": _rewrite,
    "mask": _mask,
    "sum": _sum_up,
    "merge": _merge,
    "property": _set_property,
    "domain": _set_domain,
}
WATCHERS = {"follower": follower, "historian": historian, "protector": protector}
VERBS = (*VERB_SCRIPTS, "append", "append", "rewrite", "batch", "batch")
PAIRS = tuple(combinations_with_replacement((*VERB_SCRIPTS, "batch"), 2))


def _expect_no_table(actor: Actor, acked: int) -> None:
    """Only before version 0 is acknowledged may anybody say that there is no table."""
    if acked >= 0:
        raise Broken(f"seed {actor.world.seed}: L8: no table is found after version {acked}")


def reader(reads: int) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        actor.doing = "read"
        log = open_log(actor.env())
        newest = -1
        for _ in range(reads):
            if newest >= 0 and actor.ambient.random() < 0.5:
                # As a process that starts anew: it knows nothing, and must not fall behind what others have seen.
                log = open_log(actor.env())
            acked = actor.world.truth.acked
            try:
                snapshot = log.snapshot()
                _check_snapshot(actor, snapshot)
                if snapshot.version < max(newest, acked):
                    message = f"L8: version {snapshot.version} is read as latest after {max(newest, acked)}"
                    raise Broken(f"seed {actor.world.seed}: {message}")
                newest = snapshot.version
                _read_old(actor, log, int(actor.ambient.random() * (newest + 1)))
            except TableNotFound:
                _expect_no_table(actor, acked)
            except TROUBLE:
                pass
            actor.ambient.sleep(actor.ambient.random() * 0.3)

    return script


def _read_old(actor: Actor, log: Log, version: int) -> None:
    try:
        _check_snapshot(actor, log.snapshot(version))
    except VersionExpired:
        actor.world.truth.expired(version)


def _check_snapshot(actor: Actor, snapshot: Snapshot) -> None:
    read = told(snapshot)
    actor.world.note(actor, "snapshot", str(read.version), read.paths)
    actor.world.truth.read(read)


def cleaner(rounds: int, kept_ms: int = RETENTION_MS) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        env = actor.env()
        log = open_log(env)
        for _ in range(rounds):
            actor.doing = "checkpoint"
            actor.ambient.sleep(actor.ambient.random() * 0.2)
            acked = actor.world.truth.acked
            try:
                snapshot = log.snapshot()
                _check_snapshot(actor, snapshot)
                write_checkpoint(env, snapshot.state)
                actor.doing = "clean up"
                # Longer than a listing may lag behind, and than versions are kept.
                actor.ambient.sleep((kept_ms + LAG_MS + 50) / 1000)
                clean_up(env)
            except TableNotFound:
                _expect_no_table(actor, acked)
            except TROUBLE:
                pass

    return script


def settle(world: World, outcomes: Counter[str]) -> None:
    """After the storm: the log reads as what happened, and every doubt can be resolved or is still a doubt."""
    world.chances = Chances()
    world.land_all()
    if not world.truth.history:
        return
    truth = world.truth

    def look(actor: Actor) -> None:
        log = open_log(actor.env())
        snapshot = log.snapshot()
        _check_snapshot(actor, snapshot)
        if snapshot.version != len(truth.history) - 1:
            raise Broken(f"seed {world.seed}: L2: the newest version is read as {snapshot.version}")
        for token, version in truth.doubtful:
            try:
                held = resolve_token(log, token, version)
            except CommitStateUnknown:
                outcomes["still unknown"] += 1
                continue
            outcomes["resolved"] += 1
            if held != truth.tokens.get(token):
                raise Broken(f"seed {world.seed}: L4: {token} is resolved as {held}, it is {truth.tokens.get(token)}")

    for version in truth.history:
        if version.operation == "SUM" and int(version.parameters["saw"]) != version.number - 1:
            between = truth.history[int(version.parameters["saw"]) + 1 : version.number]
            touched = [v.number for v in between if v.adds or v.removes]
            moved = [v.number for v in between if v.operation == "MERGE SPLITS"]
            if set(touched) - set(moved):
                raise Broken(f"seed {world.seed}: L7: version {version.number} did not see {touched}")
    world.actors = []
    world.spawn("last", look)
    world.run()


def _metadata(actor: Actor) -> Metadata:
    return Metadata(id=actor.ambient.token(), schemaString=SCHEMA, partitionColumns=["p"], createdTime=1)


def _file(actor: Actor, *, data_change: bool = True) -> Add:
    path = f"splits/split-{actor.ambient.token()}.split"
    # The data file is durable before anything names it.
    while path not in actor.world.objects:
        try:
            actor.store.put(path, b"rows")
        except StoreError:
            if path in actor.world.objects:
                break
    value = PARTITIONS[int(actor.ambient.random() * len(PARTITIONS))]
    return Add(path, {"p": value}, 4, 1, dataChange=data_change, numRecords=ROWS)
