"""Deletes the rows for which a predicate is true, or that a search finds, in one version."""

from __future__ import annotations

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.log.read import Log, Snapshot
from indextables.query.parse import parse
from indextables.table.change.landing import Terms, execute
from indextables.table.change.located import Located, Selection
from indextables.table.change.statement import ChangeReport, Prepared
from indextables.table.environment import table_env
from indextables.table.running import Progress

__all__ = ["Delete", "bound", "delete"]


class Delete(msgspec.Struct, frozen=True):
    """A DELETE as it was asked for: a predicate of SQL, a search, both or neither, which means every row."""

    log: Log
    where: str | None = None
    query: str | None = None

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
        return bound(self.log, snapshot, self.where, self.query)

    def prepare(self, env: Env, snapshot: Snapshot, located: Located) -> Prepared:
        del env, snapshot
        return Prepared(located)

    def metrics(self, deleted: int, prepared: Prepared) -> dict[str, str | None]:
        del prepared
        return {"numDeletedRows": str(deleted), "numAddedFiles": "0"}


def bound(log: Log, snapshot: Snapshot, where: str | None, query: str | None) -> Selection:
    """What a predicate and a search mean for the schema of a version. Raises QueryInvalid."""
    if where is None:
        return Selection(query=query)
    zone = table_env(log.env, snapshot.metadata).options[opt.TIME_ZONE]
    return Selection(parse(where, snapshot.schema, time_zone=zone), query)


def delete(
    log: Log,
    *,
    where: str | None = None,
    query: str | None = None,
    terms: Terms | None = None,
    progress: Progress | None = None,
) -> ChangeReport:
    """Delete rows of the newest version. Raises as `landing.execute`."""
    return execute(log, Delete(log, where, query), terms or Terms(), progress)
