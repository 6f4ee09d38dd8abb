"""Decides what a conversion takes: which files of the source, in which tasks, or why none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import InvalidArgument, NotSupported, VersionExpired
from indextables.lazy import pc
from indextables.table.convert.source import Opened
from indextables.table.convert.unit import WantedFile
from indextables.table.writing import ConvertedFrom, file_marks, marks_in, marks_text

if TYPE_CHECKING:
    from indextables.foreign import AddedFile

__all__ = ["Chosen", "check_same_source", "everything", "grouped", "named_system", "new_files", "wanted_of"]

_LEAST_BYTES = 32 << 20
_MOST_BYTES = 512 << 20

SYSTEMS = {
    "delta": "Delta",
    "iceberg": "Iceberg",
    "parquet": "Parquet",
    "indextables4spark": "IndexTables4Spark",
}
_BY_FILES = frozenset({"Iceberg", "Parquet"})
"""Systems whose versions may not tell what is new: the files that were taken are remembered."""


class Chosen(msgspec.Struct, frozen=True):
    """The files to take, by the version in which they are live, and what the table remembers afterwards."""

    files: dict[int, list[str]]
    memory: ConvertedFrom

    @property
    def count(self) -> int:
        return sum(len(paths) for paths in self.files.values())


def everything(source: Opened) -> Chosen:
    """A first conversion takes all."""
    return Chosen({source.version: source.files["path"].to_pylist()}, _memory(source, _marks(source)))


def check_same_source(source: Opened, held: ConvertedFrom | None, *, has_rows: bool, url: str) -> None:
    """Raises InvalidArgument where the target holds rows of its own, or of another source."""
    if held is None:
        if has_rows:
            message = (
                f"the table at {url} holds rows that are not converted from {source.url}: nothing was written. Convert "
                "into a new place, and append one to the other"
            )
            raise InvalidArgument(message, url=url, source=source.url)
        return
    identity = _identity(source)
    if (held.system, held.id) != (source.system, identity):
        message = (
            f"the table at {url} is converted from the table of {held.system} at {held.url}, and the one of "
            f"{source.system} at {source.url} is another: nothing was written. Convert it into a place of its own"
        )
        raise InvalidArgument(message, url=url, source=source.url)


def new_files(source: Opened, held: ConvertedFrom) -> Chosen | None:
    """What the source got since the last time; None if nothing. Raises NotSupported where rows left it meanwhile."""
    _check_columns(source, held)
    if source.system in _BY_FILES:
        return _new_of_folder(source, held, source.added_since(held.version))
    if source.version < held.version:
        message = (
            f"the table holds version {held.version} of {source.url}, which is newer than {source.version}: nothing "
            "was written"
        )
        raise InvalidArgument(message, source=source.url, version=source.version)
    if source.version == held.version:
        return None
    try:
        added, lost = source.added_since(held.version) or ([], source.version)
    except VersionExpired as gone:
        raise _anew(source, held, str(gone)) from gone
    if lost is not None:
        raise _anew(source, held, f"version {lost} took rows away or replaced files")
    return Chosen(_by_version(source, added), _memory(source))


def wanted_of(source: Opened, paths: Sequence[str]) -> pa.Table:
    """The files of these paths, in the order of their rows."""
    files = source.files
    return files.filter(pc.is_in(files["path"], value_set=pa.array(paths, pa.string())))


def grouped(source: Opened, files: pa.Table, width: int) -> list[list[WantedFile]]:
    """The files in runs of about equal bytes, one for each task; those of a partition go together."""
    if source.partition_columns and files.num_rows:
        keys = [str(sorted((pairs or []), key=str)) for pairs in files["partitionValues"].to_pylist()]
        files = files.take(pc.array_sort_indices(pa.array(keys)))
    sizes = np.asarray(files["size"].to_pylist(), np.int64)
    total = int(sizes.sum())
    share = min(max(total // max(width, 1), _LEAST_BYTES), _MOST_BYTES)
    has_times = source.system in _BY_FILES
    times = files["modificationTime"].to_pylist() if has_times else [None] * files.num_rows
    found: list[list[WantedFile]] = []
    before, number = 0, -1
    for path, size, time in zip(files["path"].to_pylist(), sizes.tolist(), times, strict=True):
        if before // share != number:
            found.append([])
            number = before // share
        found[-1].append(WantedFile(path, size, time))
        before += size
    return found


def named_system(word: str | None) -> str | None:
    """The system that a word means. Raises InvalidArgument, and NotSupported for one that is known and not read."""
    if word is None:
        return None
    if word.lower() == "hudi":
        message = "tables of Hudi are not read here: write their rows as Parquet or Delta, and convert that"
        raise NotSupported(message, system=word)
    if word.lower() not in SYSTEMS:
        raise InvalidArgument(f"a source is one of {', '.join(SYSTEMS)}, not {word!r}")
    return SYSTEMS[word.lower()]


def _by_version(source: Opened, added: Sequence[AddedFile]) -> dict[int, list[str]]:
    """Files by a version in which they are live: the one that is converted, if they still are."""
    live = set(source.files["path"].to_pylist())
    files: dict[int, list[str]] = {}
    for version, path in dict.fromkeys(added):
        files.setdefault(source.version if path in live else version, []).append(path)
    return files


def _new_of_folder(
    source: Opened, held: ConvertedFrom, told: tuple[list[AddedFile], int | None] | None
) -> Chosen | None:
    """By what the versions tell, where they do, else by the files that are there now."""
    marks, taken = _marks(source), marks_in(held.files)
    if told is not None:
        same = source.version == held.version
        return None if same else Chosen(_by_version(source, told[0]), _memory(source, marks))
    if taken - marks.keys():
        raise _anew(source, held, "files that were taken are gone, were written anew, or lost rows")
    paths = [path for mark, path in marks.items() if mark not in taken]
    return Chosen({source.version: paths}, _memory(source, marks)) if paths else None


def _check_columns(source: Opened, held: ConvertedFrom) -> None:
    """A column that was renamed or dropped in the source would go on as two columns here."""
    for name, physical in held.columns.items():
        if source.columns.get(name) != physical:
            raise _anew(source, held, f"its column {name} was renamed or dropped")


def _anew(source: Opened, held: ConvertedFrom, reason: str) -> NotSupported:
    message = (
        f"the table of {source.system} at {source.url} has changed since version {held.version}, which was converted: "
        f"{reason}. Nothing was written. Convert it anew, into a new place"
    )
    return NotSupported(message, source=source.url, reason=reason)


def _identity(source: Opened) -> str:
    return source.metadata.id or source.url


def _memory(source: Opened, marks: Mapping[bytes, str] | None = None) -> ConvertedFrom:
    text = marks_text(marks) if marks else ""
    return ConvertedFrom(source.system, _identity(source), source.url, source.version, source.columns, text)


def _marks(source: Opened) -> dict[bytes, str]:
    """Where the version does not tell."""
    if source.system not in _BY_FILES:
        return {}
    files = source.files
    return file_marks(zip(*(files[name].to_pylist() for name in ("path", "size", "modificationTime")), strict=True))
