"""Deletes the rows for which a predicate is true, or that a search finds, in one version."""

from __future__ import annotations

import msgspec
import pyarrow as pa
from pyroaring import BitMap

from indextables import options as opt
from indextables.env import Env
from indextables.log.read import Log, Snapshot
from indextables.query.parse import parse
from indextables.query.scope import Scope, Side, Sides
from indextables.table.change.landing import Terms, execute
from indextables.table.change.located import Located, Selection, locate, selected
from indextables.table.change.losses import FileCounts
from indextables.table.change.statement import ChangeReport, Counts, Prepared, Run
from indextables.table.environment import table_env
from indextables.table.running import Progress

__all__ = ["Delete", "Removal", "bound", "delete", "scope_of"]


class Delete(msgspec.Struct, frozen=True):
    """A DELETE as it was asked for: a predicate of SQL, a search, both or neither, which means every row.

    `alias` may stand before columns in the predicate.
    """

    log: Log
    where: str | None = None
    query: str | None = None
    alias: str | None = None

    @property
    def operation(self) -> str:
        return "DELETE"

    @property
    def writes(self) -> bool:
        return False

    @property
    def parameters(self) -> dict[str, str | None]:
        told = {"predicate": self.where, "search": self.query}
        return {name: text for name, text in told.items() if text is not None}

    def selection(self, snapshot: Snapshot) -> Selection:
        """The rows that it is about, of a version. Raises QueryInvalid."""
        return bound(self.log, snapshot, self.where, self.query, self.alias)

    def over(self, env: Env, snapshot: Snapshot) -> Run:
        return Removal(env, snapshot, self.selection(snapshot))

    def counts(self, gone: int, located: Located) -> Counts:
        del located
        return Counts(deleted=gone)

    def metrics(self, counts: Counts, prepared: Prepared, files: FileCounts) -> dict[str, str | None]:
        del prepared
        told = {"numDeletedRows": str(counts.deleted), "numAddedFiles": "0", "numRemovedFiles": str(files.removed)}
        return {**told, **files.metrics()}


class Removal:
    """A selection over one version: its rows go."""

    def __init__(self, env: Env, snapshot: Snapshot, selection: Selection) -> None:
        self.env = env
        self.snapshot = snapshot
        self._selection = selection

    def locate(self) -> Located:
        return locate(self.env, self.snapshot.metadata, self.snapshot.files, self._selection)

    def look(self, files: pa.Table) -> dict[str, BitMap]:
        found = locate(self.env, self.snapshot.metadata, files, self._selection)
        return {path: rows for path, rows in found.rows.items() if rows}

    def prepare(self, located: Located) -> Prepared:
        return Prepared(located)


def bound(log: Log, snapshot: Snapshot, where: str | None, query: str | None, alias: str | None) -> Selection:
    """What a predicate and a search mean for the schema of a version. Raises QueryInvalid."""
    if where is None:
        return Selection(query=query)
    zone = table_env(log.env, snapshot.metadata).options[opt.TIME_ZONE]
    scope = scope_of(snapshot.schema, alias)
    scope.searches = []
    return selected(parse(where, scope, time_zone=zone), query, scope.searches)


def scope_of(schema: pa.Schema, alias: str | None) -> Scope:
    """The columns that a text about one table may name."""
    return Scope(schema) if alias is None else Sides([Side(alias, schema)])


def delete(
    log: Log,
    *,
    where: str | None = None,
    query: str | None = None,
    alias: str | None = None,
    terms: Terms | None = None,
    progress: Progress | None = None,
) -> ChangeReport:
    """Delete rows of the newest version. Raises as `landing.execute`."""
    return execute(log, Delete(log, where, query, alias), terms or Terms(), progress)
