"""The commit rule as a state machine, small enough to try every interleaving of it.

Writers commit tokens to numbered slots; cleaners write checkpoints, then delete what lies below; readers read a
version; a slow checkpointer publishes late; a table is dropped and made anew; a version file is lost. A step is one
request to the store; between any two steps of one process every other process may take any number of its own, or never
move again. So a process that dies, and one that sleeps for a month, is every state in which it takes no further step:
all of them are visited. Nothing is atomic that takes two requests: a listing, the reading of the checkpoint that it
showed, each slot, and each deletion are steps of their own. `replaying` plays ways through this model with the code.

The truth that no process sees is `hist`: the token that was the first to land in each slot. A put that lands in a slot
which cleanup has emptied is not a commit: the checkpoint above it says what the slot held. A put of a writer of a table
that was dropped is none either.

What is checked, at every step:

    gap       a put lands above the next free version
    twice     a token becomes part of the history a second time
    lost      success is reported, and the token is not in the history
    revoked   a conflict was reported, and the token gets into the history
    deceived  a commit lands whose conflict check read a slot that is not part of the history
    forged    a checkpoint that differs from the history is published
    misread   a reader believes what is not part of the history
    outdated  a reader takes for the newest what was not even when it began
    stray     success is reported for a file in the log of another table
    returns   a refusal is reported, and the file is still there

A rule is a set of switches, so that weaker rules, of other systems and our own former ones, can be run against the same
adversary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

GEN = 16
FILE = GEN * GEN * 2
"""A slot holds `generation * FILE + table * GEN^2 + previous * GEN + token`, tokens from 1: 0 is an empty slot.

The generation tells two files of the same name apart (the inode), `previous` is the token of the version below.
"""

# Where a writer stands. HEAD and STAT exist on local files only; ABOVE looks above the slot, BASE at the version below.
(
    PROBE,
    HEAD,
    STAT,
    LIST,
    FETCH,
    PUT,
    BACK,
    ABSENT,
    WHEAD,
    WSTAT,
    WLIST,
    BASE,
    ABOVE,
    WITHDRAW,
    DONE,
    GAVE_UP,
    UNKNOWN,
    REFUSED,
) = range(18)
# Where a cleaner stands.
IDLE, READ, LOOK, ASK, PUBLISH, PLAN, PRUNE, DELETE, REST = range(9)
# Where a reader stands.
R_LIST, R_READ, R_LOOK, R_ASK, R_END, R_BEGIN, R_ABOVE, R_AFTER = range(8)


class Rule(NamedTuple):
    """Which parts of the commit rule everybody follows."""

    name: str
    compare_tokens: bool = True
    """Read the slot back when the put was not plainly accepted."""
    know_own: bool = True
    """The own token among the winners is a doubt, not a winner."""
    check_boundary: bool = True
    """Look for a checkpoint at or above the slot after every apparent win and every loss."""
    look_up_tokens: bool = True
    """Ask that checkpoint for the slot's token; otherwise the outcome is unknown."""
    check_winners: bool = True
    """Look for a checkpoint above the base version after the winners were read, not only above the own slot."""
    confirm: str = "tokens"
    """How what was read is confirmed: by `tokens`, by the `base` checkpoint that is still there, or `not`."""
    links: bool = True
    """Version files name the version below: a confirmed one vouches for it."""
    compare_tables: bool = True
    """A checkpoint explains a missing base only if it is one of the same table."""
    look_above: bool = True
    """After a win the slot above is looked at."""
    heed_delete: bool = True
    """A file that could not be taken back makes the outcome unknown."""
    hint: str = "proven"
    """A reader that begins at a checkpoint which the pointer names has it `proven`; weaker rules leave out the `token`
    of its own version file, what happens `after` the reads, or both: it is `trusted`. On object stores `slots` looks
    after the reads for versions above, and not for checkpoints; `versions` looks for nothing else at all, name by name
    in ascending order, which will do where listings are sure, cleaners leave the newest file (`as_coded`) and versions
    name those below them."""
    stat: bool = False
    """Local files: an unchanged file below the slot takes the place of the listing."""
    states_first: bool = True
    """Cleanup deletes old checkpoints before version files."""
    ascending: bool = True
    """Cleanup deletes version files in ascending order."""


_PLAIN = {"know_own": False, "check_boundary": False, "check_winners": False}
NAIVE = Rule("a refused put is a conflict", compare_tokens=False, **_PLAIN)
TOKENS = Rule("tokens compared", **_PLAIN)
BOUNDARY = Rule("boundary, else unknown", look_up_tokens=False)
OURS = Rule("tokens looked up in the checkpoint")
OURS_LOCAL = Rule("the same, by stat on local files", stat=True)


class Writer(NamedTuple):
    """One commit under way. `base` is the version it has verified, `pending` the slot whose put is undecided.

    `read` are the files above the base that it has read, `left` the commits that it will make afterwards.
    """

    pc: int = PROBE
    token: int = 1
    slot: int = 1
    base: int = 0
    known: int = 0
    anchor: int = 0
    seen: int = 0
    pending: int = 0
    deceived: bool = False
    read: tuple[int, ...] = ()
    listed: int = -1
    after: int = 0
    table: int = 0
    left: int = 0


class Cleaner(NamedTuple):
    """One checkpointer and cleaner. `content` are the tokens up to the last version, `tail` the files it read."""

    pc: int = IDLE
    rounds: int = 0
    base: int = -1
    content: tuple[int, ...] = ()
    tail: tuple[int, ...] = ()
    listed: int = -1
    doomed: tuple[int, ...] = ()


class Reader(NamedTuple):
    """Somebody who wants version `target`: from a checkpoint on, or `alone`, as a stream reads it.

    One that is `hinted` wants the newest, and begins at any checkpoint that is there: the pointer may be old. `anchor`
    is the local file of its version, `start` is how many versions there were.
    """

    target: int = -1
    alone: bool = False
    pc: int = R_LIST
    base: int = -1
    content: tuple[int, ...] = ()
    tail: tuple[int, ...] = ()
    listed: int = -1
    hinted: bool = False
    anchor: int = 0
    start: int = 0


class State(NamedTuple):
    """The store, the truth, and every process."""

    slots: tuple[int, ...]
    hist: tuple[int, ...]
    states: tuple[tuple[int, ...], ...]
    """Checkpoints: the tokens of versions 0..C each, oldest first."""
    writers: tuple[Writer, ...]
    cleaners: tuple[Cleaner, ...]
    readers: tuple[Reader, ...]
    late: tuple[tuple[int, int], ...]
    """Puts (slot, file without generation) whose client has stopped waiting and that may still arrive."""
    faults: int
    slow: tuple[int, ...]
    """Versions of which a slow checkpointer still holds a state."""
    drops: int
    """Tables that may still be dropped and made anew."""
    losses: int
    """Version files that may still get lost."""
    former: tuple[int, ...] = ()
    """The history of the table that was dropped."""
    table: int = 0


class Violation(Exception):
    """The rule broke a promise."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Step(NamedTuple):
    """Who did what: `kind` is a process of the model or of the world, `pc` where it stood."""

    kind: str
    index: int
    pc: int
    state: State


class Model:
    """The successors of a state under a rule. `window` is how many tokens a checkpoint can still tell.

    Of `writers`, the last `heirs` write to the table that takes the place of a dropped one. `commits` says how many
    each makes (one), `remembered` that their first goes on top of version 0 without a look. `as_coded` narrows cleaners
    to what the code does: they read up to the newest version of their first listing, and leave the newest file that
    the listing of cleanup shows. The adversary does neither.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        writers: int,
        cleaners: int = 0,
        faults: int = 0,
        rounds: int = 1,
        window: int = 9,
        give_up: bool = False,
        late: bool = True,
        readers: tuple[Reader, ...] = (),
        slow: tuple[int, ...] = (),
        drops: int = 0,
        heirs: int = 0,
        losses: int = 0,
        commits: tuple[int, ...] = (),
        remembered: bool = False,
        as_coded: bool = False,
    ) -> None:
        self.rule = rule
        self.rounds = rounds
        self.as_coded = as_coded
        self.window = window
        self.give_up = give_up
        self.late = late
        counts = commits or (1,) * writers
        firsts = [1 + sum(counts[:i]) for i in range(writers)]
        self.drops = drops
        self.losses = losses
        self.creator = sum(counts) + 1
        anchor = FILE + self.creator
        self.start = State(
            slots=(anchor, *([0] * (sum(counts) + 2))),
            hist=(self.creator,),
            states=(),
            writers=tuple(
                Writer(
                    pc=PUT if remembered else PROBE,
                    token=firsts[i],
                    known=self.creator,
                    anchor=anchor if rule.stat else 0,
                    table=int(i >= writers - heirs),
                    left=counts[i] - 1,
                )
                for i in range(writers)
            ),
            cleaners=tuple(Cleaner() for _ in range(cleaners)),
            readers=readers,
            late=(),
            faults=faults,
            slow=slow,
            drops=drops,
            losses=losses,
        )

    def successors(self, state: State) -> Iterator[State]:
        """Every state one step away. Raises Violation."""
        for step in self.steps(state):
            yield step.state

    def steps(self, state: State) -> Iterator[Step]:
        """Every step that some process, or the world, can take. Raises Violation."""
        for i, writer in enumerate(state.writers):
            if writer.pc < DONE and writer.table <= state.table:
                for after in self._writer(state, i, writer):
                    yield Step("writer", i, writer.pc, after)
        for i, cleaner in enumerate(state.cleaners):
            if cleaner.pc != REST:
                for after in self._cleaner(state, i, cleaner):
                    yield Step("cleaner", i, cleaner.pc, after)
        for i, reader in enumerate(state.readers):
            if reader.pc != R_END:
                for nxt in self._reader(state, reader):
                    yield Step("reader", i, reader.pc, state._replace(readers=_set(state.readers, i, nxt)))
        for after in self._world(state):
            yield Step("world", 0, 0, after)

    def _world(self, state: State) -> Iterator[State]:
        """What no process decides: late puts, slow checkpointers, a dropped table, a lost file."""
        for put in state.late:
            rest = list(state.late)
            rest.remove(put)
            yield self._land(state._replace(late=tuple(rest)), *put)[0]
        for version in state.slow:
            if version < len(state.hist):
                slow = tuple(other for other in state.slow if other != version)
                yield _published(state._replace(slow=slow), state.hist[: version + 1])
        if state.drops:
            heir = FILE * 9 + GEN * GEN + self.creator + 1
            empty = tuple(held // FILE * FILE for held in state.slots[1:])
            yield state._replace(
                slots=(heir, *empty),
                hist=(self.creator + 1,),
                states=(),
                drops=state.drops - 1,
                former=state.hist,
                table=1,
                writers=tuple(
                    w._replace(known=self.creator + 1, anchor=heir if self.rule.stat else 0) if w.table else w
                    for w in state.writers
                ),
            )
        if state.losses:
            newest = len(state.states[-1]) - 1 if state.states else -1
            for slot in range(max(newest + 1, 1), len(state.hist) - 1):
                if state.slots[slot] % GEN and all(_is_stale(w, slot) for w in state.writers):
                    slots = _set(state.slots, slot, state.slots[slot] // FILE * FILE)
                    yield state._replace(slots=slots, losses=state.losses - 1)

    def _land(self, state: State, slot: int, file: int) -> tuple[State, bool]:
        """A put reaches the store: the state after it, and whether it created the slot."""
        held, token = state.slots[slot], file % GEN
        if held % GEN:
            return state, False
        slots = _set(state.slots, slot, held + FILE + file)
        if file // (GEN * GEN) != state.table:
            return state._replace(slots=slots), True
        if slot > len(state.hist):
            raise Violation("gap")
        if slot < len(state.hist):
            return state._replace(slots=slots), True
        if token in state.hist:
            raise Violation("twice")
        if any(w.token == token and w.pc == GAVE_UP for w in state.writers):
            raise Violation("revoked")
        return state._replace(slots=slots, hist=(*state.hist, token)), True

    def _writer(self, state: State, i: int, w: Writer) -> Iterator[State]:
        for after, nxt in _STEPS[w.pc](self, state, w):
            yield after._replace(writers=_set(after.writers, i, self._ended(after, nxt)))

    def _ended(self, state: State, w: Writer) -> Writer:
        """Check what a writer reports; forget what no longer matters, so that equal futures are one state."""
        committed = w.token in (state.hist if w.table == state.table else state.former)
        if w.pc == DONE and not committed:
            raise Violation("lost" if w.table == state.table else "stray")
        if w.pc == GAVE_UP and committed:
            raise Violation("revoked")
        if w.pc == REFUSED and state.slots[w.pending] % GEN == w.token and not committed:
            raise Violation("returns")
        if w.pc == DONE and w.left and w.table == state.table:
            # The head that it remembers is its own commit: the next one goes on top of it without a look.
            at = state.hist.index(w.token)
            return Writer(PUT, w.token + 1, at + 1, at, w.token, w.seen, table=w.table, left=w.left - 1)
        return Writer(pc=w.pc, token=w.token, table=w.table) if w.pc >= DONE else w

    def _probe(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        held = state.slots[w.slot] if w.slot < len(state.slots) else 0
        if held % GEN:
            if held // (GEN * GEN) % 2 != w.table:
                yield state, w._replace(pc=REFUSED if not w.pending else UNKNOWN)
                return
            if held % GEN == w.token and self.rule.know_own:
                yield state, w._replace(pc=UNKNOWN)
                return
            false = w.slot >= len(state.hist) or held % GEN != state.hist[w.slot]
            deceived = w.deceived or (false and w.table == state.table)
            yield state, w._replace(slot=w.slot + 1, deceived=deceived, read=(*w.read, held % FILE))
        elif w.slot - 1 == w.base and not w.pending:
            yield state, w._replace(pc=PUT)
        elif not self.rule.check_winners and not (self.rule.check_boundary and w.pending):
            yield state, _moved(w)
        elif self.rule.stat and w.anchor:
            yield state, w._replace(pc=HEAD)
        else:
            yield state, w._replace(pc=LIST)

    def _head(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        held = state.slots[w.slot - 1]
        yield state, w._replace(pc=STAT, seen=held if held % GEN else 0)

    def _stat(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        if state.slots[w.base] == w.anchor and w.seen:
            if self._is_broken(w):
                yield state, w._replace(pc=UNKNOWN if w.pending else REFUSED)
                return
            if self.give_up and w.pending:
                yield state, w._replace(pc=GAVE_UP)
            yield state, _moved(w, anchor=w.seen)
        else:
            yield state, w._replace(pc=LIST)

    def _list(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        newest = len(state.states[-1]) - 1 if state.states else -1
        boundary = w.base if self.rule.check_winners else w.pending - 1
        if newest > boundary:
            yield state, w._replace(pc=FETCH, listed=newest, after=LIST)
        elif self._is_broken(w) or (self.rule.compare_tables and not _stands(state, w)):
            yield state, w._replace(pc=UNKNOWN if w.pending else REFUSED)
        else:
            if self.give_up and w.pending:
                yield state, w._replace(pc=GAVE_UP)
            yield state, _moved(w, anchor=w.seen)

    def _fetch(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        content = next((c for c in state.states if len(c) - 1 == w.listed), None)
        if content is None:
            yield state, w._replace(pc=w.after)
            return
        if self.rule.compare_tables and (state.table if content[0] != self.creator else 0) != w.table:
            yield state, w._replace(pc=WITHDRAW if w.after == WLIST else REFUSED)
            return
        at, token = w.pending, w.token
        if at and (not self.rule.look_up_tokens or (at <= w.listed and at < len(content) - self.window)):
            yield state, w._replace(pc=UNKNOWN)
        elif at and token in content:
            yield state, w._replace(pc=DONE)
        else:
            if self.give_up and at:
                yield state, w._replace(pc=GAVE_UP)
            covered = w.read[: max(0, w.listed - w.base)]
            told = content[w.base + 1 :][-self.window :]
            is_whole = w.base + len(covered) == w.listed and w.after == LIST
            if is_whole and len(told) == len(covered) and told == tuple(file % GEN for file in covered):
                yield state, w._replace(pc=UNKNOWN if at else REFUSED) if self._is_broken(w) else _moved(w)
            else:
                yield state, Writer(PROBE, token, w.listed + 1, w.listed, content[-1], table=w.table, left=w.left)

    def _is_broken(self, w: Writer) -> bool:
        """A version that was read does not follow the one below it: the log is damaged."""
        before = (w.known, *(file % GEN for file in w.read))
        return self.rule.links and any(file // GEN % GEN != token for file, token in zip(w.read, before, strict=False))

    def _put(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        w = w._replace(pending=w.slot, read=())
        file = w.table * GEN * GEN + (w.known * GEN if self.rule.links else 0) + w.token
        after, created = self._land(state, w.slot, file)
        if w.deceived and len(after.hist) > len(state.hist):
            raise Violation("deceived")
        refused = BACK if self.rule.compare_tokens else PROBE
        pending = w.pending if self.rule.compare_tokens else 0
        yield after, self._won(w) if created else w._replace(pc=refused, pending=pending)
        if state.faults:
            fewer = after._replace(faults=state.faults - 1)
            yield fewer, w._replace(pc=refused, pending=pending)
            yield state._replace(faults=state.faults - 1), w._replace(pc=refused, pending=pending)
            if self.late:
                late = tuple(sorted((*state.late, (w.slot, file))))
                yield state._replace(faults=state.faults - 1, late=late), w._replace(pc=refused, pending=pending)

    def _back(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        held = state.slots[w.pending] % GEN
        if held == w.token:
            yield state, self._won(w)
        elif held:
            # What it read here is the first winner.
            yield from self._probe(state, w._replace(pc=PROBE, slot=w.pending))
        elif self.rule.check_boundary:
            yield state, w._replace(pc=ABSENT)
        else:
            yield state, w._replace(pc=PUT)

    def _absent(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        newest = len(state.states[-1]) - 1 if state.states else -1
        if w.pending <= newest:
            yield state, w._replace(pc=FETCH, listed=newest, after=ABSENT)
        else:
            yield state, w._replace(pc=PUT)

    def _won(self, w: Writer) -> Writer:
        return w._replace(pc=WHEAD if self.rule.stat and w.anchor and self.rule.check_boundary else WLIST)

    def _whead(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        """The own file is seen before the check that proves it to be part of the history."""
        held = state.slots[w.pending]
        yield state, w._replace(pc=WSTAT, seen=held if held % GEN == w.token else 0)

    def _wstat(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        if not w.seen or state.slots[w.base] != w.anchor:
            yield state, w._replace(pc=WLIST, seen=0)
        else:
            yield state, self._checked(w)

    def _checked(self, w: Writer) -> Writer:
        """Nothing speaks against the win. What lies above can be strange only where files get lost."""
        return w._replace(pc=ABOVE if self.rule.look_above and self.losses else DONE, listed=-1)

    def _wlist(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        newest = len(state.states[-1]) - 1 if state.states else -1
        if not self.rule.check_boundary:
            yield state, w._replace(pc=DONE)
        elif w.pending <= newest:
            yield state, w._replace(pc=FETCH, listed=newest, after=WLIST)
        elif self.drops or self.losses:
            yield state, w._replace(pc=BASE, listed=newest)
        else:
            # Nothing but cleanup takes files away: the base is there, or a checkpoint lists it.
            yield state, self._checked(w)

    def _base(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        told = w.listed >= w.base and not self.rule.compare_tables
        if told or _stands(state, w):
            yield state, self._checked(w)
        else:
            yield state, w._replace(pc=WITHDRAW, listed=-1)

    def _above(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        held = state.slots[w.pending + 1]
        if not held % GEN or held // GEN % GEN == w.token:
            yield state, w._replace(pc=DONE)
        else:
            newest = len(state.states[-1]) - 1 if state.states else -1
            yield state, w._replace(pc=WLIST, seen=0) if newest >= w.pending else w._replace(pc=WITHDRAW)

    def _withdraw(self, state: State, w: Writer) -> Iterator[tuple[State, Writer]]:
        held = state.slots[w.pending]
        if held % GEN != w.token:
            yield state, w._replace(pc=REFUSED)
            return
        slots = _set(state.slots, w.pending, held // FILE * FILE)
        if w.table == state.table and w.pending == len(state.hist) - 1 and state.hist[-1] == w.token:
            yield state._replace(slots=slots, hist=state.hist[:-1]), w._replace(pc=REFUSED)
        else:
            yield state._replace(slots=slots), w._replace(pc=REFUSED)
        if state.faults:
            fewer = state._replace(faults=state.faults - 1)
            yield fewer, w._replace(pc=UNKNOWN if self.rule.heed_delete else REFUSED)

    def _cleaner(self, state: State, i: int, c: Cleaner) -> Iterator[State]:
        def to(nxt: Cleaner, **changed: object) -> State:
            return state._replace(cleaners=_set(state.cleaners, i, nxt), **changed)

        newest = state.states[-1] if state.states else ()
        if c.pc == IDLE:
            yield to(Cleaner(READ, c.rounds + 1, len(newest) - 1, newest, listed=self._upto(state)))
        elif c.pc == READ:
            at = len(c.content) + len(c.tail)
            held = state.slots[at] if at < len(state.slots) else 0
            if c.listed >= 0 and at > c.listed:
                yield to(c._replace(pc=LOOK, listed=-1) if c.tail else c._replace(pc=PLAN, listed=-1))
            elif c.listed >= 0 and not held % GEN:
                yield to(c._replace(pc=IDLE, rounds=c.rounds - 1))
            elif held % GEN:
                yield to(c._replace(tail=(*c.tail, held % FILE)))
            else:
                yield to(c._replace(pc=LOOK) if c.tail else c._replace(pc=PLAN))
        elif c.pc == LOOK:
            listed = self._look(state, c.base, len(c.content), c.tail)
            yield to(c._replace(pc=PUBLISH) if listed < 0 else c._replace(pc=ASK, listed=listed))
        elif c.pc == ASK:
            is_told = self._is_told(state, c.listed, len(c.content), c.tail)
            if is_told is None:
                yield to(c._replace(pc=LOOK, listed=-1))
            elif is_told:
                yield to(c._replace(pc=PUBLISH, listed=-1))
            else:
                yield to(Cleaner(READ, c.rounds, len(newest) - 1, newest, listed=self._upto(state)))
        elif c.pc == PUBLISH:
            content = (*c.content, *(file % GEN for file in c.tail))
            if content != state.hist[: len(content)]:
                raise Violation("forged")
            after = _published(state, content)
            nxt = Cleaner(PLAN, c.rounds, len(content) - 1)
            yield after._replace(cleaners=_set(state.cleaners, i, nxt))
        else:
            yield from self._deletes(state, c, to)

    def _upto(self, state: State) -> int:
        return max(s for s, held in enumerate(state.slots) if held % GEN) if self.as_coded else -1

    def _deletes(self, state: State, c: Cleaner, to) -> Iterator[State]:  # type: ignore[no-untyped-def]
        """Cleanup: what its one listing shows below the cut goes, each by a request of its own."""
        if c.pc == PLAN:
            if all(len(s) - 1 != c.base for s in state.states):
                # The state that it wrote is gone by now: a newer one has taken its place.
                yield to(Cleaner(IDLE if c.rounds < self.rounds else REST, c.rounds))
                return
            doomed = tuple(len(s) - 1 for s in state.states if len(s) - 1 < c.base)
            newest = self._upto(state)
            pc = PRUNE if doomed and self.rule.states_first else DELETE
            yield to(c._replace(pc=pc, doomed=doomed, listed=newest))
        elif c.pc == PRUNE:
            kept = tuple(s for s in state.states if len(s) - 1 != c.doomed[0])
            yield to(c._replace(pc=PRUNE if c.doomed[1:] else DELETE, doomed=c.doomed[1:]), states=kept)
        else:
            present = [s for s in range(c.base + 1) if state.slots[s] % GEN and s != c.listed]
            done = Cleaner(IDLE if c.rounds < self.rounds else REST, c.rounds)
            if not present:
                yield to(done)
            for slot in present[:1] if self.rule.ascending else present:
                slots = _set(state.slots, slot, state.slots[slot] // FILE * FILE)
                yield to(c if len(present) > 1 else done, slots=slots)

    def _hinted(self, state: State, r: Reader) -> Iterator[Reader]:
        """A reader that follows the pointer. Where it ends without an answer, it lists the whole log instead."""
        end = Reader(hinted=True, pc=R_END)
        at = len(r.content) + len(r.tail)
        held = state.slots[at] if at < len(state.slots) else 0
        if r.pc == R_LIST:
            for content in state.states:
                begun = {"base": len(content) - 1, "content": content, "start": len(state.hist)}
                yield r._replace(pc=R_BEGIN, **begun)
        elif r.pc == R_BEGIN and self.rule.stat:
            own = state.slots[r.base]
            is_own = own % GEN == r.content[-1] if self.rule.hint in {"proven", "after"} else own % GEN
            yield r._replace(pc=R_ABOVE, anchor=own) if is_own else end
        elif r.pc == R_BEGIN:
            yield r._replace(pc=R_ABOVE)
        elif r.pc == R_ABOVE:
            # Slot by slot, by name, up to the first empty one.
            yield r._replace(tail=(*r.tail, held % FILE)) if held % GEN else r._replace(pc=R_AFTER)
        elif self.rule.hint in {"trusted", "after"}:
            yield self._believed(state, r)
        elif self.rule.stat:
            yield self._believed(state, r) if state.slots[r.base] == r.anchor else end
        elif r.pc == R_AFTER and self.rule.hint == "versions":
            yield self._listed_on(state, r, at - 1) or end
        elif r.pc == R_AFTER:
            yield self._listed_after(state, r, at - 1) or end
        elif r.tail:
            is_told = self._is_told(state, r.listed, len(r.content), r.tail)
            yield self._believed(state, r) if is_told else end
        else:
            yield self._believed(state, r) if state.slots[r.base] % GEN == r.content[-1] else end

    def _listed_on(self, state: State, r: Reader, head: int) -> Reader | None:
        """The next name of a listing that is under way, from `head` on: anything may happen between two of them."""
        slot = max(r.listed, head)
        if self.rule.links and self._open(len(r.content), r.tail) not in ([], [head]):
            return None
        if slot == len(state.slots):
            return self._believed(state, r) if r.tail else r._replace(pc=R_ASK, listed=-1)
        is_as_read = (state.slots[slot] % GEN != 0) == (slot == head)
        return r._replace(listed=slot + 1) if is_as_read else None

    def _listed_after(self, state: State, r: Reader, head: int) -> Reader | None:
        """What one listing tells a reader who found the slot above `head` empty before; None: the hint is of no use."""
        newest = len(state.states[-1]) - 1 if state.states else -1
        there = max((slot for slot, held in enumerate(state.slots) if held % GEN), default=-1)
        if there != head or (newest > head and self.rule.hint != "slots"):
            return None
        listed = self._look(state, r.base, len(r.content), r.tail) if r.tail else -1
        # Without a version above it, the checkpoint's own file is read and compared.
        return self._believed(state, r) if r.tail and listed < 0 else r._replace(pc=R_ASK, listed=listed)

    def _reader(self, state: State, r: Reader) -> Iterator[Reader]:
        if r.hinted:
            yield from self._hinted(state, r)
        elif r.pc == R_LIST:
            if len(state.hist) <= r.target:
                return
            below = [s for s in state.states if len(s) - 1 <= r.target]
            content = state.hist[: r.target] if r.alone else (below[-1] if below else ())
            is_whole = len(content) > r.target
            yield r._replace(pc=R_END if is_whole else R_READ, base=len(content) - 1, content=content)
        elif r.pc == R_READ:
            at = len(r.content) + len(r.tail)
            held = state.slots[at]
            if not held % GEN:
                yield Reader(r.target, r.alone, R_END)
            else:
                tail = (*r.tail, held % FILE)
                yield r._replace(pc=R_LOOK if at == r.target else R_READ, tail=tail)
        elif r.pc == R_LOOK:
            listed = self._look(state, r.base, len(r.content), r.tail)
            yield self._believed(state, r) if listed < 0 else r._replace(pc=R_ASK, listed=listed)
        else:
            is_told = self._is_told(state, r.listed, len(r.content), r.tail)
            if is_told is None:
                yield r._replace(pc=R_LOOK, listed=-1)
            else:
                yield self._believed(state, r) if is_told else Reader(r.target, r.alone, R_END)

    def _believed(self, state: State, r: Reader) -> Reader:
        tables = {file // (GEN * GEN) for file in r.tail}
        content = (*r.content, *(file % GEN for file in r.tail))
        told = (state.hist[: len(content)], state.former[: len(content)])
        if len(tables) == 1 and content not in told:
            raise Violation("misread")
        if r.hinted and state.table == 0 and len(content) < r.start:
            raise Violation("outdated")
        return Reader(r.target, r.alone, R_END, hinted=r.hinted)

    def _look(self, state: State, base: int, first: int, tail: tuple[int, ...]) -> int:
        """The newest checkpoint that has to be asked about what was read, by one listing; -1: it is believed."""
        newest = len(state.states[-1]) - 1 if state.states else -1
        if self.rule.confirm == "not":
            return -1
        if self.rule.confirm == "base" and base >= 0 and any(len(s) - 1 == base for s in state.states):
            return -1
        return newest if newest >= self._open(first, tail)[0] else -1

    def _is_told(self, state: State, listed: int, first: int, tail: tuple[int, ...]) -> bool | None:
        """Whether the checkpoint that was listed confirms what was read; None if it is gone."""
        told = next((s for s in state.states if len(s) - 1 == listed), None)
        if told is None:
            return None
        return all(
            version > listed or (version >= len(told) - self.window and told[version] == tail[version - first] % GEN)
            for version in self._open(first, tail)
        )

    def _open(self, first: int, tail: tuple[int, ...]) -> list[int]:
        """The versions that no version above them vouches for, in ascending order."""
        return [
            first + at
            for at, file in enumerate(tail)
            if at + 1 == len(tail) or not self.rule.links or tail[at + 1] // GEN % GEN != file % GEN
        ]


class Result(NamedTuple):
    """What an exploration found."""

    states: int
    ends: int
    violations: dict[str, int]
    unknown: int
    complete: bool


def trace(model: Model, kind: str | None = None, *, limit: int = 10**6) -> list[Step]:
    """The shortest way to a violation (of a kind): all steps but the one that violates."""
    seen = {hash(model.start)}
    ways: list[tuple[State, tuple[Step, ...]]] = [(model.start, ())]
    for state, way in ways:
        steps = model.steps(state)
        while True:
            try:
                step = next(steps, None)
            except Violation as violation:
                if kind in {None, violation.kind}:
                    return list(way)
                break
            if step is None:
                break
            mark = hash(step.state)
            if mark not in seen and len(seen) < limit:
                seen.add(mark)
                ways.append((step.state, (*way, step)))
    return []


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


def _moved(w: Writer, *, anchor: int = 0) -> Writer:
    """The winners are judged: the commit goes on top of the last one."""
    known = w.read[-1] % GEN if w.read else w.known
    return w._replace(pc=PUT, base=w.slot - 1, known=known, anchor=anchor, seen=0, pending=0, read=())


def _stands(state: State, w: Writer) -> bool:
    """The base is the file that the writer knows, or a checkpoint of its table lists it."""
    held = state.slots[w.base]
    if held % GEN == w.known and held // (GEN * GEN) % 2 == w.table:
        return True
    return any(len(s) > w.base and s[w.base] == w.known for s in state.states)


def _is_stale(w: Writer, slot: int) -> bool:
    """A writer that knows nothing of a slot yet. A loss right under a commit's feet is not what the rule is about."""
    return w.pc >= DONE or (w.base < slot and not w.pending and not w.read)


def _published(state: State, content: tuple[int, ...]) -> State:
    return state._replace(states=tuple(sorted({*state.states, content}, key=len)))


def _set(items: tuple, index: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:index], value, *items[index + 1 :])


_STEPS = {
    PROBE: Model._probe,
    HEAD: Model._head,
    STAT: Model._stat,
    LIST: Model._list,
    FETCH: Model._fetch,
    PUT: Model._put,
    BACK: Model._back,
    ABSENT: Model._absent,
    WHEAD: Model._whead,
    WSTAT: Model._wstat,
    WLIST: Model._wlist,
    BASE: Model._base,
    ABOVE: Model._above,
    WITHDRAW: Model._withdraw,
}
