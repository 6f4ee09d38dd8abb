"""Commits a change of rows on top of whatever was committed meanwhile; the same for every statement.

What a winner did is repaired row by row. Rows that it only moved are followed by their ids. Its new vectors are united
with ours. A file that it removed is left out of a DELETE. The rows that it brought are asked the same question. Where
it changed rows that the statement writes anew, or where that cannot be told, the statement runs again on the newest
version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CommitConflict,
    IndexTablesError,
    InvalidArgument,
    ObjectNotFound,
    QueryInvalid,
    SchemaMismatch,
    VersionExpired,
)
from indextables.log.commit import Staged, Transaction, bring_rows, files_of
from indextables.log.read import Log, Snapshot
from indextables.log.wire import (
    ADD_TYPE,
    Committed,
    Conflicted,
    DeletionVector,
    VersionContent,
    check_rows_writable,
    error_of,
    with_feature,
)
from indextables.table.arguments import check_flag, check_note, check_txn, check_version
from indextables.table.change.located import Located
from indextables.table.change.losses import Losses
from indextables.table.change.statement import ChangeReport, Counts, Prepared, Statement
from indextables.table.environment import table_env
from indextables.table.read import follow, still_there
from indextables.table.running import Progress, Step
from indextables.table.writing import NOT_IN_THE_LOG, check_kept, discard

__all__ = ["Terms", "execute", "repeated", "terms_of"]

_VECTORS = "deletionVectors"
_RUN_AGAIN = frozenset({"data", "metadata", "protocol"})
"""What a statement gets over by running on the newest version: it is bound to the schema and the rules of that.

The first rename, default or constraint of a table also changes its protocol. One that this release does not know is
refused when the newest version is read.
"""


class Terms(msgspec.Struct, frozen=True):
    """How a statement is committed.

    `txn` is (application, batch): a batch that the table holds is not done again. `expect_version` is the version that
    the caller has read: rows that the statement selects, or would, must not have changed since. `read_version` is the
    one that what it brings was computed from, row by row or as a whole: no row at all may have left it since, and it is
    not run again.
    """

    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    expect_version: int | None = None
    dry_run: bool = False
    read_version: int | None = None


def terms_of(
    txn: tuple[str, int] | None, user_metadata: str | None, expect_version: int | None, *, dry_run: bool
) -> Terms:
    """The terms that a caller gives. Raises InvalidArgument."""
    return Terms(
        txn=check_txn(txn),
        user_metadata=check_note(user_metadata),
        expect_version=None if expect_version is None else check_version(expect_version),
        dry_run=check_flag("dry_run", dry_run),
    )


def execute(log: Log, statement: Statement, terms: Terms, progress: Progress | None = None) -> ChangeReport:
    """Run a statement on the newest version, and again where others were faster, until it is in the log.

    Raises:
        QueryInvalid: It does not fit the table's schema.
        CommitConflict: Rows that it changes were changed by others again and again, or since `expect_version`.
        MetadataChanged, ProtocolChanged: The table changed in a way that it does not fit.
        CommitStateUnknown: The store did not tell; nothing is deleted.
        NotSupported: The table, or its rows, are another system's.
    """
    limit = log.env.options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS]
    reruns = 0
    while True:
        snapshot, held = _begin(log, statement, terms)
        check_rows_writable(snapshot.protocol, log.url)
        if held is not None:
            return _repetition(statement.operation, terms, held, reruns)
        env = table_env(log.env, snapshot.metadata)
        attempt = _Attempt(log, env, snapshot, statement, terms, progress)
        outcome = attempt.run(reruns)
        if isinstance(outcome, ChangeReport):
            if terms.expect_version is not None and outcome.version is None and not terms.dry_run:
                _check_none_came(log, statement, snapshot.version)
            return outcome
        reruns += 1
        if terms.expect_version is not None or terms.read_version is not None or reruns >= limit:
            raise outcome


def repeated(log: Log, operation: str, terms: Terms) -> ChangeReport | None:
    """What a statement reports whose batch the table holds already; None if it has to be done."""
    if terms.txn is None:
        return None
    held = Transaction(log, log.snapshot(), operation=operation).set_txn(*terms.txn).repeated()
    return None if held is None else _repetition(operation, terms, held, 0)


class _Attempt:
    """One run of a statement over one version, and its commit."""

    def __init__(
        self,
        log: Log,
        env: Env,
        snapshot: Snapshot,
        statement: Statement,
        terms: Terms,
        progress: Progress | None,
    ) -> None:
        self._log = log
        self._env = env
        self._snapshot = snapshot
        self._statement = statement
        self._terms = terms
        self._progress = progress
        self._clock = _Clock(env)
        self._run = statement.over(env, snapshot)
        self._prepared = Prepared(Located({}))
        self._files = snapshot.files
        """Files that rows of the statement may be in; a row that is moved comes to one that is added here."""
        self._repairs = 0
        self._beside: dict[str, str | None] = {}
        """What the history tells beside the counts of the statement."""

    def run(self, reruns: int) -> ChangeReport | IndexTablesError:
        """What was done; the error that says why the statement has to run again."""
        with still_there(self._env, self._snapshot.version):
            located = self._run.locate()
            self._losses = Losses(self._env, self._snapshot.files, located.rows)
        self._prepared = Prepared(located)
        self._clock.end("scanTimeMs")
        self._tell("located", rows=len(self._losses) + located.inserts, files=len(self._losses.touched))
        changes = bool(self._losses.touched) or located.inserts > 0
        if self._terms.dry_run or (not changes and self._terms.txn is None):
            return self._report(None, reruns)
        try:
            self._prepared = self._run.prepare(self._still_selected(located))
            self._clock.end("rewriteTimeMs")
            self._tell("written", rows=sum(add.numRecords or 0 for add in self._prepared.adds))
            outcome = self._transaction(reruns).commit()
        except NOT_IN_THE_LOG:
            self._discard()
            raise
        if isinstance(outcome, Committed):
            if outcome.repeated:
                self._discard()
                return _repetition(self._statement.operation, self._terms, outcome, reruns)
            self._discard_vectors(but_last=True)
            self._tell("committed", files=len(self._losses.touched))
            return self._report(outcome.version, reruns)
        error = error_of(outcome, self._log.url)
        if isinstance(error, NOT_IN_THE_LOG):
            self._discard()
        if isinstance(outcome, Conflicted) and outcome.kind in _RUN_AGAIN:
            return error
        raise error

    def _still_selected(self, located: Located) -> Located:
        """Without the rows that were deleted before."""
        rows = {path: file.rows for path, file in self._losses.touched.items()}
        return msgspec.structs.replace(located, rows=rows)

    def _transaction(self, reruns: int) -> Transaction:
        terms, statement = self._terms, self._statement
        transaction = Transaction(
            self._log,
            self._snapshot,
            operation=statement.operation,
            parameters=statement.parameters,
            user_metadata=terms.user_metadata,
            isolation="Serializable" if terms.expect_version is not None else None,
        )
        self._clock.end("executionTimeMs", whole=True)
        if reruns:
            self._beside["numReruns"] = str(reruns)
        staged = self._staged()
        transaction.add(staged.adds).remove(staged.removes, rows=staged.removed_rows).count(staged.metrics)
        transaction.repair_with(self._repair, self._repaired).before_put(self._check)
        if terms.read_version is not None:
            transaction.read_all()
        if self._prepared.metadata is not None:
            transaction.set_metadata(self._prepared.metadata)
        wanted = with_feature(self._prepared.protocol or self._snapshot.protocol, _VECTORS)
        if wanted != self._snapshot.protocol:
            transaction.set_protocol(wanted)
        if terms.txn is not None:
            transaction.set_txn(*terms.txn)
        return transaction

    def _staged(self) -> Staged:
        staged = self._losses.stage()
        new = files_of(self._prepared.adds).select([field.name for field in ADD_TYPE])
        counted = self._statement.metrics(self._counts(), self._prepared, self._losses.counts())
        if self._repairs:
            self._beside["numRepairs"] = str(self._repairs)
        assert isinstance(staged.adds, pa.Table)  # noqa: S101 - `Losses` stages columns
        return msgspec.structs.replace(
            staged,
            adds=pa.concat_tables([staged.adds, new]),
            metrics={**counted, **self._clock.told, **self._beside, "locatedBy": self._prepared.located.found_by},
        )

    def _counts(self) -> Counts:
        return self._statement.counts(len(self._losses), self._prepared.located)

    def _repair(self, staged: Staged, winner: VersionContent) -> Staged | None:
        """What was staged, to be `_repaired` before it is put; None if the statement has to run again."""
        try:
            steps = (self._is_moved, self._is_left_alone, self._is_followed, self._is_looked_at)
            if not all(step(winner) for step in steps):
                return None
        except (ObjectNotFound, VersionExpired, QueryInvalid):
            # A file of that version is gone already, or its rows have no answer: the newest version tells.
            return None
        self._repairs += 1
        return staged

    def _repaired(self, staged: Staged) -> Staged:
        """What is staged on top of all winners so far."""
        left = self._staged()
        return msgspec.structs.replace(
            staged, adds=left.adds, removes=left.removes, removed_rows=left.removed_rows, metrics=left.metrics
        )

    def _is_moved(self, winner: VersionContent) -> bool:
        """Go where the winner moved rows that the statement changes or depends on; False if they are not found.

        They have the same values there, so that nothing has to be computed anew.
        """
        losses, kept = self._losses, self._prepared.located.kept
        removes, adds = winner.removes, winner.adds
        moves = pc.invert(removes["dataChange"])
        gone = pc.invert(pc.is_in(removes["path"], value_set=adds["path"].combine_chunks()))
        ours = pc.is_in(removes["path"], value_set=pa.array([*losses.touched, *kept], pa.string()))
        paths = removes["path"].filter(pc.and_(pc.and_(moves, gone), ours)).to_pylist()
        if not paths:
            return True
        before = self._entries(paths)
        after = adds.filter(pc.and_(pc.invert(adds["dataChange"]), _in_partitions_of(adds, before)))
        changed = {path: losses.touched[path].rows for path in paths if path in losses.touched}
        now = follow(self._env, changed, before, after)
        still = follow(self._env, {path: kept[path] for path in paths if path in kept}, before, after)
        if now is None or still is None:
            return False
        count = len(losses)
        losses.move(changed, after, now)
        self._files = pa.concat_tables([self._files, after])
        others = {path: rows for path, rows in kept.items() if path not in paths}
        located = msgspec.structs.replace(self._prepared.located, kept=others | still)
        self._prepared = msgspec.structs.replace(self._prepared, located=located)
        return len(losses) == count

    def _entries(self, paths: Sequence[str]) -> pa.Table:
        """What the log says of these files, which hold rows that the statement is about."""
        return self._files.filter(pc.is_in(self._files["path"], value_set=pa.array(paths, pa.string())))

    def _is_left_alone(self, winner: VersionContent) -> bool:
        """False if the winner took or moved rows that the statement found, leaves as they are, and depends on."""
        kept = self._prepared.located.kept
        if not kept:
            return True
        ours = pa.array(list(kept), pa.string())
        again = winner.adds.filter(pc.is_in(winner.adds["path"], value_set=ours))
        removes = winner.removes.filter(pc.is_in(winner.removes["path"], value_set=ours))
        if set(removes["path"].to_pylist()) - set(again["path"].to_pylist()):
            return False
        for entry in again.select(["path", "deletionVector", "numRecords"]).to_pylist():
            path, vector = entry["path"], entry["deletionVector"]
            told = None if vector is None else msgspec.convert(vector, DeletionVector)
            if self._losses.vector_of(path, told, entry["numRecords"]) & kept[path]:
                return False
        return True

    def _is_followed(self, winner: VersionContent) -> bool:
        """Take over what the winner did to files that lose rows; False if rows of ours are concerned."""
        losses, strict = self._losses, self._statement.writes or self._terms.expect_version is not None
        ours = pa.array(list(losses.touched), pa.string())
        again = winner.adds.filter(pc.is_in(winner.adds["path"], value_set=ours))
        kept = set(again["path"].to_pylist())
        for row in range(again.num_rows):
            entry = again.slice(row, 1)
            path, vector = entry["path"][0].as_py(), entry["deletionVector"][0].as_py()
            file = losses.touched[path]
            now = losses.vector_of(
                path, None if vector is None else msgspec.convert(vector, DeletionVector), file.num_rows
            )
            if not file.before <= now or (strict and now & file.rows):
                return False
            losses.replace(entry, now)
        removes = winner.removes.filter(pc.is_in(winner.removes["path"], value_set=ours))
        for path in removes["path"].to_pylist():
            if path in kept or path not in losses.touched:
                continue
            if strict:
                return False
            losses.drop(path)
        return True

    def _is_looked_at(self, winner: VersionContent) -> bool:
        """Ask the rows that the winner brought; a DELETE takes them in. False if the statement has to run again."""
        info = winner.commit_info
        blind = info is not None and info.isBlindAppend is True
        serializable = (
            self._env.options[opt.ISOLATION_LEVEL] == "serializable" or self._terms.expect_version is not None
        )
        if blind and not serializable:
            return True
        brought = bring_rows(winner)
        if not brought.num_rows:
            return True
        rows = self._run.look(brought)
        if not rows:
            return True
        if self._statement.writes or self._terms.expect_version is not None or self._losses.touched.keys() & rows:
            return False
        self._losses.take(brought, rows)
        self._files = pa.concat_tables([self._files, brought])
        return True

    def _check(self, staged: Staged) -> None:
        """Raises CommitError if purge may have taken files that this commit brings: new splits and vectors."""
        assert isinstance(staged.adds, pa.Table)  # noqa: S101 - as `_staged` makes it
        vectors = staged.adds["deletionVector"]
        in_files = pc.fill_null(pc.equal(pc.struct_field(vectors, "storageType"), "u"), fill_value=False)
        new = staged.adds.filter(pc.or_(vectors.is_null(), in_files))
        if self._losses.made_ms is not None and new.num_rows:
            at = new.column_names.index("modificationTime")
            times = pc.if_else(new["deletionVector"].is_valid(), self._losses.made_ms, new["modificationTime"])
            new = new.set_column(at, "modificationTime", times)
        check_kept(self._env, msgspec.structs.replace(staged, adds=new))

    def _discard(self) -> None:
        """Delete the files of a commit that is provably not in the log."""
        if self._prepared.adds:
            discard(self._env, self._prepared.adds)
        self._discard_vectors(but_last=False)

    def _discard_vectors(self, *, but_last: bool) -> None:
        made = self._losses.superseded() if but_last else self._losses.made
        _delete_quietly(self._env, made)

    def _report(self, version: int | None, reruns: int) -> ChangeReport:
        counts, files = self._counts(), self._losses.counts()
        told = {**self._statement.metrics(counts, self._prepared, files), **self._clock.told, **self._beside}
        return ChangeReport(
            operation=self._statement.operation,
            version=version,
            deleted=counts.deleted,
            updated=counts.updated,
            inserted=counts.inserted,
            removed_files=files.removed,
            added_files=len(self._prepared.adds),
            vectors=files.added,
            sparse_files=self._losses.sparse(self._env.options[opt.MERGE_ON_WRITE_MAX_DELETED_ROWS_RATIO]),
            located_by=self._prepared.located.found_by,
            repairs=self._repairs,
            reruns=reruns,
            dry_run=self._terms.dry_run,
            metrics={name: int(value) for name, value in told.items() if value is not None},
        )

    def _tell(self, what: str, *, rows: int = 0, files: int = 0) -> None:
        if self._progress is not None:
            self._progress(Step(what, 1, 1, rows=rows, files=files))


def _in_partitions_of(files: pa.Table, others: pa.Table) -> pa.Array:
    """True for files of a partition that one of the others is of: a row that is only moved stays in its partition."""
    known = {tuple(sorted(dict(values or ()).items(), key=str)) for values in others["partitionValues"].to_pylist()}
    told = files["partitionValues"].to_pylist()
    return pa.array([tuple(sorted(dict(values or ()).items(), key=str)) in known for values in told], pa.bool_())


class _Clock:
    """How long the parts of an attempt took, in milliseconds, under the names that Delta gives them."""

    def __init__(self, env: Env) -> None:
        self._now = env.ambient.monotonic
        self._began = self._last = self._now()
        self.told: dict[str, str | None] = {}

    def end(self, name: str, *, whole: bool = False) -> None:
        """Here ends a part that began where the one before it ended, or the `whole`."""
        now = self._now()
        self.told[name] = str(round((now - (self._began if whole else self._last)) * 1000))
        self._last = now


def _begin(log: Log, statement: Statement, terms: Terms) -> tuple[Snapshot, Committed | None]:
    """The version that the statement runs over, and what its commit is if the table holds its batch.

    That is asked before anything is computed: rows that the batch has changed may be none that it can be done to again.
    """
    base = terms.expect_version if terms.read_version is None else terms.read_version
    if terms.txn is None:
        return log.snapshot(base), None
    newest = log.snapshot()
    held = Transaction(log, newest, operation=statement.operation).set_txn(*terms.txn).repeated()
    if held is not None or base is None:
        return newest, held
    return log.snapshot(base), None


def _check_none_came(log: Log, statement: Statement, read: int) -> None:
    """Raises CommitConflict if a statement that has nothing to do at the version that was read has now.

    Nothing is committed then, and only a commit meets what came since. MetadataChanged where the statement does not
    fit the newest version any more.
    """
    newest = log.snapshot()
    if newest.version == read:
        return
    env = table_env(log.env, newest.metadata)
    try:
        with still_there(env, newest.version):
            located = statement.over(env, newest).locate()
            changes = bool(Losses(env, newest.files, located.rows).touched) or located.inserts > 0
    except (InvalidArgument, QueryInvalid, SchemaMismatch) as fault:
        reason = f"the statement does not fit its columns ({fault})"
        raise error_of(Conflicted("metadata", reason, newest.version, ""), log.url) from fault
    if changes:
        message = (
            f"version {read} of {log.url} has no row for this {statement.operation}, and version {newest.version} has: "
            "nothing was committed. Read the table again and repeat the operation"
        )
        reason = "rows that the statement selects came or changed since"
        raise CommitConflict(message, winner=newest.version, reason=reason, attempts=1, url=log.url)


def _repetition(operation: str, terms: Terms, held: Committed, reruns: int) -> ChangeReport:
    """That the table holds the batch: nothing was done, or would be."""
    version = None if terms.dry_run else held.version
    return ChangeReport(operation=operation, version=version, reruns=reruns, dry_run=terms.dry_run)


def _delete_quietly(env: Env, keys: Sequence[str]) -> None:
    if keys:
        with contextlib.suppress(IndexTablesError):
            env.store.delete_many(list(keys))
