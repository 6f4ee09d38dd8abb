"""Converts a table of another system into one of ours: its rows are copied in one commit, and the source is only read.

A second run takes what the source got since; the log of the target remembers what was taken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument, InvariantViolated, TableNotFound
from indextables.log.commit import Transaction, create_table, new_metadata, reserve
from indextables.log.read import Log, Snapshot
from indextables.log.wire import (
    CONSTRAINT_PREFIX,
    Add,
    Metadata,
    check_not_foreign,
    check_rows_writable,
    field_id,
    schema_from_json,
)
from indextables.options import PREFIX
from indextables.query.stored import Identity, identity_of
from indextables.table.after_write import after_write
from indextables.table.append import metrics_of
from indextables.table.convert.plan import (
    Chosen,
    check_same_source,
    everything,
    grouped,
    named_system,
    new_files,
    wanted_of,
)
from indextables.table.convert.source import Opened, open_source
from indextables.table.convert.unit import ConvertAnswer, ConvertUnit, convert_unit
from indextables.table.create import configuration_of, declared, indexing_properties
from indextables.table.read import live_rows
from indextables.table.rows import Evolution, check_partition_columns, constraint_properties, merged_schema
from indextables.table.running import Answer, Progress, Runner, Step, batches
from indextables.table.writing import NOT_IN_THE_LOG, check_kept, check_there, discard, memory_of, registered, target_of

__all__ = ["ConvertReport", "ConvertRequest", "convert"]

_UNITS_PER_SLOT = 2
_EXPRESSION = "delta.generationExpression"
_START, _STEP = "delta.identity.start", "delta.identity.step"
_EXPLICIT, _HIGHEST = "delta.identity.allowExplicitInsert", "delta.identity.highWaterMark"
_RULES = f"delta.{CONSTRAINT_PREFIX}"
_INVARIANTS = "delta.invariants"


class ConvertRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How a table is converted. `partition_by` None keeps the source's partition columns.

    `system` is what the caller takes the source for; another one is refused.
    """

    version: int | None = None
    system: str | None = None
    partition_by: Sequence[str] | None = None
    indexing: Mapping[str, Any] = {}
    properties: Mapping[str, str] = {}
    name: str | None = None
    description: str | None = None


class ConvertReport(msgspec.Struct, frozen=True):
    """What a conversion did: the version that holds the rows, and what was taken. `files` are those of the source."""

    system: str
    source_version: int
    version: int
    created: bool
    files: int
    rows: int
    splits: int
    bytes: int


def convert(
    source_env: Env, log: Log, request: ConvertRequest, *, runner: Runner, progress: Progress | None = None
) -> ConvertReport:
    """Copy the rows of the source into the table of `log`, which is made if it is not there, in one commit.

    Raises:
        TableNotFound: There is no table at the source.
        InvalidArgument: It is no table of another system, or the target holds rows of another one.
        NotSupported: The source has what is not read, or rows left it since the last time.
        SchemaMismatch, SchemaInvalid: No table of ours can have these columns, or the target has others.
        CommitConflict: Somebody else converted into the target meanwhile. Nothing was committed.
        InvariantViolated: What was written is not what the source tells. Nothing was committed.
    """
    wanted = named_system(request.system)
    source = open_source(source_env, request.version)
    if wanted is not None and source.system != wanted:
        message = f"the table at {source.url} is one of {source.system}, not of {wanted}"
        raise InvalidArgument(message, source=source.url)
    _check_apart(source.url, log.url)
    before = _existing(log)
    if before is None:
        return _Conversion(source_env, source, log, runner, progress).first(request)
    return _Conversion(source_env, source, log, runner, progress).again(before, request)


def _existing(log: Log) -> Snapshot | None:
    try:
        return log.snapshot()
    except TableNotFound:
        return None


def _check_apart(source: str, target: str) -> None:
    """Raises InvalidArgument where one lies within the other: the source must not find our files among its own."""
    places = [urlsplit(url)._replace(query="", fragment="") for url in (source, target)]
    real = [
        os.path.realpath(unquote(place.path)) + "/" if place.scheme == "file" else place.geturl().rstrip("/") + "/"
        for place in places
    ]
    if real[0].startswith(real[1]) or real[1].startswith(real[0]):
        message = f"the source ({source}) and the target ({target}) lie in each other's folder: give another target"
        raise InvalidArgument(message, source=source, url=target)


class _Conversion:
    """One run."""

    def __init__(self, source_env: Env, source: Opened, log: Log, runner: Runner, progress: Progress | None) -> None:
        self._source_env = source_env
        self._source = source
        self._log = log
        self._runner = runner
        self._progress = progress

    def first(self, request: ConvertRequest) -> ConvertReport:
        """The target is not there: files are written before it is made, so that a failure leaves no table."""
        log, source = self._log, self._source
        check_not_foreign(log.env.store)
        chosen = everything(source)
        metadata = self._new_metadata(request)
        adds, rows = self._write(chosen, metadata)
        self._reserve(metadata)
        try:
            created = create_table(log, metadata)
        except InvalidArgument:
            discard(log.env, adds)
            raise
        check_there(log.env, adds)
        base = log.snapshot(created.version)
        if base.files.num_rows or memory_of(base.domains) is not None:
            discard(log.env, adds)
            message = f"somebody else made a table at {log.url} meanwhile: nothing was committed, try again"
            raise InvalidArgument(message, url=log.url)
        return self._commit(base, chosen, adds, rows, created=created.is_new)

    def again(self, before: Snapshot, request: ConvertRequest) -> ConvertReport:
        """The target is there: it takes what is new."""
        log, source = self._log, self._source
        check_rows_writable(before.protocol, log.url)
        held = memory_of(before.domains)
        check_same_source(source, held, has_rows=bool(before.files.num_rows), url=log.url)
        _check_asked(before, request, log.url)
        chosen = everything(source) if held is None else new_files(source, held)
        if chosen is None:
            return ConvertReport(source.system, source.version, before.version, False, 0, 0, 0, 0)  # noqa: FBT003
        change = merged_schema(before.metadata, before.protocol, source.schema, log.env.options, url=log.url)
        metadata = before.metadata if change is None else change.metadata
        adds, rows = self._write(chosen, metadata)
        self._reserve(metadata)
        return self._commit(before, chosen, adds, rows, change=change)

    def _new_metadata(self, request: ConvertRequest) -> Metadata:
        source, log = self._source, self._log
        given = {**indexing_properties(request.indexing, source.schema), **request.properties}
        schema, given = declared(source.schema, {**_generated(source), **given})
        properties = {**_inherited(source, given), **given}
        metadata = new_metadata(
            log,
            schema,
            partition_by=_partition_by(source, schema, request.partition_by),
            configuration=configuration_of(log, schema, properties),
            name=request.name if request.name is not None else source.metadata.name,
            description=request.description if request.description is not None else source.metadata.description,
        )
        target = target_of(metadata, log.env.options.setting(metadata.configuration))
        return registered(metadata, target.plan) or metadata

    def _write(self, chosen: Chosen, metadata: Metadata) -> tuple[list[Add], int]:
        """Durable splits with the rows of all files that were chosen. On any failure nothing of it stays."""
        units, told = self._units(chosen, metadata)
        adds: list[Add] = []
        rows = done = 0
        try:
            for batch in batches(units, max(1, self._runner.width * _UNITS_PER_SLOT)):
                answers = self._runner.run(convert_unit, batch)
                heard = [_ANSWER.decode(answer) for answer in answers if isinstance(answer, bytes)]
                adds += [add for answer in heard for add in answer.adds]
                rows += sum(answer.rows for answer in heard)
                _check_done(answers)
                done += len(batch)
                self._tell(done, len(units), rows, adds)
            _check_count(self._source.url, told, rows)
        except BaseException:
            discard(self._log.env, adds)
            raise
        return adds, rows

    def _reserve(self, metadata: Metadata) -> None:
        """Let identity columns go on behind the numbers that the source has given."""
        given = {name: told.get(_HIGHEST) for name, told in _told(self._source).items() if _STEP in told}
        for field in schema_from_json(metadata.schemaString):
            identity, number, highest = identity_of(field), field_id(field), given.get(field.name)
            if identity is not None and number is not None and highest is not None:
                reserve(self._log.env, number, (int(highest) - identity.start) // identity.step + 1)

    def _units(self, chosen: Chosen, metadata: Metadata) -> tuple[list[bytes], int | None]:
        """The units, and how many rows the source says that there are; None where it does not tell."""
        units: list[bytes] = []
        told: int | None = 0
        asked = dict(self._source_env.options.asked)
        options = None if asked == dict(self._log.env.options.asked) else asked
        for version, paths in chosen.files.items():
            source = self._source if version == self._source.version else open_source(self._source_env, version)
            files = wanted_of(source, paths)
            rows = live_rows(files)
            told = None if told is None or rows is None else told + rows
            for group in grouped(source, files, self._runner.width):
                work = ConvertUnit(source.url, options, version, group, metadata)
                units.append(msgspec.msgpack.encode(work))
        return units, told

    def _commit(
        self,
        base: Snapshot,
        chosen: Chosen,
        adds: list[Add],
        rows: int,
        *,
        change: Evolution | None = None,
        created: bool = False,
    ) -> ConvertReport:
        log, source = self._log, self._source
        parameters: dict[str, str | None] = {
            "source": source.url,
            "sourceFormat": source.system,
            "sourceVersion": str(source.version),
        }
        metrics = {**metrics_of(adds), "numConvertedFiles": str(chosen.count)}
        transaction = Transaction(log, base, operation="CONVERT", parameters=parameters, metrics=metrics)
        if adds:
            transaction.add(adds).before_put(lambda staged: check_kept(log.env, staged))
        transaction.set_domain(chosen.memory.domain())
        metadata = base.metadata if change is None else change.metadata
        target = target_of(metadata, log.env.over(metadata.configuration))
        staged = registered(metadata, target.plan) or (metadata if change is not None else None)
        if staged is not None:
            transaction.set_metadata(staged)
        if change is not None and change.protocol is not None:
            transaction.set_protocol(change.protocol)
        try:
            committed = transaction.commit_or_raise()
        except NOT_IN_THE_LOG:
            discard(log.env, adds)
            raise
        after_write(log, metadata, committed.version, len(adds), "process")
        size = sum(add.size for add in adds)
        return ConvertReport(
            source.system, source.version, committed.version, created, chosen.count, rows, len(adds), size
        )

    def _tell(self, done: int, total: int, rows: int, adds: Sequence[Add]) -> None:
        if self._progress is not None:
            size = sum(add.size for add in adds)
            self._progress(Step("convert", done, total, rows=rows, bytes=size, files=len(adds)))


def _told(source: Opened) -> dict[str, dict[str, Any]]:
    """What the log of a Delta table says about each column."""
    if source.system != "Delta":
        return {}
    return {field["name"]: field.get("metadata") or {} for field in json.loads(source.metadata.schemaString)["fields"]}


def _generated(source: Opened) -> dict[str, str]:
    """The generated and identity columns of a Delta table, as properties of the new one."""
    found = {}
    for name, told in _told(source).items():
        if _EXPRESSION in told:
            found[f"generated.{name}"] = told[_EXPRESSION]
        if _STEP in told:
            always = not told.get(_EXPLICIT, False)
            found[f"generated.{name}"] = Identity(int(told.get(_START, 1)), int(told[_STEP]), always).sql
    return found


def _invariants(source: Opened) -> dict[str, str]:
    """The rules that older Delta tables keep in the metadata of a column. Raises InvalidArgument for what is none."""
    found = {}
    for name, metadata in _told(source).items():
        told = metadata.get(_INVARIANTS)
        if told is None:
            continue
        try:
            text = json.loads(told)["expression"]["expression"]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            message = (
                f"the column {name} of the source at {source.url} has {_INVARIANTS} that are no expression: "
                f"{str(told)[:200]}. Correct or drop them there"
            )
            raise InvalidArgument(message, column=name)
        found[f"{_RULES}invariant_{name}"] = text
    return found


def _inherited(source: Opened, given: Mapping[str, str]) -> dict[str, str]:
    """The constraints of a Delta table, as properties of the new one, but for those that are `given`.

    Raises InvalidArgument for one that this library cannot evaluate.
    """
    rules = {key: text for key, text in source.metadata.configuration.items() if key.lower().startswith(_RULES)}
    rules |= _invariants(source)
    said = {key.lower().removeprefix(PREFIX).removeprefix("delta.") for key in given}
    rules = {key: text for key, text in rules.items() if key.lower().removeprefix("delta.") not in said}
    try:
        return constraint_properties(rules, source.schema)[0]
    except InvalidArgument as fault:
        message = (
            f"{fault}. The source at {source.url} has this rule: give the property constraints.<name> with what it "
            "shall be here, or drop it there"
        )
        raise InvalidArgument(message, **fault.details) from fault


def _partition_by(source: Opened, schema: pa.Schema, asked: Sequence[str] | None) -> tuple[str, ...]:
    """The partition columns of a new table. Raises InvalidArgument for those that can be none here."""
    if asked is not None:
        return tuple(check_partition_columns(schema, asked))
    try:
        return tuple(check_partition_columns(schema, source.partition_columns))
    except InvalidArgument as fault:
        message = (
            f"{fault}. The source at {source.url} is partitioned by {', '.join(source.partition_columns)}: say which "
            "of them the new table shall have (partition_by=, PARTITIONED BY; partition_by=[] for none)"
        )
        raise InvalidArgument(message, **fault.details) from fault


def _check_done(answers: Sequence[Answer]) -> None:
    """Raises the first error among the answers."""
    for answer in answers:
        if isinstance(answer, IndexTablesError):
            raise answer


def _check_count(url: str, told: int | None, rows: int) -> None:
    """Raises InvariantViolated if the source tells another number of rows."""
    if told is not None and rows != told:
        message = (
            f"the log of {url} says that there are {told} rows, its files hold {rows}: nothing was committed. Check "
            "the source with the library that wrote it"
        )
        raise InvariantViolated(message, rows_in=told, rows_out=rows, url=url)


def _check_asked(before: Snapshot, request: ConvertRequest, url: str) -> None:
    """What only a new table can follow must not be ignored. Raises InvalidArgument."""
    columns = before.metadata.partitionColumns
    asked = request.partition_by
    if asked is not None and [name.lower() for name in asked] != [name.lower() for name in columns]:
        has = ", ".join(columns) or "no column"
        message = f"the table at {url} is there and is partitioned by {has}: leave the partition columns out"
        raise InvalidArgument(message, url=url)
    wanted = {**indexing_properties(request.indexing, before.schema), **request.properties}
    other = [key for key, value in wanted.items() if before.metadata.configuration.get(key) != value]
    if other:
        message = (
            f"the table at {url} is there and has another value of {', '.join(sorted(other))}: leave indexing and "
            "properties out, or convert into a new place"
        )
        raise InvalidArgument(message, url=url)


_ANSWER = msgspec.msgpack.Decoder(ConvertAnswer)
