"""What was asked of one `load()` or `save()`: its options, typed, and what a worker can see of the session.

Spark gives options as texts, keys in lower case. Those that belong to the door itself (`options.LOADING`, `SAVING`) are
read here, once, into `ReadOptions` or `WriteOptions`; all others are options of the table. The planner's workers see
nothing of the session, tasks see its configuration as local properties: `task_session` reads them, and an answer of a
task carries them to the commit.
"""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from indextables import options as opt
from indextables.call_options import not_a_column
from indextables.errors import InvalidArgument, StorePermissionDenied, StoreUnavailable
from indextables.options import OPTIMIZE_WRITE, PREFIX, CallOption
from indextables.spark.session.registry import REGISTRY_PREFIX
from indextables.table.arguments import PartitionMode, check_partition_mode, check_text

__all__ = [
    "NAMES",
    "OVERWRITE_MODE",
    "READING",
    "SESSION",
    "WRITING",
    "CallOptions",
    "ReadOptions",
    "Settings",
    "WriteOptions",
    "check_predicate",
    "check_session",
    "names_text",
    "planning",
    "session_overwrites",
    "task_session",
]

T = TypeVar("T")

SESSION = "indextables.session.secrets"
"""Option: the session's configuration as JSON, where the caller could see it and the planner cannot.

It may hold credentials: Spark hides options of such a name wherever it shows a plan.
"""

READING = tuple(option.key for option in opt.LOADING)
WRITING = tuple(option.key for option in opt.SAVING)

SaveMode: TypeAlias = Literal["error", "ignore"]

NAMES = ("path", "paths", *READING, *WRITING)

_OWN = {name.lower(): name for name in (*NAMES, SESSION)}
_ALMOST = {**_OWN, OPTIMIZE_WRITE.key.lower(): OPTIMIZE_WRITE.key}
_LIKENESS = 0.85
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
"""What Spark calls the setting of a session that says which partitions an overwrite replaces."""
_FAMILIES = (PREFIX, "spark.hadoop.fs.", "fs.", OVERWRITE_MODE.lower())


class Settings:
    """The options of one call as texts: those of the door by name, and those of the table."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raises InvalidArgument for a key that is almost one of ours, and for one that is given twice."""
        self._own: dict[str, str] = {}
        self.table_options: dict[str, object] = {}
        """What is not the door's: options of the table and of its store."""
        for key, value in given.items():
            plain = key.lower().removeprefix(PREFIX)
            if plain not in _OWN:
                _check_slip(key, plain)
                self.table_options[key] = value
            elif self._own.setdefault(plain, value) != value:
                message = f"option {_OWN[plain]} is given twice, with and without the prefix {PREFIX}: keep one"
                raise InvalidArgument(message, option=_OWN[plain])

    def __getitem__(self, option: CallOption[T]) -> T | None:
        """The value, None where it is not given. Raises InvalidArgument."""
        text = self._own.get(option.key.lower())
        return None if text is None else option.read(text)

    @property
    def names(self) -> frozenset[str]:
        """Every option of the door that is given, as it is declared."""
        return frozenset(_OWN[plain] for plain in self._own)

    @property
    def path(self) -> str | None:
        return self._own.get("path")

    @property
    def session(self) -> dict[str, str]:
        """What the caller saw of the session."""
        text = self._own.get(SESSION)
        if text is None:
            return {}
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InvalidArgument(f"option {SESSION} is not a JSON object", option=SESSION)
        return {str(key): str(value) for key, value in found.items()}


class CallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a load or save was given: a path, options of the table and its store, what the caller saw of the session.

    `names` are the options of the door that were given, whatever they say.
    """

    path: str | None = None
    names: frozenset[str] = frozenset()
    table_options: dict[str, object] = {}
    session: dict[str, str] = {}


class ReadOptions(CallOptions, frozen=True, kw_only=True):
    """What was asked of one `load()`."""

    where: str | None = None
    search: str | None = None
    columns: list[str] | None = None
    limit: int | None = None
    version: int | None = None
    timestamp: str | None = None
    change_feed: bool = False
    ending_version: int | None = None
    ending_timestamp: str | None = None
    net: bool = False
    skip_unchanged: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ReadOptions:
        """Every option, checked. Raises InvalidArgument."""
        texts = Settings(given)
        version, timestamp = texts[opt.VERSION_AS_OF], texts[opt.TIMESTAMP_AS_OF]
        if version is not None and timestamp is not None:
            raise InvalidArgument("give versionAsOf or timestampAsOf, not both", option="versionAsOf")
        return cls(
            path=texts.path,
            names=texts.names,
            table_options=texts.table_options,
            session=texts.session,
            where=texts[opt.WHERE],
            search=texts[opt.SEARCH],
            columns=texts[opt.COLUMNS],
            limit=texts[opt.LIMIT],
            version=version,
            timestamp=timestamp,
            change_feed=texts[opt.READ_CHANGE_FEED] or False,
            ending_version=texts[opt.ENDING_VERSION],
            ending_timestamp=texts[opt.ENDING_TIMESTAMP],
            net=texts[opt.NET_CHANGES] or False,
            skip_unchanged=texts[opt.SKIP_UNCHANGED] or False,
        )


class WriteOptions(CallOptions, frozen=True, kw_only=True):
    """What was asked of one `save()`.

    `txn` is (application, batch number). `save_mode` says what a table that is there already means to this write.
    """

    partition_by: list[str] | None = None
    replace_where: str | None = None
    partitions: PartitionMode | None = None
    merge_schema: bool = False
    overwrite_schema: bool = False
    user_metadata: str | None = None
    txn: tuple[str, int] | None = None
    save_mode: SaveMode | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> WriteOptions:
        """Every option, checked. Raises InvalidArgument."""
        texts = Settings(given)
        partitions = texts[opt.PARTITION_OVERWRITE_MODE]
        return cls(
            path=texts.path,
            names=texts.names,
            table_options=texts.table_options,
            session=texts.session,
            partition_by=texts[opt.PARTITION_BY],
            replace_where=texts[opt.REPLACE_WHERE],
            partitions=None if partitions is None else check_partition_mode(partitions or "static"),
            merge_schema=texts[opt.MERGE_SCHEMA] or False,
            overwrite_schema=texts[opt.OVERWRITE_SCHEMA] or False,
            user_metadata=texts[opt.USER_METADATA],
            txn=_txn(texts[opt.TXN_APP_ID], texts[opt.TXN_VERSION]),
            save_mode=_save_mode(texts[opt.SAVE_MODE]),
        )


def _txn(application: str | None, batch: int | None) -> tuple[str, int] | None:
    if application is None and batch is None:
        return None
    if not application or batch is None:
        raise InvalidArgument("txnAppId and txnVersion (a whole number) go together", option="txnVersion")
    return application, batch


def _save_mode(given: str | None) -> SaveMode | None:
    if given == "error":
        return "error"
    if given == "ignore":
        return "ignore"
    if given is not None:
        raise InvalidArgument(f"saveMode = {given!r} is neither error nor ignore", option="saveMode", value=given)
    return None


def check_predicate(option: CallOption[str], given: Any) -> str | None:
    """A predicate as SQL text. Raises InvalidArgument for a Spark Column, also where only its text is left."""
    if given is None:
        return None
    if type(given).__name__ == "Column":
        raise not_a_column(option.key)
    return option.read(check_text(option.key, given))


def names_text(names: Sequence[str]) -> str:
    """Names as the text of an option."""
    return json.dumps(list(names))


def task_session() -> dict[str, str]:
    """In a task: the session's configuration, as far as it concerns tables and stores; elsewhere nothing."""
    from pyspark import TaskContext

    task = TaskContext.get()
    # All properties at once: those of a family (indexing.typemap.<column>) have no list of their names.
    properties: Mapping[str, str] = {} if task is None else (getattr(task, "_localProperties", None) or {})
    return {
        key: value
        for key, value in properties.items()
        if key.lower().startswith(_FAMILIES) and not key.startswith(REGISTRY_PREFIX)
    }


def check_session(session: Mapping[str, str], names: Sequence[str]) -> None:
    """Raises InvalidArgument if the session sets one of `names`: options of one load or save, which nobody reads there.

    A `replaceWhere` that is not heeded would replace the whole table, a `versionAsOf` would read other rows.
    """
    keys = {f"{PREFIX}{name}".lower(): name for name in names}
    for key in session:
        name = keys.get(key.lower())
        if name is not None:
            message = (
                f"the session sets {key}, but {name} belongs to one load or save: unset it and give "
                f".option({name!r}, ...). Nothing was read or written"
            )
            raise InvalidArgument(message, option=name)


def session_overwrites(session: Mapping[str, str]) -> str | None:
    """What Spark's own setting says about overwrites of partitions; None if the session does not have it."""
    return next((value for key, value in session.items() if key.lower() == OVERWRITE_MODE.lower()), None)


@contextlib.contextmanager
def planning(asked: CallOptions) -> Iterator[None]:
    """Where a worker plans: a store that does not let it in may be one that only the session says how to reach."""
    try:
        yield
    except (StorePermissionDenied, StoreUnavailable) as error:
        if asked.session:
            raise
        message = (
            f"{error.args[0]}. The worker that plans for format('indextables') sees nothing of the session: give keys "
            "and endpoint of the store as options of the load or save, as environment of the cluster, or use "
            "indextables.write(df, path) and IndexTable.forPath(spark, path), which hand the session's on"
        )
        raise type(error)(message, **error.details) from error


def _check_slip(key: str, plain: str) -> None:
    if "." in plain:
        return
    like = difflib.get_close_matches(plain, _ALMOST, 1, _LIKENESS)
    if like and like[0] != plain:
        message = f"there is no option {key!r}: is {_ALMOST[like[0]]} meant?"
        raise InvalidArgument(message, option=key)
