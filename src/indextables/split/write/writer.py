"""Arrow batches in, splits out: rows and index are built side by side in a scratch folder, verified, then put.

Memory: the index under construction (bounded by `split.memoryBudget`, which closes a split), one row group (131,072
rows or 128 MB, twice while it is encoded), and while a split is finished the compressed index. Disk: one split and its
uncompressed index. Rows of up to 4 MiB are kept back until the end is known: as one small split they are built in a
memory file system of at most 16 MiB, where there is one. Nothing stays in the scratch folder, whatever fails.
"""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from indextables import options as opt
from indextables.ambient import Ambient, SystemAmbient
from indextables.errors import IndexTablesError, InvariantViolated, SchemaMismatch, SplitError, StoreFull
from indextables.split.file import Columns, SplitRef, Statistics, StatsBuilder, stored_schema, visible
from indextables.split.index import IndexPlan, plan_fields
from indextables.split.write import scratch as scratch_folders
from indextables.split.write.index import HEAP_CEILING, SegmentBuilder
from indextables.split.write.rows import RowsWriter, normalise_schema
from indextables.split.write.scratch import Places, Scratch
from indextables.split.write.sink import FinishedFile, finish_file, take_apart
from indextables.storage.store import Store

__all__ = ["SplitWriter", "WrittenSplit", "write_splits"]

_PIECE_ROWS = 8_192
_PIECE_BYTES = 16 << 20
_INDEX_SHARE = 0.2
"""Index bytes at rest per byte of estimated index memory; only decides where a split ends."""
_MAX_HALVINGS = 10


class WrittenSplit(msgspec.Struct, frozen=True):
    """A split that is in the store, with everything that the log says about one."""

    key: str
    id: str
    size: int
    put_ms: int
    num_rows: int
    footer_start: int
    footer_end: int
    index_start: int
    range1_length: int
    statistics: Statistics
    uncompressed_bytes: int
    doc_mapping: str
    doc_mapping_ref: str
    time_range_start: str | None
    time_range_end: str | None
    incomplete: dict[str, list[str]]
    component_bytes: dict[str, int]
    """Stored bytes by component; `rows` is everything that plain Parquet has too."""
    columns: Columns | None = None
    """How the columns of the rows that were given stand in the file."""

    @property
    def ref(self) -> SplitRef:
        """What a reader needs."""
        return SplitRef(
            key=self.key,
            size=self.size,
            num_rows=self.num_rows,
            footer_start=self.footer_start,
            footer_end=self.footer_end,
            index_start=self.index_start,
            range1_length=self.range1_length,
            id=self.id,
            columns=self.columns,
        )


def write_splits(
    store: Store,
    batches: Iterable[pa.RecordBatch | pa.Table],
    schema: pa.Schema,
    options: opt.Options,
    *,
    plan: IndexPlan | None = None,
    prefix: str = "",
    partition_columns: Collection[str] = (),
    ambient: Ambient | None = None,
) -> list[WrittenSplit]:
    """Write all batches; on any failure nothing of it stays. Raises as `SplitWriter`."""
    writer = SplitWriter(
        store, schema, options, plan=plan, prefix=prefix, partition_columns=partition_columns, ambient=ambient
    )
    with writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


class SplitWriter:
    """Writes the rows of one partition as one or more splits, in the order given.

    1. A split is put only after it was verified: rows = documents, one segment, footer and directory read back.
    2. After an exception, or when the `with` block ends before `finish`, neither scratch files nor objects are left.
    3. Keys are `<prefix>split-<id>.split`: unique per attempt, never overwritten. The split carries its id.
    4. Rows and plan have the names of the table, the file and its statistics those that the schema says are stored.

    Raises SchemaInvalid and SchemaMismatch, SplitError where Tantivy or the scratch disk fails, StoreError.
    """

    def __init__(
        self,
        store: Store,
        schema: pa.Schema,
        options: opt.Options,
        *,
        plan: IndexPlan | None = None,
        prefix: str = "",
        partition_columns: Collection[str] = (),
        ambient: Ambient | None = None,
        heap_ceiling: int = HEAP_CEILING,
        places: Places | None = None,
    ) -> None:
        """`plan` continues the field ordinals of a table; without it they start from the schema and the options.

        With `schema` as `with_ids` makes it, rows bring their ids along in the last column.
        """
        self._store = store
        self._schema = normalise_schema(schema)
        self._stored = stored_schema(self._schema)
        self._columns = Columns.of(self._schema)
        self._options = options
        given = plan if plan is not None else plan_fields(visible(self._schema), options)
        self._plan = given if self._columns is None else given.renamed(self._columns.stored)
        self._prefix = prefix
        self._uncut = frozenset(partition_columns)
        self._ambient: Ambient = ambient or SystemAmbient()
        self._heap_ceiling = heap_ceiling
        self._places = places or scratch_folders.SYSTEM
        # Rows that may be a small split; None once they are too many, or where none is built in memory.
        self._held: list[pa.Table] | None = [] if options[opt.SPLIT_MEMORY_SCRATCH] else None
        self._held_bytes = 0
        self._current: _Building | None = None
        self._written: list[WrittenSplit] = []
        self._keys: list[str] = []
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Add rows. A split that reaches its size or the memory budget is finished and put on the way."""
        self._write(self._fit(data))

    def write_fitted(self, batch: pa.RecordBatch) -> None:
        """As `write`, for rows that their owner has cast and validated already: their columns are taken as they are."""
        if not batch.schema.equals(self._schema):
            raise InvariantViolated(f"rows that are said to fit {self._schema} have the columns {batch.schema}")
        self._write(pa.Table.from_arrays(batch.columns, schema=self._stored))

    def _write(self, table: pa.Table) -> None:
        with self._undone_on_error():
            for piece in _pieces(table):
                if self._held is None:
                    self._add(piece)
                    continue
                self._held.append(piece)
                self._held_bytes += piece.nbytes
                if self._held_bytes > scratch_folders.MOST_HELD:
                    self._let_go()

    def _add(self, piece: pa.Table) -> None:
        if self._current is None:
            self._current = self._begin(self._on_disk())
        self._current.add(piece)
        if self._is_full(self._current):
            self._finish_current()

    def _is_full(self, building: _Building) -> bool:
        target, budget = self._options[opt.SPLIT_TARGET_SIZE], self._options[opt.SPLIT_MEMORY_BUDGET]
        return building.size_bytes >= target or building.heap_bytes >= budget

    def _let_go(self) -> None:
        """Build on disk from now on, what was kept back first."""
        held, self._held = self._held or [], None
        for piece in held:
            self._add(piece)

    def finish(self, *, verify: Callable[[list[WrittenSplit]], None] | None = None) -> list[WrittenSplit]:
        """Put the last split; returns all of them in the order of their rows. No rows, no splits.

        What `verify` raises undoes everything that was written.
        """
        with self._undone_on_error():
            if self._held and not self._put_small(self._held):
                self._let_go()
            self._held = None
            self._finish_current()
            if verify is not None:
                verify(self._written)
        self._ended = True
        return self._written

    def abort(self) -> None:
        """Remove everything this writer has made, unless `finish` has handed it over."""
        if self._current is not None:
            self._current.abandon()
            self._current = None
        self._held = None
        if not self._ended and self._keys:
            self._store.delete_many(self._keys)
        self._ended = True

    @contextlib.contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        if self._ended:
            raise InvariantViolated("this writer has ended: make a new one for more rows")
        try:
            yield
        except IndexTablesError:
            self._clean_up()
            raise
        except OSError as error:
            self._clean_up()
            raise _scratch_failed(error) from error
        except BaseException:
            self._clean_up()
            raise

    def _clean_up(self) -> None:
        # The first error is the one to tell; what cannot be deleted now is an orphan that purge takes.
        with contextlib.suppress(IndexTablesError, OSError):
            self.abort()

    def _begin(self, scratch: Scratch) -> _Building:
        return _Building(scratch, self._stored, self._plan, self._options, self._uncut, self._heap_ceiling)

    def _on_disk(self) -> Scratch:
        return scratch_folders.on_disk(self._ambient)

    def _put_small(self, pieces: list[pa.Table]) -> bool:
        """Build one split of all rows in memory and put it; False, and nothing is left, if that cannot be."""
        scratch = scratch_folders.in_memory(self._places, self._ambient)
        if scratch is None:
            return False
        try:
            building = self._begin(scratch)
        except (OSError, SplitError):
            return False
        try:
            split_id = self._ambient.token()
            try:
                built = self._built_small(building, pieces, split_id)
            except (OSError, SplitError):
                # Others may have filled the memory meanwhile. What is wrong with the rows shows up on disk again.
                return False
            if built is None:
                return False
            self._put_built(building, split_id, built)
            return True
        finally:
            building.abandon()

    def _built_small(
        self, building: _Building, pieces: list[pa.Table], split_id: str
    ) -> tuple[FinishedFile, Statistics] | None:
        """None if the rows are more than one small split. Tantivy writes its files at the end, not before."""
        for piece in pieces:
            building.add(piece)
            if self._is_full(building) or not scratch_folders.fits_memory(self._held_bytes, building.heap_bytes):
                return None
        return building.finish(split_id)

    def _finish_current(self) -> None:
        building, self._current = self._current, None
        if building is None:
            return
        try:
            if not self._put(building):
                self._halve(building.rows_path, building.num_rows, _MAX_HALVINGS)
        finally:
            building.abandon()

    def _put(self, building: _Building) -> bool:
        """Finish and put one split; False if Tantivy did not keep its rows in one segment in order."""
        split_id = self._ambient.token()
        built = building.finish(split_id)
        if built is None:
            return False
        self._put_built(building, split_id, built)
        return True

    def _put_built(self, building: _Building, split_id: str, built: tuple[FinishedFile, Statistics]) -> None:
        key = f"{self._prefix}split-{split_id}.split"
        self._keys.append(key)
        # Not later: this is the age of the file, for whoever asks whether purge may have taken it.
        put_ms = self._ambient.now_ms()
        self._store.put_file(key, building.rows_path)
        self._written.append(self._describe(key, put_ms, *built))

    def _halve(self, path: Path, num_rows: int, halvings: int) -> None:
        """Build the rows of a local Parquet file again, as two splits."""
        if num_rows < 2 or halvings == 0:
            message = f"an index of {num_rows} rows does not fit one segment: lower split.memoryBudget"
            raise SplitError(message, reason="segments")
        middle = num_rows // 2
        for start, stop in ((0, middle), (middle, num_rows)):
            building = self._begin(self._on_disk())
            try:
                for batch in _rows_between(path, start, stop):
                    building.add(pa.Table.from_batches([batch]))
                if not self._put(building):
                    self._halve(building.rows_path, stop - start, halvings - 1)
            finally:
                building.abandon()

    def _describe(self, key: str, put_ms: int, finished: FinishedFile, statistics: Statistics) -> WrittenSplit:
        stamps = next((f.name for f in self._stored if pa.types.is_timestamp(f.type)), None)
        return WrittenSplit(
            key=key,
            id=finished.directory.id,
            size=finished.size,
            put_ms=put_ms,
            num_rows=statistics.num_rows,
            footer_start=finished.footer_start,
            footer_end=finished.footer_end,
            index_start=finished.index_start,
            range1_length=finished.range1_length,
            statistics=statistics,
            uncompressed_bytes=finished.uncompressed_bytes,
            doc_mapping=self._plan.doc_mapping(),
            doc_mapping_ref=self._plan.doc_mapping_ref(),
            time_range_start=statistics.min_values.get(stamps) if stamps else None,
            time_range_end=statistics.max_values.get(stamps) if stamps else None,
            incomplete=finished.directory.incomplete,
            component_bytes=finished.component_bytes,
            columns=self._columns,
        )

    def _fit(self, data: pa.RecordBatch | pa.Table) -> pa.Table:
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        if table.schema.names != self._schema.names:
            message = (
                f"rows have the columns {table.schema.names}, the split {self._schema.names}: reorder or rename them"
            )
            raise SchemaMismatch(message, expected=self._schema.names, actual=table.schema.names)
        try:
            return pa.Table.from_arrays(table.cast(self._schema).columns, schema=self._stored)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            message = f"rows do not fit the schema of the split: {error}"
            raise SchemaMismatch(message) from error


class _Building:
    """One split under construction, in a scratch folder of its own, which is there."""

    def __init__(
        self,
        scratch: Scratch,
        schema: pa.Schema,
        plan: IndexPlan,
        options: opt.Options,
        uncut: frozenset[str],
        heap_ceiling: int,
    ) -> None:
        self._scratch = scratch
        self._plan = plan
        self._segment: SegmentBuilder | None = None
        try:
            self.rows_path = scratch.path / "rows.split"
            self._rows = RowsWriter(self.rows_path, schema)
            self._columns = visible(schema)
            self._stats = StatsBuilder(self._columns, options, uncut=uncut)
            if plan.fields:
                self._segment = SegmentBuilder(scratch.path / "index", plan, schema, heap_ceiling)
        except BaseException:
            scratch.remove()
            raise

    @property
    def num_rows(self) -> int:
        return self._rows.rows

    @property
    def heap_bytes(self) -> int:
        return self._segment.heap_bytes if self._segment is not None else 0

    @property
    def size_bytes(self) -> int:
        return self._rows.written_bytes + int(_INDEX_SHARE * self.heap_bytes)

    def add(self, table: pa.Table) -> None:
        for batch in table.combine_chunks().to_batches():
            if self._segment is not None:
                self._segment.add(batch)
        self._stats.update(table.select(self._columns.names))
        self._rows.write(table)

    def finish(self, split_id: str) -> tuple[FinishedFile, Statistics] | None:
        """The verified file under this id and its statistics; None if its index is not one segment in order."""
        # First all that the rows alone decide: Tantivy's thread takes them in meanwhile, and a commit waits for that.
        self._rows.close()
        statistics = self._stats.finish()
        taken = take_apart(self.rows_path)
        built = self._segment.finish() if self._segment is not None else None
        if built is not None and not built.in_order:
            return None
        finished = finish_file(
            self.rows_path,
            taken,
            self.num_rows,
            self._plan,
            built,
            split_id=split_id,
            null_counts=statistics.null_counts,
        )
        return finished, statistics

    def abandon(self) -> None:
        """Delete everything; harmless when already done."""
        if self._scratch.path.exists():
            self._rows.abandon()
            if self._segment is not None:
                self._segment.abandon()
        self._scratch.remove()


def _scratch_failed(error: OSError) -> IndexTablesError:
    folder = tempfile.gettempdir()
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return StoreFull(f"no space left for scratch files in {folder}: free some, or set TMPDIR", key=folder)
    return SplitError(f"scratch files in {folder} failed: {error}", path=folder, reason=str(error))


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Slices small enough that the estimates of size and memory are looked at often."""
    if not table.num_rows:
        return
    width = max(1, table.nbytes // table.num_rows)
    rows = max(1, min(_PIECE_ROWS, _PIECE_BYTES // width))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _rows_between(path: Path, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    at = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_PIECE_ROWS, use_threads=False):
            first, last = max(start - at, 0), min(stop - at, batch.num_rows)
            if first < last:
                yield batch.slice(first, last - first)
            at += batch.num_rows
