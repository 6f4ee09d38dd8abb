"""Logs written file by file, so that every state a log can be in can be laid out, broken ones included."""

from __future__ import annotations

import itertools
from pathlib import Path

from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.log.care import opening
from indextables.log.read.cache import LogCache
from indextables.log.read.log import Log
from indextables.log.wire.actions import Action, Add, CommitInfo, DeletionVector, Metadata, Remove
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import version_key
from indextables.log.wire.protocol import new_table_protocol
from indextables.options import Options
from indextables.storage.local import LocalStore
from indextables.storage.memory import MemoryStore
from indextables.storage.url import parse_location

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{"indextables.id":1}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{"indextables.id":2}}]}'
)
METADATA = Metadata(id="table-1", schemaString=SCHEMA, partitionColumns=["day"], createdTime=1)
START_MS = 1_700_000_000_000

_NAMES = itertools.count()


def token(version: int) -> str:
    return f"{version + 1:032x}"


def info(version: int, table_id: str | None = "table-1", **more: object) -> CommitInfo:
    time = START_MS + 1000 * version
    return CommitInfo(
        timestamp=time, inCommitTimestamp=time, operation="WRITE", tableId=table_id, token=token(version), **more
    )


def add(path: str, *, size: int = 10, **more: object) -> Add:
    return Add(path, {"day": "mon"}, size, 1, dataChange=True, numRecords=size, **more)


def remove(path: str, *, size: int | None = 10, **more: object) -> Remove:
    return Remove(path, dataChange=True, size=size, **more)


def vector(name: str, offset: int | None = None) -> DeletionVector:
    return DeletionVector("u", name, 8, 1, offset)


def local_env(path: Path, **options: object) -> Env:
    return Env(LocalStore(parse_location(path), fsync=False), SystemAmbient(), _options(options))


def memory_env(**options: object) -> Env:
    """A store that is listed like an object store."""
    return Env(MemoryStore(parse_location(f"memory://logs{next(_NAMES)}")), SystemAmbient(), _options(options))


def open_log(env: Env) -> Log:
    """A log with a cache of its own, as in a process of its own."""
    return opening.open_log(env, cache=LogCache() if env.options["transaction.cache.enabled"] != "false" else None)


def write(env: Env, version: int, *actions: Action, compress: bool = True, table_id: str | None = "table-1") -> bytes:
    """Put a version file and return its bytes."""
    data = encode_version([info(version, table_id), *actions], compress=compress)
    env.store.put(version_key(version), data)
    return data


def create(env: Env, metadata: Metadata = METADATA) -> None:
    """Version 0 of a table of ours."""
    write(env, 0, new_table_protocol(), metadata, table_id=metadata.id)


def append(env: Env, *versions: int) -> None:
    """One file per version, named after it."""
    for version in versions:
        write(env, version, add(f"f{version}.split"))


def paths(log_or_table: object) -> list[str]:
    """The live paths, sorted."""
    files = getattr(log_or_table, "files", log_or_table)
    return sorted(files.column("path").to_pylist())


def _options(given: dict[str, object]) -> Options:
    named = {key.replace("__", "."): value for key, value in given.items()}
    return Options({"transaction.cache.enabled": True, **named}, environ={})
