"""Purge, truncate, restore and checkpoints among merges, appends, deletes and readers of old versions, by seed.

Objects, rows, merges and the truth about rows are those of `merging`. What comes on top is who may be deleted from:
at every single delete the truth asks whether any version that can be read, any reader with an intent and any writer
with one still needs the file, whether it is old enough, and whether it is ours at all.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable

import greenlet

from indextables.errors import CommitConflict, CommitError, CommitStateUnknown, LogError, StoreError, VersionExpired
from indextables.log.care.intents import protect_keys, protect_version, store_now_ms
from indextables.log.commit.create import create_table
from indextables.log.commit.staged import Staged
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Metadata, Remove
from indextables.table.maintenance.purge.verb import purge
from indextables.table.maintenance.restore import restore
from indextables.table.maintenance.truncate import truncate_time_travel
from indextables.table.requests import Purge, Restore, TruncateTimeTravel
from indextables.table.running import Threads
from indextables.table.writing.kept import check_kept
from tests.log.commits import open_log
from tests.sim.merging import (
    NAPS_MS,
    RETENTION_S,
    RowTruth,
    _next_row,
    appender,
    deleter,
    merger,
    old_reader,
    put_rows,
)
from tests.sim.playing import Report, played
from tests.sim.schedule import SCHEMA, TROUBLE, _set_domain, cleaner
from tests.sim.truth import SLOT, Broken, Version
from tests.sim.watching import told
from tests.sim.world import ANY_CALL, COMMIT, Actor, Chances, Sleeper, World
from tests.world.commits import append

REFUSED = (*TROUBLE, CommitConflict, CommitStateUnknown)
MOST_STEPS = 80_000
FOREIGN = ("notes.txt", "splits/other.split", "sub/splits/split-" + "0" * 32 + ".split", "_transaction_log/mine.txt")
PURGE_LEASE = re.compile(r"put(?:_if_absent)? .*lease-purge.*|list splits/.*")
LEASE_RENEWAL = re.compile(r"put .*lease-purge.*")
FIRST_DELETE = re.compile(r"delete splits/.*")
SAFE_S = 25 * 3600
_STATE = re.compile(r"_transaction_log/(?:([0-9]{20})\.checkpoint\.json|state-v([0-9]{20})/_manifest\.avro)")


class CareTruth(RowTruth):
    """Also knows what may be deleted when."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.unfinished: set[str] = set()
        """Files of writers that have announced themselves and have not committed yet."""
        self.created: dict[str, int] = {}
        self.kept_s = RETENTION_S
        """What a purge asks for here: nothing younger goes."""

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        self.created[key] = self.world.clock_ms

    def may_be_hidden(self, key: str) -> bool:
        # The checkpoint of the newest version covers what a truncation has deleted right below it.
        return super().may_be_hidden(key) and self._state_version(key) != self.cleaned + 1

    def deleted(self, key: str) -> None:
        super().deleted(key)
        self._expect(key not in FOREIGN, f"P5: {key} is not ours and is deleted")
        if not key.endswith(".split"):
            return
        if self._is_purge():
            # Who gives up takes its own files away, whenever it likes.
            self._expect(key not in self.unfinished, f"P2: {key} belongs to a live writer and is deleted")
            age = self.world.clock_ms - self.created[key]
            self._expect(age > self.kept_s * 1000, f"P2: {key} is deleted after {age} ms")
        for version in self.readable():
            self._expect(key not in self.live[version], f"P1: {key} is deleted, version {version} needs it")

    def _is_purge(self) -> bool:
        now = greenlet.getcurrent()
        return any(actor.doing == "purge" for actor in self.world.actors if actor.greenlet is now)

    def readable(self) -> list[int]:
        """The versions that the objects which are there still tell."""
        slots = {int(match[1]) for key in self.world.objects if (match := SLOT.fullmatch(key))}
        bases = {int(m[1] or m[2]) for key in self.world.objects if (m := _STATE.fullmatch(key))}
        found: set[int] = set()
        for start in sorted({-1, *bases}):
            version = start
            while version + 1 in slots and version + 1 not in found:
                version += 1
                found.add(version)
        return sorted({*found, *bases} & set(range(len(self.history))))

    def _commit(self, version: Version) -> None:
        before = set(self.live[-1]) if self.live else set()
        super()._commit(version)
        self.unfinished -= set(version.adds)
        if version.operation == "RESTORE":
            wanted = self.live[int(version.parameters["version"])]
            self._expect(self.live[-1] == wanted, f"RESTORE as version {version.number} gives other files")
            rows = self.rows[int(version.parameters["version"])]
            self._expect(self.rows[-1] == rows, f"RESTORE as version {version.number} gives other rows")
        elif version.operation in {"PURGE", "TRUNCATE TIME TRAVEL"}:
            self._expect(self.live[-1] == before, f"P9: {version.operation} changes version {version.number}")


def purger(
    count: int,
    outcomes: Counter[str],
    *,
    dry_share: float = 0.2,
    kept_s: int = RETENTION_S,
    waits: tuple[float, float] = (0.5, 1.5),
) -> Callable[[Actor], None]:
    """Purges what is older than `kept_s`, each time after a wait of so many times that."""

    def script(actor: Actor) -> None:
        actor.doing = "purge"
        log = open_log(actor.env())
        for _ in range(count):
            actor.ambient.sleep(kept_s * (waits[0] + (waits[1] - waits[0]) * actor.ambient.random()))
            hours = kept_s / 3600
            dry = actor.ambient.random() < dry_share
            try:
                report = purge(
                    log,
                    Purge(
                        older_than_hours=hours, tx_log_retention_hours=hours, dry_run=dry, force=kept_s == RETENTION_S
                    ),
                    runner=Threads(actor.env()),
                )
            except REFUSED:
                outcomes["purge refused"] += 1
                continue
            outcomes["foreseen" if dry else "purged"] += report.count("split")
            outcomes["cut"] += report.count("version")
            outcomes["busy"] += "another process" in report.reason

    return script


def truncater(outcomes: Counter[str]) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        actor.doing = "truncate"
        actor.ambient.sleep(RETENTION_S * 2 * actor.ambient.random())
        try:
            report = truncate_time_travel(open_log(actor.env()), TruncateTimeTravel())
        except REFUSED:
            outcomes["truncate refused"] += 1
            return
        outcomes["truncated"] += len(report.versions)

    return script


def restorer(count: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        actor.doing = "restore"
        log = open_log(actor.env())
        for _ in range(count):
            actor.ambient.sleep(RETENTION_S * 2 * actor.ambient.random())
            try:
                # Old versions more often than new ones: those are what purges and truncations race for.
                version = int(actor.ambient.random() ** 2 * (log.latest_version() + 1))
                report = restore(log, Restore(version=version), runner=Threads(actor.env()))
            except VersionExpired:
                outcomes["too late to restore"] += 1
            except REFUSED:
                outcomes["restore refused"] += 1
            else:
                outcomes["restored"] += report.added_files + report.removed_files > 0

    return script


def emptier(count: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Removes whole files, so that there is something to purge and to bring back."""

    def script(actor: Actor) -> None:
        actor.doing = "remove"
        log = open_log(actor.env())
        truth = actor.world.truth
        for _ in range(count):
            actor.ambient.sleep(actor.ambient.random() * 3)
            try:
                snapshot = log.snapshot()
                plain = snapshot.files.filter(snapshot.files["deletionVector"].is_null())
                paths = [path for path in plain["path"].to_pylist() if json.loads(truth.contents[path])]  # type: ignore[attr-defined]
                if not paths:
                    continue
                path = paths[int(actor.ambient.random() * len(paths))]
                removal = [Remove(path, dataChange=True)]
                Transaction(log, snapshot, operation="DELETE").read_files([path]).remove(removal).commit_or_raise()
                outcomes["removed"] += 1
            except REFUSED:
                outcomes["remove refused"] += 1

    return script


def patient_writer(count: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Announces itself, writes, and takes longer to commit than files without an owner are kept."""

    def script(actor: Actor) -> None:
        actor.doing = "write for long"
        env = actor.env()
        log = open_log(env)
        truth = actor.world.truth
        assert isinstance(truth, CareTruth)
        for _ in range(count):
            mine: set[str] = set()
            try:
                with protect_keys(env, since_ms=store_now_ms(env), ttl_ms=3_600_000):
                    add = put_rows(actor, [_next_row(actor)])
                    mine.add(add.path)
                    truth.unfinished.add(add.path)
                    actor.ambient.sleep(2 * RETENTION_S * actor.ambient.random())
                    append(log, [add])
                    outcomes["written for long"] += 1
            except REFUSED:
                outcomes["long write in trouble"] += 1
            finally:
                truth.unfinished -= mine

    return script


def silent_writer(count: int, outcomes: Counter[str], kept_s: int) -> Callable[[Actor], None]:
    """Announces nothing, and takes longer to commit than files without an owner are kept.

    It looks for its files right before its put, as everybody who adds files does, and puts at once: one that sleeps
    between the two is helped by nobody.
    """

    def script(actor: Actor) -> None:
        actor.doing = "write unannounced"
        log = open_log(actor.env())

        def look(staged: Staged) -> None:
            actor.hurries = True
            try:
                check_kept(log.env, staged)
            except BaseException:
                actor.hurries = False
                raise

        for _ in range(count):
            try:
                add = put_rows(actor, [_next_row(actor)])
                actor.ambient.sleep(kept_s * (0.9 + 1.1 * actor.ambient.random()))
                done = Transaction(log, operation="WRITE").add([add]).before_put(look).commit_or_raise()
                actor.world.truth.committed(done.version, done.token)
                outcomes["written unannounced"] += 1
            except CommitError as error:
                taken = "missing" in error.details
                outcomes["taken from its writer" if taken else "in the way of a purge"] += 1
                if taken and add.path in actor.world.objects:
                    raise Broken(f"seed {actor.world.seed}: P2: {add.path} is said to be gone, it is there") from None
            except REFUSED:
                outcomes["unannounced write in trouble"] += 1

    return script


def drowsy_writer(outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Commits what needs no file, as late as it likes."""

    def script(actor: Actor) -> None:
        actor.doing = "set a domain"
        log = open_log(actor.env())
        actor.ambient.sleep(actor.ambient.random() * RETENTION_S)
        try:
            _set_domain(actor, log).commit_or_raise()
        except REFUSED:
            outcomes["domain refused"] += 1

    return script


def traveller(count: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Protects an old version, looks whether it is still there, and then relies on it."""

    def script(actor: Actor) -> None:
        actor.doing = "travel"
        env = actor.env()
        truth = actor.world.truth
        assert isinstance(truth, CareTruth)
        for _ in range(count):
            actor.ambient.sleep(actor.ambient.random() * RETENTION_S)
            held = None
            version = -1
            try:
                version = int(actor.ambient.random() * (open_log(env).latest_version() + 1))
                held = protect_version(env, version, ttl_ms=3_600_000)
                paths = open_log(env).snapshot(version).files["path"].to_pylist()
                truth.leased[version] += 1
                for path in paths:
                    actor.ambient.sleep(actor.ambient.random() * RETENTION_S)
                    if path not in actor.world.objects:
                        raise Broken(f"seed {actor.world.seed}: P7: {path} of version {version} is gone")
                    outcomes["travelled files"] += 1
            except (StoreError, LogError):
                outcomes["travel refused"] += 1
            finally:
                if held is not None and not actor.dead:
                    if truth.leased[version]:
                        truth.leased[version] -= 1
                    held.release()

    return script


def run(seed: int) -> Report:
    """Play the schedule of a seed to its end. Raises Broken or Stuck, which name the seed."""
    return played(*build(seed), settle, MOST_STEPS)


def build(seed: int) -> tuple[World, Counter[str]]:
    dice = random.Random(f"caring {seed}")
    options: dict[str, object] = {
        "state.format": dice.choice(("json", "json", "avro")),
        "checkpoint.interval": dice.choice(("1000000", "3")),
        "logRetention.duration": str(RETENTION_S * 1000),
        "checkpointRetention.duration": "0",
        "state.retention.versions": "1",
        "state.retention.hours": "0",
        "state.gc.minManifestAgeHours": dice.choice(("0", "1")),
        "transaction.retry.maxAttempts": dice.choice(("10", "3")),
    }
    world = World(seed, Chances(), local=dice.random() < 0.5, options=options)
    world.truth = CareTruth(world)
    outcomes: Counter[str] = Counter()
    maker = world.spawn("maker", _make)
    world.run()
    world.actors.remove(maker)
    if seed % 4 == 1:
        _say_nothing(world, dice, outcomes)
        return world, outcomes
    if dice.random() < 0.85:
        world.chances = Chances(
            put=dice.choice((0.0, 0.1, 0.3)),
            read=dice.choice((0.0, 0.0, 0.02)),
            delete=dice.choice((0.0, 0.3)),
            stale=dice.choice((0.0, 0.2)),
            torn=dice.choice((0.0, 0.2)),
            die=dice.choice((0.0, 0.005, 0.02)),
            stall=dice.choice((0.0, 0.05, 0.1)),
            skew_ms=dice.choice((0, 60_000)),
        )
    world.naps_ms = NAPS_MS
    world.spawn("purger", purger(dice.choice((2, 3)), outcomes), lives=2)
    world.spawn("appender", appender(dice.choice((2, 4)), outcomes, dice.choice((1, RETENTION_S))), lives=2)
    world.spawn("cleaner", cleaner(dice.choice((1, 2, 3)), dice.choice((1, RETENTION_S)) * 1000), lives=2)
    cast: dict[str, Callable[[Actor], None]] = {
        "emptier": emptier(dice.choice((2, 4)), outcomes),
        "restorer": restorer(dice.choice((2, 3, 4)), outcomes),
        "truncater": truncater(outcomes),
        "merger": merger(dice.choice((1, 2)), outcomes),
        "deleter": deleter(dice.choice((1, 2)), outcomes),
        "patient": patient_writer(dice.choice((1, 2)), outcomes),
        "traveller": traveller(dice.choice((1, 2)), outcomes),
        "reader": old_reader(1, outcomes),
        "purger2": purger(1, outcomes),
    }
    for name in sorted(dice.sample(sorted(cast), dice.choice((4, 5, 6)))):
        world.spawn(name, cast[name], lives=1 if name in {"traveller", "reader", "patient"} else 2)
    # Who has announced what it needs may sleep for as long as it likes; so may a purge, at any of its calls.
    by_name = {actor.name: actor for actor in world.actors}
    sleepy = sorted(by_name.keys() & {"emptier", "restorer", "deleter", "merger", "patient"})
    world.sleepers = [
        Sleeper(by_name[name], COMMIT, dice.randrange(2)) for name in dice.sample(sleepy, min(1, len(sleepy)))
    ]
    if seed % 4 == 3:
        # A purge that has listed what is there sleeps while what it listed is committed, covered and cleaned up.
        world.sleepers.append(Sleeper(by_name["purger"], PURGE_LEASE, dice.randrange(4)))
        for number in range(3):
            world.spawn(f"slow{number}", patient_writer(2, outcomes))
        world.spawn("tidy", cleaner(6, RETENTION_S * 1000))
    elif dice.random() < 0.5:
        world.sleepers.append(Sleeper(by_name["purger"], ANY_CALL, dice.randrange(120)))
    return world, outcomes


def _say_nothing(world: World, dice: random.Random, outcomes: Counter[str]) -> None:
    """Writers without an announcement beside a purge of what is as old as their files, with force or by the safe age.

    The first purge sleeps between its plan and its deletes, between its last look and its deletes, or not at all. In
    that time what it is about to delete is committed, covered and cleaned up, and the slot of that commit is filled by
    a writer that was asleep.
    """
    truth = world.truth
    assert isinstance(truth, CareTruth)
    sleeps = ("plan", "look", "plan", "never")[world.seed // 4 % 4]
    # By the safe age nobody commits beside a purge what it has planned to take.
    truth.kept_s = kept_s = dice.choice((RETENTION_S, RETENTION_S if sleeps == "plan" else SAFE_S))
    world.chances = Chances(stall=dice.choice((0.0, 0.0, 0.02)), torn=dice.choice((0.0, 0.2)))
    world.naps_ms = NAPS_MS
    first = world.spawn("purger", purger(1, outcomes, dry_share=0.0, kept_s=kept_s, waits=(1.05, 1.2)))
    world.spawn("purger2", purger(2, outcomes, kept_s=kept_s, waits=(1.5, 4.0)))
    asleep = world.spawn("drowsy", drowsy_writer(outcomes))
    for number in range(1 if sleeps == "plan" else 2):
        world.spawn(f"silent{number}", silent_writer(1, outcomes, kept_s))
    world.spawn("tidy", cleaner(5, RETENTION_S * 1000))
    # The file of the newest version never goes.
    world.spawn("later", appender(1, outcomes, delay_s=2.5 * RETENTION_S))
    world.sleepers = [Sleeper(asleep, COMMIT)]
    if sleeps != "never":
        world.sleepers.append(Sleeper(first, LEASE_RENEWAL if sleeps == "plan" else FIRST_DELETE))


def settle(world: World, outcomes: Counter[str]) -> None:
    """After the storm: a last purge leaves exactly what the readable versions need, and another finds nothing."""
    world.chances = Chances()
    world.land_all()
    truth = world.truth
    assert isinstance(truth, CareTruth)
    truth.leased.clear()
    truth.unfinished.clear()
    # Leases and intents of the dead are over by then.
    world.clock_ms += 8 * 86_400_000

    def look(actor: Actor) -> None:
        actor.doing = "purge"
        log = open_log(actor.env(**{"checkpoint.enabled": "false"}))
        snapshot = log.snapshot()
        truth.read(told(snapshot))
        hours = RETENTION_S / 3600
        report = purge(log, Purge(older_than_hours=hours, force=True), runner=Threads(actor.env()))
        if report.failed or (
            report.reason not in {"", "nothing is old enough"} and "no checkpoint" not in report.reason
        ):
            outcomes[f"last purge: {report.reason}"] += 1
        needed = {path for version in truth.readable() for path in truth.live[version]}
        there = {key for key in world.objects if key.startswith("splits/split-")}
        if needed - there:
            raise Broken(f"seed {world.seed}: P1: {sorted(needed - there)} are needed and gone")
        again = purge(log, Purge(older_than_hours=hours, dry_run=True, force=True), runner=Threads(actor.env()))
        if again.count("split"):
            raise Broken(f"seed {world.seed}: P4: a second purge finds {again.files['path'].to_pylist()}")
        strays = there - needed
        if strays:
            raise Broken(f"seed {world.seed}: the last purge leaves {sorted(strays)}: {report.kept} {report.reason}")
        missing = [key for key in FOREIGN if key not in world.objects]
        if missing:
            raise Broken(f"seed {world.seed}: P5: {missing} are gone")

    world.actors = []
    world.spawn("last", look)
    world.run(MOST_STEPS)
    outcomes["versions"] += len(truth.history)


def _make(actor: Actor) -> None:
    log = open_log(actor.env())
    create_table(log, Metadata(id=actor.ambient.token(), schemaString=SCHEMA, createdTime=1))
    for _ in range(4):
        append(log, [put_rows(actor, [_next_row(actor) for _ in range(2)])])
    for _ in range(3):
        # Of writers that died before they committed.
        put_rows(actor, [])
    for key in FOREIGN:
        actor.store.put(key, b"mine")
