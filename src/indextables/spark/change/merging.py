"""Merges and upserts on a cluster: the source is evaluated once, the target read once, and all of it is one commit.

Pairs stay in Spark; the driver gets the numbers of the rows that go, and what tasks wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CardinalityViolation, InvalidArgument, LimitExceeded, QueryInvalid
from indextables.log.commit import personal_columns
from indextables.log.read import Snapshot
from indextables.log.wire import schema_from_json
from indextables.query.expr import And, Column, Comparison, In, Literal, Node, Or
from indextables.query.parse import parse
from indextables.query.prune import prune
from indextables.query.scope import Side, Sides
from indextables.spark.change.addresses import CLAUSE, Addressed, Gathered, addressed, empty, gathered
from indextables.spark.change.conditions import Text, analysed, fitting, quoted, told, understood
from indextables.spark.change.door import Door
from indextables.spark.change.here import few_rows, merge_here
from indextables.spark.change.pairing import Pairing
from indextables.spark.change.source import SID, Source
from indextables.spark.change.writing import bases_of, write_rows
from indextables.spark.scan import FILE, ROW, means_another_zone
from indextables.spark.session import jvm_errors, reads_otherwise, spark_schema
from indextables.split.file import ROW_ID
from indextables.table.change import (
    ChangeReport,
    Clause,
    Counts,
    FileCounts,
    Located,
    Prepared,
    Run,
    Tally,
    Terms,
    check_clauses,
    check_known,
    execute,
    is_storable,
    keys_in,
    merge_counts,
    merge_metrics,
    merge_parameters,
    rows_at,
    scope_of,
    shown,
    side_of,
    source_columns,
    unused_prefix,
)
from indextables.table.change import merge as merge_verb
from indextables.table.rows import Evolution, check_not_generated, merged_schema, shown_row
from indextables.table.running import Progress
from indextables.table.writing import registered, target_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MergeAsked", "merge_rows", "upsert_rows"]

_BROADCAST_ROWS = 200_000
"""A source of so many rows is sent to every task, so that the target is not shuffled."""

_FEW_KEYS = 100
"""Up to so many rows of the source, files are looked at for each key; for more by the least and the greatest."""

_MOST_STARTS = 3
_LOST = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block rdd_")
"""What Spark says where the only copy of a computed row is gone."""


class MergeAsked(msgspec.Struct, frozen=True):
    """A MERGE as it was asked for. Conditions and values are texts or Columns. `keys` are the columns of an upsert."""

    source: Source
    on: Text
    clauses: tuple[Clause, ...]
    evolves: bool = False
    keys: tuple[str, ...] = ()


def merge_rows(door: Door, asked: MergeAsked, terms: Terms, progress: Progress | None = None) -> ChangeReport:
    """Merge into the newest version. Raises as `table.change.execute`, CardinalityViolation, SchemaMismatch."""
    check_clauses(asked.clauses)
    if door.alias is not None and door.alias.lower() == (asked.source.alias or "").lower():
        raise InvalidArgument(f"source and table are both called {door.alias}: give one of them another alias")
    for _ in range(_MOST_STARTS):
        try:
            here = merge_here(door, asked)
            return execute(door.log, here or _Merge(door, asked), terms, progress)
        except jvm_errors() as error:
            if not any(sign in str(error) for sign in _LOST):
                raise
            # An executor died with rows that were computed once. Nothing is committed: all of it begins again.
            asked.source.forget()
    return execute(door.log, _Merge(door, asked), terms, progress)


def upsert_rows(
    door: Door,
    frame: DataFrame,
    on: Sequence[str],
    *,
    evolves: bool,
    terms: Terms,
    progress: Progress | None = None,
) -> ChangeReport:
    """Update the rows whose key the source has, and add the others. Raises as `merge_rows`."""
    source = Source(frame.alias("s") if hasattr(frame, "alias") else frame, "s")
    if not on:
        raise InvalidArgument("on names no column: give those by which a row is known")
    if missing := [name for name in on if source.column(name) is None]:
        message = f"the source has no column {', '.join(missing)}, which is part of the key"
        raise InvalidArgument(message, columns=missing)
    rows = few_rows(door, source, on)
    if rows is not None:
        return merge_verb.upsert(door.log, rows, on, merge_schema=evolves, terms=terms, progress=progress)
    text = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in on)
    clauses = (Clause("matched", "update"), Clause("not matched", "insert"))
    named = msgspec.structs.replace(door, alias="t")
    return merge_rows(named, MergeAsked(source, text, clauses, evolves, tuple(on)), terms, progress)


class _Merge:
    """The statement, as `execute` runs it. The source outlives its runs."""

    operation = "MERGE"
    writes = True

    def __init__(self, door: Door, asked: MergeAsked) -> None:
        self._door = door
        self._asked = asked

    @property
    def parameters(self) -> dict[str, str | None]:
        plain = [
            msgspec.structs.replace(clause, condition=None if clause.condition is None else told(clause.condition))
            for clause in self._asked.clauses
        ]
        return merge_parameters(told(self._asked.on), plain)

    def over(self, env: Env, snapshot: Snapshot) -> Run:
        return _Merging(self._door, self._asked, env, snapshot)

    def counts(self, gone: int, located: Located) -> Counts:
        return merge_counts(self._asked.clauses, gone, located)

    def metrics(self, counts: Counts, prepared: Prepared, files: FileCounts) -> dict[str, str | None]:
        return merge_metrics(self._asked.clauses, self._asked.source.rows, counts, prepared, files)


class _Merging:
    """A MERGE over one version."""

    def __init__(self, door: Door, asked: MergeAsked, env: Env, snapshot: Snapshot) -> None:
        self._door, self._asked, self._env, self._snapshot = door, asked, env, snapshot
        self._evolution: Evolution | None = None
        schema = snapshot.schema
        if asked.evolves:
            given = source_columns(asked.clauses, asked.source.schema, schema)
            self._evolution = merged_schema(
                snapshot.metadata, snapshot.protocol, given, door.log.env.options, url=door.log.url
            )
        elif asked.keys:
            check_known(asked.source.schema, schema)
        metadata = snapshot.metadata if self._evolution is None else self._evolution.metadata
        before, after = spark_schema(snapshot.metadata.schemaString), spark_schema(metadata.schemaString)
        self._metadata = metadata
        self._pairing = Pairing(
            asked.source,
            asked.on,
            asked.clauses,
            before,
            after,
            asked.evolves,
            schema,
        )
        for clause in asked.clauses:
            check_not_generated(clause.values or {}, schema, inserts=clause.action == "insert")
        # Texts that mean nothing are told before anything runs.
        none, planned = empty(door, snapshot), self._keyed(asked.source.planned)
        with analysed("the merge"):
            _ = self._pairing.pairs(none, planned, values=True).schema
            _ = self._pairing.inserts(planned, None).schema
        self._pairs: DataFrame | None = None
        self._new: DataFrame | None = None
        self._found: Addressed | None = None

    def locate(self) -> Located:
        if self._asked.keys:
            self._check_keys()
        files = self._snapshot.files
        files = files.filter(pa.array(self._may_matter(files)))
        rows = addressed(self._door, self._env, self._snapshot, files)
        with analysed("the merge"):
            pairs = self._pairing.pairs(rows.frame, self._sent(), values=True).localCheckpoint(eager=True)
            found = gathered(pairs, rows)
            kept = found.pop(-1, Gathered())
            self._check_once(pairs, rows, found)
            inserted = self._count_inserts(pairs)
        self._pairs, self._found = pairs, rows
        taken = _all_of(found)
        return Located(
            taken,
            scanned=files.num_rows,
            kept=_without(kept.rows, taken),
            tally=Tally({number: len(one) for number, one in found.items()}, inserted),
        )

    def look(self, files: pa.Table) -> dict[str, BitMap]:
        files = files.filter(pa.array(self._may_matter(files)))
        if not files.num_rows:
            return {}
        rows = addressed(self._door, self._env, self._snapshot, files)
        with analysed("the merge"):
            found = gathered(self._pairing.pairs(rows.frame, self._sent(), values=False), rows)
        return _all_of(found)

    def prepare(self, located: Located) -> Prepared:
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        tally, metadata = located.tally, self._metadata
        assert tally is not None  # noqa: S101 - `locate` tells it
        assert self._pairs is not None  # noqa: S101 - as well
        assert self._found is not None  # noqa: S101 - as well
        updates = [number for number, clause in enumerate(self._asked.clauses) if clause.action == "update"]
        updated = sum(tally.taken.get(number, 0) for number in updates)
        bases = bases_of(self._snapshot, self._found.paths) if updated else None
        names = [quoted(name) for name in self._pairing.after.names]
        internal = [FILE, ROW, SID, *([ROW_ID] if bases is not None else [])]
        frames = []
        if updated:
            frames.append(self._pairs.where(F.col(CLAUSE).isin(updates)).select(*names, *internal))
        if tally.inserted:
            assert self._new is not None  # noqa: S101 - as well
            frames.append(self._new.select(*names, *internal))
        adds = []
        if frames:
            frame = reduce(lambda left, right: left.unionByName(right), frames)
            adds = write_rows(self._door, self._env, metadata, frame, bases, updated + tally.inserted)
        plan = target_of(metadata, self._env.over(metadata.configuration)).plan
        new = registered(metadata, plan) if adds else None
        if self._evolution is not None:
            return Prepared(located, adds, new or metadata, self._evolution.protocol)
        return Prepared(located, adds, new)

    def _keyed(self, source: DataFrame) -> DataFrame:
        """The source of an upsert with its keys as the table writes them, so that it knows a key again."""
        keys = {name.lower() for name in self._asked.keys}
        if not keys:
            return source
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        wanted = {field.name.lower(): field for field in self._pairing.after.fields if field.name.lower() in keys}
        arrow = {field.name.lower(): field for field in schema_from_json(self._metadata.schemaString)}
        known = self._asked.source.schema
        columns = []
        for name in source.columns:
            field = wanted.get(name.lower())
            column = F.col(quoted(name))
            if field is not None and is_storable(known.field(name).type, arrow[name.lower()].type):
                column = fitting(column, source.schema[name].dataType, field.dataType, field.name).alias(name)
            columns.append(column)
        return source.select(*columns).alias("s")

    def _sent(self) -> DataFrame:
        """The source as it is joined; a small one goes to every task."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        source = self._keyed(self._asked.source.frame)
        return F.broadcast(source) if self._asked.source.rows <= _BROADCAST_ROWS else source

    def _count_inserts(self, pairs: DataFrame) -> int:
        """How many rows come. They are computed with that, and kept for the tasks that write them."""
        if not self._pairing.of("not matched"):
            return 0
        new = self._pairing.inserts(self._keyed(self._asked.source.frame), pairs)
        self._new = new.localCheckpoint(eager=False)
        return int(self._new.count())

    def _may_matter(self, files: pa.Table) -> Any:
        """For each file whether it may hold a match, or a row that a clause takes without one."""
        everything = np.ones(files.num_rows, bool)
        if not files.num_rows:
            return everything
        schema, columns = self._snapshot.schema, self._snapshot.partition_columns

        def may(node: Node) -> Any:
            return np.asarray(prune(files, node, schema, columns).to_numpy(zero_copy_only=False), bool)

        terms = self._known_terms()
        if terms is None:
            return everything
        result = may(And(tuple(terms))) if terms else everything
        scope = scope_of(schema, self._door.alias)
        for _, clause in self._pairing.of("not matched by source"):
            node = understood(self._door.spark, self._env, clause.condition, scope, schema)
            result |= everything if node is None else may(node)
        return result

    def _known_terms(self) -> list[Node] | None:
        """What ON says about a row of the table that matches: conditions on it alone, and ranges of keys."""
        on, source, schema = self._asked.on, self._asked.source.known_schema(), self._snapshot.schema
        alias, spark = self._asked.source.alias, self._door.spark
        if not isinstance(on, str) or source is None or alias is None or reads_otherwise(spark, on, schema):
            return None
        prefix = unused_prefix(schema)
        target = Side(self._door.alias or "", schema)
        try:
            node = parse(on, Sides([target, Side(alias, source, prefix)]), time_zone=self._env.options[opt.TIME_ZONE])
        except (QueryInvalid, LimitExceeded):
            return None
        if means_another_zone(spark, self._env, node):
            return None
        keys, rest = keys_in(node, prefix)
        terms = [term for term in rest if side_of(term, prefix) == "target"]
        plain = [
            (left, right.name.removeprefix(prefix))
            for left, right in keys
            if isinstance(left, Column) and isinstance(right, Column) and not left.path and not right.path
        ]
        return terms + self._ranges(plain)

    def _ranges(self, keys: list[tuple[Column, str]]) -> list[Node]:
        """What the keys of the source say about a row that matches one of them."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        source = self._asked.source
        named = [(node, quoted(name)) for node, name in keys if not pa.types.is_floating(node.type)]
        ends = source.ends([name for _, name in named])
        if not source.rows:
            return [Or(())]
        if named and source.rows <= _FEW_KEYS:
            values = source.frame.select(*(F.col(name).alias(str(n)) for n, (_, name) in enumerate(named))).toArrow()
            known = [pc.unique(column).drop_null() for column in values.columns]
            return [
                In(node, tuple(found)) if len(found) else Or(())
                for (node, _), found in zip(named, known, strict=True)
                if found.type == node.type
            ]
        terms: list[Node] = []
        for (node, _), (least, most) in zip(named, ends, strict=True):
            if least.type != node.type:
                continue
            if not least.is_valid:
                return [Or(())]
            terms += [Comparison(">=", node, Literal(least)), Comparison("<=", node, Literal(most))]
        return terms

    def _check_keys(self) -> None:
        """Raises CardinalityViolation for a key that is twice in the source of an upsert."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        names = [quoted(name) for name in self._asked.keys]
        source = self._keyed(self._asked.source.frame)
        whole = reduce(lambda left, right: left & right, (F.col(name).isNotNull() for name in names))
        with analysed("the merge"):
            # A key may be called as anything: by then it is out of sight.
            counted = source.where(whole).groupBy(*(F.col(name) for name in names))
            told = counted.agg(F.struct(F.count(SID).alias("n"), F.min(SID).alias("a"), F.max(SID).alias("b")))
            found = told.toDF(*names, "told").select("told.*").where("n > 1").limit(1).collect()
        if not found:
            return
        rows = self._source_rows(found[0])
        columns = list(self._asked.keys)
        message = (
            f"two rows of the source have the same key ({', '.join(columns)}): {shown(rows[0])} and {shown(rows[1])}. "
            "Leave one row for each key. Nothing was written"
        )
        raise CardinalityViolation(message, target=None, source=rows, rows=list(found[0]), columns=columns)

    def _check_once(self, pairs: DataFrame, where: Addressed, found: Mapping[int, Gathered]) -> None:
        """Raises CardinalityViolation where clauses want one row twice."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        matched = self._pairing.of("matched")
        if len(matched) == 1 and matched[0][1].action == "delete" and matched[0][1].condition is None:
            # As in Delta: the row is gone, however many rows ask for it.
            return
        rows = _all_of(found)
        if sum(one.count for one in found.values()) == sum(map(len, rows.values())):
            return
        counted = pairs.where(F.col(CLAUSE) >= 0).groupBy(FILE, ROW)
        twice = counted.agg(
            F.count(SID).alias("n"), F.min(SID).alias("a"), F.max(SID).alias("b"), F.max(CLAUSE).alias("c")
        )
        file, number, _, first, second, clause = twice.where("n > 1").limit(1).collect()[0]
        (part,) = rows_at(self._env, self._snapshot, {where.paths[file]: BitMap([number])}, self._snapshot.schema.names)
        target, sources = self._shown(part.rows), self._source_rows((first, second))
        action = self._asked.clauses[clause].action
        message = (
            f"the row of the table {shown(target)} belongs to two rows of the source, {shown(sources[0])} and "
            f"{shown(sources[1])}, and cannot take the {action} of both: leave one row for each key in the source, or "
            "add a condition. Nothing was written"
        )
        raise CardinalityViolation(
            message, target=target, source=sources, rows=[first, second], columns=[], on=told(self._asked.on)
        )

    def _source_rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        chosen = self._asked.source.shown().where(F.col(SID).isin(list(numbers))).orderBy(SID)
        found = chosen.drop(SID).toArrow()
        return [self._shown(found.slice(place, 1)) for place in range(found.num_rows)]

    def _shown(self, row: pa.Table) -> dict[str, Any]:
        personal = personal_columns(self._snapshot.metadata.configuration)
        return shown_row(row, personal, self._snapshot.schema.names)


def _all_of(found: Mapping[int, Gathered]) -> dict[str, BitMap]:
    nothing: dict[str, BitMap] = {}
    return reduce(_united, (one.rows for one in found.values()), nothing)


def _united(left: Mapping[str, BitMap], right: Mapping[str, BitMap]) -> dict[str, BitMap]:
    return {path: left.get(path, BitMap()) | right.get(path, BitMap()) for path in left.keys() | right.keys()}


def _without(rows: Mapping[str, BitMap], taken: Mapping[str, BitMap]) -> dict[str, BitMap]:
    left = {path: found - taken.get(path, BitMap()) for path, found in rows.items()}
    return {path: found for path, found in left.items() if found}
