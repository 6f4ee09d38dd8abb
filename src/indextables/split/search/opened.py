"""Holds what this process knows of one split, whatever version names it: its rows, and its index if it is usable."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import tantivy

from indextables.errors import InvalidArgument, SplitCorrupt, SplitError
from indextables.process import Lock
from indextables.split.file import PAGES, SEGMENT_PARTS, SplitReader, SplitRef, resolve
from indextables.split.index import (
    MAX_RAW_BYTES,
    CachedSplit,
    FieldPlan,
    IndexCache,
    IndexPlan,
    entry_key,
    token_totals,
)
from indextables.split.search.hits import Ints
from indextables.split.search.shelf import ShelfSegment, Source
from indextables.storage.store import Store

INDEX_FORMAT = int(tantivy.__version__.rpartition("v")[2])
"""The format of index files that the installed Tantivy reads."""


class Segment(msgspec.Struct, frozen=True):
    """A segment. `key` changes whenever the bytes do, and `whole` names the components without a hole."""

    key: str
    on_shelf: ShelfSegment
    whole: frozenset[str]
    tokens: dict[str, int]


class OpenedSplit:
    """One split, for all searchers that have it. Loads its index when made; everything else on demand. Thread-safe.

    Nothing here depends on a version: which rows are deleted is the affair of a `SplitState`. `reason` is set if the
    index cannot be used. Raises the errors of the store.
    """

    def __init__(self, store: Store, cache: IndexCache, ref: SplitRef, ahead: frozenset[str] = frozenset()) -> None:
        """`ref` has no vector. `ahead` are components to load along with the dictionary: the next search wants them."""
        self.store = store
        self.cache = cache
        self.ref = ref if ref.has_offsets else resolve(store, ref)
        self.reason: str | None = None
        self.cached: CachedSplit | None = None
        self.plan = IndexPlan(())
        self.field_ids: frozenset[str] = frozenset()
        self._lock = Lock()
        self._reader: SplitReader | None = None
        self._kind: tuple[object, str] | None = None
        self._segment: tuple[CachedSplit, Segment] | None = None
        try:
            self.cached = cache.load(store, self.ref, ahead)
            self._check(self.cached)
        except SplitCorrupt as error:
            self.cached, self.reason = None, str(error.details.get("reason", error))
        if self.ref.num_rows is None:
            raise InvalidArgument(f"the rows of {self.ref.key} were not counted", path=self.ref.key)
        self.num_rows = self.ref.num_rows

    def _check(self, cached: CachedSplit) -> None:
        directory = cached.directory
        if not directory.segment:
            self.reason = "no column is indexed"
        elif directory.index_format != INDEX_FORMAT:
            self.reason = f"index format {directory.index_format} of Tantivy {directory.tantivy}"
        else:
            plan, columns = _plan_of(directory.doc_mapping), self.ref.columns
            self.plan = plan if columns is None else plan.renamed(columns.name)
            self.field_ids = frozenset(field.id for field in self.plan.fields if field.column is not None)

    @property
    def usable(self) -> bool:
        return self.reason is None

    @property
    def held_bytes(self) -> int:
        """What is held of its index in memory."""
        files = self.cached.files.values() if self.cached is not None else ()
        return sum(len(data) for data in files if not isinstance(data, Path))

    @property
    def kind(self) -> str:
        """Equal for splits whose indexes answer the same leaves."""
        cached = self.cached
        if cached is None or not self.usable:
            return "rows"
        directory = cached.directory
        known = self._kind
        if known is None or known[0] is not directory:
            gaps = f"\0{msgspec.json.encode(directory.incomplete).decode()}" if directory.incomplete else ""
            known = self._kind = directory, directory.doc_mapping + gaps
        return known[1]

    @property
    def incomplete(self) -> dict[str, list[str]]:
        """The fields whose terms do not cover every row, with the reasons."""
        return {} if self.cached is None else self.cached.directory.incomplete

    @property
    def reader(self) -> SplitReader:
        """The rows; page locations come from the cache."""
        with self._lock:
            if self._reader is None:
                directory = stored = None
                cached = self.cached
                if cached is not None:
                    directory, stored = cached.directory, cached.pages
                    with contextlib.suppress(SplitCorrupt):
                        stored = stored if stored is not None else self.cache.pages(self.store, self.ref)
                owner = cached.key if cached is not None else entry_key(self.store, self.ref)
                kept = (self.cache.rows, f"{self.store.url}/{owner}") if self.cache.rows.max_bytes else None
                self._reader = SplitReader(self.store, self.ref, directory=directory, pages_stored=stored, kept=kept)
            return self._reader

    @property
    def schema(self) -> pa.Schema:
        """The columns that the rows have."""
        reader = self.reader
        # Who has the page map needs no footer.
        _ = reader.pages
        return reader.schema

    def null_count(self, column: str) -> int | None:
        """How many rows are null in a column, as the index knows it; None if it does not."""
        if self.cached is None:
            return None
        columns = self.ref.columns
        return self.cached.directory.null_counts.get(column if columns is None else columns.stored(column))

    def load(self, components: frozenset[str], apart: Path | None = None) -> CachedSplit:
        """Load these components; page locations come along, because hits want their rows. Raises SplitCorrupt.

        The answer tells what is whole, which is less if somebody empties the cache at the same time. With a new
        folder `apart` nobody can; the answer is then good for as long as the folder is there.
        """
        if apart is not None:
            return self.cache.load_apart(self.store, self.ref, components, apart)
        self.cached = loaded = self.cache.load(self.store, self.ref, {*components, PAGES})
        return loaded

    def segment(self, cached: CachedSplit) -> Segment:
        """The segment as it was loaded."""
        known = self._segment
        if known is None or known[0] is not cached:
            on_shelf = _on_shelf(cached.key, self.num_rows, cached.files)
            known = self._segment = cached, Segment(cached.key, on_shelf, cached.whole, cached.directory.tokens)
        return known[1]

    def renew(self) -> None:
        """Load anew what was loaded, from the split itself. Raises SplitCorrupt."""
        had = frozenset() if self.cached is None else self.cached.whole
        self.cache.drop(self.store, self.ref)
        self.load(had)

    def fetch(self, rows: Ints, columns: Sequence[str]) -> pa.Table:
        """These rows, in this order; a column that the split does not have is null of type null."""
        schema = self.schema
        present = [name for name in columns if schema.get_field_index(name) >= 0]
        return with_columns(self.reader.fetch(rows, present), columns, len(rows))

    def all_rows(self, columns: Sequence[str]) -> pa.Table:
        """These columns of every row, deleted ones too, in row order."""
        return self.fetch(np.arange(self.num_rows, dtype=np.int64), columns)

    def rebuilt(self, plan: IndexPlan, wanted: Mapping[str, bool], apart: Path | None = None) -> Segment:
        """A segment made from the rows here and now, for these fields; kept in the cache for the next query.

        `wanted` says of each field whether it gets tokens of any length.

        Raises FileNotFoundError if somebody emptied the cache meanwhile; with a new folder `apart` nobody can.
        """
        fields = tuple(_for_rebuild(f, wanted, self.schema) for f in plan.fields)
        used = IndexPlan(fields)
        facts = [entry_key(self.store, self.ref), used.doc_mapping(), sorted(f.id for f in fields if f.column)]
        key = "b" + hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:39]
        files = self.cache.built(key) if apart is None else None
        if files is None:
            files = self._build(key, used, apart)
        totals = token_totals(memoryview(files["idx"].read_bytes()))
        tokens = {fields[ordinal].id: total for ordinal, total in totals.items()}
        return Segment(key, _on_shelf(key, self.num_rows, files), frozenset(SEGMENT_PARTS), tokens)

    def _build(self, key: str, plan: IndexPlan, apart: Path | None) -> dict[str, Path]:
        # Searches that need no new index, which are nearly all, do not pay for loading the writer.
        from indextables.split.write import HEAP_CEILING, SegmentBuilder

        columns = [f.column for f in plan.fields if f.column is not None]
        rows = self.all_rows(columns) if columns else pa.table({"": pa.nulls(self.num_rows)})
        folder = apart if apart is not None else self.cache.scratch()
        try:
            builder = SegmentBuilder(folder, plan, rows.schema, HEAP_CEILING)
            for batch in rows.to_batches(max_chunksize=8192):
                builder.add(batch)
            built = builder.finish()
            if not built.in_order:
                message = f"{self.ref.key} is too large to be indexed on the fly: reindex it"
                raise SplitError(message, path=self.ref.key)
            files = {n: folder / f"{built.segment}.{n}" for n in SEGMENT_PARTS}
            return files if apart is not None else self.cache.keep_built(key, files)
        finally:
            if apart is None:
                shutil.rmtree(folder, ignore_errors=True)


def _on_shelf(key: str, num_rows: int, files: Mapping[str, Source]) -> ShelfSegment:
    """Named by the bytes: by the key of the split for those in memory, by paths, which hold checksums, for files."""
    places = [f"{part} {source}" for part, source in sorted(files.items()) if isinstance(source, Path)]
    name = hashlib.blake2b("\0".join((key, *places)).encode(), digest_size=16).hexdigest()
    return ShelfSegment(name, num_rows, files)


def with_columns(table: pa.Table, columns: Sequence[str], num_rows: int) -> pa.Table:
    """The columns asked for, in order; those that are missing are null."""
    arrays = [table.column(n) if table.schema.get_field_index(n) >= 0 else pa.nulls(num_rows) for n in columns]
    return pa.table(arrays, names=list(columns)) if columns else table.select([])


def schema_for_rebuild(plan: IndexPlan, wanted: Mapping[str, bool]) -> tuple[IndexPlan, str]:
    """The plan of a rebuilt segment and its Tantivy schema in JSON, without any rows."""
    names = pa.schema([pa.field(f.column, pa.null()) for f in plan.fields if f.column is not None])
    used = IndexPlan(tuple(_for_rebuild(f, wanted, names) for f in plan.fields))
    return used, _tantivy_schema(used.doc_mapping())


@lru_cache(maxsize=64)
def _tantivy_schema(doc_mapping: str) -> str:
    with tempfile.TemporaryDirectory(prefix="indextables-schema-") as folder:
        tantivy.Index(IndexPlan.from_doc_mapping(doc_mapping).schema(), path=folder)
        meta = msgspec.json.decode(Path(folder, "meta.json").read_bytes())
    return msgspec.json.encode(meta["schema"]).decode()


@lru_cache(maxsize=256)
def _plan_of(doc_mapping: str) -> IndexPlan:
    return IndexPlan.from_doc_mapping(doc_mapping)


def _for_rebuild(field: FieldPlan, wanted: Mapping[str, bool], schema: pa.Schema) -> FieldPlan:
    """As the table has it; with tokens of any length where they are wanted."""
    present = field.id in wanted and field.column is not None and schema.get_field_index(field.column) >= 0
    changed = field if present else msgspec.structs.replace(field, column=None)
    analysed = field.kind in ("text", "json") and not field.analyzer.single_term
    return (
        msgspec.structs.replace(changed, token_length=MAX_RAW_BYTES) if analysed and wanted.get(field.id) else changed
    )
