"""Remembers in the log what was taken of the source that a table is converted from. Pure.

The memory is a domain of the table, so that of two conversions at the same time one commits, and a restore sets free
what it takes away.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from indextables.errors import LogCorrupt
from indextables.log.wire import DomainMetadata

__all__ = ["CONVERTED", "ConvertedFrom", "file_marks", "marks_in", "marks_text", "memory_of", "turned_back"]

CONVERTED = "indextables.convert"
"""The domain."""

_MARK_BYTES = 8


class ConvertedFrom(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source, and how much of it the table holds.

    `columns` are its columns by name, each with the name that files have for it. `files` are the marks of the files
    that were taken, where versions do not tell (a folder of Parquet files).
    """

    system: str
    id: str
    url: str
    version: int
    columns: dict[str, str] = {}
    files: str = ""

    def domain(self) -> DomainMetadata:
        """As the log holds it."""
        return DomainMetadata(CONVERTED, msgspec.json.encode(self).decode())


_READ = msgspec.json.Decoder(ConvertedFrom)


def memory_of(domains: Mapping[str, DomainMetadata]) -> ConvertedFrom | None:
    """What the table remembers; None if it was not converted. Raises LogCorrupt for what is no memory."""
    told = domains.get(CONVERTED)
    if told is None or told.removed:
        return None
    try:
        return _READ.decode(told.configuration)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"the domain {CONVERTED} of the table is not understood: {error}; convert into a new place"
        raise LogCorrupt(message, domain=CONVERTED) from error


def turned_back(then: Mapping[str, DomainMetadata], now: Mapping[str, DomainMetadata]) -> DomainMetadata | None:
    """The memory for a table that becomes what it was with `then`; None if it stays."""
    was, held = then.get(CONVERTED), now.get(CONVERTED)
    if was == held:
        return None
    return was if was is not None else DomainMetadata(CONVERTED, "", removed=True)


def file_marks(files: Iterable[tuple[str, int, int]]) -> dict[bytes, str]:
    """For each (path, size, time) a mark that tells it from others, with the path."""
    return {
        hashlib.blake2b(f"{path}\n{size}\n{time}".encode(), digest_size=_MARK_BYTES).digest(): path
        for path, size, time in files
    }


def marks_in(text: str) -> set[bytes]:
    """The marks that a memory holds. Raises LogCorrupt."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise LogCorrupt(f"the domain {CONVERTED} of the table is damaged: {error}", domain=CONVERTED) from error
    return {data[at : at + _MARK_BYTES] for at in range(0, len(data), _MARK_BYTES)}


def marks_text(marks: Iterable[bytes]) -> str:
    """Marks as a memory holds them."""
    return base64.b64encode(b"".join(sorted(marks))).decode()
