"""SQL in one Python process: commands, and SELECT over tables by name, by path and at a version.

The text is what `indextables.sql(spark, text)` takes. What only we understand (``indextables.`path` ``, `VERSION AS
OF`, `INDEXQUERY`) is put into words of DataFusion, by position; all else reaches it as typed.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.errors import InvalidArgument, LogGap, NotSupported, ObjectNotFound, TableNotFound
from indextables.lazy import LazyModule
from indextables.log.read import Log, Snapshot, snapshot_at
from indextables.sql.command import (
    Beside,
    Consent,
    Found,
    LocalContext,
    OnlyIfOurs,
    Reference,
    SourceRows,
    TableName,
    Token,
    find_references,
    first_word,
    moment_ms,
    parse_command,
    query_of,
    run_command,
    shown,
    table_names,
    tokens,
    unquoted,
    value_of,
    what_to_show,
)
from indextables.table.read import Searchers
from indextables.table.running import Progress

if TYPE_CHECKING:
    from indextables.foreign import ForeignSnapshot
    from indextables.sql.local.provider import Source
    from indextables.table import convert
    from indextables.table.change import Terms
    from indextables.table.convert import RowsToSearch
    from indextables.table.feed import Changes
else:
    convert = LazyModule("indextables.table.convert")

__all__ = ["LocalSession", "split_statements"]

_OURS = re.compile(r"\bindextables\s*\.\s*`|\bindexquery|\bAS\s+OF\b|@v\d", re.IGNORECASE)
_EVERYWHERE = "_indexall"


class LocalSession:
    """Runs SQL over tables that have names. Every statement reads the newest versions, unless a name is pinned."""

    def __init__(
        self,
        names: Mapping[str, str],
        options: Mapping[str, object] | None = None,
        *,
        pinned: Mapping[str, int] | None = None,
        progress: Progress | None = None,
        consent: Consent | None = None,
    ) -> None:
        """Give tables names.

        Args:
            names: The path or URL of each table, by its name in statements.
            options: How this process works with the tables, credentials included.
            pinned: The version that a name means; a name that is not here means the newest.
            progress: A function that is called with a `Step` while a command works.
            consent: A function that is called before a command deletes something; what it raises stops the command.
        """
        self._names = {name.lower(): path for name, path in names.items()}
        self._given, self._progress = options, progress
        self._options = opt.Options(options or {})
        self._context = self._context_of(None)
        self._consent = consent
        self._pinned = {name.lower(): version for name, version in (pinned or {}).items()}
        self._kept: dict[str, tuple[Log, Searchers]] = {}
        self._copies: dict[str, RowsToSearch] = {}
        """Rows of other systems' tables that were searched, by their URLs."""

    @property
    def names(self) -> list[str]:
        """The names of the tables, sorted."""
        return sorted(self._names)

    def check(self, name: str) -> None:
        """Check that there is a log where a name points to. Raises TableNotFound, StoreError.

        The log may have a gap: statements that name an older version still work.
        """
        log = self._context.log(TableName(name, is_path=False))
        try:
            log.latest_version()
        except LogGap:
            return
        except TableNotFound:
            from indextables.foreign import find_source

            if find_source(log.env) is None:
                raise
        except ObjectNotFound as cause:
            raise TableNotFound(f"there is no table at {log.url[:200]}: {str(cause)[-200:]}", url=log.url) from cause

    def schema(self, name: str) -> pa.Schema:
        """Return the columns of a table. Raises TableNotFound, LogError, StoreError."""
        return self._snapshot(TableName(name, is_path=False)).schema

    def run(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        expect_version: int | None = None,
        dry_run: bool = False,
    ) -> pa.Table:
        """Run one statement, a SELECT, a command, or one that changes rows, and return its rows.

        Args:
            text: The statement.
            params: Values of `$name` in the statement; they are passed as values, never pasted into the text.
            txn: With DELETE, UPDATE and MERGE, (application, batch): a batch that the table holds is not done again.
            user_metadata: With these, a note for the history.
            expect_version: With these, the version that you have read. If rows that the statement selects, or would
                select, changed since then, it is refused.
            dry_run: With these, only tell what would be changed.

        Raises:
            InvalidArgument: `txn` or another of these with a statement that changes no rows.
            CommitConflict: Others changed the same rows again and again, or since `expect_version`.
            CardinalityViolation: Two rows of the source of a MERGE want to change the same row.
            CommandSyntaxError, QueryInvalid: The statement cannot be understood; `position` says where.
            NotSupported: The statement uses what cannot be answered correctly.
            IndexTablesError: What reading the tables, or the method that a command stands for, raises.
        """
        context = self._context
        if dry_run or any(term is not None for term in (txn, user_metadata, expect_version)):
            from indextables.table.change import terms_of

            asked = parse_command(text, params)
            if not isinstance(asked, OnlyIfOurs) or not asked.changes_rows:
                message = "txn, user_metadata, expect_version and dry_run are for DELETE, UPDATE and MERGE"
                raise InvalidArgument(message, query=text)
            context = self._context_of(terms_of(txn, user_metadata, expect_version, dry_run=dry_run))
        rows = run_command(text, context, params, consent=None if dry_run else self._consent)
        if rows is None:
            rows = self._shown(text)
        return self._select(text, params) if rows is None else rows

    def _shown(self, text: str) -> pa.Table | None:
        """The answer to SHOW and DESCRIBE of names of this session; None for all other statements."""
        words = [token.upper for token in tokens(text) if token.text != ";"] if first_word(text) == "SHOW" else []
        if words == ["SHOW", "TABLES"]:
            return pa.table({"table": pa.array(self.names, pa.string())})
        asked = what_to_show(text)
        if asked is None or asked.name.lower() not in self._names:
            return None
        target = TableName(asked.name, is_path=False)
        snapshot = self._snapshot(target)
        # Tables of others are described by the engine.
        return shown(asked, asked.name, self._log(target)[0].url, snapshot) if isinstance(snapshot, Snapshot) else None

    def _context_of(self, terms: Terms | None) -> LocalContext:
        return LocalContext(
            self._names, self._given, self._progress, read=self._rows, terms=terms, changed=self._move_pin
        )

    def _move_pin(self, target: TableName, version: int) -> None:
        if not target.is_path and target.text.lower() in self._pinned:
            self._pinned[target.text.lower()] = version

    def _rows(self, source: SourceRows, beside: Beside) -> pa.Table:
        """The rows of the source of a MERGE; those of a whole table need no engine."""
        if source.table is not None:
            snapshot = self._snapshot(source.table, beside)
            rows = self._source(source.table, snapshot)
            found = rows.batches(tuple(rows.schema.names), None, (), (), None, scored=False)
            return pa.Table.from_batches(found, rows.schema)
        return self._select(source.query, source.args if isinstance(source.args, Mapping) else None, beside)

    def _select(self, text: str, params: Mapping[str, object] | None, beside: Beside | None = None) -> pa.Table:
        from indextables.sql.local.engine import run
        from indextables.sql.local.feeds import with_feeds

        feed = functools.partial(self._feed, beside)
        text, feeds = with_feeds(text, params, feed, self._context.time_zone)
        translated = self._translated(text, params, beside)
        places = dict(translated.places)
        for name in table_names(translated.text):
            if name.lower() in self._names:
                target = TableName(name, is_path=False)
                places[name.lower()] = (target, self._snapshot(target, beside))
        sources = {name: self._source(target, snapshot) for name, (target, snapshot) in places.items()}
        limit = self._options[opt.SQL_MEMORY_LIMIT]
        return run(translated.text, {**sources, **feeds}, params=params, memory_limit=limit, names=self.names)

    def _feed(self, beside: Beside | None, name: str, asked: Changes) -> Source:
        """The changes of a table, by its name or its path. Raises NotSupported, TableNotFound, LogError."""
        from indextables.sql.local.snapshots import SnapshotSource

        target = TableName(name, is_path=name.lower() not in self._names)
        source = self._source(target, self._snapshot(target, beside))
        if not isinstance(source, SnapshotSource):
            raise NotSupported(f"{name} is another system's table, whose changes are not read here", name=name)
        return source.changes(asked)

    def _source(self, target: TableName, snapshot: Snapshot | ForeignSnapshot) -> Source:
        from indextables.sql.local.snapshots import ForeignRows, SnapshotSource

        log, searchers = self._log(target)
        if isinstance(snapshot, Snapshot):
            return SnapshotSource(log, snapshot, searchers)

        def searched() -> Source:
            copied = self._copies.get(log.url)
            if copied is None or copied.version != snapshot.version:
                copied = self._copies[log.url] = convert.copy_to_search(log.env, snapshot.version)
                weakref.finalize(self, copied.remove)
            return SnapshotSource(copied.log, copied.log.snapshot(), Searchers(copied.log.env))

        return ForeignRows(log.env, snapshot, searched)

    def _translated(self, text: str, params: Mapping[str, object] | None, beside: Beside | None) -> _Translated:
        found = find_references(text, lambda name: name.lower() in self._names) if _OURS.search(text) else None
        if found is None:
            return _Translated(text)
        return _translate(found, lambda reference: self._at(found, reference, params, beside))

    def _at(
        self, found: Found, reference: Reference, params: Mapping[str, object] | None, beside: Beside | None
    ) -> tuple[TableName, Snapshot | ForeignSnapshot]:
        """The table and the version that a reference speaks of."""
        target = TableName(reference.name, is_path=reference.is_path)
        if reference.as_of is None:
            return target, self._snapshot(target, beside)
        value: Any = value_of(reference.as_of.token, found.tokens, params)
        log, _ = self._log(target)
        if reference.as_of.kind == "timestamp":
            when = moment_ms(value, self._context.time_zone)
            return target, _read_or_foreign(log, lambda: log.snapshot(timestamp_ms=when), timestamp_ms=when)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidArgument(f"VERSION AS OF takes the number of a version, not {value!r}", version=value)
        return target, _read_or_foreign(log, lambda: snapshot_at(log, value), version=value)

    def _snapshot(self, target: TableName, beside: Beside | None = None) -> Snapshot | ForeignSnapshot:
        version = None if target.is_path else self._pinned.get(target.text.lower())
        log = self._log(target)[0]
        if beside is not None and version is None and log.url == beside.url:
            beside.was_read = True
            return beside.snapshot
        return _read_or_foreign(
            log, lambda: log.snapshot() if version is None else snapshot_at(log, version), version=version
        )

    def _log(self, target: TableName) -> tuple[Log, Searchers]:
        """Kept warm from one statement to the next."""
        log = self._context.log(target)
        if log.url not in self._kept:
            searchers = Searchers(log.env, lambda *asked: convert.copy_of_peer(*asked))  # noqa: PLW0108 - loaded later
            self._kept[log.url] = (log, searchers)
        return self._kept[log.url]


def _read_or_foreign(
    log: Log, read: Callable[[], Snapshot], *, version: int | None = None, timestamp_ms: int | None = None
) -> Snapshot | ForeignSnapshot:
    """What `read` reads; where there is no table of ours but one of another system, that version of it."""
    try:
        return read()
    except TableNotFound:
        from indextables.foreign import find_source

        source = find_source(log.env)
        if source is None:
            raise
        return source.snapshot(version, timestamp_ms)


class _Translated(msgspec.Struct, frozen=True):
    """A statement in DataFusion's words, and what the names stand for that it gave to paths and versions."""

    text: str
    places: dict[str, tuple[TableName, Snapshot | ForeignSnapshot]] = {}


def _translate(found: Found, at: Callable[[Reference], tuple[TableName, Snapshot | ForeignSnapshot]]) -> _Translated:
    edits = _searches(found)
    places = {}
    for reference in found.references:
        if reference.role != "read" or not (reference.is_path or reference.as_of is not None):
            continue
        name = f"__table{reference.number}"
        places[name] = at(reference)
        end = reference.end if reference.as_of is None else reference.as_of.end
        alias = f" AS {_identifier(reference.shown)}" if reference.shown else ""
        edits.append((reference.start, end, f'"{name}"{alias}'))
    edits += [
        (token.start, token.end, _identifier(token.text))
        for token in found.tokens
        if token.kind == "name" and not any(start <= token.start < end for start, end, _ in edits)
    ]
    text = found.text
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return _Translated(text, places)


def _searches(found: Found) -> list[tuple[int, int, str]]:
    """`column [NOT] INDEXQUERY 'query'` and `INDEXQUERYALL('query')` as TEXTSEARCH."""
    listed = found.tokens
    edits = []
    for place, token in enumerate(listed):
        if token.start in found.operators:
            negated = listed[place - 1].upper == "NOT"
            last = place - 1 - negated
            first = last
            while first >= 2 and listed[first - 1].text == ".":
                first -= 2
            column = "".join(_identifier(part.text) for part in listed[first : last + 1])
            if token.upper == "INDEXQUERYALL" or unquoted(listed[last]).lower() == _EVERYWHERE:
                column = "*"
            query = listed[place + 1]
            call = f"{'NOT ' if negated else ''}TEXTSEARCH({column}, {_query(found, query)})"
            edits.append((listed[first].start, query.end, call))
        elif token.upper == "INDEXQUERYALL" and place + 1 < len(listed) and listed[place + 1].text == "(":
            edits.append((token.start, listed[place + 1].end, "TEXTSEARCH(*, "))
    return edits


def _query(found: Found, token: Token) -> str:
    """A text as DataFusion spells it; a parameter as it is. Raises QueryInvalid."""
    if token.kind != "text":
        return "$" + token.text[1:]
    return "'" + str(query_of(token, found, None)).replace("'", "''") + "'"


def _identifier(text: str) -> str:
    """A name in backticks as DataFusion quotes it."""
    return '"' + text[1:-1].replace("``", "`").replace('"', '""') + '"' if text.startswith("`") else text


def split_statements(text: str) -> tuple[list[tuple[int, str]], str]:
    """The statements that a `;` ends, each with its position, and what stands behind the last one. Pure."""
    done = []
    start = 0
    for token in tokens(text):
        if token.kind == "mark" and token.text == ";":
            done.append((start, text[start : token.start]))
            start = token.end
    return [(place, part) for place, part in done if next(tokens(part), None) is not None], text[start:]
