"""What was asked of one `load()` or `save()`: its options, typed, and what a worker can see of the session.

Spark gives options as texts, keys in lower case. Those that belong to the door itself (`where`, `replaceWhere`, ...)
are read here; all others are options of the table. The planner's workers see nothing of the session, tasks see its
configuration as local properties: `task_session` reads them, and an answer of a task carries them to the commit.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from indextables import options as opt
from indextables.errors import InvalidArgument, StorePermissionDenied, StoreUnavailable
from indextables.options import OPTIMIZE_WRITE, PREFIX
from indextables.spark.session.registry import REGISTRY_PREFIX
from indextables.table.arguments import check_names, check_text

__all__ = ["NAMES", "SESSION", "Settings", "check_session", "planning", "session_overwrites", "task_session"]

SESSION = "indextables.session.secrets"
"""Option: the session's configuration as JSON, where the caller could see it and the planner cannot.

It may hold credentials: Spark hides options of such a name wherever it shows a plan.
"""

READING, WRITING = opt.LOADING, opt.SAVING
NAMES = ("path", "paths", *READING, *WRITING)

_OWN = {name.lower(): name for name in (*NAMES, SESSION)}
_ALMOST = {**_OWN, OPTIMIZE_WRITE.key.lower(): OPTIMIZE_WRITE.key}
_LIKENESS = 0.85
_COLUMN = re.compile(r"Column<.*>", re.DOTALL)
_OVERWRITES = "spark.sql.sources.partitionOverwriteMode"
_FAMILIES = (PREFIX, "spark.hadoop.fs.", "fs.", _OVERWRITES.lower())


class Settings:
    """The options of one call. Values are checked when they are asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raises InvalidArgument for a key that is almost one of ours, and for one that is given twice."""
        self._own: dict[str, str] = {}
        self._others: dict[str, str] = {}
        for key, value in given.items():
            plain = key.lower().removeprefix(PREFIX)
            if plain not in _OWN:
                _check_slip(key, plain)
                self._others[key] = value
            elif self._own.setdefault(plain, value) != value:
                message = f"option {_OWN[plain]} is given twice, with and without the prefix {PREFIX}: keep one"
                raise InvalidArgument(message, option=_OWN[plain])

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._own

    @property
    def table_options(self) -> dict[str, object]:
        """What is not the door's: options of the table and of its store."""
        return dict(self._others)

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
            raise InvalidArgument(f"option {SESSION} is no JSON object", option=SESSION)
        return {str(key): str(value) for key, value in found.items()}

    def text(self, name: str) -> str | None:
        return self._own.get(name.lower())

    def predicate(self, name: str) -> str | None:
        """A predicate as SQL text; the text of a Spark Column is none."""
        return check_predicate(name, self.text(name))

    def flag(self, name: str) -> bool:
        """False where it is not given."""
        text = self._own.get(name.lower(), "false")
        if text.strip().lower() not in ("true", "false"):
            raise InvalidArgument(f"option {name} = {text!r} is not true or false", option=name, value=text)
        return text.strip().lower() == "true"

    def count(self, name: str) -> int | None:
        """A whole number of at least 0."""
        text = self._own.get(name.lower())
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            message = f"option {name} = {text!r} is not a whole number of at least 0"
            raise InvalidArgument(message, option=name, value=text)
        return int(text)

    def names(self, name: str) -> list[str] | None:
        """Names separated by commas, or a JSON array of names where one of them has a comma."""
        text = self._own.get(name.lower())
        if text is None:
            return None
        if text.lstrip().startswith("["):
            try:
                return check_names(name, json.loads(text))
            except ValueError as cause:
                raise InvalidArgument(f"option {name} = {text!r} is no JSON array of names", option=name) from cause
        return [part.strip() for part in text.split(",") if part.strip()]

    def version(self) -> int | None:
        """The version to read. Raises InvalidArgument if a time is named as well."""
        if "versionAsOf" in self and "timestampAsOf" in self:
            raise InvalidArgument("give versionAsOf or timestampAsOf, not both", option="versionAsOf")
        text = self.text("versionAsOf")
        if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
            raise InvalidArgument(f"versionAsOf = {text!r} is not a version", option="versionAsOf", value=text)
        return None if text is None else int(text)

    def txn(self) -> tuple[str, int] | None:
        """(application, batch number)."""
        app, batch = self.text("txnAppId"), self.text("txnVersion")
        if app is None and batch is None:
            return None
        if not app or batch is None or self.count("txnVersion") is None:
            raise InvalidArgument("txnAppId and txnVersion (a whole number) go together", option="txnVersion")
        return app, int(batch)

    def save_mode(self) -> str | None:
        """What a table that is there already means to this write: None, `error` or `ignore`."""
        text = self.text("saveMode")
        if text is not None and text not in ("error", "ignore"):
            raise InvalidArgument(f"saveMode = {text!r} is neither error nor ignore", option="saveMode", value=text)
        return text


def check_predicate(name: str, given: Any) -> str | None:
    """A predicate as SQL text. Raises InvalidArgument for a Spark Column, also where only its text is left."""
    if given is None:
        return None
    if type(given).__name__ == "Column" or (isinstance(given, str) and _COLUMN.fullmatch(given.strip())):
        message = (
            f"{name} is SQL text, such as \"day = '2024-01-31'\", because it is read before Spark plans anything; a "
            "Column goes to DataFrame.where()"
        )
        raise InvalidArgument(message, option=name)
    return check_text(name, given)


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
    return next((value for key, value in session.items() if key.lower() == _OVERWRITES.lower()), None)


@contextlib.contextmanager
def planning(settings: Settings) -> Iterator[None]:
    """Where a worker plans: a store that does not let it in may be one that only the session says how to reach."""
    try:
        yield
    except (StorePermissionDenied, StoreUnavailable) as error:
        if settings.session:
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
