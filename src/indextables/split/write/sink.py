"""Puts the index between the rows and the footer of a finished Parquet file: the last step of writing.

What needs the rows alone is done by `take_apart`, which a caller can do while the index is still being made.

pyarrow has written rows, page index and footer. The footer is cut off, the index section appended, and the footer put
back with the pointer filled in. Everything the footer points at lies before the cut, so that no offset changes.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.errors import InvariantViolated
from indextables.split.file import Directory, IndexPointer, layout, thrift
from indextables.split.file.page_map import build_page_map
from indextables.split.index import IndexPlan
from indextables.split.write.index import BuiltSegment

__all__ = ["FinishedFile", "TakenApart", "finish_file", "take_apart"]

_MAGIC = b"PAR1"


class TakenApart(msgspec.Struct, frozen=True):
    """What a finished Parquet file is made of: its footer, where that begins, and the map of its pages, packed."""

    footer: bytes
    footer_start: int
    pages: layout.StoredPart | None


class FinishedFile(msgspec.Struct, frozen=True):
    """A verified split on local disk."""

    size: int
    footer_start: int
    footer_end: int
    index_start: int
    range1_length: int
    uncompressed_bytes: int
    directory: Directory
    component_bytes: dict[str, int]


def finish_file(
    path: Path,
    taken: TakenApart,
    num_rows: int,
    plan: IndexPlan,
    built: BuiltSegment | None,
    *,
    split_id: str,
    null_counts: dict[str, int],
) -> FinishedFile:
    """Make a split of the Parquet file at `path`, in place. Raises InvariantViolated if it does not read back.

    `taken` is what `take_apart` made of that file.
    """
    footer, footer_start = taken.footer, taken.footer_start
    parts = list(built.parts) if built is not None else []
    if taken.pages is not None:
        parts.append(taken.pages)
    base = Directory(
        num_rows=num_rows,
        tantivy=built.tantivy if built is not None else "",
        index_format=built.index_format if built is not None else 0,
        segment=built.segment if built is not None else "",
        schema=built.schema if built is not None else "[]",
        doc_mapping=plan.doc_mapping(),
        components=(),
        tokens=built.tokens if built is not None else {},
        incomplete=built.incomplete if built is not None else {},
        null_counts=null_counts,
        id=split_id,
    )
    pieces, directory, range1 = layout.encode_section(base, parts)
    length = sum(memoryview(piece).nbytes for piece in pieces)
    pointer = IndexPointer(start=footer_start, length=length, range1=range1)
    filled = layout.fill_key(footer, num_rows, pointer, split_id)
    with path.open("r+b") as file:
        file.truncate(footer_start)
        file.seek(footer_start)
        file.writelines(pieces)
        file.write(filled + len(filled).to_bytes(4, "little") + _MAGIC)
    size = path.stat().st_size
    uncompressed = _verify(path, directory, pointer)
    return FinishedFile(
        size=size,
        footer_start=footer_start + length,
        footer_end=footer_start + length + len(filled),
        index_start=footer_start,
        range1_length=range1,
        uncompressed_bytes=uncompressed,
        directory=directory,
        component_bytes={
            "rows": size - length,
            **{c.name: c.length for c in directory.components if c.name != "store"},
            "directory": length - sum(c.length for c in directory.components),
        },
    )


def take_apart(path: Path) -> TakenApart:
    """The footer of a finished Parquet file and the map of its pages."""
    with path.open("rb") as file:
        # Never closed by hand: a profiler, or the traceback of an error, may hold a piece of it for longer than we do.
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    length = int.from_bytes(view[-8:-4], "little")
    start = len(view) - 8 - length
    footer = bytes(view[start:-8])
    meta, _ = thrift.decode_struct(footer)
    index_start = _page_index_start(meta, start)
    index = bytes(view[index_start:start])
    pages = build_page_map(meta, index, index_start, view)
    packed = None if pages is None else layout.pack(layout.PAGES, msgspec.msgpack.encode(pages))
    return TakenApart(footer, start, packed)


def _page_index_start(meta: thrift.ThriftStruct, footer_start: int) -> int:
    offsets = [
        chunk[number].value
        for group in meta[4].value.items
        for chunk in group[1].value.items
        for number in (4, 6)
        if number in chunk
    ]
    return int(min(offsets, default=footer_start))


def _verify(path: Path, directory: Directory, pointer: IndexPointer) -> int:
    """Read the file back: its footer as any Parquet reader does, its directory as ours. Returns its raw size."""
    with pa.OSFile(str(path)) as source, pq.ParquetFile(source) as opened:
        meta = opened.metadata
        rows, raw = meta.num_rows, sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        key = layout.decode_key(meta.metadata[layout.KEY], str(path))
        section = source.read_at(pointer.range1, pointer.start)
    read = layout.decode_directory(section, str(path), section_length=pointer.length)
    if rows != directory.num_rows or key.index != pointer or key.id != directory.id or read != directory:
        message = f"a split of {directory.num_rows} rows does not read back: it was not put; please report this"
        raise InvariantViolated(message)
    return int(raw)
