"""What happens to a table from outside: a clock is set, a version file is lost, the table is dropped and made anew.

Every schedule has one mishap, which must happen: one that passes without it fails. Processes keep their handles through
it. What they may be told afterwards is an error; what they may not be told is that something is there which is not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from indextables.errors import CommitStateUnknown, IndexTablesError, StoreError, TableNotFound, VersionExpired
from indextables.log.care.cleanup import clean_up
from indextables.log.care.intents import announce_drop
from indextables.log.care.sweeping import await_sweeps
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit.create import create_table
from indextables.log.wire.names import version_key
from indextables.log.wire.outcome import Committed
from tests.log.commits import open_log
from tests.sim import schedule
from tests.sim.playing import Report, played
from tests.sim.truth import SLOT, Broken, Read, Truth, Version
from tests.sim.watching import told
from tests.sim.world import Actor, Chances, Item, World

KINDS = ("clock", "lost file", "lost head", "dropped")
DAY_MS = 86_400_000
MAX_SKEW_MS = 300_000
MOST_STEPS = 20_000
NOTHING = (StoreError, IndexTablesError)


class MishapTruth(Truth):
    """Also knows what was lost, which tables were here before, and files that belong to none of them."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.lost: dict[int, Item] = {}
        self.strays: dict[str, str] = {}
        """Files of writers whose ground is gone, by key, each with its token: no versions."""
        self.past: list[Truth] = []
        self.deletes_nothing = False
        self.is_dropped = False

    def landing(self, key: str, data: bytes) -> None:
        match = SLOT.fullmatch(key)
        if match is None:
            super().landing(key, data)
            return
        version = Version(int(match[1]), data)
        foreign = version.number > 0 and (self.is_dropped or version.table != self.metadata[-1]["id"])
        if version.number in self.lost or foreign:
            self.strays[key] = version.token
            return
        self._expect(version.time <= self.world.clock_ms + MAX_SKEW_MS, f"T1: version {version.number} lies ahead")
        self.is_dropped = False
        super().landing(key, data)

    def deleted(self, key: str) -> None:
        if self.strays.pop(key, None) is not None:
            return
        match = SLOT.fullmatch(key)
        if match is not None and int(match[1]) == len(self.history) - 1 and self.history[-1].number > self.acked:
            # Its writer takes it back: it must not be told that it has committed.
            taken = self.history.pop()
            for told_of in (self.live, self.shown, self.watermarks, self.metadata, self.row_ids):
                told_of.pop()
            del self.tokens[taken.token]
            return
        if match is not None:
            self._expect(not self.deletes_nothing, f"T2: version {int(match[1])} is deleted, and is minutes old")
        super().deleted(key)

    def lose(self, number: int) -> None:
        """A version file is gone, and nobody deleted it."""
        self.lost[number] = self.world.objects.pop(version_key(number))

    def bring_back(self) -> None:
        """The operator restores what was lost, and moves away what lies in its place or belongs to nobody."""
        for key in list(self.strays):
            self.world.objects.pop(key, None)
        self.strays.clear()
        for number, item in self.lost.items():
            self.world.objects[version_key(number)] = item
        self.lost.clear()

    def drop(self) -> None:
        """The log is deleted. Data files stay: those of writers at work may yet be committed here."""
        before = Truth(self.world)
        before.__dict__.update({name: value for name, value in vars(self).items() if name in vars(before)})
        self.past.append(before)
        for key in [key for key in self.world.objects if key.startswith("_transaction_log/")]:
            del self.world.objects[key]
        fresh = vars(Truth(self.world))
        vars(self).update({name: fresh[name] for name in fresh if name not in {"world", "batches", "refused"}})
        self.batches = {}
        self.strays.clear()
        self.is_dropped = True

    def committed(self, version: int, token: str) -> None:
        if any(version < len(table.history) and table.history[version].token == token for table in self.past):
            return
        super().committed(version, token)

    def read(self, read: Read) -> None:
        for table in self.past:
            if table.metadata[-1]["id"] == read.metadata_id:
                table.read(read)
                return
        super().read(read)

    def expired(self, version: int) -> None:
        if not self.past:
            super().expired(version)


def writer(verbs: list[str], outcomes: Counter[str], nap_s: float, *, heeds: bool = False) -> Callable[[Actor], None]:
    """Verb after verb through one handle, which outlives what happens to the table.

    One that `heeds` what it is told stops where the log is said to be damaged, until somebody has looked after it.
    """

    def script(actor: Actor) -> None:
        log = open_log(actor.env())
        for verb in verbs:
            actor.doing = verb
            actor.ambient.sleep(actor.ambient.random() * nap_s)
            stage = schedule.VERB_SCRIPTS[verb]
            if not _attempt(actor, lambda stage=stage: stage(actor, log), outcomes) and heeds:  # type: ignore[misc]
                return

    return script


def _attempt(actor: Actor, stage: Callable[[], object], outcomes: Counter[str]) -> bool:
    """True if the commit is known to be in the log."""
    tx = None
    try:
        tx = stage()
        outcome = None if tx is None else tx.commit()  # type: ignore[attr-defined]
    except NOTHING as error:
        outcomes[type(error).__name__] += 1
        if tx is not None:
            actor.world.truth.conflicted(tx.token)  # type: ignore[attr-defined]
        return False
    if outcome is not None:
        schedule._record(actor, outcome, outcomes)
    return isinstance(outcome, Committed)


def reader(rounds: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        actor.doing = "read"
        log = open_log(actor.env())
        for _ in range(rounds):
            actor.ambient.sleep(actor.ambient.random())
            try:
                snapshot = log.snapshot()
                actor.world.truth.read(told(snapshot))
                version = int(actor.ambient.random() * (snapshot.version + 1))
                actor.world.truth.read(told(log.snapshot(version)))
                outcomes["read"] += 2
            except NOTHING as error:
                outcomes[f"read: {type(error).__name__}"] += 1

    return script


def keeper(rounds: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Checkpoints and cleans up."""

    def script(actor: Actor) -> None:
        actor.doing = "clean up"
        log = open_log(actor.env())
        for _ in range(rounds):
            actor.ambient.sleep(actor.ambient.random())
            try:
                write_checkpoint(actor.env(), log.snapshot().state)
                actor.ambient.sleep(actor.ambient.random())
                clean_up(actor.env())
            except NOTHING as error:
                outcomes[f"keep: {type(error).__name__}"] += 1

    return script


def clock_setter(outcomes: Counter[str], step_ms: int) -> Callable[[Actor], None]:
    """Sets the clock of one machine while it works, and sets it right again later."""

    def script(actor: Actor) -> None:
        world = actor.world
        actor.ambient.sleep(actor.ambient.random() * 1.5)
        busy = [other for other in world.actors if other is not actor and not other.done]
        victim = busy[int(actor.ambient.random() * len(busy))]
        victim.skew_ms += step_ms
        outcomes["clock"] += 1
        actor.ambient.sleep(1 + 3 * actor.ambient.random())
        victim.skew_ms -= step_ms

    return script


def loser(outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Loses the file of a version that has two above it, and brings it back later."""

    def script(actor: Actor) -> None:
        truth = actor.world.truth
        assert isinstance(truth, MishapTruth)
        # Before cleanup takes anything.
        actor.ambient.sleep(actor.ambient.random() * schedule.RETENTION_MS / 2000)
        there = [number for number in range(len(truth.history) - 2) if version_key(number) in actor.world.objects]
        truth.lose(there[int(actor.ambient.random() * len(there))])
        outcomes["lost file"] += 1
        actor.ambient.sleep(1 + 3 * actor.ambient.random())
        truth.bring_back()

    return script


def beheader(outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Loses the file of the newest version, which the one writer knows, and brings it back later."""

    def script(actor: Actor) -> None:
        truth = actor.world.truth
        assert isinstance(truth, MishapTruth)
        made = len(truth.history) - 1
        while truth.acked <= made or truth.acked < len(truth.history) - 1:
            actor.ambient.sleep(0.01)
        truth.lose(truth.acked)
        outcomes["lost head"] += 1
        # The writer goes on in the meantime.
        actor.ambient.sleep(2 + 3 * actor.ambient.random())
        truth.bring_back()

    return script


def dropper(outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Deletes the folder and makes another table there, with as many versions or fewer."""

    def script(actor: Actor) -> None:
        actor.doing = "drop"
        truth = actor.world.truth
        assert isinstance(truth, MishapTruth)
        actor.ambient.sleep(actor.ambient.random() * 1.5)
        # A delete of a cleanup may be under way: whoever drops waits until none can arrive any more.
        dropped = False
        while not dropped:
            try:
                with announce_drop(actor.env()):
                    await_sweeps(actor.env())
                    truth.drop()
                    dropped = True
            except StoreError:
                actor.ambient.sleep(30)
        outcomes["dropped"] += 1
        log = open_log(actor.env())
        for _ in range(200):
            try:
                create_table(log, schedule._metadata(actor))
                break
            except CommitStateUnknown:
                break
            except NOTHING:
                actor.ambient.sleep(0.1)
        for _ in range(int(actor.ambient.random() * 7)):
            _attempt(actor, lambda: schedule._append(actor, log), outcomes)

    return script


def run(seed: int) -> Report:
    """Play the schedule of a seed to its end. Raises Broken or Stuck, which name the seed."""
    report = played(*build(seed), settle, MOST_STEPS)
    kind = KINDS[seed % len(KINDS)]
    if not report.outcomes[kind]:
        raise Broken(f"seed {seed}: nothing happened: {kind}")
    return report


def build(seed: int) -> tuple[World, Counter[str]]:
    """The world of a seed, before its first step."""
    kind = KINDS[seed % len(KINDS)]
    dice = random.Random(f"mishap {seed}")
    options: dict[str, object] = {
        "checkpoint.interval": dice.choice(("1000000", "4")),
        "logRetention.duration": str(DAY_MS if kind == "clock" else schedule.RETENTION_MS),
        "checkpointRetention.duration": "0",
        "state.retention.versions": "1",
        "state.retention.hours": "0",
    }
    # On local files a writer looks at the version below before it puts: nothing has to be taken back there.
    local = kind != "lost head" and dice.random() < 0.5
    world = World(seed, Chances(), local=local, options=options)
    truth = world.truth = MishapTruth(world)
    truth.deletes_nothing = kind == "clock"
    outcomes: Counter[str] = Counter()
    maker = world.spawn("maker", _make)
    world.run()
    world.actors.remove(maker)
    world.chances = Chances(
        delete=0.5 if kind == "lost head" else dice.choice((0.0, 0.4)),
        stall=dice.choice((0.0, 0.1)),
        torn=dice.choice((0.0, 0.2)),
        # A file that a lost answer leaves in a dropped table is found by nobody.
        put=0.0 if kind in {"dropped", "lost head"} else dice.choice((0.0, 0.2)),
    )
    # Who has never seen the newest version cannot know that it is lost: beside that, only one process writes.
    for number in range(1 if kind == "lost head" else 2):
        verbs = [dice.choice(("append", "append", "overwrite", "rewrite", "mask", "property")) for _ in range(4)]
        if kind == "lost head":
            verbs = ["append"] * 6
        world.spawn(f"writer{number}", writer(verbs, outcomes, 1.0, heeds=kind == "lost head"))
    if kind != "lost head":
        world.spawn("reader", reader(4, outcomes))
    if kind == "clock" or (kind != "lost head" and dice.random() < 0.5):
        world.spawn("keeper", keeper(dice.choice((1, 3)), outcomes))
    mishaps = {
        "clock": clock_setter(outcomes, dice.choice((40 * DAY_MS, -40 * DAY_MS, 2 * MAX_SKEW_MS))),
        "lost file": loser(outcomes),
        "lost head": beheader(outcomes),
        "dropped": dropper(outcomes),
    }
    world.spawn(kind, mishaps[kind])
    return world, outcomes


def settle(world: World, outcomes: Counter[str]) -> None:
    """Afterwards, with what was lost in its place again, the log reads as what happened."""
    world.chances = Chances()
    truth = world.truth
    assert isinstance(truth, MishapTruth)
    world.land_all()
    truth.bring_back()

    def look(actor: Actor) -> None:
        log = open_log(actor.env())
        try:
            newest = log.snapshot()
        except TableNotFound:
            if truth.history:
                raise
            return
        truth.read(told(newest))
        if newest.version != len(truth.history) - 1:
            raise Broken(f"seed {world.seed}: L2: the newest version is read as {newest.version}")
        for version in log.versions():
            try:
                truth.read(told(log.snapshot(version)))
            except VersionExpired:
                truth.expired(version)

    world.actors = []
    world.spawn("last", look)
    world.run()
    outcomes["versions"] += len(truth.history)


def _make(actor: Actor) -> None:
    schedule.make(actor)
    log = open_log(actor.env())
    for _ in range(2):
        schedule._record(actor, schedule._append(actor, log).commit(), Counter())
