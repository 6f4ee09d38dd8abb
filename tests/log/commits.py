"""Small tables and commits for the tests of the writing side, made through the real functions."""

from __future__ import annotations

from pathlib import Path

from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.log.care import opening
from indextables.log.commit.create import create_table
from indextables.log.read.cache import LogCache
from indextables.log.read.log import Log
from indextables.log.wire.actions import Add, CommitInfo, Metadata, Remove
from indextables.log.wire.codec import VersionContent, decode_version, encode_version
from indextables.options import Options
from indextables.storage.local import LocalStore
from indextables.storage.url import parse_location

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{"indextables.id":1}}]}'
METADATA = Metadata(id="table", schemaString=SCHEMA, createdTime=1)


def add(path: str, *, data_change: bool = True, size: int = 10, **more: object) -> Add:
    return Add(path, {}, size, 1, dataChange=data_change, numRecords=5, **more)


def remove(path: str, *, data_change: bool = True, **more: object) -> Remove:
    return Remove(path, dataChange=data_change, **more)


def version(
    number: int,
    *actions: object,
    blind: bool | None = None,
    token: str = "t",  # noqa: S107 - a commit token
    operation: str = "TEST",
) -> VersionContent:
    """A version as its bytes come back from the store."""
    info = CommitInfo(timestamp=1, inCommitTimestamp=number, operation=operation, isBlindAppend=blind, token=token)
    return decode_version(encode_version([info, *actions], compress=False), number)


def local_env(path: Path, **options: object) -> Env:
    given = {key.replace("__", "."): value for key, value in options.items()}
    return Env(LocalStore(parse_location(path), fsync=False), SystemAmbient(), Options(given, environ={}))


def open_log(env: Env) -> Log:
    """A log with a cache of its own, as in a process of its own."""
    return opening.open_log(env, cache=LogCache())


def new_table(path: Path, **options: object) -> Log:
    log = open_log(local_env(path, **options))
    create_table(log, METADATA)
    return log
