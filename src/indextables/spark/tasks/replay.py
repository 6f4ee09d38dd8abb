"""Replays by tasks: they read the version files of a long tail, and the driver folds what their runs leave over.

Only for object stores, where many small reads take long; everything else is read by the driver, and so is the log
whenever anything goes wrong with the tasks. Results do not depend on where the files were read. Workers remember the
files that they have read, by full path, size, time and tag, until they expire or a driver asks for a new epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from indextables import options as opt
from indextables import process
from indextables.env import Env
from indextables.errors import IndexTablesError, LogCorrupt, NotSupported
from indextables.log.read import Log, ReducedContent, dump_run, load_run, reduce_versions, shared_cache
from indextables.log.wire import PathRule, VersionContent, decode_version, path_rule, version_key
from indextables.options import Options
from indextables.spark.session import jvm_errors
from indextables.spark.tasks.runner import Place, SparkRunner, default_parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DistributedTail", "ReplayMetrics", "VersionFile", "forget_in_workers", "read_run", "tasks_for"]

_LOGGER = logging.getLogger("indextables")

_FEW, _MANY = 10, 100

_EPOCHS: dict[str, int] = {}
"""On the driver: how often the caches of a table were asked to be forgotten. In a worker: the last epoch seen."""

process.declare(
    process.Memory(
        name="epochs of distributed replay",
        where=f"{__name__}._EPOCHS",
        key="URL of the table",
        bound="one number per table",
        fork="the child keeps them, as it keeps the parsed log files that they are about",
        ends="never: an epoch only grows",
    )
)


class VersionFile(msgspec.Struct, frozen=True):
    """One file to read, as the listing tells it."""

    version: int
    path: str
    size: int
    modificationTime: int
    etag: str | None = None


class Run(msgspec.Struct, frozen=True):
    """What a task reads: neighbouring version files, in ascending order."""

    files: list[VersionFile]
    epoch: int = 0
    properties: dict[str, str] = {}
    """Those of the table that concern tasks."""
    rule: PathRule = PathRule.ENCODED
    """How the table logs its paths."""


class RunAnswer(msgspec.Struct, frozen=True):
    """What a task sends back: the reduced run, and what it cost."""

    run: bytes
    hits: int
    actions: int


class ReplayMetrics(msgspec.Struct, frozen=True):
    """What one distributed read did. Times in seconds."""

    files: int
    tasks: int
    hits: int
    actions_read: int
    actions_kept: int
    list_seconds: float
    read_seconds: float


class DistributedTail:
    """Reads version files through tasks of Spark; `None` where the driver had better read them itself."""

    def __init__(self, spark: SparkSession, env: Env, place: Place, *, remote_only: bool = True) -> None:
        """`place` is what tasks are told; `env` is the driver's."""
        self._spark = spark
        self._env = env
        self._place = place
        self._remote_only = remote_only
        self.metrics: ReplayMetrics | None = None

    def __call__(self, versions: Sequence[int]) -> list[ReducedContent] | None:
        env = self._env
        if not self._is_worth_it(env.options, len(versions)):
            return None
        began = env.ambient.monotonic()
        failures: tuple[type[Exception], ...] = (IndexTablesError, *jvm_errors())
        try:
            # The table's properties as the tail begins: those of its newest version are what is about to be read.
            _, protocol, metadata = Log(env).metadata_at(max(versions[0] - 1, 0))
            configuration, rule = metadata.configuration, path_rule(protocol)
            options = env.over(configuration)
            files = _listed(env, versions) if self._is_worth_it(options, len(versions)) else None
            if files is None:
                return None
            listed = env.ambient.monotonic()
            runner = SparkRunner(self._spark, env.store.url, place=self._place)
            tasks = _task_count(options, len(files), self._spark)
            properties = {key: text for key, text in configuration.items() if "transaction.cache." in key.lower()}
            epoch = _EPOCHS.get(env.store.url, 0)
            units = [msgspec.msgpack.encode(Run(part, epoch, properties, rule)) for part in _runs(files, tasks)]
            answers = [_answer(given) for given in runner.run(read_run, units)]
            contents = [content for answer in answers for content in load_run(answer.run)]
            _check_rule(contents, rule, env.store.url)
        except failures as error:
            _LOGGER.warning("%s: tasks could not read the log (%s); the driver reads it", env.store.url, error)
            return None
        self.metrics = ReplayMetrics(
            files=len(files),
            tasks=len(units),
            hits=sum(answer.hits for answer in answers),
            actions_read=sum(answer.actions for answer in answers),
            actions_kept=sum(content.adds.num_rows + content.removes.num_rows for content in contents),
            list_seconds=listed - began,
            read_seconds=env.ambient.monotonic() - listed,
        )
        _LOGGER.info("%s: log read by tasks: %s", env.store.url, self.metrics)
        return contents

    def _is_worth_it(self, options: Options, count: int) -> bool:
        env = self._env
        if not options[opt.TRANSACTION_DISTRIBUTED_ENABLED] or not options[opt.TRANSACTION_USE_OPTIMIZED]:
            return False
        if self._remote_only and (env.store.is_local or not env.store.outlives_process):
            return False
        return count >= options[opt.TRANSACTION_DISTRIBUTED_MIN_FILES]


def tasks_for(files: int, parallelism: int) -> int:
    """How many tasks read so many files when `parallelism` of them run at once: one for few, never one per file."""
    if files < _FEW:
        return 1
    if files < _MANY:
        return max(1, min(files // 2, parallelism))
    return max(1, min(files // 10, 2 * parallelism))


def forget_in_workers(url: str) -> None:
    """Let every worker forget the log files of the table at `url` before it reads the next one."""
    _EPOCHS[url] = _EPOCHS.get(url, 0) + 1


def read_run(env: Env, unit: bytes) -> bytes:
    """In a task: read a run of version files, from memory where they are known, and reduce it. Raises LogError."""
    run = _READ_RUN.decode(unit)
    if _EPOCHS.get(env.store.url, 0) != run.epoch:
        shared_cache().invalidate(env.store.url, ("version",))
        _EPOCHS[env.store.url] = run.epoch
    env = msgspec.structs.replace(env, options=env.over(run.properties))
    known = [_recall(env, file) for file in run.files]
    missing = [place for place, content in enumerate(known) if content is None]
    read = env.ambient.map("versions", lambda place: _read(env, run.files[place]), missing)
    for place, content in zip(missing, read, strict=True):
        known[place] = content
    contents = [content.under(run.rule) for content in known if content is not None]
    answer = RunAnswer(
        run=dump_run(reduce_versions(contents)),
        hits=len(run.files) - len(missing),
        actions=sum(content.adds.num_rows + content.removes.num_rows for content in contents),
    )
    return msgspec.msgpack.encode(answer)


def _check_rule(contents: Sequence[VersionContent], rule: PathRule, url: str) -> None:
    """Raises NotSupported if the versions lead to a table that logs its paths by another rule than tasks were told."""
    if any(content.protocol is not None and path_rule(content.protocol) is not rule for content in contents):
        raise NotSupported("the rule of paths changed in these versions: the driver reads them", url=url)


def _recall(env: Env, file: VersionFile) -> VersionContent | None:
    if not env.options[opt.TRANSACTION_CACHE_ENABLED]:
        return None
    found: VersionContent | None = shared_cache().get("version", _key(env, file), env.ambient.monotonic())
    return found


def _read(env: Env, file: VersionFile) -> VersionContent:
    data = env.store.get(file.path)
    if len(data) != file.size:
        message = f"version {file.version} ({file.path}) has {len(data)} bytes, its listing says {file.size}"
        raise LogCorrupt(message, version=file.version, path=file.path, reason="size")
    content = decode_version(data, file.version, root_url=env.store.url)
    if env.options[opt.TRANSACTION_CACHE_ENABLED]:
        expires = env.ambient.monotonic() + env.options[opt.TRANSACTION_CACHE_EXPIRATION_SECONDS]
        weight = content.adds.nbytes + content.removes.nbytes + content.stored_bytes
        shared_cache().put("version", _key(env, file), content, expires, weight)
    return content


def _key(env: Env, file: VersionFile) -> tuple[object, ...]:
    # Times of stores are whole seconds: a table that was dropped and made anew has files of the same size and time.
    return env.store.url, file.path, file.size, file.modificationTime, file.etag


def _listed(env: Env, versions: Sequence[int]) -> list[VersionFile] | None:
    """The files of these versions; None if one is not there: whoever reads them himself tells why."""
    first, last = version_key(versions[0]), version_key(versions[-1])
    folder = first.rpartition("/")[0] + "/"
    wanted = {version_key(version): version for version in versions}
    found: dict[int, VersionFile] = {}
    # Keys sort like versions, and `.` sorts before every digit.
    for meta in env.store.list_from(folder, after=first[: first.rfind(".")]):
        if meta.key in wanted:
            found[wanted[meta.key]] = VersionFile(wanted[meta.key], meta.key, meta.size, meta.modified_ms, meta.etag)
        if meta.key > last:
            break
    return [found[version] for version in versions] if len(found) == len(wanted) else None


def _task_count(options: Options, files: int, spark: SparkSession) -> int:
    asked = options[opt.TRANSACTION_DISTRIBUTED_PARALLELISM]
    parallelism = asked or default_parallelism(spark)
    if options[opt.TRANSACTION_DISTRIBUTED_ADAPTIVE]:
        return tasks_for(files, parallelism)
    return min(files, parallelism)


def _runs(files: list[VersionFile], tasks: int) -> list[list[VersionFile]]:
    return [part.tolist() for part in np.array_split(np.array(files, dtype=object), tasks) if len(part)]


def _answer(given: bytes | IndexTablesError) -> RunAnswer:
    if isinstance(given, IndexTablesError):
        raise given
    return _READ_RUNANSWER.decode(given)


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_RUN = msgspec.msgpack.Decoder(Run)
_READ_RUNANSWER = msgspec.msgpack.Decoder(RunAnswer)
