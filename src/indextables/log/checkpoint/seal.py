"""Seals a file with a checksum that it carries itself: edited bytes are no checkpoint, even if they still make sense.

The mark `indextables.crc32c=` and eight hexadecimal digits stand somewhere in the bytes. The digits are the CRC-32C of
all bytes with eight dashes in the place of the digits. A file without a mark is of a writer that knew none.
"""

from __future__ import annotations

import re

import google_crc32c

from indextables.errors import CheckpointCorrupt

__all__ = ["BLANK", "check_seal", "seal"]

BLANK = b"indextables.crc32c=--------"
"""What a writer puts into the file before it is sealed."""

_MARK = re.compile(rb"indextables\.crc32c=([0-9a-f]{8}|-{8})")
_DASHES = b"--------"


def seal(data: bytes) -> bytes:
    """The bytes with their checksum filled into the last blank that they have."""
    at = data.rindex(BLANK) + len(BLANK) - len(_DASHES)
    return data[:at] + b"%08x" % int(google_crc32c.value(data)) + data[at + len(_DASHES) :]


def check_seal(data: bytes, name: str) -> None:
    """Raises CheckpointCorrupt if the file is sealed and is not, byte for byte, the one that was written."""
    marks = [match.span(1) for match in _MARK.finditer(data)]
    # A text of the table may look like a mark: one that fits is enough. One that is blank was copied from another file.
    if marks and not any(_fits(data, start, end) for start, end in reversed(marks)):
        reason = "its bytes do not match their checksum"
        message = f"{name} is not a checkpoint that was written: {reason}"
        raise CheckpointCorrupt(message, path=name, reason=reason)


def _fits(data: bytes, start: int, end: int) -> bool:
    if data[start:end] == _DASHES:
        return False
    told = google_crc32c.value(data[:start])
    told = google_crc32c.extend(told, _DASHES)
    return int(google_crc32c.extend(told, data[end:])) == int(data[start:end], 16)
