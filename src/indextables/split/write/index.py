"""The Tantivy half of a split: one segment, whose document ids are the row numbers.

That is not automatic. A fresh folder, one indexing thread, one commit and a heap that is never full give it: the heap
is a ceiling of 4 GB, and the writer above rolls before the estimate reaches its budget. It is verified all the same.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from pathlib import Path

import msgspec
import pyarrow as pa
import tantivy

from indextables.split.file import layout
from indextables.split.index import IndexPlan, native_write, segment
from indextables.split.write.feed import Feeder

__all__ = ["HEAP_CEILING", "BuiltSegment", "SegmentBuilder"]

HEAP_CEILING = 4_000_000_000
"""What Tantivy may use before it starts a second segment: a ceiling, not an allocation."""


_READ_WHOLE = 64 << 10
"""Bytes of a file that are read sooner than mapped."""


class BuiltSegment(msgspec.Struct, frozen=True):
    """A finished segment: its components ready to be stored, and what the directory says about it.

    `in_order` is False if Tantivy made something else than one segment of exactly the rows: it must not be used.
    """

    in_order: bool
    segment: str = ""
    schema: str = "[]"
    tantivy: str = ""
    index_format: int = 0
    parts: list[layout.StoredPart] = []
    tokens: dict[str, int] = {}
    incomplete: dict[str, list[str]] = {}


class SegmentBuilder:
    """Feeds rows to Tantivy in a folder of its own. Use once."""

    def __init__(self, folder: Path, plan: IndexPlan, schema: pa.Schema, heap_ceiling: int) -> None:
        self._folder = folder
        self._plan = plan
        self._feeder = Feeder(plan, schema)
        self._rows = 0
        folder.mkdir(mode=0o700)
        with native_write("an index cannot be created"):
            self._index = tantivy.Index(plan.schema(), path=str(folder), reuse=False)
            plan.register_analyzers(self._index)
            self._writer = self._index.writer(heap_ceiling, 1)

    @property
    def heap_bytes(self) -> int:
        """An estimate, on the high side, of the memory that the segment takes until it is finished."""
        return self._feeder.heap_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Index the rows of a batch, in order. Raises SplitError where Tantivy refuses a row."""
        lines = self._feeder.lines(batch)
        add = self._writer.add_json
        with native_write("a row cannot be indexed"):
            for line in lines:
                add(line)
        self._rows += batch.num_rows

    def finish(self) -> BuiltSegment:
        """Commit, verify and pack. Raises SplitError."""
        with native_write("an index cannot be written"):
            self._writer.commit()
            self._writer.wait_merging_threads()
        meta = msgspec.json.decode((self._folder / "meta.json").read_bytes())
        segments = meta["segments"]
        if len(segments) != 1 or segments[0]["max_doc"] != self._rows or segments[0]["deletes"] is not None:
            return BuiltSegment(in_order=False)
        return self._pack(segments[0]["segment_id"].replace("-", ""), meta["schema"])

    def abandon(self) -> None:
        """Stop indexing; the folder is the owner's to delete."""
        # A writer that has committed is consumed, and says so with a RuntimeError.
        with contextlib.suppress(ValueError, RuntimeError):
            self._writer.rollback()

    def _pack(self, segment_id: str, schema: object) -> BuiltSegment:
        parts: list[layout.StoredPart] = []
        totals: dict[int, int] = {}
        version = None
        for name in layout.SEGMENT_PARTS:
            data = _bytes_of(self._folder / f"{segment_id}.{name}")
            version = segment.file_version(data, name)
            tail = bytes(data[segment.tail_start(data, name) :])
            if name == "idx":
                totals = segment.token_totals(data)
            if name == "store":
                parts.append(layout.StoredPart(name, b"", len(data), "none", tail))
            else:
                parts.append(layout.pack(name, data, tail))
        fields = self._plan.fields
        return BuiltSegment(
            in_order=True,
            segment=segment_id,
            schema=msgspec.json.encode(schema).decode(),
            tantivy=version.release if version else "",
            index_format=version.index_format_version if version else 0,
            parts=parts,
            tokens={fields[ordinal].id: total for ordinal, total in totals.items()},
            incomplete={name: sorted(reasons) for name, reasons in self._feeder.gaps.items()},
        )


def _bytes_of(path: Path) -> memoryview:
    """The bytes of a file: read where they are few, mapped where they are many, for as long as somebody holds them."""
    with path.open("rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size <= _READ_WHOLE:
            return memoryview(file.read())
        # Never closed by hand: a profiler, or the traceback of an error, may hold a piece of it for longer than we do.
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
