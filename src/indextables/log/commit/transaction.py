"""`Transaction` holds what was read and what will be written, and takes it to an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.errors import InvalidArgument, TableReplaced
from indextables.log.commit import conflict, head, lost_base
from indextables.log.commit.head import Head
from indextables.log.commit.personal import redacted, scrubbed
from indextables.log.commit.repetition import held_at, newest_of_log, repetition, repetition_by_now
from indextables.log.commit.row_ids import counted
from indextables.log.commit.rule import Encoded, Landed, commit
from indextables.log.commit.staged import Files, Removes, Staged, changes_data, encode, has_vectors, paths_of
from indextables.log.commit.winner import Winner
from indextables.log.read import Log, Snapshot, clock
from indextables.log.wire import (
    Add,
    CommitInfo,
    Committed,
    Conflicted,
    DomainMetadata,
    MergeSkip,
    Metadata,
    Outcome,
    Previous,
    Protocol,
    Remove,
    Txn,
    VersionContent,
    engine_info,
    error_of,
    protocol,
    tracks_rows,
)

__all__ = ["Isolation", "Transaction"]

Isolation = Literal["WriteSerializable", "Serializable"]


class Transaction:
    """One commit in the making. Stage, then `commit()` once.

    `snapshot` is what the transaction was computed from. Without one nothing was read, and the commit goes on top of
    whatever is newest: such an append is blind, needs no listing of files, and clashes only with changes of metadata
    or protocol. Methods return the transaction, so that they can be chained.
    """

    def __init__(
        self,
        log: Log,
        snapshot: Snapshot | None = None,
        *,
        operation: str,
        parameters: Mapping[str, str | None] | None = None,
        metrics: Mapping[str, str | None] | None = None,
        user_metadata: str | None = None,
        isolation: Isolation | None = None,
        table_id: str | None = None,
        written_for: Metadata | None = None,
    ) -> None:
        """`table_id` is the table that the caller means, by default that of the snapshot, else the log's.

        `written_for` is the metadata that files were written for, where that is not the snapshot's: a schema or
        partitioning that has changed since then is a conflict, whatever else changed is taken over.
        """
        self.log = log
        self.snapshot = snapshot
        self.token = log.env.ambient.token()
        self._operation = operation
        self._parameters = dict(parameters or {})
        self._metrics = dict(metrics or {})
        self._user_metadata = user_metadata
        self._isolation = isolation
        self._table_id = table_id or (log.env.table_id if snapshot is None else snapshot.table_id)
        self._written_for = written_for
        self._staged = Staged()
        self._bind: Callable[[Snapshot], Staged] | None = None
        self._bound: tuple[int, Staged] | None = None
        self._replaces_range = False
        self._read: list[str] = []
        self._may_match: Callable[[pa.Table], bool] | None = None
        self._read_all = False
        self._repair: Callable[[Staged, VersionContent], Staged | None] | None = None
        self._finish: Callable[[Staged], Staged] | None = None
        self._is_unfinished = False
        self._regroup: Callable[[Staged, Sequence[str]], Staged | None] | None = None
        self._check: Callable[[Staged], None] | None = None
        self._landed: Callable[[Committed], None] | None = None
        self.tried: int | None = None
        """The newest version that it may have tried to become; None if nothing of it was ever put."""
        self._done = False

    def add(self, adds: Sequence[Add] | pa.Table) -> Transaction:
        """Stage data files that are durable already. Raises InvalidArgument if some are staged."""
        return self._stage(adds=_once(self._staged.adds, adds, "adds"))

    def remove(self, removes: Sequence[Remove] | pa.Table, *, rows: pa.Table | None = None) -> Transaction:
        """Stage files that leave the table; `rows` are their live rows, which running totals need."""
        return self._stage(removes=_once(self._staged.removes, removes, "removes"), removed_rows=rows)

    def count(self, metrics: Mapping[str, str | None]) -> Transaction:
        """Stage what the history tells beside the transaction's own metrics; a repair counts anew."""
        return self._stage(metrics=dict(metrics))

    def set_metadata(self, metadata: Metadata) -> Transaction:
        """Stage new metadata; id and time of creation must be the table's."""
        return self._stage(metadata=metadata)

    def set_protocol(self, changed: Protocol) -> Transaction:
        """Stage a new protocol; what the table asks for already stays asked for."""
        return self._stage(protocol=changed)

    def set_txn(self, app_id: str, version: int) -> Transaction:
        """Make the commit a no-op if the table already holds batch `version`, or a later one, of `app_id`.

        Raises InvalidArgument unless `app_id` is a text that is not empty and `version` a number of 0 .. 2^63 - 1.
        """
        _check_txn(app_id, version)
        txn = Txn(app_id, version, self.log.env.ambient.now_ms())
        return self._stage(txns=(*(t for t in self._staged.txns if t.appId != app_id), txn))

    def set_domain(self, domain: DomainMetadata) -> Transaction:
        """Stage a named piece of configuration."""
        return self._stage(domains=(*(d for d in self._staged.domains if d.domain != domain.domain), domain))

    def skip(self, skip: MergeSkip) -> Transaction:
        """Stage a file that could not be merged."""
        return self._stage(skips=(*self._staged.skips, skip))

    def read_files(self, paths: Sequence[str]) -> Transaction:
        """The commit depends on these files being as they were in its snapshot."""
        self._read += paths
        return self

    def read_where(self, may_match: Callable[[pa.Table], bool]) -> Transaction:
        """The commit depends on every file that could match a predicate.

        `may_match` gets rows of `add` and answers whether any of their files could hold a row that it selects.
        """
        self._may_match = may_match
        return self

    def read_all(self) -> Transaction:
        """The commit depends on every file of its snapshot."""
        self._read_all = True
        return self

    def bind(self, build: Callable[[Snapshot], Staged], *, replaces_range: bool = False) -> Transaction:
        """Compute removes, adds or skips from the newest version each time the commit is put on top of it.

        What `build` returns replaces the staged files and skips; its metrics are told beside the transaction's own.
        `replaces_range` makes it an overwrite: of the rows that `read_where` describes, or of all.
        """
        self._bind = build
        self._replaces_range = replaces_range
        return self

    def repair_with(
        self,
        repair: Callable[[Staged, VersionContent], Staged | None],
        finish: Callable[[Staged], Staged] | None = None,
    ) -> Transaction:
        """Offer to decide row by row what a winner means, however often that is needed.

        `repair(staged, winner)` gives what is staged as it must be on top of the winner, whose files it may read; None
        if the same rows were changed. With `finish` its files may be those from before: `finish` brings them up to date
        when the commit is put, once for all winners.
        """
        self._repair, self._finish = repair, finish
        return self

    def regroup_with(self, regroup: Callable[[Staged, Sequence[str]], Staged | None]) -> Transaction:
        """Offer to leave out files of a merge: `regroup(staged, paths)` gives what is left, None if nothing is."""
        self._regroup = regroup
        return self

    def before_put(self, check: Callable[[Staged], None]) -> Transaction:
        """Ask `check` right before each put, with what that would commit; what it raises ends the commit.

        At that time nothing of it is in the log.
        """
        self._check = check
        return self

    def when_landed(self, told: Callable[[Committed], None]) -> Transaction:
        """Call `told` when the commit is in the log, before what follows a commit is done."""
        self._landed = told
        return self

    def commit(self) -> Outcome:
        """Put the commit into the log, on top of whatever has been committed since, if that may be.

        Raises what makes a commit impossible before anything is written: ClockSkew, StoreUnsafe, ProtocolUnsupported,
        NotSupported, TableReplaced, InvalidArgument, LogError, StoreError. From the first put on, doubt is `Unknown`.
        """
        if self._done:
            raise InvalidArgument("a transaction can be committed once: begin another one")
        self._done = True
        follow = self.log.after_commit
        base = self._checked_base()
        clock.check(self.log.env)
        self._check_metadata(base)
        txns = self._staged.txns
        if (repeated := repetition(self.log, base, txns, self.token)) is not None:
            return repeated
        settled = self._outdated(base) or commit(self.log, self, base, self.token)
        if isinstance(settled, Landed):
            if self._landed is not None:
                self._landed(settled.outcome)
            follow(self.log, settled)
            return settled.outcome
        if isinstance(settled, Conflicted):
            return repetition_by_now(self.log, base, txns, self.token) or settled
        return settled

    def repeated(self) -> Committed | None:
        """What `commit` would answer because its snapshot holds a batch of this commit; None if it does not.

        For who would compute what to stage from rows that the batch has changed already. Raises as `commit`.
        """
        return repetition(self.log, self._checked_base(), self._staged.txns, self.token)

    def commit_or_raise(self) -> Committed:
        """As `commit`, with exceptions: CommitConflict, MetadataChanged, ProtocolChanged, CommitStateUnknown."""
        outcome = self.commit()
        if isinstance(outcome, Committed):
            return outcome
        raise error_of(outcome, self.log.env.store.url)

    @property
    def is_blind_append(self) -> bool:
        """True if nothing was read and new files are only added."""
        return self._staged.metadata is None and self._only_adds

    @property
    def repairs(self) -> bool:
        """True if somebody decides row by row what a winner means."""
        return self._repair is not None

    @property
    def _only_adds(self) -> bool:
        """True if new files are added, whatever was read of the metadata. A vector is never that of a new file."""
        staged = self._staged
        changes_table = staged.protocol is not None or bool(len(staged.removes)) or has_vectors(staged.adds)
        reads = self._may_match is not None or self._read_all or bool(self._read) or self._bind is not None
        # Who repairs has looked for rows; what it adds may depend on those that it did not find.
        reads = reads or self.repairs
        return not changes_table and not reads and bool(len(staged.adds))

    def ours(self, base: Head) -> conflict.Ours:
        """What the conflict check must know about this commit on top of `base`."""
        staged = self._bound[1] if self._bound is not None else self._staged
        kind = self._kind(staged)
        blind = kind in {"append", "metadata"}
        return conflict.Ours(
            kind=kind,
            base_metadata=base.metadata,
            base_protocol=base.protocol,
            serializable=self._is_serializable(base, staged),
            read_all=self._read_all,
            removed=None if blind else paths_of(staged.removes),
            added=None if blind else paths_of(staged.adds),
            read=pa.array(self._read, pa.string()) if self._read else None,
            may_match=self._may_match,
            metadata=staged.metadata,
            protocol=staged.protocol,
            txns=staged.txns,
            domains=tuple(domain.domain for domain in staged.domains),
            repairs=self.repairs,
            regroups=self._regroup is not None,
        )

    def rebase(self, winner: Winner | None, verdict: conflict.Verdict) -> conflict.Clash | None:
        """Take over what a winner changed. A clash if the transaction cannot."""
        if verdict.metadata is not None and self._staged.metadata is not None:
            merged = conflict.merge_registry(self._staged.metadata, verdict.metadata)
            self._staged = msgspec.structs.replace(self._staged, metadata=merged)
        if verdict.protocol is not None and self._staged.protocol is not None:
            self._stage(protocol=protocol.joined(verdict.protocol, self._staged.protocol))
        if verdict.repair and self._repair is not None and winner is not None:
            repaired = self._repair(self._staged, winner.content)
            if repaired is None:
                return conflict.Clash("data", f"version {winner.version} changed rows that this statement changes too")
            self._staged, self._is_unfinished = repaired, self._finish is not None
        if verdict.give_up and self._regroup is not None and winner is not None:
            left = self._regroup(self._staged, verdict.give_up)
            if left is None:
                reason = f"version {winner.version} changed every file that this commit merges"
                return conflict.Clash("data", reason)
            self._staged = left
        return None

    def encode(self, base: Head, token: str) -> Encoded:
        """The version file that follows `base`."""
        staged = self._current(base)
        metadata = staged.metadata or base.metadata
        self.tried = base.version + 1
        now_ms = self.log.env.ambient.now_ms()
        before = base.in_commit_timestamp
        info = CommitInfo(
            timestamp=now_ms,
            inCommitTimestamp=now_ms if before is None else max(now_ms, before + 1),
            operation=self._operation,
            operationParameters=redacted(self._parameters, metadata),
            operationMetrics={**self._metrics, **staged.metrics},
            readVersion=self.snapshot.version if self.snapshot is not None else None,
            isolationLevel="Serializable" if self._is_serializable(base, staged) else "WriteSerializable",
            isBlindAppend=self._only_adds and _registers_only(base.metadata, staged.metadata),
            engineInfo=engine_info(),
            userMetadata=self._user_metadata,
            user=self.log.env.user,
            tableId=base.metadata.id,
            token=token,
            version=base.version + 1,
            previous=Previous(base.token, base.crc32c),
        )
        compress = self.log.env.over(base.metadata.configuration)[opt.TRANSACTION_COMPRESSION_ENABLED]
        version = base.version + 1
        if tracks_rows(staged.protocol or base.protocol):
            staged = counted(staged, head.following_row_id(self.log, base))
        staged = scrubbed(staged, metadata)
        data = encode(staged, info, version=version, root_url=self.log.env.store.url, compress=compress)
        return Encoded(data, version, info, staged)

    def check(self, encoded: Encoded) -> None:
        """Raises what `before_put` was given for, if this must not be put."""
        if self._check is not None:
            self._check(encoded.staged)

    def _current(self, base: Head) -> Staged:
        """What is staged, with what depends on the head computed from `base`."""
        if self._bind is None:
            if self._is_unfinished and self._finish is not None:
                self._staged, self._is_unfinished = self._finish(self._staged), False
            return self._staged
        if self._bound is None or self._bound[0] != base.version:
            at_start = self.snapshot is not None and self.snapshot.version == base.version
            snapshot = self.snapshot if at_start else self.log.snapshot(base.version)
            assert snapshot is not None  # noqa: S101 - either side of the condition is a snapshot
            built = self._bind(snapshot)
            merged = msgspec.structs.replace(
                self._staged,
                adds=built.adds if len(built.adds) else self._staged.adds,
                removes=built.removes,
                skips=built.skips,
                removed_rows=built.removed_rows,
                metrics=built.metrics,
            )
            self._bound = (base.version, merged)
        return msgspec.structs.replace(self._bound[1], metadata=self._staged.metadata)

    def _checked_base(self) -> Head:
        base = self._base()
        protocol.check_writable(base.protocol, self.log.env.store.url)
        if self._table_id is not None and base.metadata.id != self._table_id:
            raise self._replaced(base)
        return base

    def _base(self) -> Head:
        """What the commit starts from; it holds a batch of ours only if the log that is there now holds it.

        What this process remembers, or the caller has read, may be of a log that was replaced since: it is no reason to
        leave rows out. Raises what `lost_ground` gives where the snapshot is of such a log.
        """
        base, txns = self._known_base(), self._staged.txns
        if not held_at(base, txns):
            return base
        newest = newest_of_log(self.log)
        if self.snapshot is not None and not held_at(newest, txns):
            raise lost_base.lost_ground(self.log, base)
        return newest

    def _known_base(self) -> Head:
        known = head.recall(self.log)
        if self.snapshot is not None:
            seen = head.head_of(self.snapshot)
            if known is not None and _are_one(known, seen):
                return msgspec.structs.replace(known, txns=seen.txns)
            return seen
        if known is not None and (known.txns is not None or not self._staged.txns) and self._may_follow(known):
            return known
        return head.load(self.log, with_txns=bool(self._staged.txns))

    def _may_follow(self, known: Head) -> bool:
        """True if a head that this process remembers serves as well as the newest version.

        Winners since then are judged as if they had come meanwhile. An append loses nothing by that. What is computed
        from the head, and files that were written for other metadata, would clash with what the caller has seen, again
        and again.
        """
        staged, written_for = self._staged, self._written_for
        if known.version < (self.log.seen() or 0):
            # The process has read what came since: for what is written now that is the past.
            return False
        if written_for is not None:
            seen = known.metadata == conflict.merge_registry(written_for, known.metadata)
            return seen and self._bind is None
        return (
            staged.metadata is not None or staged.protocol is not None or (self._bind is None and len(staged.adds) > 0)
        )

    def _outdated(self, base: Head) -> Conflicted | None:
        """What stands in the way of files that were written for other metadata; else the staged is put on today's."""
        before, now = self._written_for, base.metadata
        if before is None or before == now:
            return None
        changed = "schema" if _shape(before) != _shape(now) else "constraints"
        if changed == "schema" or conflict.constraints_of(before) != conflict.constraints_of(now):
            reason = f"the {changed} of the table changed by version {base.version}, after these files were written"
            return Conflicted("metadata", reason, base.version, self.token)
        if self._staged.metadata is not None:
            self._stage(metadata=conflict.merge_registry(now, self._staged.metadata))
        return None

    def _check_metadata(self, base: Head) -> None:
        staged = self._staged.metadata
        if staged is not None and (staged.id, staged.createdTime) != (base.metadata.id, base.metadata.createdTime):
            message = "a table's id and time of creation never change: replace other fields of its metadata"
            raise InvalidArgument(message, url=self.log.env.store.url)
        if staged is not None:
            self.log.env.options.setting(staged.configuration, base.metadata.configuration)
        if self._staged.protocol is not None:
            self._stage(protocol=protocol.joined(base.protocol, self._staged.protocol))

    def _kind(self, staged: Staged) -> conflict.Kind:
        if self._replaces_range:
            return "overwrite"
        if self.repairs:
            return "rows"
        if self.is_blind_append:
            return "append"
        if len(staged.removes) and not changes_data(staged):
            return "merge_splits"
        reads = self._may_match is not None or self._read_all or bool(self._read) or has_vectors(staged.adds)
        return "rows" if reads or len(staged.removes) else "append" if len(staged.adds) else "metadata"

    def _is_serializable(self, base: Head, staged: Staged) -> bool:
        if self._isolation is not None:
            return self._isolation == "Serializable"
        options = self.log.env.over(base.metadata.configuration)
        if self._kind(staged) in {"append", "metadata", "merge_splits"}:
            # They see no rows of others that a level could hide: the strictest will do where the level is unreadable.
            return options.if_readable(opt.ISOLATION_LEVEL) in {None, "serializable"}
        return options[opt.ISOLATION_LEVEL] == "serializable"

    def _replaced(self, base: Head) -> TableReplaced:
        head.forget(self.log)
        url = self.log.env.store.url
        message = (
            f"the table at {url} has the id {base.metadata.id}, not {self._table_id}: it was dropped and re-created. "
            "Nothing was committed: open it again"
        )
        return TableReplaced(message, url=url, table_id=self._table_id)

    def _stage(self, **changes: object) -> Transaction:
        self._staged = msgspec.structs.replace(self._staged, **changes)
        return self


def _are_one(known: Head, seen: Head) -> bool:
    """True if both tell of the same commit: a copy that was put back has other ones with the same numbers."""
    return (known.version, known.metadata.id, known.token) == (seen.version, seen.metadata.id, seen.token)


def _shape(metadata: Metadata) -> tuple[str, list[str]]:
    return metadata.schemaString, metadata.partitionColumns


def _check_txn(app_id: object, version: object) -> None:
    if not isinstance(app_id, str) or not app_id or any("\ud800" <= char <= "\udfff" for char in app_id):
        raise InvalidArgument(f"the application id of a txn is a text that is not empty, not {app_id!r}", app_id=app_id)
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 2**63:
        message = f"the batch number of a txn is a whole number of 0 to 2^63 - 1, not {version!r}"
        raise InvalidArgument(message, app_id=app_id, version=version)


def _registers_only(before: Metadata, staged: Metadata | None) -> bool:
    """True if the commit leaves the metadata as it is, or registers document mappings in it."""
    return staged is None or conflict.merge_registry(before, staged) == staged


def _once(staged: Files | Removes, given: Files | Removes, what: str) -> Files | Removes:
    if len(staged):
        raise InvalidArgument(f"the {what} of a transaction are staged in one call: combine them first")
    return given if isinstance(given, pa.Table) else tuple(given)
