"""Manifests: file entries as Avro, each with what a state says about it (`ManifestInfo`).

In a manifest a null partition value is an absent key, and `addedAtTimestamp` 0 means that the time is not known.
"""

from __future__ import annotations

import google_crc32c
import msgspec
import pyarrow as pa

from indextables.errors import CheckpointCorrupt, CheckpointInvalid, CheckpointWriteFailed
from indextables.lazy import pc
from indextables.log.checkpoint.avro.bounds import Bounds, bounds_of
from indextables.log.checkpoint.avro.frame import read_container, write_container
from indextables.log.checkpoint.avro.schema import ENTRY, ENTRY_COLUMNS, SMALL
from indextables.log.checkpoint.columns import conform, drop_null_items
from indextables.log.wire import FILES_SCHEMA, LOG_DIR, constant, set_hash

__all__ = ["CODECS", "ManifestInfo", "check_manifest", "decode_manifest", "encode_manifest", "manifest_location"]

CODECS = {"zstd": "zstandard", "snappy": "snappy", "deflate": "deflate", "none": "null"}

# Small enough that decoding one never needs much memory, large enough to compress well.
_BLOCK_ROWS = 10_000

_MAPS = ("partitionValues", "minValues", "maxValues", "tags")


class ManifestInfo(msgspec.Struct, frozen=True):
    """What a state says about one manifest. `size`, `crc32c` and `set_hash` are None in states of other systems."""

    path: str
    num_entries: int
    min_added: int
    max_added: int
    bounds: dict[str, Bounds] | None = None
    size: int | None = None
    crc32c: int | None = None
    set_hash: str | None = None
    compacted: bool = False


def encode_manifest(
    entries: pa.Table,
    key: str,
    partition_types: dict[str, pa.DataType],
    *,
    codec: str,
    level: int,
    sync: bytes,
    compacted: bool,
) -> tuple[bytes, ManifestInfo]:
    """The bytes of the manifest `key` and its description. `entries` has FILES_SCHEMA and at least one row."""
    data = write_container(
        _to_avro(entries), ENTRY, codec=CODECS[codec], level=level, sync=sync, block_rows=_BLOCK_ROWS
    )
    added = pc.min_max(entries.column("addedAtVersion")).as_py()
    info = ManifestInfo(
        path=key[len(LOG_DIR) :],
        num_entries=len(entries),
        min_added=added["min"] or 0,
        max_added=added["max"] or 0,
        bounds=bounds_of(entries.column("partitionValues"), partition_types),
        size=len(data),
        crc32c=google_crc32c.value(data),
        set_hash=set_hash(entries),
        compacted=compacted,
    )
    return data, info


def check_manifest(data: bytes, info: ManifestInfo) -> None:
    """Raises as `decode_manifest`; the entries are decoded only where no checksum tells that they are as written."""
    _check_bytes(data, info)
    if info.crc32c is None:
        decode_manifest(data, info)


def decode_manifest(data: bytes, info: ManifestInfo) -> pa.Table:
    """The entries, with FILES_SCHEMA. Raises CheckpointCorrupt, CheckpointInvalid, LimitExceeded."""
    _check_bytes(data, info)
    table = read_container(data, ENTRY, name=info.path)
    if table.num_rows != info.num_entries:
        raise _differs(info, "entries", info.num_entries, table.num_rows)
    entries = conform(table, info.path)
    at = FILES_SCHEMA.get_field_index("addedAtTimestamp")
    times = entries.column(at)
    # Scalars out of arrays: pa.scalar would import pandas.
    known = pc.if_else(pc.equal(times, constant(0, 1)[0]), constant(None, 1)[0], times)
    return entries.set_column(at, FILES_SCHEMA.field(at), known)


def manifest_location(path: str, state_folder: str) -> str:
    """The key of a manifest path in one of its three forms: `manifests/…`, `state-v…/…`, or bare (beside the list).

    Raises CheckpointCorrupt for anything else, so that no path leads out of the log folder.
    """
    parts = path.split("/")
    plain = all(part not in {"", ".", ".."} and "\\" not in part and "\x00" not in part for part in parts)
    if plain and path.endswith(".avro"):
        if len(parts) == 1:
            return state_folder + path
        if len(parts) == 2 and (parts[0] == "manifests" or parts[0].startswith("state-v")):
            return LOG_DIR + path
    raise CheckpointCorrupt(f"{state_folder} names {path!r} as a manifest, which it is not", path=path, reason="path")


def _check_bytes(data: bytes, info: ManifestInfo) -> None:
    if info.size is not None and len(data) != info.size:
        raise _differs(info, "bytes", info.size, len(data))
    if info.crc32c is not None and (found := google_crc32c.value(data)) != info.crc32c:
        raise _differs(info, "crc32c", info.crc32c, found)


def _to_avro(entries: pa.Table) -> pa.Table:
    columns = []
    for name in ENTRY_COLUMNS:
        column = entries.column(name)
        if name in _MAPS:
            column = drop_null_items(column)
        elif name in SMALL:
            column = _as_int(name, column)
        elif name in {"addedAtTimestamp", "addedAtVersion"}:
            column = pc.fill_null(column, 0)
        columns.append(column)
    return pa.table(columns, names=list(ENTRY_COLUMNS))


def _as_int(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.int32())
    except pa.ArrowInvalid as error:
        message = f"{name} has a value that an Avro state cannot hold: {error}"
        raise CheckpointWriteFailed(message, reason=str(error)) from error


def _differs(info: ManifestInfo, what: str, said: object, found: object) -> CheckpointInvalid:
    message = f"the state says {said} ({what}) about {info.path}, found {found}"
    return CheckpointInvalid(message, path=info.path, reason=what)
