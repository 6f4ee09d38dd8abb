"""Says where commands run: what a name means, which threads or tasks do the work, and which zone times are in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from indextables import options as opt
from indextables.errors import InvalidArgument, NotSupported, ObjectNotFound, TableNotFound
from indextables.log.care import open_log
from indextables.log.read import Log
from indextables.query.convert import zone_info
from indextables.sql.command.statements import OnlyIfOurs, RowChange, SourceRows, TableName
from indextables.table.arguments import millis
from indextables.table.environment import open_env
from indextables.table.requests import Moment
from indextables.table.running import Progress, Runner, Threads

if TYPE_CHECKING:
    from indextables.sql.command.changing import Read
    from indextables.table.change import Terms

__all__ = ["Context", "LocalContext", "is_table", "moment_ms"]


class Context(Protocol):
    """What a command needs from whoever runs it."""

    @property
    def progress(self) -> Progress | None:
        """Told how far a long command has come."""
        ...

    @property
    def time_zone(self) -> str:
        """The zone of times that name none."""
        ...

    def knows(self, asked: OnlyIfOurs) -> bool:
        """True if the statement is ours: its table is a path with a log of ours, or a name that means one."""
        ...

    def log(self, target: TableName) -> Log:
        """The log of a table that may not be there yet. Raises TableNotFound for a name that means nothing."""
        ...

    def runner(self, log: Log) -> Runner:
        """What runs the units of work of a verb."""
        ...

    def register(self, name: str, url: str) -> None:
        """Let a name mean the table at `url` from now on. Raises InvalidArgument."""
        ...

    def forget(self, url: str) -> None:
        """Let processes that no unit of work reaches forget the log of a table before they read it again."""
        ...

    def change(self, statement: RowChange) -> pa.Table:
        """Run a statement that changes rows; the answer has the columns of `changing.CHANGED`."""
        ...

    def explain(self, statement: RowChange) -> pa.Table:
        """What such a statement would do; nothing is written. The answer has the columns of `changing.PLAN`."""
        ...


class LocalContext:
    """Commands in one Python process, with its threads. `names` maps names in lower case to paths and is added to.

    `read` gives the rows of the source of a MERGE, `terms` say how changes of rows are committed, and `changed` is told
    of the version that one made.
    """

    def __init__(
        self,
        names: dict[str, str] | None = None,
        options: Mapping[str, object] | None = None,
        progress: Progress | None = None,
        *,
        read: Read | None = None,
        terms: Terms | None = None,
        changed: Callable[[TableName, int], None] | None = None,
    ) -> None:
        self._names = {} if names is None else names
        self._options = options
        self._progress = progress
        self._read = read or _no_reader
        self._terms = terms
        self._changed = changed

    @property
    def progress(self) -> Progress | None:
        return self._progress

    @property
    def time_zone(self) -> str:
        return str(opt.Options(self._options or {})[opt.TIME_ZONE])

    def knows(self, asked: OnlyIfOurs) -> bool:
        if asked.changes_rows:
            # No other engine here would take it.
            return True
        target = asked.target
        if not target.is_path:
            return target.text.lower() in self._names
        return is_table(open_log(open_env(target.text, self._options)))

    def log(self, target: TableName) -> Log:
        if target.is_path:
            return open_log(open_env(target.text, self._options))
        path = self._names.get(target.text.lower())
        if path is None:
            known = f"the names are {', '.join(sorted(self._names))}" if self._names else "no name is known"
            message = f"no table is called {target.text!r} here ({known}): write its path in quotes"
            raise TableNotFound(message, name=target.text)
        return open_log(open_env(path, self._options))

    def runner(self, log: Log) -> Runner:
        return Threads(log.env, "maintenance")

    def forget(self, url: str) -> None:
        """There is no other process."""

    def register(self, name: str, url: str) -> None:
        known = self._names.get(name.lower())
        if known is not None and known != url:
            raise InvalidArgument(f"the name {name!r} means the table at {known} already", name=name)
        self._names[name.lower()] = url

    def change(self, statement: RowChange) -> pa.Table:
        from indextables.sql.command.changing import change_rows, told_of
        from indextables.table.change import Terms

        log = self.log(statement.target)
        terms = self._terms or Terms()
        report = change_rows(log, statement, read=self._read, terms=terms, progress=self._progress)
        if self._changed is not None and report.version is not None:
            self._changed(statement.target, report.version)
        return told_of(report, log.url)

    def explain(self, statement: RowChange) -> pa.Table:
        from indextables.sql.command.changing import explain_rows

        return explain_rows(self.log(statement.target), statement, read=self._read)


def _no_reader(source: SourceRows, _beside: object) -> pa.Table:
    raise NotSupported(f"there is no engine here that runs the query {source.query}: give the MERGE to a LocalSession")


def is_table(log: Log) -> bool:
    """True if there is a log of ours. Raises StoreError where the store does not tell."""
    try:
        log.latest_version()
    except (TableNotFound, ObjectNotFound):
        return False
    return True


def moment_ms(when: Moment, zone: str) -> int:
    """Milliseconds since the epoch; a time that names no zone is in `zone`. Raises InvalidArgument."""
    if isinstance(when, str):
        try:
            when = dt.datetime.fromisoformat(when.strip())
        except ValueError as cause:
            raise InvalidArgument(f"{when!r} is not a time; give 2024-01-31T23:59:59Z") from cause
    if isinstance(when, dt.datetime) and when.tzinfo is None:
        when = when.replace(tzinfo=zone_info(zone))
    return millis(when)
