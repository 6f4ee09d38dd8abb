"""Takes one commit from the first put to an outcome that is true.

The rule, which `tests/sim/model` tries in every interleaving:

1. Every version file carries the commit's token. It is put if absent, in one request that nobody repeats by itself.
2. Whatever the answer was, unless it says "created", the slot is read back and the tokens are compared. If the slot
   is empty and no checkpoint covers it, the same bytes are put there again: an earlier put that is still under way
   carries the same token. The writer never moves on while the slot's state is open.
3. A win counts only after a look for a checkpoint at or above the slot. If there is one, its list of tokens says
   whether the slot was ours: otherwise cleanup had emptied the slot before, and the commit goes on top of the newest
   version with the same token. If the list does not reach down to the slot, the outcome is unknown.
4. The winners that a conflict check reads are verified in the same way, from the base version on: a stalled writer
   may have put its file into a slot that cleanup had emptied.
5. On local files, where cleanup deletes in ascending order, the unchanged file of the version below takes the place
   of the listing: as long as it is there, nothing above it has been deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal
from typing import Protocol as Interface

import msgspec

from indextables import measures, process
from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError, LogError, StoreError
from indextables.log.commit import conflict, head, lost_base
from indextables.log.commit.head import Head
from indextables.log.commit.lost_base import lost_ground, replaced
from indextables.log.commit.staged import Staged
from indextables.log.commit.winner import Held, Winner, read_slot
from indextables.log.read import Confirmed, Log, Mixed, Superseded, by_anchor, clock, confirm, discover, follows, tokens
from indextables.log.wire import (
    REMOVES_SCHEMA,
    CommitInfo,
    Committed,
    Conflicted,
    ConflictKind,
    Unknown,
    VersionContent,
    empty_files,
    protocol,
    version_key,
)
from indextables.storage.store import ObjectMeta, PutAnswer

__all__ = ["Encoded", "Landed", "Settled", "Slot", "Undecided", "Work", "commit", "put_slot"]

_RACE_WAIT_S = 0.02


class Work(Interface):
    """What is to be committed, as far as the loop needs to know it."""

    @property
    def is_blind_append(self) -> bool:
        """True if only the metadata and the protocol matter to it."""
        ...

    @property
    def repairs(self) -> bool:
        """True if it is repaired after each loss, so that only losses without end would be refused."""
        ...

    def ours(self, base: Head) -> conflict.Ours:
        """What the conflict check must know."""
        ...

    def rebase(self, winner: Winner | None, verdict: conflict.Verdict) -> conflict.Clash | None:
        """Take over what a winner changed, None where it cannot be read any more. A clash if that is impossible."""
        ...

    def encode(self, base: Head, token: str) -> Encoded:
        """The version file that follows `base`."""
        ...

    def check(self, encoded: Encoded) -> None:
        """Raises if it must not be put any more. No put of it is under way."""
        ...


class Encoded(msgspec.Struct, frozen=True):
    """A version file as it is put, and what it holds."""

    data: bytes
    version: int
    info: CommitInfo
    staged: Staged


class Landed(msgspec.Struct, frozen=True):
    """A commit that is in the log: the outcome, its file, the version below it, and its file as the store shows it."""

    outcome: Committed
    encoded: Encoded
    base: Head
    meta: ObjectMeta | None

    @property
    def identity(self) -> str | None:
        """What tells its file from another one of that name, None where nobody has looked."""
        return None if self.meta is None else self.meta.etag


Settled = Landed | Committed | Conflicted | Unknown


def commit(log: Log, work: Work, base: Head, token: str) -> Settled:
    """Put `work` on top of `base` or of what has followed it.

    `Landed` if a version file was written, `Committed` if the table already held its `txn`. Raises TableReplaced,
    ProtocolUnsupported, InvariantViolated, StoreError and LogError where the commit is provably not in the log.
    """
    began, attempt = log.env.ambient.monotonic(), _Attempt(log, work, base, token)
    try:
        return attempt.run()
    finally:
        seconds = log.env.ambient.monotonic() - began
        measures.note(log.url, "commit", seconds, attempts=attempt.losses + 1, repairs=attempt.repairs)


class Slot(msgspec.Struct, frozen=True):
    """What a slot holds after a put: our file, somebody else's (`other`), or nothing because a checkpoint covers it."""

    state: Literal["ours", "other", "covered"]
    other: Held | None = None


class Undecided(Exception):
    """A put is out, and the store does not say what became of it."""

    def __init__(self, version: int, reason: str) -> None:
        super().__init__(reason)
        self.version = version
        self.reason = reason


def put_slot(env: Env, version: int, data: bytes, token: str, *, check: Callable[[], None] = lambda: None) -> Slot:
    """Put `data` into the slot of `version`, and again as long as it is empty and no checkpoint covers it.

    Before every put the clock is compared and `check` is called. Raises what it raises, ClockSkew,
    StorePermissionDenied and StoreFull where nothing was written, Undecided where the store does not tell: a put
    without an answer may be on its way whatever is found out afterwards.
    """
    key = version_key(version)
    for fault in range(env.options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS]):
        try:
            check()
            clock.check(env)
            answer = env.store.put_if_absent(key, data)
        except (IndexTablesError, *process.WANT) as error:
            if fault == 0 and isinstance(error, IndexTablesError):
                raise
            why = getattr(error, "details", {}).get("reason") or error
            raise Undecided(version, f"a put of it has no answer, and it is not put again: {why}") from error
        if answer is PutAnswer.CREATED:
            return Slot("ours")
        with _undecided(version):
            held = read_slot(env, version)
            if held is not None:
                return Slot("ours") if held.token == token else Slot("other", held)
            if tokens.survey(env, version).newest is not None:
                return Slot("covered")
        _wait_after_fault(env, fault)
    raise Undecided(version, "the store did not answer any put of it")


class _Attempt:
    """The loop. `base` is verified; `pending` is the slot of our last put while its fate is open."""

    def __init__(self, log: Log, work: Work, base: Head, token: str) -> None:
        self.log = log
        self.env = msgspec.structs.replace(log.env, options=log.env.over(base.metadata.configuration))
        self.work = work
        self.base = base
        self.token = token
        self.pending: int | None = None
        self.first_winner: Held | None = None
        self.losses = 0
        self.repairs = 0
        self.last_operation: str | None = None
        self.limit = self._attempt_limit()

    def run(self) -> Settled:
        settled: Settled | None = None
        try:
            self._check_base()
            while settled is None:
                settled = self._put()
                if settled is None:
                    settled = self._lost()
        except Undecided as undecided:
            return Unknown(self.token, undecided.version, undecided.reason)
        except _Refused as refused:
            raise refused.error from None
        return settled

    def _check_base(self) -> None:
        """See before the first put that a local base is as it was: then nothing has to be taken back."""
        if self.env.options[opt.LOG_STOP_AT_GAP]:
            # What lies below a gap can be read. What is put into it would take the place of what was lost.
            discover(self.env, whole=True)
        self.base = base = lost_base.linked(self.env, self.base)
        if base.crc32c is None:
            # Nothing but a snapshot tells of it, and its file is not there.
            lost_base.check_without_file(self.log, base, self._look(), self._told)
        if not self.env.store.is_local or base.identity is None:
            return
        if tokens.identity_of(self.env, base.version) != base.identity and not self._stands(self._look()):
            raise _Refused(lost_ground(self.log, base))

    def _put(self) -> Settled | None:
        """One slot, until it is ours, somebody else's or undecidable. None: catch up and try again."""
        protocol.check_writable(self.base.protocol, self.env.store.url)
        slot = self.base.version + 1
        if (
            self.env.store.is_local
            and (above := lost_base.beyond_gap(self.env, slot, self.base.metadata.id)) is not None
        ):
            raise _Refused(lost_base.lost_slot(self.log, slot, above))
        if self._is_taken(slot):
            return None
        encoded = self.work.encode(self.base, self.token)
        held = put_slot(self.env, slot, encoded.data, self.token, check=lambda: self.work.check(encoded))
        if held.state == "other":
            self.pending, self.first_winner = slot, held.other
            return None
        with _undecided(slot):
            if held.state == "covered":
                return self._resolve(slot, encoded)
            return self._check_win(slot, encoded)

    def _is_taken(self, slot: int) -> bool:
        """True if somebody else has a local slot already: looking costs less than a version file on the disk."""
        if not self.env.store.is_local or not self.env.store.exists(version_key(slot)):
            return False
        held = read_slot(self.env, slot)
        if held is None or held.token == self.token:
            return False
        self.first_winner = held
        return True

    def _check_win(self, slot: int, encoded: Encoded) -> Settled | None:
        """An apparent win is one if no checkpoint covers the slot, or if the one that does lists our token."""
        if (ours := lost_base.seen_in_place(self.env, self.base, encoded.info)) is not None:
            return self._landed(slot, encoded, ours)
        seen = self._look()
        if self._is_covered(slot, seen):
            return self._resolve(slot, encoded)
        stands = self._stands(seen)
        above = lost_base.gap_below(self.env, encoded.info, slot, seen.above(slot)) if stands else None
        if stands and above is None:
            ours = seen.file(slot, len(encoded.data))
            clock.saw(self.env, None if ours is None else ours.modified_ms)
            return self._landed(slot, encoded, ours)
        if self._is_covered(slot, tokens.survey(self.env, slot)):
            # Cleanup was here since the listing: what is missing is no loss.
            return self._resolve(slot, encoded)
        if stands and lost_base.is_followed(self.env, encoded.info, slot):
            # What lay above a gap was taken back since the listing, and others went on from here.
            return self._landed(slot, encoded, None)
        self._withdraw(slot)
        if above is None:
            raise _Refused(lost_ground(self.log, self.base))
        raise _Refused(lost_base.lost_slot(self.log, slot, above))

    def _resolve(self, slot: int, encoded: Encoded) -> Settled | None:
        """Ask the newest checkpoint, which covers the slot, whose it was."""
        found = self._told(slot)
        if found is None:
            return Unknown(self.token, slot, "the checkpoint that covered it is gone, and there is no newer one")
        ref, window = found.ref, found.window
        if window is None or not window.covers(slot):
            return Unknown(self.token, slot, f"the checkpoint of version {ref.version} does not tell its token")
        if window.token_at(slot) == self.token:
            return self._landed(slot, encoded, None)
        return self._reload()

    def _landed(self, slot: int, encoded: Encoded, meta: ObjectMeta | None) -> Landed:
        outcome = Committed(slot, self.token, encoded.info.inCommitTimestamp, self.losses + 1)
        return Landed(outcome, encoded, self.base, meta)

    def _lost(self) -> Settled | None:
        """Somebody else has the slot: go on from the newest version, if that may be; after a put wait first."""
        self.losses += 1
        if self.pending is not None:
            # A winner commits again at once: whoever waited longer with each loss would starve until it has finished.
            self.env.ambient.sleep(self.env.ambient.random() * _RACE_WAIT_S / self.losses)
        slot = self.base.version + 1
        try:
            settled = self._catch_up()
        except (StoreError, LogError) as error:
            if self.pending is None:
                raise
            return Unknown(self.token, self.pending, str(error))
        if settled is None and self.limit is not None and self.losses >= self.limit:
            return self._conflict("attempts", "other writers were faster", slot)
        return settled

    def _catch_up(self) -> Settled | None:
        """Read what has been committed above the base, verify it, and judge it."""
        winners = [self.first_winner] if self.first_winner is not None else []
        self.first_winner = None
        while (content := read_slot(self.env, self.base.version + 1 + len(winners))) is not None:
            winners.append(content)
        if not winners and self.pending is None:
            return None
        if any(content.token == self.token for content in winners):
            # Whoever had the slot took it back, and a put of ours that was still under way found it empty.
            raise Undecided(self.base.version + 1, "it may be there by now")
        # As the read itself saw it: a look by name would find what has taken the place of the file since.
        identity = winners[-1].identity if winners else None
        unchanged = by_anchor(self.env, self.base.version, self.base.identity, winners) if identity else None
        if unchanged is not None:
            return self._judge(unchanged, identity)
        seen = self._look()
        if self._is_covered(self.base.version + 1, seen):
            return self._verify(winners, identity)
        if not self._stands(seen):
            raise _Refused(lost_ground(self.log, self.base))
        return self._judge(confirm(self.env, winners, seen=seen), identity)

    def _verify(self, winners: list[Held], identity: str | None) -> Settled | None:
        """Believe of the winners what the checkpoints confirm; start anew above them where they do not."""
        slot = self.pending
        found = self._told(self.base.version + 1)
        if found is None:
            return self._reload() if slot is None else Unknown(self.token, slot, "checkpoints come and go too fast")
        ref, window = found.ref, found.window
        if slot is not None and slot <= ref.version:
            if window is None or not window.covers(slot):
                return Unknown(self.token, slot, f"the checkpoint of version {ref.version} does not tell its token")
            if window.token_at(slot) == self.token:
                return Committed(slot, self.token, None, self.losses + 1)
        covered = sum(content.version <= ref.version for content in winners)
        if self.base.version + covered != ref.version:
            return self._reload()
        try:
            confirmed = confirm(self.env, winners)
        except (Superseded, Mixed):
            return self._reload()
        return self._judge(confirmed, identity if len(winners) > covered else None)

    def _judge(self, winners: Confirmed[Held], identity: str | None) -> Committed | Conflicted | None:
        self.pending = None
        if winners and not follows(winners[0], self.base.token):
            # The base is not what was committed there, although it seemed so.
            return self._reload()
        for content in winners:
            self._check_table(content)
            if content.protocol is not None:
                protocol.check_writable(content.protocol, self.env.store.url)
            info = content.commit_info
            self.last_operation = None if info is None else info.operation
            winner = content.under(protocol.path_rule(content.protocol or self.base.protocol))
            verdict = conflict.judge(self.work.ours(self.base), winner)
            if verdict.already:
                return Committed(content.version, self.token, attempts=self.losses + 1, repeated=True)
            if verdict.clash is not None:
                return self._conflict(verdict.clash.kind, verdict.clash.reason, content.version)
            last = content is winners[-1]
            after = head.advance(self.base, winner, identity=identity if last else None)
            self.repairs += verdict.repair
            clash = self.work.rebase(winner, verdict)
            if clash is not None:
                return self._conflict(clash.kind, clash.reason, content.version)
            self.base = after
        if winners:
            head.remember(self.log, self.base)
        return None

    def _reload(self) -> Committed | Conflicted | None:
        """Start anew from the newest version, where what happened in between can no longer be read."""
        self.pending = None
        before = self.base
        needs_txns = before.txns is not None or bool(self.work.ours(before).txns)
        self.base = head.load(self.log, with_txns=needs_txns)
        if self.base.metadata.id != before.metadata.id:
            raise replaced(self.log, self.base)
        ours = self.work.ours(before)
        gap = VersionContent(
            version=self.base.version,
            commit_info=None,
            protocol=self.base.protocol,
            metadata=self.base.metadata,
            adds=empty_files(),
            removes=REMOVES_SCHEMA.empty_table(),
            txns=tuple((self.base.txns or {}).values()),
        )
        verdict = conflict.judge(ours, gap)
        if verdict.already:
            return Committed(self.base.version, self.token, attempts=self.losses + 1, repeated=True)
        if verdict.clash is not None:
            return self._conflict(verdict.clash.kind, verdict.clash.reason, self.base.version)
        if ours.kind not in {"append", "metadata"}:
            reason = "the versions since it started were cleaned up, so that nobody can tell whether they clash"
            return self._conflict("data", reason, self.base.version)
        clash = self.work.rebase(None, verdict)
        return None if clash is None else self._conflict(clash.kind, clash.reason, self.base.version)

    def _look(self) -> tokens.Survey:
        """List from the base on; again where its file is gone and nothing explains that yet."""
        version = self.base.version
        seen = tokens.survey(self.env, version)
        if seen.newest is not None or seen.holds(version):
            return seen
        # A listing may lag behind, a look at the file itself does not.
        etag = tokens.identity_of(self.env, version)
        if etag is None:
            return tokens.survey(self.env, version)
        return msgspec.structs.replace(seen, etags={**seen.etags, version_key(version): etag})

    def _is_covered(self, slot: int, seen: tokens.Survey) -> bool:
        """True if there is a checkpoint of this table at or above the slot; one of another table covers nothing."""
        if seen.newest is None or seen.newest.version < slot:
            return False
        return self._told(slot) is not None

    def _told(self, version: int) -> tokens.Told | None:
        """What the newest checkpoint of this table at or above a version tells.

        A checkpoint can be left in the log of another table: that one's version files say so, and nothing is proven
        by it. What we may have put there is taken back, unless the checkpoint holds it or may do so.
        """
        found = tokens.newest_tokens(self.env, version, self.base.metadata.id, self.token)
        slot = self.base.version + 1
        if found is None or (found.ref.version >= slot and not found.covers(slot)):
            return found
        is_ours = found.covers(slot) and found.token_at(slot) == self.token
        if not is_ours and lost_base.is_anothers(self.env, self.base, self.token):
            self._withdraw(slot)
            raise _Refused(replaced(self.log, self.base))
        return found

    def _stands(self, seen: tokens.Survey) -> bool:
        return lost_base.stands(self.env, self.base, seen, self._told)

    def _withdraw(self, slot: int) -> None:
        """Take our file back: it lies in nobody's log, in another table's, or where a lost version belongs.

        Raises Undecided where it may still be there: then it may yet become a version.
        """
        held = read_slot(self.env, slot)
        if held is None or held.token != self.token:
            return
        failed = self.env.store.delete_many([version_key(slot)])
        if failed:
            reason = f"the version below is gone, and it could not be taken back: {next(iter(failed.values()))}"
            raise Undecided(slot, reason)

    def _check_table(self, content: Held) -> None:
        info = content.commit_info
        theirs = {None if info is None else info.tableId, None if content.metadata is None else content.metadata.id}
        if theirs - {None, self.base.metadata.id}:
            raise replaced(self.log, self.base)

    def _conflict(self, kind: ConflictKind, reason: str, winner: int) -> Conflicted:
        # The remembered head lies below what clashed: whoever starts from it clashes again, whatever it brings.
        head.forget(self.log)
        return Conflicted(kind, reason, winner, self.token, self.last_operation, self.losses + 1)

    def _attempt_limit(self) -> int | None:
        options = self.env.options
        if (self.work.is_blind_append or self.work.repairs) and not options.given(opt.TRANSACTION_RETRY_MAX_ATTEMPTS):
            return None
        return options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS]


class _Refused(Exception):
    """The commit is provably not in the log, and will not be: `error` says why."""

    def __init__(self, error: IndexTablesError) -> None:
        super().__init__(str(error))
        self.error = error


@contextlib.contextmanager
def _undecided(slot: int) -> Iterator[None]:
    """While a put is out, an error of the store or the log means that its fate is open; so does want of memory."""
    try:
        yield
    except (StoreError, LogError, *process.WANT) as error:
        raise Undecided(slot, str(error) or type(error).__name__) from error


def _wait_after_fault(env: Env, fault: int) -> None:
    first, most = env.options[opt.TRANSACTION_RETRY_BASE_DELAY_MS], env.options[opt.TRANSACTION_RETRY_MAX_DELAY_MS]
    env.ambient.sleep(env.ambient.random() * min(first * 2**fault, most) / 1000)
