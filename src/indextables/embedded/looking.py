"""`Looking` tells what a table is: schema, files, history, log, checkpoint, and what became of a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables.embedded.handle import Handle
from indextables.lazy import LazyModule
from indextables.log.wire import Metadata, Protocol, raw_lines
from indextables.table.arguments import check_count, check_text, check_version
from indextables.table.read import actions_of, detail_of, plain_schema, prune_files

if TYPE_CHECKING:
    from indextables.log.care import StateDescription, VerifyReport
    from indextables.log.care import describe as describe_verb
    from indextables.log.commit import resolve as resolve_verb
    from indextables.log.read import histories as history_verb
    from indextables.table.maintenance import verifying as verify_verb
    from indextables.table.read import inspect as inspect_verb
else:
    history_verb = LazyModule("indextables.log.read.histories")
    resolve_verb = LazyModule("indextables.log.commit.resolve")
    verify_verb = LazyModule("indextables.table.maintenance.verifying")
    describe_verb = LazyModule("indextables.log.care.describe")
    inspect_verb = LazyModule("indextables.table.read.inspect")

__all__ = ["Looking"]


class Looking(Handle):
    """The methods of a table that say what it is; none of them writes."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        schema = self._seen.schema
        return plain_schema(schema, schema.names)

    @property
    def partition_columns(self) -> list[str]:
        """The columns by whose values files are kept apart, in the order of their folders."""
        return self._seen.partition_columns

    @property
    def protocol(self) -> Protocol:
        """What a client must understand."""
        return self._seen.protocol

    @property
    def metadata(self) -> Metadata:
        """Identity, schema and properties as logged."""
        return self._seen.metadata

    def files(self, where: str | None = None) -> pa.Table:
        """The live files that may hold rows for which `where` is true, one per row, as logged. Raises QueryInvalid."""
        return self._answer(lambda snapshot: prune_files(snapshot, self._predicate(where)))

    def detail(self) -> dict[str, Any]:
        """Sizes and counts, as data: id, name, version, files, bytes, rows, partition columns, properties."""
        return self._answer(lambda snapshot: detail_of(snapshot, self.url))

    def sizes(self, most_splits: int | None = 100) -> pa.Table:
        """What each column costs: the bytes of its rows and of its field in each component of the index.

        Args:
            most_splits: Look at so many splits, those added last; None looks at all, two small reads each.

        Raises NotSupported for another system's tables, SplitCorrupt, VersionExpired, StoreError.
        """
        check_count("most_splits", most_splits, least=1)
        return self._answer(lambda snapshot: inspect_verb.column_sizes(self._log.env, snapshot, most_splits))

    def history(self, limit: int | None = None) -> pa.Table:
        """One row per commit, newest first, up to the newest there is. Raises InvalidArgument for a limit below 1."""
        check_count("limit", limit, least=1)
        return history_verb.history(self._log, limit)

    def log(self, version: int | None = None) -> pa.Table:
        """The actions of one version (default: this one), in order, as JSON: columns `line`, `action` and `value`.

        Raises VersionNotFound, VersionExpired, LogCorrupt.
        """
        wanted = self.version if version is None else check_version(version)
        return actions_of(raw_lines(self._log.stored(wanted)))

    def state(self) -> StateDescription:
        """The newest checkpoint as data: format, version, files, manifests, tombstones, skips."""
        self._log.check_table()
        return describe_verb.describe_state(self._log.env)

    def verify(self, *, data_files: bool = True) -> VerifyReport:
        """Check every file of the log, and that every live data file is there and is its own; changes nothing.

        Raises TableNotFound, StoreError; everything else is a finding of the report.
        """
        self._log.check_table()
        return verify_verb.verify_table(self._log.env, data_files=data_files)

    def resolve(self, token: str, version: int) -> int | None:
        """What became of a commit that ended with CommitStateUnknown: its version, or None if it is not in the table.

        None is final: the commit never will be in the table, so its write may be repeated.

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
        """The last batch of an application that this version holds; None if it holds none."""
        txn = self._answer(lambda snapshot: snapshot.txns).get(application)
        return None if txn is None else txn.version
