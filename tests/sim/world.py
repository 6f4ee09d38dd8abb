"""A world in which everything that can happen to writers, readers and cleaners happens, in an order that a seed fixes.

Each process is a greenlet with a `Log`, a clock and a store of its own; all stores are views of one set of objects.
Every call of the store is a step: the process stops before it, and the scheduler decides who goes on, who dies, who
sleeps, which answer gets lost. Nothing else is random, so that a seed replays the same run, bit by bit.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import greenlet

from indextables.env import Env
from indextables.errors import ObjectNotFound, StoreError, StoreUnavailable
from indextables.options import Options
from indextables.storage import probe
from indextables.storage.store import ObjectMeta, PutAnswer, StoreFacts
from tests.sim.truth import Truth

PUT_FAULTS = ("lost", "5xx", "409", "409-landed", "late")
DELETE_FAULTS = ("lost", "5xx", "late")
READ_FAULTS = ("5xx",)
LAG_MS = 200
"""How long a stale listing may miss a new key and still show a deleted one.

Of two things it shows, though, it never shows the effect without the cause: a checkpoint is in it from the moment on
at which a version file was deleted that the checkpoint covers.
"""
COMMIT = re.compile(r"put_if_absent _transaction_log/[0-9]{20}\.json")
CHECKPOINT = re.compile(
    r"put_if_absent _transaction_log/(?:[0-9]{20}\.checkpoint\..*|state-v[0-9]{20}/_manifest\.avro)"
)
ANY_CALL = re.compile(r".+")


class Killed(BaseException):
    """The process is dead: nothing of it runs any more."""


class Stuck(AssertionError):
    """The run does not end."""


class Item:
    __slots__ = ("created_ms", "data", "etag", "gone_ms")

    def __init__(self, data: bytes, created_ms: int, etag: str) -> None:
        self.data = data
        self.created_ms = created_ms
        self.gone_ms: int | None = None
        self.etag = etag


class Chances:
    """How often what goes wrong. All zero is a quiet world."""

    def __init__(
        self,
        *,
        put: float = 0.0,
        read: float = 0.0,
        delete: float = 0.0,
        stale: float = 0.0,
        torn: float = 0.0,
        die: float = 0.0,
        stall: float = 0.0,
        skew_ms: int = 0,
    ) -> None:
        self.put = put
        self.read = read
        self.delete = delete
        self.stale = stale
        self.torn = torn
        self.die = die
        self.stall = stall
        self.skew_ms = skew_ms


class Late(NamedTuple):
    """A put or a delete that nobody waits for any more, on its way until `due_ms` at least; a delete has no data."""

    due_ms: int
    key: str
    data: bytes | None


class Sleeper:
    """A process that falls asleep for long before a call, after `skip` such calls."""

    def __init__(self, actor: Actor, call: re.Pattern[str], skip: int = 0) -> None:
        self.actor = actor
        self.call = call
        self.skip = skip

    def falls_asleep(self, actor: Actor) -> bool:
        if actor is not self.actor or self.call.fullmatch(actor.about_to) is None:
            return False
        self.skip -= 1
        return self.skip < 0


class Actor:
    """One process."""

    def __init__(self, world: World, name: str, script: Callable[[Actor], None]) -> None:
        self.world = world
        self.name = name
        self.script = script
        self.wake_ms = 0
        self.doing = "start"
        self.about_to = ""
        self.dead = False
        self.skew_ms = 0
        self.lives = 1
        self.calls = 0
        self.faults = 0
        self.hurries = False
        """Nothing comes between its calls until it has put something."""
        self.store = SimStore(world, self)
        self.ambient = SimAmbient(world, self)
        self.greenlet = greenlet.greenlet(self._run)

    @property
    def done(self) -> bool:
        return self.greenlet.dead

    def env(self, **options: object) -> Env:
        given = {"transaction.compression.enabled": "false", **self.world.options, **options}
        return Env(self.store, self.ambient, Options(given, environ={}))

    def revive(self) -> None:
        """A new process takes up the script of a dead one."""
        self.dead = False
        self.lives -= 1
        self.greenlet = greenlet.greenlet(self._run)

    def _run(self) -> None:
        try:
            self.script(self)
        except Killed:
            self.dead = True


class World:
    """The objects, the clock, the processes and the truth."""

    def __init__(self, seed: int, chances: Chances, *, local: bool, options: dict[str, object] | None = None) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.chances = chances
        self.local = local
        self.options = options or {}
        self.clock_ms = 1_700_000_000_000
        self.objects: dict[str, Item] = {}
        self.gone: list[tuple[str, Item]] = []
        self.late: list[Late] = []
        self.naps_ms = (800, 2500, 5000)
        """How long sleepers sleep, and what is late is on its way: longer than anything is kept."""
        self.actors: list[Actor] = []
        self.truth = Truth(self)
        self.trace = hashlib.blake2b(digest_size=16)
        self.lines: list[str] | None = None
        self.coverage: Counter[tuple[str, str, str]] = Counter()
        self.fired: Counter[str] = Counter()
        self.sleepers: list[Sleeper] = []
        self.plan: Callable[[Actor], str | None] = lambda _actor: None
        """The fault, if any, that a process meets at its present call: `die`, `die-after`, or one by name."""
        self.steps = 0
        self._etags = 0
        self._main = greenlet.getcurrent()
        probe.forget()

    def spawn(self, name: str, script: Callable[[Actor], None], *, lives: int = 1) -> Actor:
        actor = Actor(self, name, script)
        actor.lives = lives
        skew = self.chances.skew_ms
        actor.skew_ms = self.random.randint(-skew, skew) if skew else 0
        self.actors.append(actor)
        return actor

    def run(self, limit: int = 20_000) -> None:
        """Until every process has ended. Raises the first error that a process did not expect."""
        while True:
            alive = [a for a in self.actors if not a.greenlet.dead]
            if not alive:
                return
            self.steps += 1
            if self.steps > limit:
                raise Stuck(f"seed {self.seed}: {[a.name + ':' + a.doing for a in alive]} after {limit} steps")
            self._land_late()
            ready = [a for a in alive if a.wake_ms <= self.clock_ms]
            if not ready:
                self.clock_ms = min(a.wake_ms for a in alive)
                continue
            self.clock_ms += self.random.randrange(5)
            hurried = [a for a in ready if a.hurries and not a.dead]
            if hurried:
                hurried[0].greenlet.switch()
            else:
                self._go(ready[int(self.random.random() * len(ready))])

    def note(self, actor: Actor | None, what: str, key: str = "", result: object = "") -> None:
        """One line of the trace."""
        line = f"{self.clock_ms} {actor.name if actor else '-'} {what} {key} {result}"
        self.trace.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def happened(self) -> Counter[str]:
        """Which faults processes met, by their names, and how many slots were `refilled` after cleanup."""
        return self.fired + Counter(refilled=self.truth.refills)

    def pause(self, actor: Actor) -> None:
        """Stop here until the scheduler picks this process again."""
        if actor.dead:
            raise Killed
        self._main.switch()

    def cover(self, actor: Actor, fault: str) -> None:
        """Count who met which fault while who else was doing what."""
        self.note(actor, "fault", fault)
        self.fired[fault] += 1
        actor.faults += fault not in {"stall", "sleep"}
        for other in self.actors:
            if other is not actor and not other.done:
                self.coverage[actor.doing, other.doing, fault] += 1

    def create(self, key: str, data: bytes) -> bool:
        """A put arrives."""
        if key in self.objects:
            return False
        self.truth.landing(key, data)
        self._etags += 1
        self.objects[key] = Item(bytes(data), self.clock_ms, f"e{self._etags}")
        return True

    def replace(self, key: str, data: bytes) -> None:
        self.truth.replacing(key)
        self._etags += 1
        self.objects[key] = Item(bytes(data), self.clock_ms, f"e{self._etags}")

    def remove(self, key: str) -> None:
        item = self.objects.pop(key, None)
        if item is not None:
            self.truth.deleted(key)
            item.gone_ms = self.clock_ms
            self.gone.append((key, item))

    def _go(self, actor: Actor) -> None:
        chance = self.random.random()
        chances = self.chances
        if chance < chances.die and actor.greenlet.gr_frame is not None:
            self.cover(actor, "death")
            actor.dead = True
            actor.greenlet.throw(Killed)
            if actor.lives > 1:
                actor.revive()
        elif (sleeper := next((s for s in self.sleepers if s.falls_asleep(actor)), None)) is not None:
            # The nightmare of every log: a writer that wakes up long after its slot was committed and cleaned up.
            self.sleepers.remove(sleeper)
            self.cover(actor, "sleep")
            actor.wake_ms = self.clock_ms + self.random.choice(self.naps_ms)
        elif chance < chances.die + chances.stall:
            self.cover(actor, "stall")
            actor.wake_ms = self.clock_ms + self.random.choice((20, 400, 4000))
        else:
            actor.greenlet.switch()

    def delay(self, key: str, data: bytes | None) -> None:
        """A put or a delete gets lost on its way; it arrives in a moment, or when everybody has forgotten it."""
        after_ms = self.random.choice((0, 0, *self.naps_ms))
        self.late.append(Late(self.clock_ms + after_ms, key, data))

    def land_all(self) -> None:
        """Everything that is on its way arrives."""
        for late in self.late:
            self._land(late)
        self.late.clear()

    def _land_late(self) -> None:
        due = [late for late in self.late if late.due_ms <= self.clock_ms]
        if due and self.random.random() < 0.1:
            late = due[self.random.randrange(len(due))]
            self.late.remove(late)
            self._land(late)

    def _land(self, late: Late) -> None:
        if late.data is None:
            self.note(None, "late delete arrives", late.key)
            self.remove(late.key)
        else:
            self.note(None, "late put arrives", late.key, self.create(late.key, late.data))


class SimAmbient:
    """Time that may be wrong, chance that repeats, threads that do not exist."""

    def __init__(self, world: World, actor: Actor) -> None:
        self.world = world
        self.actor = actor

    def now_ms(self) -> int:
        return self.world.clock_ms + self.actor.skew_ms

    def monotonic(self) -> float:
        return self.world.clock_ms / 1000

    def age(self) -> float:
        return self.world.clock_ms / 1000

    def gives_up(self) -> bool:
        return False

    def sleep(self, seconds: float) -> None:
        self.actor.wake_ms = self.world.clock_ms + int(seconds * 1000)
        self.world.pause(self.actor)

    def random(self) -> float:
        return self.world.random.random()

    def token(self) -> str:
        return f"{self.world.random.getrandbits(128):032x}"

    def map(self, pool: str, call: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return iter([call(item) for item in items])

    def submit(self, pool: str, call: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 - a future carries whatever was raised
            future.set_exception(error)
        return future


class SimStore:
    """A store that keeps every promise of `Store`, through a network that keeps none."""

    def __init__(self, world: World, actor: Actor) -> None:
        self.world = world
        self.actor = actor
        self.planned: str | None = None

    @property
    def url(self) -> str:
        return "sim://table"

    @property
    def identity(self) -> object:
        return self.world

    @property
    def is_local(self) -> bool:
        return self.world.local

    @property
    def outlives_process(self) -> bool:
        return False

    def get(self, key: str, *, policy: object = None, noted: Callable[[ObjectMeta], object] | None = None) -> bytes:
        self._step("get", key)
        self._maybe_unavailable(key)
        item = self._item(key)
        if noted is not None:
            noted(_meta(key, item))
        return item.data

    def get_range(self, key: str, start: int, end: int, *, policy: object = None) -> bytes:
        data = self.get(key)
        if end > len(data):
            raise StoreError(f"{key} ends before {end}", key=key)
        return data[start:end]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], *, policy: object = None) -> list[bytes]:
        data = self.get(key)
        return [data[start:end] for start, end in ranges]

    def put(self, key: str, data: bytes | memoryview, *, policy: object = None) -> None:
        self._step("put", key)
        if self.planned is not None or self._chance(self.world.chances.put):
            after = self.planned in {"lost", "die-after"} if self.planned else self._chance(0.5)
            if after:
                self.world.replace(key, bytes(data))
            self.world.cover(self.actor, "put-lost" if after else "put-5xx")
            if self.planned == "die-after":
                self._die()
            raise StoreUnavailable(f"no answer to the put of {key}", key=key)
        self.world.replace(key, bytes(data))

    def put_if_absent(self, key: str, data: bytes | memoryview, *, policy: object = None) -> PutAnswer:
        self._step("put_if_absent", key)
        self.actor.hurries = False
        if self.planned is not None or self._chance(self.world.chances.put):
            return self._faulty_put(key, bytes(data))
        created = self.world.create(key, bytes(data))
        self.world.note(self.actor, "answer", key, created)
        return PutAnswer.CREATED if created else PutAnswer.REFUSED

    def list_from(self, prefix: str, after: str | None = None, *, policy: object = None) -> Iterator[ObjectMeta]:
        self._step("list", f"{prefix}>{after}")
        self._maybe_unavailable(prefix)
        items = dict(self.world.objects)
        if not self.world.local and self._chance(self.world.chances.stale):
            self.world.cover(self.actor, "stale-list")
            since = self.world.clock_ms - LAG_MS
            hides = self.world.truth.may_be_hidden
            items = {key: item for key, item in items.items() if item.created_ms <= since or not hides(key)}
            for key, item in self.world.gone:
                if (item.gone_ms or 0) > since and item.created_ms <= since:
                    items.setdefault(key, item)
        found = sorted(key for key in items if key.startswith(prefix) and (after is None or key > after))
        if self.world.local and self._chance(self.world.chances.torn):
            # Local files are listed in two steps: the names, then each file's size and time, unless it is gone by then.
            self.world.cover(self.actor, "torn-list")
            self._step("stat", prefix)
            items = self.world.objects
            found = [key for key in found if key in items]
        return iter([_meta(key, items[key]) for key in found])

    def head(self, key: str, *, policy: object = None) -> ObjectMeta:
        self._step("head", key)
        self._maybe_unavailable(key)
        return _meta(key, self._item(key))

    def exists(self, key: str, *, policy: object = None) -> bool:
        self._step("exists", key)
        self._maybe_unavailable(key)
        return key in self.world.objects

    def delete_many(self, keys: Iterable[str], *, policy: object = None, guard: Any = None) -> dict[str, str]:
        left: dict[str, str] = {}
        ordered = list(keys)
        if not self.world.local:
            self.world.random.shuffle(ordered)
        reason = guard(ordered) if guard is not None and ordered and not self.world.local else ""
        for key in ordered:
            self._step("delete", key)
            reason = reason or (guard([key]) if guard is not None and self.world.local else "")
            if reason:
                left[key] = reason
                continue
            if self.planned is not None or self._chance(self.world.chances.delete):
                fault = self.planned or self.world.random.choice(DELETE_FAULTS)
                self.world.cover(self.actor, "delete-late" if fault == "late" else "delete-5xx")
                if fault in {"lost", "die-after"}:
                    self.world.remove(key)
                elif fault == "late":
                    self.world.delay(key, None)
                if fault == "die-after":
                    self._die()
                left[key] = "no answer"
            else:
                self.world.remove(key)
        return left

    def probe(self) -> StoreFacts:
        """Asked once per life of a process, as by every store; again once it has forgotten."""
        return probe.once_per_process(
            f"{self.actor.name} {self.actor.lives}", lambda: StoreFacts(skew_ms=-self.actor.skew_ms)
        )

    def _faulty_put(self, key: str, data: bytes) -> PutAnswer:
        fault = self.planned or self.world.random.choice(PUT_FAULTS)
        self.world.cover(self.actor, fault)
        if fault in {"lost", "409-landed", "die-after"}:
            self.world.create(key, data)
            if fault == "die-after":
                self._die()
        elif fault == "late":
            self.world.delay(key, data)
        return PutAnswer.REFUSED if fault.startswith("409") else PutAnswer.UNKNOWN

    def _step(self, what: str, key: str) -> None:
        self.actor.about_to = f"{what} {key}"
        self.world.pause(self.actor)
        self.world.note(self.actor, what, key)
        self.actor.calls += 1
        self.planned = self.world.plan(self.actor)
        if self.planned == "die":
            self._die()

    def _chance(self, probability: float) -> bool:
        return probability > 0 and self.world.random.random() < probability

    def _die(self) -> None:
        self.world.cover(self.actor, "death")
        self.actor.dead = True
        raise Killed

    def _maybe_unavailable(self, key: str) -> None:
        if self.planned == "die-after":
            self._die()
        if self.planned is not None or self._chance(self.world.chances.read):
            self.world.cover(self.actor, "read-5xx")
            raise StoreUnavailable(f"no answer about {key}", key=key)

    def _item(self, key: str) -> Item:
        item = self.world.objects.get(key)
        if item is None:
            raise ObjectNotFound(f"{key} does not exist", key=key)
        return item


def _meta(key: str, item: Item) -> ObjectMeta:
    return ObjectMeta(key, len(item.data), item.created_ms, item.etag)
