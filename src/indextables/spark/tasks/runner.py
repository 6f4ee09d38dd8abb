"""Runs units of work as tasks of Spark: the `Runner` of a cluster, classic and Connect.

One task per unit over `spark.range`, because that is the one way that works without a SparkContext. A task gets where
the table is and what was asked for, opens an environment of its own, and answers with bytes; a typed error travels as
the name of its class, its message and its details, and is made again on this side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from indextables import errors
from indextables.errors import IndexTablesError, InvalidArgument, InvariantViolated
from indextables.options import COMMIT_USER, PREFIX
from indextables.spark.session import REGISTRY_PREFIX, session_zone
from indextables.spark.tasks.units import for_each
from indextables.table.running import Answer, Job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from indextables.split.file import SplitRef

__all__ = [
    "Place",
    "SparkRunner",
    "default_parallelism",
    "dump_error",
    "grouped",
    "load_error",
    "place_of",
    "session_options",
]

_DDL = "place bigint, is_error boolean, answer binary"

_MOST_BYTES = 64 << 20
"""Bytes of units in one job: every executor of a job is sent all of them, and the driver holds them."""

_MOST_TASKS = 4096
"""Units in one job, so that a driver does not drown in tasks."""

"""Names of tables in the session's configuration; they are no options."""

_ARROW, _SEPARATOR = " -> ", "\x1f\x1e"
"""Between key and value where Scala shows them, and between pairs."""


class Place(msgspec.Struct, frozen=True):
    """Where a table is and what was asked for: all that a task needs to open it. Holds credentials, never shown."""

    url: str
    options: dict[str, str] = {}
    session: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Place({self.url!r})"


class SparkRunner:
    """Runs each unit as a task of its own; Spark repeats tasks that die."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        options: Mapping[str, object] | None = None,
        *,
        place: Place | None = None,
    ) -> None:
        """`place` is what tasks are told where the caller knows it already, because asking the session takes time."""
        self._spark = spark
        self._place = place_of(spark, url, options) if place is None else place
        self._width: int | None = None

    @property
    def width(self) -> int:
        if self._width is None:
            self._width = default_parallelism(self._spark)
        return self._width

    def run(self, job: Job, units: Sequence[bytes]) -> list[Answer]:
        answers: list[Answer] = []
        for part in _parts(units):
            answers += self._run(job, part)
        return answers

    def _run(self, job: Job, units: Sequence[bytes]) -> list[Answer]:
        count = len(units)
        work = partial(answer_unit, msgspec.msgpack.encode(self._place), name_of(job))
        rows = for_each(self._spark, work, units, _DDL).toArrow()
        found: dict[int, Answer] = {}
        columns = (rows.column(name).to_pylist() for name in ("place", "is_error", "answer"))
        for place, is_error, answer in zip(*columns, strict=True):
            found[place] = load_error(answer) if is_error else answer
        if len(found) != count:
            raise InvariantViolated(f"{len(found)} of {count} tasks answered: nothing was committed")
        return [found[place] for place in range(count)]


def place_of(spark: SparkSession, url: str, options: Mapping[str, object] | None = None) -> Place:
    """What tasks of this session must be told about the table at `url`."""
    given = {key: str(value) for key, value in (options or {}).items() if value is not None}
    return Place(url, given, session_options(spark))


def session_options(spark: SparkSession) -> dict[str, str]:
    """What the session says about tables and stores, and its time zone; to be given as `session=` to `open_env`."""
    found = {
        key: value
        for key, value in _settings(spark).items()
        if key.lower().startswith((PREFIX, "spark.hadoop.fs.", "fs.")) and not key.startswith(REGISTRY_PREFIX)
    }
    zone_key = f"{PREFIX}timezone"
    if not any(key.lower() == zone_key for key in found):
        zone = session_zone(spark)
        if zone:
            found[zone_key] = zone
    user_key = f"{PREFIX}{COMMIT_USER.key}".lower()
    if not any(key.lower() == user_key for key in found):
        user = _user(spark)
        if user:
            found[user_key] = user
    return found


def _user(spark: SparkSession) -> str | None:
    """Who works in this session, as far as Spark tells: a process may work for others than its own account."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        return str(context.sparkUser())
    # Connect has no SparkContext; the server knows the session by the name that its client gives.
    user: str | None = getattr(getattr(spark, "client", None), "_user_id", None)
    return user


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks run at the same time, as far as Spark tells without a SparkContext; at least 1."""
    settings = _settings(spark)
    given = settings.get("spark.default.parallelism", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    local = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", settings.get("spark.master", ""))
    if local is not None:
        return max(1, int(local[1]))
    # Ranges are cut into as many parts as there are cores; asking for the parts is a job of its own.
    parts = spark.range(1 << 16).selectExpr("spark_partition_id() AS part").distinct().count()
    return max(1, int(parts))


def name_of(job: Job) -> str:
    """`module:name` of a function that a task can import. Raises InvalidArgument for one that it cannot."""
    name = f"{job.__module__}:{job.__qualname__}"
    if "<" in name or job_named(name) is not job:
        raise InvalidArgument(f"a job is a function of a module, not {name}")
    return name


def job_named(name: str) -> Job:
    """The function of this name."""
    module, _, attribute = name.partition(":")
    found: Any = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def dump_error(error: IndexTablesError) -> bytes:
    """A typed error as bytes: class, message and details, each detail as near to itself as msgpack has it."""
    return msgspec.msgpack.encode(
        {"kind": type(error).__name__, "message": str(error.args[0]), "details": error.details}, enc_hook=str
    )


def load_error(data: bytes) -> IndexTablesError:
    """The error of `dump_error`; a class that this side does not know becomes the base class."""
    told = msgspec.msgpack.decode(data)
    kind = getattr(errors, told["kind"], None) if told["kind"] in errors.__all__ else None
    made: IndexTablesError = (kind or IndexTablesError)(told["message"], **told["details"])
    return made


def answer_unit(packed: bytes, job: str, number: int, unit: bytes) -> Iterator[pa.RecordBatch]:
    """In a task: the answer to one unit."""
    import pyarrow as pa

    from indextables.table.environment import open_env

    place = _READ_PLACE.decode(packed)
    is_error, answer = False, b""
    try:
        answer = job_named(job)(open_env(place.url, place.options, session=place.session), unit)
    except IndexTablesError as error:
        is_error, answer = True, dump_error(error)
    yield pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int64()), pa.array([is_error]), pa.array([answer], pa.binary())],
        names=["place", "is_error", "answer"],
    )


def _parts(units: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    part: list[bytes] = []
    size = 0
    for unit in units:
        if part and (size + len(unit) > _MOST_BYTES or len(part) == _MOST_TASKS):
            yield part
            part, size = [], 0
        part.append(unit)
        size += len(unit)
    if part:
        yield part


def _settings(spark: SparkSession) -> dict[str, str]:
    """All that is set in the session.

    `getAll` of a classic session asks the JVM for each key and each value, which takes longer than all planning; as
    one text they are one answer. A value that holds what separates them is read the long way.
    """
    java = getattr(spark.conf, "_jconf", None)
    if java is not None:
        found = java.getAll()
        pairs = [pair.partition(_ARROW) for pair in found.mkString(_SEPARATOR).split(_SEPARATOR)]
        if len(pairs) == found.size() and all(arrow for _, arrow, _ in pairs):
            return {key: value for key, _, value in pairs}
    return dict(spark.conf.getAll)


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_PLACE = msgspec.msgpack.Decoder(Place)


TASK_BYTES = 128 << 20
"""Small splits share a task up to this size, where a task scans them."""


def grouped(refs: Iterable[SplitRef], task_bytes: int = TASK_BYTES) -> Iterator[list[SplitRef]]:
    """The splits of each task: small ones share one, up to `task_bytes`."""
    group: list[SplitRef] = []
    size = 0
    for ref in refs:
        if group and size + (ref.size or 0) > task_bytes:
            yield group
            group, size = [], 0
        group.append(ref)
        size += ref.size or 0
    if group:
        yield group
