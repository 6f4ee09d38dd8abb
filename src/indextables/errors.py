"""Every exception that IndexTables raises.

    IndexTablesError
    ├── InvalidArgument              a call, an option or a value is wrong; nothing was read or written
    │   ├── SchemaInvalid            a schema no table can have
    │   ├── SchemaMismatch           data or a schema that does not fit the table's
    │   ├── ConstraintViolation      a row breaks a rule of the table
    │   ├── QueryInvalid             a search query or a predicate; carries the position
    │   └── CommandSyntaxError       a SQL command; carries the position
    ├── CardinalityViolation         two rows of a source want to change the same row of a table
    ├── NotSupported                 understood, but not offered
    ├── NotInstalled                what was called needs a package of an extra: names the extra
    ├── LimitExceeded                input larger or deeper than a documented cap
    ├── TableNotFound                no transaction log at this place
    ├── LogError                     the log cannot be read as it stands
    │   ├── LogCorrupt               bytes that are not a version file
    │   ├── LogGap                   a version file is missing in the middle
    │   ├── MetadataMissing          a log without metaData
    │   ├── ProtocolUnsupported      the table needs a newer library
    │   ├── PathEscape               a logged path that leaves the table
    │   ├── VersionNotFound          a version that was never written
    │   ├── VersionExpired           a version that cleanup has taken
    │   └── CheckpointError
    │       ├── CheckpointCorrupt    bytes that are not a checkpoint, or not this table's
    │       ├── CheckpointInvalid    a checkpoint whose totals do not agree
    │       └── CheckpointWriteFailed
    ├── CommitError                  the commit is not in the log
    │   ├── CommitConflict           somebody else's commit clashes
    │   │   ├── MetadataChanged
    │   │   └── ProtocolChanged
    │   ├── TableReplaced            another table lives at this path now
    │   ├── ClockSkew                this machine's clock and the store's disagree
    │   └── InvariantViolated        a bug of ours, caught before it could do harm
    ├── MirrorConflict               somebody else wrote into the Delta mirror of a table
    ├── CommitStateUnknown           the commit may or may not be in the log: resolve it by its token
    ├── SplitError
    │   ├── SplitCorrupt             a data file whose bytes are wrong; names the part
    │   ├── DvCorrupt                a deletion vector that does not fit its split
    │   └── IndexUnavailable         the search index of a split cannot be used; its rows can
    └── StoreError
        ├── ObjectNotFound
        ├── StorePermissionDenied
        ├── StoreUnavailable         no answer, or only errors, until the deadline
        ├── StoreFull                no space or quota left
        ├── StoreUnsafe              the store cannot give a promise that commits need
        └── ForkUnsafe               an object store used before fork() and again in the child

    UserWarning
    └── QueryWarning                 a query that was answered may mean something else than its author thinks

`CommitStateUnknown` is no `CommitError` on purpose: code that cleans up after a failed commit must not
touch the files of a commit that may have landed.
"""

from __future__ import annotations

__all__ = [
    "CardinalityViolation",
    "CheckpointCorrupt",
    "CheckpointError",
    "CheckpointInvalid",
    "CheckpointWriteFailed",
    "ClockSkew",
    "CommandSyntaxError",
    "CommitConflict",
    "CommitError",
    "CommitStateUnknown",
    "ConstraintViolation",
    "DvCorrupt",
    "ForkUnsafe",
    "IndexTablesError",
    "IndexUnavailable",
    "InvalidArgument",
    "InvariantViolated",
    "LimitExceeded",
    "LogCorrupt",
    "LogError",
    "LogGap",
    "MetadataChanged",
    "MetadataMissing",
    "MirrorConflict",
    "NotInstalled",
    "NotSupported",
    "ObjectNotFound",
    "PathEscape",
    "ProtocolChanged",
    "ProtocolUnsupported",
    "QueryInvalid",
    "QueryWarning",
    "SchemaInvalid",
    "SchemaMismatch",
    "SplitCorrupt",
    "SplitError",
    "StoreError",
    "StoreFull",
    "StorePermissionDenied",
    "StoreUnavailable",
    "StoreUnsafe",
    "TableNotFound",
    "TableReplaced",
    "VersionExpired",
    "VersionNotFound",
]


class IndexTablesError(Exception):
    """Base of all errors of this library.

    The message says what happened, where, and what to do next. What a program may want to act on is an
    attribute: `details` holds every keyword given to the constructor, and each is an attribute too.
    """

    def __init__(self, message: str, /, **details: object) -> None:
        super().__init__(message)
        self.details = details

    def __getattr__(self, name: str) -> object:
        try:
            return self.__dict__["details"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args[0], self.details))


def _rebuild(kind: type[IndexTablesError], message: str, details: dict[str, object]) -> IndexTablesError:
    return kind(message, **details)


class InvalidArgument(IndexTablesError, ValueError):
    """A call, an option or a value is wrong; nothing was read or written."""


class SchemaInvalid(InvalidArgument):
    """No table can have this schema: it is empty or too deep, or has duplicate names or unknown types."""


class SchemaMismatch(InvalidArgument):
    """Data or a schema does not fit the table's; the message names each difference."""


class ConstraintViolation(InvalidArgument):
    """A row breaks a rule of the table: `constraint` names it, `expression` must be true, `row` is the first bad row.

    Nothing was written. Values of personal columns are left out of `row`; it is None where no row can be told.
    """


class _Placed:
    """An error that may know its place in a text."""

    details: dict[str, object]

    @property
    def position(self) -> int | None:
        """Where in the text the fault is, counted from 0; None where no place is at fault."""
        found = self.details.get("position")
        return found if isinstance(found, int) else None


class QueryInvalid(_Placed, InvalidArgument):
    """A search query or predicate cannot be understood; `position` is the offset of the fault in `query`."""


class CommandSyntaxError(_Placed, InvalidArgument):
    """A SQL command cannot be parsed; `position` is the offset of the fault in `command`."""


class CardinalityViolation(IndexTablesError, ValueError):
    """Two rows of a source want to change the same row of a table, or have the same key; nothing was written.

    `target` is the row of the table, None if only the source was looked at; `source` are the two rows, `rows` their
    numbers, `columns` the columns of the key.
    """


class NotSupported(_Placed, IndexTablesError, NotImplementedError):
    """Understood, but not offered; the message names what to use instead. `position` is its offset in `query`."""


class NotInstalled(IndexTablesError, ImportError):
    """What was called needs a package that is not installed; the message names the extra that brings it."""


_EXTRAS = {"pyspark": "spark", "py4j": "spark", "pandas": "spark", "pyiceberg": "iceberg"}
"""Which extra brings a package."""


def not_installed(called: str, error: ModuleNotFoundError) -> Exception:
    """What to raise where a call found a module missing: NotInstalled for one of an extra, else the error itself."""
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return error
    wanted = "pandas" if error.name == "pandas" else f"'indextables[{extra}]'"
    message = f"{called} needs {error.name}, which is not installed: pip install {wanted}"
    return NotInstalled(message, package=error.name, extra=extra)


class LimitExceeded(IndexTablesError):
    """Input is larger, deeper or more numerous than a documented limit; `limit` and `actual` where known."""


class TableNotFound(IndexTablesError):
    """No transaction log at this place; `url` says where."""


class LogError(IndexTablesError):
    """The log cannot be read as it stands; `version` says where."""


class LogCorrupt(LogError):
    """Bytes that are not a version file: `path`, `version`, `line` (from 1) and `reason`."""


class LogGap(LogError):
    """Version `version` is missing although a later one exists."""


class MetadataMissing(LogError):
    """The log holds no metaData action."""


class ProtocolUnsupported(LogError):
    """The table asks for `required` (version or features), this library offers `supported`."""


class PathEscape(LogError):
    """A path in the log leaves the table's folder, or names something that is not a data file."""


class VersionNotFound(LogError):
    """Version `version` was never written; `latest` is the newest."""


class VersionExpired(LogError):
    """Version `version` can no longer be read: cleanup or purge deleted its files; `earliest` is the oldest left."""


class CheckpointError(LogError):
    """A checkpoint could not be read or written; what was committed is safe without it."""


class CheckpointCorrupt(CheckpointError):
    """Bytes that are not a checkpoint, or belong to another table or version: `path`, `reason`."""


class CheckpointInvalid(CheckpointError):
    """A checkpoint whose counts, sizes or set hash do not agree; it is not published: `version`, `reason`."""


class CheckpointWriteFailed(CheckpointError):
    """A checkpoint could not be written: `version`, and the cause in `__cause__`."""


class CommitError(IndexTablesError):
    """The commit is provably not in the log; its data files may be deleted or used again."""


class CommitConflict(CommitError):
    """Version `winner` by somebody else conflicts with this commit: `reason` says how, `attempts` how often tried."""


class MetadataChanged(CommitConflict):
    """Somebody changed schema or properties after the version that this commit started from."""


class ProtocolChanged(CommitConflict):
    """Somebody changed the protocol after the version that this commit started from."""


class TableReplaced(CommitError):
    """The table at this path has another id (`table_id`) than the one this commit or this handle is for."""


class ClockSkew(CommitError):
    """The clocks of this machine and of the store differ by `skew_ms` milliseconds, more than is allowed."""


class InvariantViolated(CommitError):
    """A promise of this library would have been broken by its own code; please report it."""


class MirrorConflict(IndexTablesError):
    """Somebody else wrote into the Delta mirror of a table; `version` and `path` say where. The table is untouched."""


class CommitStateUnknown(IndexTablesError):
    """The commit may or may not have landed: `Table.resolve(token, version)` finds out later.

    `token` is the commit's own, `version` the one that it tried to become.

    Nothing was deleted and nothing was tried again. Do not delete the commit's data files.
    """


class SplitError(IndexTablesError):
    """A data file cannot be used; `path` names it."""


class SplitCorrupt(SplitError):
    """Bytes of a split are wrong: `path`, and `part` (footer, rows, index, ...)."""


class DvCorrupt(SplitError):
    """A deletion vector is broken or belongs to another split: `path`, `reason`."""


class IndexUnavailable(SplitError):
    """The index of a split is missing, damaged or in another format; its rows are readable: `path`, `reason`."""


class StoreError(IndexTablesError):
    """The store refused or failed; `key` names the object."""


class ObjectNotFound(StoreError, FileNotFoundError):
    """There is no object of this key."""


class StorePermissionDenied(StoreError):
    """The store refuses these credentials for this object."""


class StoreUnavailable(StoreError):
    """No usable answer until the deadline; for a write, the effect is not known."""


class StoreFull(StoreError):
    """No space or quota left; nothing visible was written."""


class StoreUnsafe(StoreError):
    """The store does not honour put-if-absent (or hard links), so that commits could be lost: writes are refused."""


class ForkUnsafe(StoreError):
    """An object store or SQL was used before fork(); use it in a fresh process (spawn) instead."""


class QueryWarning(UserWarning):
    """A query was answered, and may mean something else than its author thinks, or cost more."""
