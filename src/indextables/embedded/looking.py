"""`Looking` tells what a table is: schema, files, history, log, checkpoint, and what became of a commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables import measures
from indextables.embedded.handle import Handle
from indextables.lazy import LazyModule
from indextables.log.wire import Metadata, Protocol, raw_lines
from indextables.query.stored import MADE_BY
from indextables.table.arguments import check_count, check_flag, check_names, check_text, check_version, millis
from indextables.table.read import actions_of, detail_of, plain_schema, prune_files
from indextables.table.requests import Verify

if TYPE_CHECKING:
    from indextables.log.care import StateDescription, VerifyReport
    from indextables.log.care import describe as describe_verb
    from indextables.log.commit import resolve as resolve_verb
    from indextables.log.read import histories as history_verb
    from indextables.table.feed import verb as feed_verb
    from indextables.table.maintenance import repairing as repairing_verb
    from indextables.table.maintenance import verifying as verify_verb
    from indextables.table.read import inspect as inspect_verb
else:
    history_verb = LazyModule("indextables.log.read.histories")
    resolve_verb = LazyModule("indextables.log.commit.resolve")
    verify_verb = LazyModule("indextables.table.maintenance.verifying")
    describe_verb = LazyModule("indextables.log.care.describe")
    inspect_verb = LazyModule("indextables.table.read.inspect")
    repairing_verb = LazyModule("indextables.table.maintenance.repairing")
    feed_verb = LazyModule("indextables.table.feed.verb")

__all__ = ["Looking"]


class Looking(Handle):
    """The methods of a table that say what it is; none of them writes."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table as an Arrow schema: metadata of fields has comments and what makes values."""
        schema = self._seen.schema
        return pa.schema([_commented(shown, schema.field(shown.name)) for shown in plain_schema(schema, schema.names)])

    @property
    def partition_columns(self) -> list[str]:
        """The partition columns, in the order of their folders. Rows of one file have the same values in them."""
        return self._seen.partition_columns

    @property
    def protocol(self) -> Protocol:
        """The protocol: what a program must understand to read and to write this table."""
        return self._seen.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata as the log holds it: id, name, schema, partition columns, properties."""
        return self._seen.metadata

    def files(self, where: str | None = None) -> pa.Table:
        """List the data files of this version that may hold rows for which `where` is true, a row for each.

        The columns are the fields of the log's `add` entries. Raises QueryInvalid, LogError, StoreError.
        """
        return self._answer(lambda snapshot: prune_files(snapshot, self._predicate(where)))

    def detail(self) -> dict[str, Any]:
        """Tell what the table is, as a dict: id, name, version, files, bytes, rows, partition columns, properties."""
        return self._answer(lambda snapshot: detail_of(snapshot, self.url))

    def sizes(self, most_splits: int | None = 100) -> pa.Table:
        """Tell how many bytes each column takes: in the rows, and in each component of the index.

        Args:
            most_splits: Look only at this many splits, those added last; None looks at all. Each takes two small reads.

        Raises NotSupported for another system's tables, SplitCorrupt, VersionExpired, StoreError.
        """
        check_count("most_splits", most_splits, least=1)
        return self._answer(lambda snapshot: inspect_verb.column_sizes(self._log.env, snapshot, most_splits))

    def changes(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        *,
        from_time: dt.datetime | str | int | None = None,
        to_time: dt.datetime | str | int | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        net: bool = False,
        skip_unchanged: bool = False,
    ) -> pa.RecordBatchReader:
        """Read which rows versions inserted, deleted and updated, oldest version first, batch by batch.

        A row has `_change_type` (`insert`, `delete`, and for an update `update_preimage` and `update_postimage`),
        `_commit_version` and `_commit_timestamp`. Nothing has to be switched on before. Commits that change no row
        (merge splits, a new index) have no changes. Columns are those of the last version of the range.

        Args:
            from_version: The first version whose changes are read; 0 by default. One above the last is an empty range.
            to_version: The last one; by default the version of this handle.
            from_time: Instead: begin at the first commit at this time or later (a datetime, ISO text, milliseconds).
            to_time: Instead: end at the last commit at this time or earlier.
            columns: The columns of the table to return; all by default. `_row_id` adds the id of each row.
            where: A SQL predicate, which may also read `_change_type` and the like. Each image counts for itself.
            net: Fold the range into one change per row: its first and its last image.
            skip_unchanged: Leave out updates whose two images are equal in the columns that are returned.

        Raises:
            VersionExpired: Cleanup took what the range needs; `earliest` is the first version that works.
            VersionNotFound: The table does not have these versions yet.
            SchemaMismatch: A column has another type in the range than at its end.
            InvalidArgument: An argument is wrong.
            QueryInvalid: `where` cannot be understood.
            NotSupported: `net` for rows without ids, or another system's table.
            SplitCorrupt, StoreError: A file is damaged or out of reach; also while the batches are read.
        """
        asked = feed_verb.Changes(
            from_version=None if from_version is None else check_version(from_version),
            to_version=None if to_version is None else check_version(to_version),
            from_ms=None if from_time is None else millis(from_time),
            to_ms=None if to_time is None else millis(to_time),
            columns=None if columns is None else check_names("columns", columns),
            where=None if where is None else check_text("where", where),
            net=check_flag("net", net),
            skip_unchanged=check_flag("skip_unchanged", skip_unchanged),
        )
        return self._answer(lambda snapshot: feed_verb.changes(self._log, snapshot, asked))

    def metrics(self) -> dict[str, dict[str, float]]:
        """Tell what this process did with this table, as numbers: how often, how long, and how much.

        `commit` has `attempts` (puts of a version file) and `repairs` (of changes that others' changes came before),
        `state load` the live files that the log told, `checkpoint` the time of writing one. Each of these is a line of
        the logger `indextables` at INFO too. `newest checkpoint` has its version, its bytes, the live files, bytes for
        each of these and the tombstones per entry; `caches` the hit rates of `cache_stats`.

        Raises StoreError.
        """
        counted = measures.told(self.url)
        none = {"count": 0.0, "seconds": 0.0, "longest_seconds": 0.0}
        state = self.state()
        return {
            "commit": {**none, "attempts": 0.0, "repairs": 0.0, **counted.get("commit", {})},
            "state load": {**none, "files": 0.0, **counted.get("state load", {})},
            "checkpoint": {**none, **counted.get("checkpoint", {})},
            "newest checkpoint": {
                "version": state.version,
                "size_bytes": state.size_bytes,
                "files": state.num_files,
                "bytes_per_file": state.size_bytes / state.num_files if state.num_files else 0.0,
                "tombstone_ratio": state.tombstone_ratio,
            },
            "caches": repairing_verb.cache_stats().hit_rates(),
        }

    def history(self, limit: int | None = None) -> pa.Table:
        """List the commits of the table, newest first, a row for each; also those after the version of this handle.

        Raises InvalidArgument for a limit below 1, LogError, StoreError.
        """
        check_count("limit", limit, least=1)
        return history_verb.history(self._log, limit)

    def log(self, version: int | None = None) -> pa.Table:
        """List the actions of one version file (default: this version), as JSON: columns `line`, `action` and `value`.

        Raises VersionNotFound, VersionExpired, LogCorrupt.
        """
        wanted = self.version if version is None else check_version(version)
        return actions_of(raw_lines(self._log.stored(wanted)))

    def state(self) -> StateDescription:
        """Describe the newest checkpoint: format, version, files, manifests, tombstones, skips.

        Raises LogError, StoreError.
        """
        self._log.check_table()
        return describe_verb.describe_state(self._log.env)

    def verify(self, *, data_files: bool = True, rules: bool = False) -> VerifyReport:
        """Check every file of the log, and that every data file exists and is the one that the log names.

        Nothing is changed, and no row is read. `data_files=False` checks the log alone; `rules=True` reads all rows and
        tells which break a rule of the table: NOT NULL, constraints, generated and identity columns. Raises
        TableNotFound, StoreError; everything else that is wrong stands in the report.
        """
        request = Verify(data_files=data_files, rules=rules)
        self._log.check_table()
        return verify_verb.verify_table(self._log.env, request)

    def resolve(self, token: str, version: int) -> int | None:
        """Find out what became of a commit that ended with CommitStateUnknown: its version, or None if it failed.

        None is final: the commit will never be in the table, so the write may be repeated.

        Args:
            token: The `token` of the exception.
            version: The `version` of the exception.

        Raises:
            CommitStateUnknown: Nobody can tell yet: the version is still empty, and the lost request may yet fill it
                (any other commit settles that); or it is so old that the log no longer says whose it was.
            InvalidArgument: The token is not a text, or no commit can have tried this version.
        """
        return resolve_verb.resolve_token(self._log, check_text("token", token), check_version(version))

    def txn_version(self, application: str) -> int | None:
        """Tell the number of the last batch of an application that this version holds; None if it holds none.

        It is the number in the `txn` of `append` and `overwrite`.
        """
        txn = self._answer(lambda snapshot: snapshot.txns).get(application)
        return None if txn is None else txn.version


def _commented(shown: pa.Field, logged: pa.Field) -> pa.Field:
    """A column as a user sees it, with its comment and what generates it, as the log has them."""
    told = {key: text for key, text in (logged.metadata or {}).items() if key == b"comment" or key in MADE_BY}
    return shown.with_metadata(told) if told else shown
