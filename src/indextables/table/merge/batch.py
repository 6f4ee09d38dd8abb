"""The groups of a batch become units, units become merged files, and each file is checked before anybody commits it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.wire import Add, DeletionVector, Metadata, key_of
from indextables.table.merge.clustering import boundaries_of, codes_of, cut
from indextables.table.merge.plan import CLUSTERED, FULL, Limits, full_tag
from indextables.table.merge.unit import (
    Clustering,
    MergeAnswer,
    MergeUnit,
    Piece,
    Source,
    merge_unit,
    sample_unit,
)
from indextables.table.read import POSITION, position_tag, positions
from indextables.table.requests import Curve
from indextables.table.running import Answer, Runner
from indextables.table.writing import discard

__all__ = ["GROUPED", "BatchResult", "Group", "Merging", "Moved", "cluster_tag", "groups_of", "run_batch"]

_LOGGER = logging.getLogger("indextables")

_SAMPLE_ROWS = 50_000
_SAMPLED_SOURCES = 16
_EXPANSION = 4
"""Bytes of rows in memory per byte at rest, where the log does not tell."""

_OWN_TAGS = frozenset({POSITION, FULL, CLUSTERED})


_OF_SOURCE = (
    "path",
    "size",
    "numRecords",
    "footerStartOffset",
    "footerEndOffset",
    "hotcacheStartOffset",
    "hotcacheLength",
    "splitId",
)

GROUPED = (
    *_OF_SOURCE,
    "deletionVector",
    "baseRowId",
    "partitionValues",
    "uncompressedSizeBytes",
    "numMergeOps",
    "splitTags",
    "tags",
    "addedAtVersion",
    "addedAtLine",
)
"""What `groups_of` has to know about files."""


class Merging(msgspec.Struct, frozen=True):
    """What all groups of a merge share."""

    metadata: Metadata
    columns: list[str]
    curve: Curve
    limits: Limits


class Group(msgspec.Struct, frozen=True):
    """Sources of one partition in the order of their rows, with their places and with what a merged file inherits."""

    values: list[str | None]
    sources: list[Source]
    places: list[tuple[int, int, int]]
    merge_ops: list[int]
    split_tags: list[list[str] | None]
    tags: list[dict[str, str | None] | None]
    raw_bytes: int

    def part(self, first: int, count: int) -> Group:
        """Some neighbours of it."""
        chosen = slice(first, first + count)
        return msgspec.structs.replace(
            self,
            sources=self.sources[chosen],
            places=self.places[chosen],
            merge_ops=self.merge_ops[chosen],
            split_tags=self.split_tags[chosen],
            tags=self.tags[chosen],
        )

    def without(self, paths: set[str]) -> Group:
        """The group without these sources."""
        kept = [place for place, source in enumerate(self.sources) if source.path not in paths]
        return msgspec.structs.replace(
            self,
            sources=[self.sources[place] for place in kept],
            places=[self.places[place] for place in kept],
            merge_ops=[self.merge_ops[place] for place in kept],
            split_tags=[self.split_tags[place] for place in kept],
            tags=[self.tags[place] for place in kept],
        )


class Moved(msgspec.Struct, frozen=True):
    """Rows that have moved: the live rows of `sources` are exactly those of `adds`, which are durable.

    Without `is_sorted` they are in the same order, so that a row can be found again by its number.
    """

    sources: list[Source]
    adds: list[Add]
    deleted: int
    is_sorted: bool


class BatchResult(msgspec.Struct):
    """What a batch of groups came to: `broken` are paths with reasons, `failed` the reasons of whole groups."""

    moved: list[Moved] = []
    broken: dict[str, str] = {}
    failed: list[str] = []
    memory_bytes: int = 0


def cluster_tag(columns: Sequence[str], curve: Curve) -> str:
    """What the tag `CLUSTERED` of a file says whose rows are sorted so."""
    return f"{curve}({','.join(columns)})"


def groups_of(files: pa.Table, groups: Sequence[np.ndarray[Any, Any]], columns: Sequence[str]) -> list[Group]:
    """The groups that a plan has over `files`, with what the log knows about their sources."""
    return [_group(_rows(files, rows), columns) for rows in groups]


def _rows(files: pa.Table, rows: np.ndarray[Any, Any]) -> pa.Table:
    is_run = len(rows) and rows[-1] - rows[0] == len(rows) - 1
    return files.slice(int(rows[0]), len(rows)) if is_run else files.take(pa.array(rows))


def run_batch(env: Env, runner: Runner, merging: Merging, groups: Sequence[Group]) -> BatchResult:
    """Merge the groups. What has not become part of a `Moved` leaves no file behind.

    Raises only what is no typed error; a typed error of a unit is told in the result.
    """
    result = BatchResult()
    if merging.columns:
        _run_sorted(env, runner, merging, list(groups), result)
        return result
    units = [_encode(MergeUnit(group.sources, group.values, merging.metadata)) for group in groups]
    for group, answer in zip(groups, runner.run(merge_unit, units), strict=True):
        told = _told(answer, result)
        if told is None:
            continue
        _note_broken(env, group, told, result)
        for piece in told.pieces:
            _take(env, merging, group.part(piece.first, len(piece.live)), [piece], result)
    return result


def _run_sorted(env: Env, runner: Runner, merging: Merging, groups: list[Group], result: BatchResult) -> None:
    """As often as a source turns out to be broken, its group is sorted again without it."""
    while groups:
        planned = [plan for plan in _with_ranges(runner, merging, groups, result) if plan is not None]
        units = [
            _encode(MergeUnit(group.sources, group.values, merging.metadata, part))
            for group, parts in planned
            for part in parts
        ]
        answers = iter(runner.run(merge_unit, units))
        groups = []
        for group, parts in planned:
            told = [_told(next(answers), result) for _ in parts]
            pieces = [piece for answer in told if answer is not None for piece in answer.pieces]
            broken: set[str] = set()
            for answer in told:
                if answer is not None:
                    broken |= _note_broken(env, group, answer, result)
            if broken or any(answer is None for answer in told):
                discard(env, [add for piece in pieces for add in piece.adds])
                rest = group.without(broken)
                if broken and rest.sources:
                    groups.append(rest)
            else:
                _take(env, merging, group, pieces, result)


def _with_ranges(
    runner: Runner, merging: Merging, groups: Sequence[Group], result: BatchResult
) -> Iterator[tuple[Group, list[Clustering]] | None]:
    """Each group with the parts of the curve that its units write, about equally many rows each."""
    units: list[bytes] = []
    counts: list[int] = []
    for group in groups:
        rows = sum(source.num_rows or 0 for source in group.sources)
        look = Clustering(merging.columns, merging.curve, every=max(1, rows // _SAMPLE_ROWS))
        parts = [
            MergeUnit(group.sources[start : start + _SAMPLED_SOURCES], group.values, merging.metadata, look)
            for start in range(0, len(group.sources), _SAMPLED_SOURCES)
        ]
        units += [_encode(part) for part in parts]
        counts.append(len(parts))
    answers = iter(runner.run(sample_unit, units))
    for group, count in zip(groups, counts, strict=True):
        told = [next(answers) for _ in range(count)]
        errors = [answer for answer in told if isinstance(answer, IndexTablesError)]
        if errors:
            _fail(str(errors[0]), result)
            yield None
            continue
        sample = pa.concat_tables(
            [pa.ipc.open_stream(answer).read_all() for answer in told if isinstance(answer, bytes)]
        )
        yield group, _ranges(merging, group, sample)


def _ranges(merging: Merging, group: Group, sample: pa.Table) -> list[Clustering]:
    boundaries = boundaries_of(sample)
    size = sum(source.size for source in group.sources)
    limits = merging.limits
    parts = max(math.ceil(size / limits.target_bytes), math.ceil(group.raw_bytes / limits.memory_bytes))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, boundaries.schema) as writer:
        writer.write_table(boundaries)
    packed = bytes(sink.getvalue())
    ranges = cut(codes_of(sample, boundaries, merging.curve), parts)
    return [Clustering(merging.columns, merging.curve, within, packed) for within in ranges]


def _group(files: pa.Table, columns: Sequence[str]) -> Group:
    vectors = [None if v is None else msgspec.convert(v, DeletionVector) for v in files["deletionVector"].to_pylist()]
    columns_of_source = [*(files[name].to_pylist() for name in _OF_SOURCE), vectors, files["baseRowId"].to_pylist()]
    values = dict(files["partitionValues"][0].as_py() or ())
    raw = files["uncompressedSizeBytes"].to_pylist()
    return Group(
        values=[values.get(name) for name in columns],
        sources=list(map(Source, *columns_of_source)),
        places=list(zip(*(column.tolist() for column in positions(files)), strict=True)),
        merge_ops=[number or 0 for number in files["numMergeOps"].to_pylist()],
        split_tags=files["splitTags"].to_pylist(),
        tags=[None if tags is None else dict(tags) for tags in files["tags"].to_pylist()],
        raw_bytes=sum(
            size * _EXPANSION if known is None else known
            for size, known in zip(files["size"].to_pylist(), raw, strict=True)
        ),
    )


def _told(answer: Answer, result: BatchResult) -> MergeAnswer | None:
    if isinstance(answer, IndexTablesError):
        _fail(str(answer), result, logging.INFO if answer.details.get("given_up") else logging.WARNING)
        return None
    told = _ANSWER.decode(answer)
    result.memory_bytes = max(result.memory_bytes, told.memory_bytes)
    return told


def _note_broken(env: Env, group: Group, told: MergeAnswer, result: BatchResult) -> set[str]:
    paths = {key_of(source.path, env.store.url): source.path for source in group.sources}
    broken = {paths[gone.key]: gone.reason for gone in told.broken}
    result.broken.update(broken)
    return set(broken)


def _take(env: Env, merging: Merging, group: Group, pieces: Sequence[Piece], result: BatchResult) -> None:
    """Rows in = rows out, by what the log says about the sources; then the files may be committed."""
    adds = [add for piece in pieces for add in piece.adds]
    reason = _mismatch(merging, group, pieces)
    if reason is not None:
        discard(env, adds)
        _fail(reason, result)
        return
    finished = _inherited(merging, group, pieces)
    result.moved.append(Moved(group.sources, finished, pieces[0].deleted, is_sorted=bool(merging.columns)))


def _mismatch(merging: Merging, group: Group, pieces: Sequence[Piece]) -> str | None:
    live = pieces[0].live
    names = f"{group.sources[0].path} and {len(group.sources) - 1} more splits"
    written = sum(add.numRecords or 0 for piece in pieces for add in piece.adds)
    if any(piece.live != live for piece in pieces) or written != sum(live):
        return f"{sum(live)} rows of {names} became {written}: they are not merged; please report this"
    for source, rows in zip(group.sources, live, strict=True):
        gone = 0 if source.vector is None else source.vector.cardinality
        if source.num_rows is not None and rows != source.num_rows - gone:
            return (
                f"{source.path} has {rows} rows, its log says {source.num_rows} less {gone} deleted ones: it is not "
                "merged. Run verify() on the table"
            )
    if not merging.columns and sum(len(piece.adds) for piece in pieces) > len(group.sources) > 1:
        return f"{names} do not fit fewer files: raise split.memoryBudget"
    return None


def _inherited(merging: Merging, group: Group, pieces: Sequence[Piece]) -> list[Add]:
    """The files as they go into the log, with what they take over from their sources."""
    union = sorted({tag for tags in group.split_tags for tag in tags or ()})
    shared = dict(group.tags[0] or {})
    for tags in group.tags[1:]:
        shared = {key: value for key, value in shared.items() if key in (tags or {}) and (tags or {})[key] == value}
    # The rows of one file that is written anew stay sorted.
    own = _OWN_TAGS - {CLUSTERED} if len(group.sources) == 1 else _OWN_TAGS
    kept: dict[str, str | None] = {key: value for key, value in shared.items() if key not in own}
    if merging.columns:
        kept[CLUSTERED] = cluster_tag(merging.columns, merging.curve)
    found: list[Add] = []
    for piece in pieces:
        for number, add in enumerate(piece.adds):
            version, line, part = group.places[min(len(found), len(group.places) - 1)]
            beyond = max(0, len(found) - len(group.places) + 1)
            full = full_tag(merging.limits.memory_bytes) if number + 1 < len(piece.adds) else {}
            found.append(
                msgspec.structs.replace(
                    add,
                    dataChange=False,
                    tags={**kept, **position_tag(version, line, part + beyond), **full},
                    splitTags=union or None,
                    numMergeOps=max(group.merge_ops, default=0) + 1,
                )
            )
    return found


def _fail(reason: str, result: BatchResult, weight: int = logging.WARNING) -> None:
    _LOGGER.log(weight, "a group of splits was not merged: %s", reason)
    result.failed.append(reason)


def _encode(unit: MergeUnit) -> bytes:
    return msgspec.msgpack.encode(unit)


_ANSWER = msgspec.msgpack.Decoder(MergeAnswer)
