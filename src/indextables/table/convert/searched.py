"""Copies the rows of another system's table for a search: its own indexes, where it has any, cannot be asked."""

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from indextables.env import Env
from indextables.log.care import open_log
from indextables.log.read import Log, Snapshot
from indextables.table.convert.source import open_source
from indextables.table.convert.verb import ConvertRequest, convert
from indextables.table.environment import open_env
from indextables.table.running import Threads

__all__ = ["RowsToSearch", "copy_of_peer", "copy_to_search"]

_LOGGER = logging.getLogger("indextables")
_THREADS = 4


class RowsToSearch(NamedTuple):
    """All rows of a version as a table of ours, every column of texts searched by words; `remove` deletes it."""

    version: int
    log: Log
    remove: Callable[[], object]


def copy_to_search(env: Env, version: int, verb: str = "indextables.convert") -> RowsToSearch:
    """Copy a version into a folder of this machine, and warn that `verb` does it for good. Raises as `convert`."""
    source = open_source(env, version)
    _LOGGER.warning(
        "a search in a table of %s copies all its rows first (%s): copy them for good with %s, and search there",
        source.system,
        source.url,
        verb,
    )
    texts = [field.name for field in source.schema if pa.types.is_string(field.type)]
    folder = tempfile.mkdtemp(prefix="indextables-search-")
    remove = functools.partial(shutil.rmtree, folder, ignore_errors=True)
    try:
        target = open_env(Path(folder) / "copy")
        request = ConvertRequest(version=version, partition_by=(), indexing=dict.fromkeys(texts, "text"))
        log = open_log(target)
        convert(env, log, request, runner=Threads(target, width=_THREADS))
    except BaseException:
        remove()
        raise
    return RowsToSearch(version, log, remove)


def copy_of_peer(env: Env, snapshot: Snapshot) -> tuple[Log, Snapshot, Callable[[], object]]:
    """A version of a table of IndexTables4Spark, for `Searchers`, and what removes it. Raises as `convert`."""
    _, log, remove = copy_to_search(env, snapshot.version)
    return log, log.snapshot(), remove
