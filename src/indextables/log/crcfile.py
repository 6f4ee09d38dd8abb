"""The check file of a version: totals, set hash, and the checksum of the version file's bytes."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from indextables.log.codec import VersionContent
from indextables.log.state.base import TableState

__all__ = ["CrcFile", "Totals", "build_next", "encode_crc", "parse_crc", "totals_of"]


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
        raise NotImplementedError


def totals_of(state: TableState) -> Totals:
    """Counted from the live file set."""
    raise NotImplementedError


def build_next(
    previous: Totals | None, content: VersionContent, stored: bytes, *, removed: pa.Table | None = None
) -> CrcFile:
    """The check file of `content`, whose bytes are `stored`, after a version whose totals are `previous`.

    `removed` holds the live rows that its removes take away, for their row counts.
    """
    raise NotImplementedError


def encode_crc(crc: CrcFile) -> bytes:
    """The bytes of a check file."""
    raise NotImplementedError


def parse_crc(data: bytes) -> CrcFile | None:
    """The check file, or None for bytes that are none: a check file is advisory."""
    raise NotImplementedError
