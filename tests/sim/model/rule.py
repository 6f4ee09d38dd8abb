"""The commit rule as a state machine, small enough to try every interleaving of it.

Writers commit one token each to numbered slots; cleaners write checkpoints, then delete what lies below. A step is
one request to the store; between any two steps of one process every other process may take any number of its own,
or never move again. So a process that dies, and one that sleeps for a month, is every state in which it takes no
further step: all of them are visited. Reads are not atomic: a listing, the reading of the checkpoint that it showed,
and each slot are steps of their own.

The truth that no process sees is `hist`: the token that was the first to land in each slot. A put that lands in a
slot which cleanup has emptied is no commit: the checkpoint above it says what the slot held.

What is checked, at every step:

    gap       a put lands above the next free version
    twice     a token becomes part of the history a second time
    lost      success is reported, and the token is not in the history
    revoked   a conflict was reported, and the token gets into the history
    deceived  a commit lands whose conflict check read a slot that is not part of the history
    forged    a checkpoint that differs from the history is published

A rule is a set of switches, so that the rules of other systems can be run against the same adversary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

GEN = 16
"""A slot holds `generation * GEN + token`; the generation tells two files of the same name apart (the inode)."""

# Where a writer stands. HEAD and STAT exist on local files only.
PROBE, HEAD, STAT, LIST, FETCH, PUT, BACK, ABSENT, WON, WSTAT, WLIST, DONE, GAVE_UP, UNKNOWN = range(14)
# Where a cleaner stands.
IDLE, READ, RECHECK, PUBLISH, PRUNE, DELETE, REST = range(7)


class Rule(NamedTuple):
    """Which parts of the commit rule a writer follows."""

    name: str
    compare_tokens: bool = True
    """Read the slot back when the put was not plainly accepted."""
    check_boundary: bool = True
    """Look for a checkpoint at or above the slot after every apparent win and every loss."""
    look_up_tokens: bool = True
    """Ask that checkpoint for the slot's token; otherwise the outcome is unknown."""
    check_winners: bool = True
    """Look for a checkpoint above the base version after the winners were read, not only above the own slot."""
    recheck_checkpoint: bool = True
    """A checkpointer looks for a newer checkpoint after it has read the tail."""
    stat: bool = False
    """Local files: an unchanged file below the slot takes the place of the listing."""
    states_first: bool = True
    """Cleanup deletes old checkpoints before version files."""
    ascending: bool = True
    """Cleanup deletes version files in ascending order."""


NAIVE = Rule("a refused put is a conflict", compare_tokens=False, check_boundary=False, check_winners=False)
TOKENS = Rule("tokens compared", check_boundary=False, check_winners=False)
BOUNDARY = Rule("boundary, else unknown", look_up_tokens=False)
OURS = Rule("tokens looked up in the checkpoint")
OURS_LOCAL = Rule("the same, by stat on local files", stat=True)


class Writer(NamedTuple):
    """One commit under way. `base` is the version it has verified, `pending` the slot whose put is undecided."""

    pc: int = PROBE
    slot: int = 1
    base: int = 0
    anchor: int = 0
    seen: int = 0
    pending: int = 0
    deceived: bool = False
    listed: int = -1
    after: int = 0


class Cleaner(NamedTuple):
    """One checkpointer and cleaner."""

    pc: int = IDLE
    rounds: int = 0
    base: int = -1
    content: tuple[int, ...] = ()


class State(NamedTuple):
    """The store, the truth, and every process."""

    slots: tuple[int, ...]
    hist: tuple[int, ...]
    states: tuple[tuple[int, ...], ...]
    """Checkpoints: the tokens of versions 0..C each, oldest first."""
    writers: tuple[Writer, ...]
    cleaners: tuple[Cleaner, ...]
    late: tuple[tuple[int, int], ...]
    """Puts (slot, token) whose client has stopped waiting and that may still arrive."""
    faults: int


class Violation(Exception):
    """The rule broke a promise."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Model:
    """The successors of a state under a rule. `window` is how many tokens a checkpoint can still tell."""

    def __init__(
        self,
        rule: Rule,
        *,
        writers: int,
        cleaners: int,
        faults: int,
        rounds: int = 1,
        window: int = 9,
        give_up: bool = False,
        late: bool = True,
    ) -> None:
        self.rule = rule
        self.rounds = rounds
        self.window = window
        self.give_up = give_up
        self.late = late
        creator = writers + 1
        anchor = GEN + creator
        self.start = State(
            slots=(anchor, *([0] * (writers + 1))),
            hist=(creator,),
            states=(),
            writers=tuple(Writer(anchor=anchor if rule.stat else 0) for _ in range(writers)),
            cleaners=tuple(Cleaner() for _ in range(cleaners)),
            late=(),
            faults=faults,
        )

    def successors(self, state: State) -> Iterator[State]:
        """Every state one step away. Raises Violation."""
        for i, writer in enumerate(state.writers):
            if writer.pc < DONE:
                yield from self._writer(state, i, writer)
        for i, cleaner in enumerate(state.cleaners):
            if cleaner.pc != REST:
                yield from self._cleaner(state, i, cleaner)
        for put in state.late:
            rest = list(state.late)
            rest.remove(put)
            yield self._land(state._replace(late=tuple(rest)), *put)[0]

    def _land(self, state: State, slot: int, token: int) -> tuple[State, bool]:
        """A put reaches the store: the state after it, and whether it created the slot."""
        held = state.slots[slot]
        if held % GEN:
            return state, False
        if slot > len(state.hist):
            raise Violation("gap")
        slots = _set(state.slots, slot, held + GEN + token)
        if slot < len(state.hist):
            return state._replace(slots=slots), True
        if token in state.hist:
            raise Violation("twice")
        if state.writers[token - 1].pc == GAVE_UP:
            raise Violation("revoked")
        return state._replace(slots=slots, hist=(*state.hist, token)), True

    def _writer(self, state: State, i: int, w: Writer) -> Iterator[State]:
        step = _STEPS[w.pc]
        for after, nxt in step(self, state, i + 1, w):
            if nxt.pc == DONE:
                if i + 1 not in after.hist:
                    raise Violation("lost")
            elif nxt.pc == GAVE_UP and i + 1 in after.hist:
                raise Violation("revoked")
            yield after._replace(writers=_set(after.writers, i, _ended(nxt)))

    def _probe(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        held = state.slots[w.slot] % GEN if w.slot < len(state.slots) else 0
        if held:
            false = held != state.hist[w.slot]
            yield state, w._replace(slot=w.slot + 1, deceived=w.deceived or false)
        elif w.slot - 1 == w.base and not w.pending:
            yield state, w._replace(pc=PUT)
        elif not self.rule.check_winners and not (self.rule.check_boundary and w.pending):
            yield state, w._replace(pc=PUT, pending=0, base=w.slot - 1)
        elif self.rule.stat and w.anchor:
            yield state, w._replace(pc=HEAD)
        else:
            yield state, w._replace(pc=LIST)

    def _head(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        held = state.slots[w.slot - 1]
        yield state, w._replace(pc=STAT, seen=held if held % GEN else 0)

    def _stat(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        if state.slots[w.base] == w.anchor and w.seen:
            if self.give_up and w.pending:
                yield state, w._replace(pc=GAVE_UP)
            yield state, w._replace(pc=PUT, base=w.slot - 1, anchor=w.seen, seen=0, pending=0)
        else:
            yield state, w._replace(pc=LIST)

    def _list(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        newest = len(state.states[-1]) - 1 if state.states else -1
        boundary = w.base if self.rule.check_winners else w.pending - 1
        if newest <= boundary:
            if self.give_up and w.pending:
                yield state, w._replace(pc=GAVE_UP)
            yield state, w._replace(pc=PUT, base=w.slot - 1, anchor=w.seen, seen=0, pending=0)
        else:
            yield state, w._replace(pc=FETCH, listed=newest, after=LIST)

    def _fetch(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        content = next((c for c in state.states if len(c) - 1 == w.listed), None)
        if content is None:
            yield state, w._replace(pc=w.after)
            return
        at = w.pending
        if at and (not self.rule.look_up_tokens or (at <= w.listed and at < len(content) - self.window)):
            yield state, w._replace(pc=UNKNOWN)
        elif at and token in content:
            yield state, w._replace(pc=DONE)
        else:
            if self.give_up and at:
                yield state, w._replace(pc=GAVE_UP)
            yield state, Writer(pc=PROBE, slot=w.listed + 1, base=w.listed)

    def _put(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        w = w._replace(pending=w.slot)
        after, created = self._land(state, w.slot, token)
        if w.deceived and len(after.hist) > len(state.hist):
            raise Violation("deceived")
        refused = BACK if self.rule.compare_tokens else PROBE
        pending = w.pending if self.rule.compare_tokens else 0
        yield after, w._replace(pc=WON) if created else w._replace(pc=refused, pending=pending)
        if state.faults:
            fewer = after._replace(faults=state.faults - 1)
            yield fewer, w._replace(pc=refused, pending=pending)
            yield state._replace(faults=state.faults - 1), w._replace(pc=refused, pending=pending)
            if self.late:
                late = tuple(sorted((*state.late, (w.slot, token))))
                yield state._replace(faults=state.faults - 1, late=late), w._replace(pc=refused, pending=pending)

    def _back(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        held = state.slots[w.pending] % GEN
        if held == token:
            yield state, w._replace(pc=WON)
        elif held:
            yield state, w._replace(pc=PROBE, slot=w.pending)
        elif self.rule.check_boundary:
            yield state, w._replace(pc=ABSENT)
        else:
            yield state, w._replace(pc=PUT)

    def _absent(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        newest = len(state.states[-1]) - 1 if state.states else -1
        if w.pending <= newest:
            yield state, w._replace(pc=FETCH, listed=newest, after=ABSENT)
        else:
            yield state, w._replace(pc=PUT)

    def _won(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        if not self.rule.check_boundary:
            yield state, w._replace(pc=DONE)
        elif self.rule.stat and w.anchor:
            yield state, w._replace(pc=WSTAT)
        else:
            yield state, w._replace(pc=WLIST)

    def _wstat(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        yield state, w._replace(pc=DONE if state.slots[w.base] == w.anchor else WLIST)

    def _wlist(self, state: State, token: int, w: Writer) -> Iterator[tuple[State, Writer]]:
        newest = len(state.states[-1]) - 1 if state.states else -1
        if w.pending > newest:
            yield state, w._replace(pc=DONE)
        else:
            yield state, w._replace(pc=FETCH, listed=newest, after=WLIST)

    def _cleaner(self, state: State, i: int, c: Cleaner) -> Iterator[State]:
        def to(nxt: Cleaner, **changed: object) -> State:
            return state._replace(cleaners=_set(state.cleaners, i, nxt), **changed)

        newest = state.states[-1] if state.states else ()
        if c.pc == IDLE:
            yield to(Cleaner(READ, c.rounds + 1, len(newest) - 1, newest))
        elif c.pc == READ:
            held = state.slots[len(c.content)] % GEN if len(c.content) < len(state.slots) else 0
            if held:
                yield to(c._replace(content=(*c.content, held)))
            else:
                yield to(c._replace(pc=RECHECK if self.rule.recheck_checkpoint else PUBLISH))
        elif c.pc == RECHECK:
            if len(newest) - 1 > c.base:
                yield to(Cleaner(READ, c.rounds, len(newest) - 1, newest))
            else:
                yield to(c._replace(pc=PUBLISH))
        elif c.pc == PUBLISH:
            if c.content != state.hist[: len(c.content)]:
                raise Violation("forged")
            states = tuple(sorted({*state.states, c.content}, key=len)) if c.content else state.states
            yield to(Cleaner(PRUNE if self.rule.states_first else DELETE, c.rounds, len(c.content) - 1), states=states)
        elif c.pc == PRUNE:
            kept = tuple(s for s in state.states if len(s) - 1 >= c.base)
            yield to(c._replace(pc=DELETE), states=kept)
        elif c.pc == DELETE:
            present = [s for s in range(c.base + 1) if state.slots[s] % GEN]
            if not present:
                done = Cleaner(IDLE if c.rounds < self.rounds else REST, c.rounds)
                yield to(done)
            for slot in present[:1] if self.rule.ascending else present:
                yield to(c, slots=_set(state.slots, slot, state.slots[slot] // GEN * GEN))


class Result(NamedTuple):
    """What an exploration found."""

    states: int
    ends: int
    violations: dict[str, int]
    unknown: int
    complete: bool


def explore(model: Model, *, limit: int = 10**9, stop_at_violation: bool = False) -> Result:
    """Visit every reachable state, depth first, up to `limit`. A step that violates is counted and not followed."""
    seen = {hash(model.start)}
    stack = [model.start]
    violations: dict[str, int] = {}
    ends = unknown = 0
    while stack:
        state = stack.pop()
        moved = False
        successors = model.successors(state)
        while True:
            try:
                after = next(successors, None)
            except Violation as violation:
                violations[violation.kind] = violations.get(violation.kind, 0) + 1
                if stop_at_violation:
                    return Result(len(seen), ends, violations, unknown, complete=False)
                break
            if after is None:
                break
            moved = True
            mark = hash(after)
            if mark not in seen:
                seen.add(mark)
                stack.append(after)
        if not moved:
            ends += 1
            unknown += any(w.pc == UNKNOWN for w in state.writers)
        if len(seen) >= limit:
            return Result(len(seen), ends, violations, unknown, complete=False)
    return Result(len(seen), ends, violations, unknown, complete=True)


def _set(items: tuple, index: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:index], value, *items[index + 1 :])


def _ended(writer: Writer) -> Writer:
    """Forget what no longer matters, so that equal futures are one state."""
    return Writer(pc=writer.pc) if writer.pc >= DONE else writer


_STEPS = {
    PROBE: Model._probe,
    HEAD: Model._head,
    STAT: Model._stat,
    LIST: Model._list,
    FETCH: Model._fetch,
    PUT: Model._put,
    BACK: Model._back,
    ABSENT: Model._absent,
    WON: Model._won,
    WSTAT: Model._wstat,
    WLIST: Model._wlist,
}
