"""The check file of a version: totals, set hash, and the checksum of the version file's bytes.

It is advisory: missing, unreadable or belonging to another token, it counts as absent. Where its token is the
version file's, its checksum must be that of the version file's bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import google_crc32c
import msgspec
import pyarrow as pa

from indextables.log.wire.actions import Add
from indextables.log.wire.arrays import int64_values
from indextables.log.wire.codec import VersionContent
from indextables.log.wire.lines import corrupt
from indextables.log.wire.sethash import EMPTY, combine, few_files_hash, set_hash, subtract
from indextables.log.wire.state import TableState

__all__ = [
    "EMPTY_TOTALS",
    "CrcFile",
    "Totals",
    "build_next",
    "check_bytes",
    "crc32c",
    "encode_crc",
    "parse_crc",
    "totals_of",
    "with_few_files",
]

MAX_CRC_BYTES = 64 << 10


class Totals(msgspec.Struct, frozen=True):
    """What the live file set adds up to. `num_records` is None where a file does not tell its rows."""

    size_bytes: int
    num_files: int
    num_records: int | None
    set_hash: str


class CrcFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check file; totals are absent where the writer could not know them."""

    crc32c: int
    token: str | None = None
    tableSizeBytes: int | None = None
    numFiles: int | None = None
    numRecords: int | None = None
    numMetadata: int | None = None
    numProtocol: int | None = None
    setHash: str | None = None

    def totals(self) -> Totals | None:
        """The totals, or None where they are left out."""
        if self.tableSizeBytes is None or self.numFiles is None or self.setHash is None:
            return None
        return Totals(self.tableSizeBytes, self.numFiles, self.numRecords, self.setHash)

    def difference(self, count: int, size: int) -> str:
        """How many files and bytes it says instead of these; empty if they are as many, or it does not say."""
        if self.tableSizeBytes is None or self.numFiles is None:
            return ""
        if (count, size) == (self.numFiles, self.tableSizeBytes):
            return ""
        return f"its check file says {self.numFiles} files and {self.tableSizeBytes} bytes, the log {count} and {size}"


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_DECODER = msgspec.json.Decoder(CrcFile)

EMPTY_TOTALS = Totals(size_bytes=0, num_files=0, num_records=0, set_hash=EMPTY)


def crc32c(data: bytes) -> int:
    """The checksum of a version file as stored."""
    return int(google_crc32c.value(data))


def totals_of(state: TableState) -> Totals:
    """Counted from the live file set."""
    files = state.files
    return Totals(_sum(files, "size") or 0, files.num_rows, _sum(files, "numRecords"), set_hash(files))


def build_next(
    previous: Totals | None, content: VersionContent, stored: bytes, *, removed: pa.Table | None = None
) -> CrcFile:
    """The check file of `content`, whose bytes are `stored`, after a version whose totals are `previous`.

    Every remove must name a live entry, and every entry that an `add` without a vector replaces must be removed by
    name, as all writers of this library do. `removed` holds the entries that are removed, for their sizes and row
    counts; without it they are taken from the removes, which know no row counts. Totals are left out where they cannot
    be known. Version 0 starts from nothing, whatever `previous` is.
    """
    if content.version == 0:
        previous = EMPTY_TOTALS
    totals = None if previous is None else _advanced(previous, content, removed)
    return CrcFile(
        crc32c=crc32c(stored),
        token=content.token,
        tableSizeBytes=totals.size_bytes if totals else None,
        numFiles=totals.num_files if totals else None,
        numRecords=totals.num_records if totals else None,
        numMetadata=1 if totals else None,
        numProtocol=1 if totals else None,
        setHash=totals.set_hash if totals else None,
    )


def encode_crc(crc: CrcFile) -> bytes:
    """The bytes of a check file."""
    return msgspec.json.encode(crc) + b"\n"


def parse_crc(data: bytes) -> CrcFile | None:
    """The check file, or None for bytes that are none: a check file is advisory."""
    if len(data) > MAX_CRC_BYTES:
        return None
    try:
        crc = _DECODER.decode(data)
    except (ValueError, RecursionError):
        return None
    counts = (crc.crc32c, crc.tableSizeBytes, crc.numFiles, crc.numRecords)
    if any(count is not None and count < 0 for count in counts):
        return None
    if crc.setHash is not None and (len(crc.setHash) != 16 or not set(crc.setHash) <= set("0123456789abcdef")):
        return None
    return crc


def check_bytes(crc: CrcFile | None, content: VersionContent, actual: int) -> None:
    """Raises LogCorrupt if the check file carries this version's token and other bytes; `actual` is their crc32c."""
    if crc is None or crc.token is None or crc.token != content.token:
        return
    if actual != crc.crc32c:
        reason = f"its bytes have crc32c {actual}, its check file says {crc.crc32c}"
        raise corrupt(content.version, None, reason)


def _advanced(previous: Totals, content: VersionContent, removed: pa.Table | None) -> Totals | None:
    gone = content.removes if removed is None else removed
    if gone.num_rows != content.removes.num_rows or gone.column("size").null_count:
        return None
    if previous.num_files and _replaces_unnamed(content):
        return None
    records: int | None = previous.num_records
    added, taken = _sum(content.adds, "numRecords"), 0 if gone.num_rows == 0 else None
    if gone.num_rows and "numRecords" in gone.column_names:
        taken = _sum(gone, "numRecords")
    records = None if records is None or added is None or taken is None else records + added - taken
    size = previous.size_bytes + (_sum(content.adds, "size") or 0) - (_sum(gone, "size") or 0)
    count = previous.num_files + content.adds.num_rows - gone.num_rows
    if size < 0 or count < 0 or (records is not None and records < 0):
        return None
    total_hash = combine(subtract(previous.set_hash, set_hash(gone)), set_hash(content.adds))
    return Totals(size, count, records, total_hash)


def _replaces_unnamed(content: VersionContent) -> bool:
    """True if an `add` with a vector may take the place of a live entry that no `remove` of the version names."""
    vectors = content.adds.column("deletionVector")
    if vectors.null_count == len(vectors):
        return False
    paths = content.adds.column("path").filter(vectors.is_valid()).to_pylist()
    return not set(paths) <= set(content.removes.column("path").to_pylist())


def _sum(table: pa.Table, name: str) -> int | None:
    """The sum of a column, 0 for no rows, None if a value is missing."""
    column = table.column(name)
    if column.null_count:
        return None
    # Halves are summed apart, because the sum of numbers below 2^63 need not be below it.
    values = int64_values(column)
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def with_few_files(before: Totals, adds: Sequence[Add]) -> Totals:
    """The totals after `adds`, none of which replaces a live file."""
    records = before.num_records
    for add in adds:
        records = None if records is None or add.numRecords is None else records + add.numRecords
    return Totals(
        size_bytes=before.size_bytes + sum(add.size for add in adds),
        num_files=before.num_files + len(adds),
        num_records=records,
        set_hash=combine(before.set_hash, f"{few_files_hash(adds):016x}"),
    )
