"""A trace of the model, played by the real code: the same processes, and everything that changes the log in its order.

A step of the model is one request; the real code makes others beside it (check files, the listing in two parts, a
second look). So a process of the world reads when its counterpart in the model reads, and stops before every request
that changes the log until its counterpart makes that change. Then the two must agree about who put what into which
slot, which checkpoints there are, and what each writer was told. A writer of local files looks at a slot before it puts
a version there: it may go around a winner before its counterpart is refused, and not yet know of those that came since.
"""

from __future__ import annotations

import random
import re

import msgspec

from indextables.errors import CommitStateUnknown, IndexTablesError
from indextables.log.care.cleanup import clean_up
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit import head
from indextables.log.commit.create import create_table
from indextables.log.commit.transaction import Transaction
from indextables.log.read import tokens
from indextables.log.wire.actions import Add, Metadata
from tests.log.commits import SCHEMA, open_log
from tests.sim.model import rule as m
from tests.sim.truth import SLOT
from tests.sim.world import Actor, Chances, World

CHANGE = re.compile(
    r"(put_if_absent|delete) _transaction_log/[0-9]{20}\.(json|checkpoint\.json)$|delete _transaction_log/.*state-v.*"
)
FOUND = re.compile(r"get _transaction_log/[0-9]{20}\.|" + CHANGE.pattern)
OPTIONS = {
    "state.format": "json",
    "checkpoint.interval": "1000000",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
}
_CHANGES = {
    ("writer", m.PUT),
    ("writer", m.WITHDRAW),
    ("cleaner", m.PUBLISH),
    ("cleaner", m.PRUNE),
    ("cleaner", m.DELETE),
}


def walk(model: m.Model, seed: int, *, asleep: int | None = None) -> list[m.Step]:
    """One way through the model, by chance, to its end; writer `asleep` moves only when nobody else can."""
    dice = random.Random(seed)
    state, way = model.start, []
    while steps := list(model.steps(state)):
        steps = [step for step in steps if (step.kind, step.index) != ("writer", asleep)] or steps
        way.append(dice.choice(steps))
        state = way[-1].state
    return way


def refills(way: list[m.Step]) -> int:
    """How many puts landed in a slot that cleanup had emptied."""
    slots = [step.state.slots for step in way]
    filled = [
        after[slot] % m.GEN not in {0, step.state.hist[slot]}
        for before, after, step in zip(slots, slots[1:], way[1:], strict=False)
        for slot in range(len(step.state.hist))
        if not before[slot] % m.GEN
    ]
    return sum(filled)


class Replay:
    """The world in which a trace is played."""

    def __init__(self, model: m.Model, *, seed: int = 0) -> None:
        self.model = model
        self.world = World(seed, Chances(), local=model.rule.stat, options=OPTIONS)
        # Objects that are deleted by one request go in the order in which they were named.
        self.world.random.shuffle = lambda _items: None  # type: ignore[method-assign,assignment]
        self.told: dict[int, str] = {}
        self._quietly(self.world.spawn("creator", _create))
        self.writers = [self.world.spawn(f"writer{i}", self._writer(w)) for i, w in enumerate(model.start.writers)]
        self.cleaners = [self.world.spawn(f"cleaner{i}", _cleaner) for i in range(len(model.start.cleaners))]
        for number in range(1, model.creator):
            self.world.replace(f"t{number}", b"rows")
        for writer in self.writers:
            # Up to the first put: it knows version 0, as in the model.
            self._up_to_a_change(writer)

    def play(self, way: list[m.Step], *, freely: bool = False) -> None:
        """Take every step of the trace, then let everybody end. Raises AssertionError where the two do not agree.

        `freely` is for the traces of other rules than the code's: it goes its own way where it knows better.
        """
        before = self.model.start
        for step in way:
            self._take(step, before, freely=freely)
            before = step.state
            if not freely:
                self._compare(step)
        for actor in (*self.writers, *self.cleaners):
            self._quietly(actor)

    def versions(self) -> dict[str, int]:
        """Which version brought which file, as a new reader sees it."""
        found: dict[str, int] = {}

        def read(actor: Actor) -> None:
            files = open_log(actor.env()).snapshot().files
            found.update(zip(files["path"].to_pylist(), files["addedAtVersion"].to_pylist(), strict=True))

        self._quietly(self.world.spawn("reader", read))
        return found

    def _take(self, step: m.Step, before: m.State, *, freely: bool) -> None:
        actor = (self.writers if step.kind == "writer" else self.cleaners)[step.index]
        after = (step.state.writers if step.kind == "writer" else step.state.cleaners)[step.index]
        if (step.kind, step.pc) in _CHANGES:
            changes = step.state.slots != before.slots or step.state.states != before.states or step.pc == m.PUT
            if changes and not (freely and actor.done):
                right = freely or CHANGE.match(actor.about_to)
                assert right, f"{actor.name} is about to {actor.about_to}, the model makes a change"
                if step.pc == m.PUT and not freely:
                    self._put(actor, lands=step.state.slots != before.slots)
                else:
                    self._go(actor)
        elif (step.kind, step.pc) == ("cleaner", m.IDLE):
            # The listing and the look at the next slot: what is newest is known then.
            while not actor.done and not FOUND.match(actor.about_to):
                self._go(actor)
        elif not CHANGE.match(actor.about_to) and not actor.done:
            self._go(actor)
        ended = after.pc >= m.DONE if step.kind == "writer" else after.pc == m.REST
        if ended and not freely:
            self._quietly(actor)
        elif (step.kind, after.pc) in _CHANGES:
            self._up_to_a_change(actor)

    def _put(self, actor: Actor, *, lands: bool) -> None:
        """Let a writer put into an empty slot where its counterpart's version lands, into none where it is refused."""
        while not actor.done and self._is_refused(actor):
            self._go(actor)
            if not lands:
                return
            self._up_to_a_change(actor)
        if lands:
            self._go(actor)

    def _is_refused(self, actor: Actor) -> bool:
        """True if an actor is about to put a version into a slot that is taken."""
        verb, _, key = actor.about_to.partition(" ")
        return verb == "put_if_absent" and key in self.world.objects

    def _compare(self, step: m.Step) -> None:
        slots = {number for number, held in enumerate(step.state.slots) if held % m.GEN}
        real = {int(key[-25:-5]) for key in self.world.objects if SLOT.fullmatch(key)}
        assert real == slots, f"version files {sorted(real)}, the model has {sorted(slots)}"
        states = {len(state) - 1 for state in step.state.states}
        found = {int(key[-36:-16]) for key in self.world.objects if key.endswith(".checkpoint.json")}
        assert found == states, f"checkpoints {sorted(found)}, the model has {sorted(states)}"

    def _writer(self, writer: m.Writer):  # type: ignore[no-untyped-def]
        def run(actor: Actor) -> None:
            log = open_log(actor.env())
            for number in range(writer.token, writer.token + writer.left + 1):
                if head.recall(log) is None:
                    known = head.load(log)
                    seen = tokens.identity_of(log.env, known.version) if self.world.local else None
                    head.remember(log, msgspec.structs.replace(known, identity=seen))
                tx = Transaction(log, operation="WRITE").add(
                    [Add(f"t{number}", {}, 1, 1, dataChange=True, numRecords=1)]
                )
                try:
                    self.told[number] = f"version {tx.commit_or_raise().version}"
                except CommitStateUnknown:
                    self.told[number] = "unknown"
                except IndexTablesError as error:
                    self.told[number] = type(error).__name__

        return run

    def _up_to_a_change(self, actor: Actor) -> None:
        while not actor.done and not CHANGE.match(actor.about_to):
            self._go(actor)

    def _quietly(self, actor: Actor) -> None:
        while not actor.done:
            self._go(actor)

    def _go(self, actor: Actor) -> None:
        self.world.clock_ms += 1
        actor.about_to = ""
        while not actor.about_to and not actor.done:
            # A wait after a lost race is no request.
            actor.greenlet.switch()


def _create(actor: Actor) -> None:
    create_table(open_log(actor.env()), Metadata(id="table", schemaString=SCHEMA, createdTime=1))


def _cleaner(actor: Actor) -> None:
    log = open_log(actor.env())
    write_checkpoint(log.env, log.snapshot().state)
    clean_up(log.env)
