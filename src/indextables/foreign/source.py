"""Tells whose table lies at a place that has no log of ours, and gives it as something to read from."""

from __future__ import annotations

import re
from itertools import islice
from typing import Protocol

import pyarrow as pa

from indextables.env import Env
from indextables.errors import NotSupported, TableNotFound
from indextables.foreign.delta import DELTA_DIR, DeltaTable
from indextables.foreign.hive import is_hidden
from indextables.foreign.iceberg import METADATA_DIR, IcebergTable, is_metadata
from indextables.foreign.parquet import ParquetFolder
from indextables.foreign.snapshot import ForeignSnapshot
from indextables.storage.folders import unlisted
from indextables.storage.store import LOG_DIR, ObjectMeta

__all__ = ["ForeignSource", "find_source"]

_ENDINGS = (".parquet", ".parq", ".pq")
_SPLIT = ".split"
_LOOKED_AT = 10_000
_REMAINS = re.compile(r"(.*/)?(deletion_vector_[0-9a-f-]{36}\.bin|_change_data/.*\.parquet)")
"""What Delta writes beside its data files: vectors of deleted rows, and files of changes."""
_OTHER_LOGS = frozenset({LOG_DIR.rstrip("/"), DELTA_DIR.rstrip("/")})


class ForeignSource(Protocol):
    """A table of another system."""

    @property
    def system(self) -> str:
        """Who wrote it."""
        ...

    def snapshot(self, version: int | None = None, timestamp_ms: int | None = None) -> ForeignSnapshot:
        """A version: by its number, the newest at a time, or the newest of all."""
        ...

    def history(self, limit: int | None = None) -> pa.Table:
        """The commits, newest first, in the columns of our own history."""
        ...


def find_source(env: Env) -> ForeignSource | None:
    """The table of another system at the root of the store; None if there is none, or anything of a log of ours.

    Raises StoreError.
    """
    if _has_any(env, LOG_DIR):
        return None
    if _has_any(env, DELTA_DIR):
        return DeltaTable(env)
    if any(is_metadata(meta.key) for meta in env.store.list_from(METADATA_DIR)):
        return IcebergTable(env)
    files = _parquet_files(env)
    return ParquetFolder(env, files, lambda: _parquet_files(env)) if files else None


def _parquet_files(env: Env) -> list[ObjectMeta]:
    """The Parquet files below the root, if they are a table: none where there are splits, or a log by now.

    Raises NotSupported for a folder with tables of Iceberg or Hudi in it, or with remains of one of Delta: not all rows
    of their files are rows of a table; and for one with links, behind which rows may be that no listing tells.
    Raises TableNotFound beside a log of Delta that was emptied, and where another table lies below.
    """
    files: list[ObjectMeta] = []
    for number, meta in enumerate(env.store.list_from("")):
        if number >= _LOOKED_AT and not files:
            # A folder of something else, which may be large: it is not searched through.
            return []
        parts = meta.key.split("/")
        if meta.key.endswith(_SPLIT) or parts[0] in _OTHER_LOGS:
            return []
        if not _OTHER_LOGS.isdisjoint(parts[1:-1]):
            raise _other_table(env, meta.key, parts)
        if _REMAINS.fullmatch(meta.key):
            message = (
                f"{env.store.url} holds remains of a Delta table ({meta.key}), whose log is gone: nothing tells which "
                "rows of its files are deleted. Restore the folder _delta_log, or copy the files that are to be read "
                "into a folder of their own"
            )
            raise NotSupported(message, url=env.store.url, path=meta.key)
        if _is_managed(meta.key, parts):
            message = (
                f"{env.store.url} holds a table of Iceberg or Hudi ({meta.key}), which is not read from here: open the "
                "folder of the Iceberg table itself; copy the rows of Hudi with the library that wrote them"
            )
            raise NotSupported(message, url=env.store.url, path=meta.key)
        if meta.key.lower().endswith(_ENDINGS) and not is_hidden(meta.key):
            files.append(meta)
    if env.store.is_local:
        _check_unlisted(env, has_files=bool(files))
    return files


def _other_table(env: Env, key: str, parts: list[str]) -> TableNotFound:
    place = next(number for number, part in enumerate(parts) if number and part in _OTHER_LOGS)
    whose, where = ("Delta" if parts[place] + "/" == DELTA_DIR else "IndexTables"), "/".join(parts[:place])
    message = (
        f"{env.store.url} is not read as a folder of Parquet files, as a table of {whose} lies in {where}: not all "
        f"files below that are rows. Open {env.store.url}/{where}, or move the other Parquet files into a folder of "
        "their own and open that"
    )
    return TableNotFound(message, url=env.store.url, path=key)


def _check_unlisted(env: Env, *, has_files: bool) -> None:
    """Raises NotSupported for links to what may hold rows, TableNotFound for files beside an emptied log of Delta."""
    for key, is_link in islice(unlisted(env.store.url), None if has_files else _LOOKED_AT):
        is_part = key.endswith("/") and (has_files or "=" in key)
        if is_link and (is_part or key.lower().endswith(_ENDINGS)) and not is_hidden(key.rstrip("/")):
            message = (
                f"{key} below {env.store.url} is a symbolic link, and those are not followed, so that its rows would "
                "be missing: put the files themselves there, or open the folder that they are in"
            )
            raise NotSupported(message, url=env.store.url, path=key)
        if has_files and key.endswith("/") and key.split("/")[-2] + "/" == DELTA_DIR:
            message = (
                f"there is no Delta table at {env.store.url}: {key} holds no version, and without it nothing tells "
                "which of the files are rows. Restore it, or copy the files that are to be read into another folder"
            )
            raise TableNotFound(message, url=env.store.url, path=key)


def _is_managed(key: str, parts: list[str]) -> bool:
    return (key.endswith(".metadata.json") and "metadata" in parts[:-1]) or ".hoodie" in parts


def _has_any(env: Env, folder: str) -> bool:
    return next(iter(env.store.list_from(folder)), None) is not None
