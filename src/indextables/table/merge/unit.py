"""One task of a merge reads some splits and writes their rows as few; this is what it gets and answers.

Units and answers are bytes (msgpack), so that they can travel. Everything that is needed is in the unit: a task reads
no log.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import DvCorrupt, IndexTablesError, InvalidArgument, ObjectNotFound, SplitCorrupt
from indextables.log.wire import Add, DeletionVector, Metadata, key_of
from indextables.split.file import Columns, SplitReader, SplitRef, dv, scan
from indextables.split.write import Broken, Merged, merge_splits, project
from indextables.table.merge.clustering import Range, Sorter
from indextables.table.requests import Curve
from indextables.table.writing import WriteTarget, add_of, split_folder, target_of

__all__ = ["Clustering", "MergeAnswer", "MergeUnit", "Piece", "Source", "merge_unit", "ref_of", "sample_unit"]


class Source(msgspec.Struct, frozen=True):
    """A split to merge, as the log has it."""

    path: str
    size: int
    num_rows: int | None = None
    footer_start: int | None = None
    footer_end: int | None = None
    index_start: int | None = None
    range1_length: int | None = None
    id: str | None = None
    vector: DeletionVector | None = None
    base_row_id: int | None = None


class Clustering(msgspec.Struct, frozen=True):
    """How the rows of a unit are sorted, and which part of the curve the unit writes.

    `boundaries` is a table in Arrow's IPC format. A unit that takes the sample for them has none, and looks at one row
    in `every`.
    """

    columns: list[str]
    curve: Curve
    within: Range = Range(0, None)
    boundaries: bytes = b""
    every: int = 1


class MergeUnit(msgspec.Struct, frozen=True):
    """Neighbours of one partition, in the order of their rows."""

    sources: list[Source]
    values: list[str | None]
    metadata: Metadata
    clustering: Clustering | None = None


class Piece(msgspec.Struct, frozen=True):
    """`adds` hold the rows of the sources from `first` on, `len(live)` of them; `live` is what each gave."""

    first: int
    live: list[int]
    adds: list[Add]
    deleted: int


class MergeAnswer(msgspec.Struct, frozen=True):
    """What became of a unit. `broken` are the sources that could not be read; they are in no piece.

    `memory_bytes` is the most that the process which did the work has had so far.
    """

    pieces: list[Piece]
    broken: list[Broken]
    memory_bytes: int = 0


def merge_unit(env: Env, unit: bytes) -> bytes:
    """Merge the sources of a unit. A source that cannot be read ends a piece, so that rows keep their order.

    Raises StoreError, SplitError, InvariantViolated; then nothing that was written is left.
    """
    work = _UNIT.decode(unit)
    pieces: list[Piece] = []
    broken: list[Broken] = []
    try:
        _merge_pieces(env, work, pieces, broken)
    except IndexTablesError:
        keys = [key_of(add.path, env.store.url) for piece in pieces for add in piece.adds]
        if keys:
            env.store.delete_many(keys)
        raise
    return msgspec.msgpack.encode(MergeAnswer(pieces, broken, _peak_memory()))


def sample_unit(env: Env, unit: bytes) -> bytes:
    """Some rows of the columns to cluster by, in Arrow's IPC format; of sources that cannot be read none."""
    work = _UNIT.decode(unit)
    clustering = work.clustering
    if clustering is None:
        raise InvalidArgument("a sample is of the columns to cluster by: the unit names none")
    target = target_of(work.metadata, env.over(work.metadata.configuration))
    schema = pa.schema([target.schema.field(name) for name in clustering.columns])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for source in work.sources:
            for batch in _sampled(env, source, target.schema, schema, clustering.every):
                writer.write_batch(batch)
    return bytes(sink.getvalue())


def _merge_pieces(env: Env, work: MergeUnit, pieces: list[Piece], broken: list[Broken]) -> None:
    target = target_of(work.metadata, env.over(work.metadata.configuration))
    refs, unreadable = _refs(env, work.sources, target.schema)
    broken += unreadable
    if broken and work.clustering is not None:
        # Sorted rows of some sources are no part of the whole: the group is sorted again without the broken ones.
        return
    # One that comes alone is written anew for its own sake: rows of it are deleted.
    runs = list(_runs(refs, least=1 if work.clustering is not None or len(refs) == 1 else 2))
    while runs:
        first, run = runs.pop(0)
        merged = _merge(env, work, target, run)
        if merged.broken:
            broken += merged.broken
            if work.clustering is not None:
                return
            bad = {gone.key for gone in merged.broken}
            rest: list[SplitRef | None] = [None if ref.key in bad else ref for ref in run]
            runs[:0] = [(first + start, part) for start, part in _runs(rest, least=2)]
        else:
            adds = [add_of(split, target.partition_columns, work.values) for split in merged.written]
            pieces.append(Piece(first, merged.live, adds, merged.deleted))


def _merge(env: Env, work: MergeUnit, target: WriteTarget, refs: Sequence[SplitRef]) -> Merged:
    clustering = work.clustering
    arrange = None
    if clustering is not None:
        arrange = Sorter(pa.ipc.open_stream(clustering.boundaries).read_all(), clustering.curve, clustering.within)
    return merge_splits(
        env.store,
        refs,
        target.options,
        schema=target.schema,
        plan=target.plan,
        prefix=split_folder(target.partition_columns, work.values),
        partition_columns=target.partition_columns,
        ambient=env.ambient,
        arrange=arrange,
        stop_at_broken=True,
    )


def _refs(env: Env, sources: Sequence[Source], schema: pa.Schema) -> tuple[list[SplitRef | None], list[Broken]]:
    """A reference per source with its vector loaded; None, and why, for one whose vector cannot be read."""
    refs: list[SplitRef | None] = []
    broken: list[Broken] = []
    for source in sources:
        key = key_of(source.path, env.store.url)
        try:
            refs.append(ref_of(env, source, key, schema))
        except (DvCorrupt, ObjectNotFound) as error:
            refs.append(None)
            broken.append(Broken(key, str(error)))
    return refs, broken


def ref_of(env: Env, source: Source, key: str, schema: pa.Schema) -> SplitRef:
    """A split of a table with this schema, as its metadata has it, with its vector loaded.

    Raises DvCorrupt, StoreError, SchemaInvalid.
    """
    ref = SplitRef(
        key,
        source.size,
        source.num_rows,
        source.footer_start,
        source.footer_end,
        source.index_start,
        source.range1_length,
        source.id,
        base_row_id=source.base_row_id,
        columns=Columns.of(schema),
    )
    if source.vector is None:
        return ref
    if source.num_rows is None:
        raise DvCorrupt(f"{key} has a deletion vector but no number of rows in the log", path=key)
    return msgspec.structs.replace(ref, vector=dv.load(env.store, source.vector, key, source.num_rows))


def _runs(refs: Sequence[SplitRef | None], *, least: int) -> Iterator[tuple[int, list[SplitRef]]]:
    """Stretches of `least` and more references without a hole, each with the place of its first."""
    run: list[SplitRef] = []
    for place, ref in enumerate([*refs, None]):
        if ref is not None:
            run.append(ref)
            continue
        if len(run) >= least:
            yield place - len(run), run
        run = []


def _sampled(env: Env, source: Source, table: pa.Schema, schema: pa.Schema, every: int) -> Iterator[pa.RecordBatch]:
    key = key_of(source.path, env.store.url)
    seen = 0
    try:
        reader = SplitReader(env.store, ref_of(env, source, key, table))
        there = [name for name in schema.names if name.lower() in {n.lower() for n in reader.schema.names}]
        for batch in scan(reader, there or None):
            start = -seen % every
            seen += batch.num_rows
            if start < batch.num_rows:
                places = pa.array(range(start, batch.num_rows, every), pa.int64())
                yield project(batch.take(places), schema)
    except (SplitCorrupt, DvCorrupt, ObjectNotFound):
        # The task that merges it will say so.
        return


def _peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


_UNIT = msgspec.msgpack.Decoder(MergeUnit)
