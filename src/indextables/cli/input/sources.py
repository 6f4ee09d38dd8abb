"""Opens what a command reads: files, compressed files, pipes and standard input; and finds files by glob and folder."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from indextables.cli.input.blocks import first_bytes
from indextables.cli.input.reasons import reason_of
from indextables.errors import InvalidArgument

__all__ = [
    "FORMATS",
    "STDIN",
    "Format",
    "Unreadable",
    "check_files",
    "check_readable",
    "expand",
    "file_identity",
    "format_of",
    "head_of",
    "is_compressed",
    "is_stream",
    "open_bytes",
    "open_stream",
    "parquet_source",
]

Format = Literal["jsonl", "csv", "parquet", "text"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "parquet", "text")
STDIN = "-"

_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".split": "parquet",
}
_LINES = (".log", ".txt")
"""Names of files that hold lines of text, or JSON lines: their first byte tells."""
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_ROTATED = re.compile(r"[.-](?:[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2})$")
"""What a rotation of logs puts behind the name: `access.log.1`, `access.log-20260101`."""
_SAMPLE_BYTES = 16 * 2**20


class Unreadable(InvalidArgument):
    """A file cannot be read as it is now: it may be one that is still being written."""

    def __init__(self, name: str, cause: OSError) -> None:
        super().__init__(f"{name}: {reason_of(cause)}", path=name)


def format_of(name: str, given: str | None) -> Format:
    """The format of a file by `given` or by its name. Raises InvalidArgument if neither tells.

    And Unreadable if its first byte would tell and cannot be read.
    """
    if given is not None:
        for known in FORMATS:
            if given == known:
                return known
        raise InvalidArgument(f"format {given!r} is not one of {', '.join(FORMATS)}", format=given)
    if Path(name).is_dir():
        raise InvalidArgument(f"{name}: it is a directory; give the files in it", path=name)
    suffix = _suffix(name)
    found = _SUFFIXES.get(suffix)
    if found is None and suffix in _LINES:
        return "jsonl" if _is_there(name) and _first_byte(name) == b"{" else "text"
    if found is None:
        message = f"{name}: its name does not tell the format; give --format {' | '.join(FORMATS)}"
        raise InvalidArgument(message, path=name)
    return found


def _first_byte(name: str) -> bytes:
    try:
        return head_of(name, 4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    except OSError as cause:
        raise Unreadable(name, cause) from cause


def _suffix(name: str) -> str:
    """The end of a name that tells the format, below those of compression and of the rotation of logs."""
    path = Path(name)
    if path.suffix.lower() in _COMPRESSED:
        path = path.with_suffix("")
    rotated = _ROTATED.sub("", path.name)
    return Path(rotated).suffix.lower() or path.suffix.lower()


def expand(names: Sequence[str], *, may_be_none: bool = False) -> list[str]:
    """The files that are meant: a glob stands for what it matches, a folder for all files below it, in their order.

    Hidden files and folders are left out. Raises InvalidArgument for a glob and a folder without files, unless there
    may be none.
    """
    found: list[str] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            inside = sorted(_below(path))
            if not inside and not may_be_none:
                raise InvalidArgument(f"{name}: the folder has no files", path=name)
            found += inside
        elif name == STDIN or path.exists() or not glob.has_magic(name):
            found.append(name)
        else:
            matching = sorted(one for one in glob.glob(name, recursive=True) if not Path(one).is_dir())  # noqa: PTH207 - a name may be absolute
            if not matching and not may_be_none:
                raise InvalidArgument(f"{name}: no file has such a name", path=name)
            found += matching
    return found


def _below(folder: Path) -> list[str]:
    """Every file below a folder that is not hidden."""
    found = []
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        found += [str(Path(top, one)) for one in files if not one.startswith(".")]
    return found


def check_readable(names: Sequence[str]) -> None:
    """Raises InvalidArgument if one of these files is not there or may not be read. Touches no stream."""
    for name in names:
        try:
            if not is_stream(name):
                Path(name).open("rb").close()
        except OSError as cause:
            raise _unreadable(name, cause) from cause


def check_files(names: Sequence[str]) -> None:
    """Raises InvalidArgument if one of these is not a file whose bytes can be read again."""
    for name in names:
        if is_stream(name) and not Path(name).is_file():
            raise InvalidArgument(f"--once needs a file: what comes by {name} can be read only once")


def file_identity(name: str) -> str:
    """A name for the bytes of a file, the same wherever it lies. Raises InvalidArgument if it cannot be read."""
    try:
        with Path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as cause:
        raise _unreadable(name, cause) from cause


def _unreadable(name: str, cause: OSError) -> InvalidArgument:
    return InvalidArgument(f"{name}: {reason_of(cause)}", path=name)


def parquet_source(name: str) -> Any:
    """What Arrow's reader of Parquet can open."""
    return pa.BufferReader(_stream(name).read()) if is_stream(name) else name


def open_stream(name: str) -> tuple[Any, Callable[[], int], int | None]:
    """The bytes of a file, decompressed, how far into it they have come, and its size if it has one.

    Raises StopIteration for a stream without a byte, and OSError.
    """
    if is_stream(name):
        if not head_of(name):
            raise StopIteration
        return pa.PythonFile(_Rejoined(_heads.pop(name), _stream(name)), mode="r"), lambda: 0, None
    path = Path(name)
    file, stream = open_bytes(name)
    return stream, lambda: 0 if file.closed else int(file.tell()), path.stat().st_size


def open_bytes(name: str) -> tuple[Any, Any]:
    """A file, and its bytes decompressed by its suffix. Raises OSError."""
    file = pa.OSFile(name)
    compression = _COMPRESSED.get(Path(name).suffix.lower())
    return file, file if compression is None else pa.CompressedInputStream(file, compression)


def is_compressed(name: str) -> bool:
    """Whether the name of a file says that it is compressed."""
    return Path(name).suffix.lower() in _COMPRESSED


_heads: dict[str, bytes] = {}
"""What was read ahead of streams, which cannot be read twice."""


def _is_there(name: str) -> bool:
    return name != STDIN and Path(name).is_file() and os.access(name, os.R_OK)


def is_stream(name: str) -> bool:
    """Standard input, a pipe, a device, a file of the kernel: it has no size and may come only once."""
    path = Path(name)
    return name == STDIN or (path.exists() and not path.is_dir() and not (path.is_file() and path.stat().st_size))


@lru_cache(maxsize=64)
def _stream(name: str) -> Any:
    raw = sys.stdin.buffer if name == STDIN else Path(name).open("rb", buffering=0)  # noqa: SIM115 - it is read on
    try:
        first = first_bytes(raw, 4)
    except OSError:
        raw.close()
        raise
    compression = next((kind for magic, kind in _MAGIC.items() if first.startswith(magic)), None)
    rejoined = _Rejoined(first, raw)
    if compression is None:
        return rejoined
    return pa.CompressedInputStream(pa.PythonFile(rejoined, mode="r"), compression)


class _Rejoined(io.RawIOBase):
    """Bytes that were read ahead, then the rest of the stream."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._head.read(size)
        if size < 0:
            return data + bytes(self._rest.read(size))
        return data or bytes(self._rest.read(size))


def head_of(name: str, size: int = _SAMPLE_BYTES) -> bytes:
    """The first whole lines of a file, decompressed. Raises OSError."""
    if is_stream(name):
        head = _heads[name] = _heads.get(name) or first_bytes(_stream(name), _SAMPLE_BYTES)
    else:
        _, stream = open_bytes(name)
        with stream:
            head = first_bytes(stream, size)
    if len(head) < size:
        return head
    return head[: head.rfind(b"\n") + 1] or head
