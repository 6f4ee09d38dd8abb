"""Reads a checkpoint of a Delta table: in one file or in parts, JSON or Parquet, with sidecars or without."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from indextables.env import Env
from indextables.errors import CheckpointCorrupt, LimitExceeded, ObjectNotFound, PathEscape
from indextables.foreign.delta.actions import (
    CHECKPOINT,
    MAX_FILE_BYTES,
    decode_json_checkpoint,
    decode_parquet_checkpoint,
)
from indextables.foreign.delta.names import SIDECAR_DIR, Checkpoint
from indextables.log.wire import decode_path

__all__ = ["read_checkpoint"]


def read_checkpoint(env: Env, checkpoint: Checkpoint, *, with_files: bool = True) -> pa.Table:
    """Its actions, those of sidecars included; without them if only its head is wanted.

    Raises CheckpointCorrupt, LimitExceeded, StoreError, and PathEscape for a sidecar that lies elsewhere.
    """
    for meta in checkpoint.files:
        if meta.size > MAX_FILE_BYTES:
            message = f"{meta.key} has {meta.size} bytes, and no checkpoint has more than {MAX_FILE_BYTES}"
            raise LimitExceeded(message, path=meta.key, limit=MAX_FILE_BYTES, actual=meta.size)
    keys = [meta.key for meta in checkpoint.files]
    tables = _read(env, keys)
    head = pa.concat_tables(tables)
    told = head.column("checkpointMetadata").drop_null().to_pylist()
    if any(about["version"] not in (None, checkpoint.version) for about in told):
        reason = f"it says that it is one of version {told[0]['version']}"
        raise CheckpointCorrupt(f"{checkpoint.name} cannot be used: {reason}", path=checkpoint.name, reason=reason)
    for name in ("protocol", "metaData"):
        if head.column(name).null_count == len(head):
            reason = f"it has no {name}"
            raise CheckpointCorrupt(f"{checkpoint.name} cannot be used: {reason}", path=checkpoint.name, reason=reason)
    sidecars = head.column("sidecar").drop_null().to_pylist() if with_files else []
    if not sidecars:
        return head
    return pa.concat_tables([head, *_read(env, [_sidecar_key(entry, env.store.url) for entry in sidecars])])


def _read(env: Env, keys: Sequence[str]) -> list[pa.Table]:
    def one(key: str) -> pa.Table:
        try:
            data = env.store.get(key)
        except ObjectNotFound as error:
            message = f"{key}, a part of a checkpoint, is gone"
            raise CheckpointCorrupt(message, path=key, reason="the file is gone") from error
        decode = decode_json_checkpoint if key.endswith(".json") else decode_parquet_checkpoint
        return decode(data, key)

    if len(keys) == 1:
        return [one(keys[0])]
    return list(env.ambient.map("versions", one, keys)) or [CHECKPOINT.empty_table()]


def _sidecar_key(entry: dict[str, object], url: str) -> str:
    """The file that an entry names: all of them lie in one folder, whether the entry says so or not."""
    path = entry["path"]
    if not isinstance(path, str):
        raise CheckpointCorrupt("a sidecar of a checkpoint has no path", path=None, reason="sidecar without path")
    name = decode_path(path.removeprefix(f"{url}/").removeprefix(SIDECAR_DIR))
    if not name or "/" in name or "\\" in name or "\0" in name or name in (".", ".."):
        message = f"a checkpoint names a sidecar outside {SIDECAR_DIR}: {path[:300]!r}; nothing outside is read"
        raise PathEscape(message, path=path[:300], reason="a sidecar elsewhere")
    return SIDECAR_DIR + name
