"""`_manifest.avro`: the list that makes an Avro state exist. Everything but the file entries is in it.

`num_files`, `total_bytes` and `set_hash` are over the entries that no tombstone hides. That is the live file set
wherever each path is added again only after a remove; where it is not, the newest entry of a path counts on read.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import CheckpointCorrupt, LimitExceeded
from indextables.lazy import pc
from indextables.log.checkpoint.avro.bounds import Bounds
from indextables.log.checkpoint.avro.frame import read_container, write_record
from indextables.log.checkpoint.avro.manifests import ManifestInfo
from indextables.log.checkpoint.avro.schema import FORMAT_VERSION, LIST
from indextables.log.checkpoint.extras import pack_tokens, unpack_tokens
from indextables.log.checkpoint.seal import BLANK, check_seal, seal
from indextables.log.wire import DomainMetadata, MergeSkip, Metadata, Protocol, StateTotals, TokenWindow, Txn, combined

__all__ = ["NO_TOMBSTONES", "TOMBSTONES_SCHEMA", "StateList", "decode_list", "encode_list", "hide"]


MAX_LIST = 32 << 20
MAX_MANIFESTS = 200_000

# Version and line of the `remove`; a null version hides by path alone.
TOMBSTONES_SCHEMA = pa.schema([("path", pa.string()), ("version", pa.int64()), ("line", pa.int64())])
NO_TOMBSTONES = pa.Table.from_batches([], schema=TOMBSTONES_SCHEMA)  # empty_table() would import pandas


class StateList(msgspec.Struct, frozen=True):
    """A decoded list. `protocol`, `metadata` and `tokens` are None where another system left them out."""

    version: int
    created_at: int
    totals: StateTotals
    manifests: tuple[ManifestInfo, ...]
    tombstones: pa.Table
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    registry: dict[str, str] = {}
    table_id: str | None = None
    txns: dict[str, Txn] = {}
    domains: dict[str, DomainMetadata] = {}
    skips: dict[str, MergeSkip] = {}
    tokens: TokenWindow | None = None
    in_commit_timestamp: int | None = None
    version_file: str | None = None
    """The version file that the state was made of, as `FileIdentity.text` tells it."""

    @property
    def num_entries(self) -> int:
        """Entries referenced, hidden ones included."""
        return sum(info.num_entries for info in self.manifests)


def hide(entries: pa.Table, tombstones: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which `entries` a tombstone hides: those of its path that were added before its version and line."""
    if len(tombstones) == 0 or len(entries) == 0:
        return np.zeros(len(entries), dtype=bool)
    at = pc.index_in(entries.column("path"), value_set=tombstones.column("path").combine_chunks())
    hit: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.array(pc.is_valid(at).to_numpy(), dtype=bool)
    rows = np.flatnonzero(hit)
    which = at.drop_null().to_numpy()
    by_path = tombstones.column("version").is_null().to_numpy()[which]
    version, line = _numbers(tombstones, "version")[which], _numbers(tombstones, "line")[which]
    added, added_line = _numbers(entries, "addedAtVersion")[rows], _numbers(entries, "addedAtLine")[rows]
    hit[rows] = by_path | (added < version) | ((added == version) & (added_line < line))
    return hit


def encode_list(state: StateList, *, level: int, sync: bytes) -> bytes:
    """The bytes of the list."""
    versioned = state.tombstones.filter(pc.is_valid(state.tombstones.column("version")))
    by_path = state.tombstones.filter(pc.is_null(state.tombstones.column("version"))).column("path")
    row = {
        "formatVersion": FORMAT_VERSION,
        "stateVersion": state.version,
        "createdAt": state.created_at,
        "numFiles": state.totals.num_files,
        "totalBytes": state.totals.total_bytes,
        "manifests": [_info_row(info) for info in state.manifests],
        "tombstones": by_path.to_pylist(),
        "schemaRegistry": state.registry,
        "protocolVersion": state.protocol.minReaderVersion if state.protocol else 4,
        "metadata": None if state.metadata is None else _json({"metaData": state.metadata}),
        "tableId": state.table_id,
        "protocol": None if state.protocol is None else _json(state.protocol),
        "setHash": state.totals.set_hash,
        "tombstonesAt": versioned.to_pylist(),
        "txns": [_json(txn) for txn in state.txns.values()],
        "domains": [_json(domain) for domain in state.domains.values()],
        "skips": [_json(skip) for skip in state.skips.values()],
        "tokensFrom": None if state.tokens is None else state.tokens.first,
        "tokens": None if state.tokens is None else pack_tokens(state.tokens),
        "inCommitTimestamp": state.in_commit_timestamp,
        "versionFile": state.version_file,
    }
    return seal(write_record(row, LIST, codec="zstandard", level=level, sync=sync, notes={"indextables.seal": BLANK}))


def decode_list(data: bytes, key: str, version: int, *, only_counts: bool = False) -> StateList:
    """The list in `data`; for who only counts, manifests without what else is known of them.

    Raises CheckpointCorrupt unless it is the state of `version`, and LimitExceeded.
    """
    check_seal(data, key)
    table = read_container(data, LIST, name=key, limit=MAX_LIST)
    if table.num_rows != 1:
        raise _corrupt(key, f"it holds {table.num_rows} records instead of one")
    count = len(combined(table.column("manifests")).flatten())
    if count > MAX_MANIFESTS:
        raise LimitExceeded(f"{key} names {count} manifests", path=key, limit=MAX_MANIFESTS, actual=count)
    tombstones = _tombstones(table)
    apart = {"tombstonesAt", "tombstones", *(("manifests",) if only_counts else ())}
    row: dict[str, Any] = table.drop_columns([n for n in table.column_names if n in apart]).to_pylist()[0]
    infos = _counted(table) if only_counts else tuple(_info(item) for item in row["manifests"])
    if row["stateVersion"] != version:
        raise _corrupt(key, f"it is the state of version {row['stateVersion']}")
    if row["formatVersion"] > FORMAT_VERSION:
        reason = f"its format version {row['formatVersion']} is newer than {FORMAT_VERSION}"
        raise CheckpointCorrupt(f"{key} is not a usable state: {reason}", path=key, reason=reason, newer=True)
    try:
        metadata = None if row["metadata"] is None else _WRAPPED.decode(row["metadata"]).metaData
        protocol = None if row.get("protocol") is None else _PROTOCOL.decode(row["protocol"])
        txns = [_TXN.decode(text) for text in row.get("txns") or ()]
        domains = [_DOMAIN.decode(text) for text in row.get("domains") or ()]
        skips = [_SKIP.decode(text) for text in row.get("skips") or ()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _corrupt(key, f"an action in it is broken: {error}") from error
    return StateList(
        version=version,
        created_at=row["createdAt"],
        totals=StateTotals(num_files=row["numFiles"], total_bytes=row["totalBytes"], set_hash=row.get("setHash")),
        manifests=infos,
        tombstones=tombstones,
        protocol=protocol,
        metadata=metadata,
        registry=dict(row["schemaRegistry"]),
        table_id=row.get("tableId"),
        txns={txn.appId: txn for txn in txns},
        domains={domain.domain: domain for domain in domains},
        skips={skip.path: skip for skip in skips},
        tokens=unpack_tokens(row.get("tokensFrom"), row.get("tokens"), version),
        in_commit_timestamp=row.get("inCommitTimestamp"),
        version_file=row.get("versionFile"),
    )


class _Wrapped(msgspec.Struct):
    metaData: Metadata


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_WRAPPED = msgspec.json.Decoder(_Wrapped)
_PROTOCOL = msgspec.json.Decoder(Protocol)
_TXN = msgspec.json.Decoder(Txn)
_DOMAIN = msgspec.json.Decoder(DomainMetadata)
_SKIP = msgspec.json.Decoder(MergeSkip)


def _tombstones(table: pa.Table) -> pa.Table:
    paths = table.column("tombstones").combine_chunks().flatten()
    parts = []
    if len(paths):
        nothing = pa.nulls(len(paths), pa.int64())
        parts.append(pa.Table.from_arrays([paths, nothing, nothing], schema=TOMBSTONES_SCHEMA))
    if "tombstonesAt" in table.column_names:
        structs = table.column("tombstonesAt").combine_chunks().flatten()
        if len(structs):
            parts.append(pa.Table.from_struct_array(structs).cast(TOMBSTONES_SCHEMA))
    return pa.concat_tables(parts) if parts else NO_TOMBSTONES


def _info_row(info: ManifestInfo) -> dict[str, object]:
    bounds = None
    if info.bounds is not None:
        bounds = {name: {"min": b.min, "max": b.max, "hasNull": b.has_null} for name, b in info.bounds.items()}
    return {
        "path": info.path,
        "numEntries": info.num_entries,
        "minAddedAtVersion": info.min_added,
        "maxAddedAtVersion": info.max_added,
        "partitionBounds": bounds,
        "tombstoneCount": 0,
        "liveEntryCount": -1,
        "sizeInBytes": info.size,
        "crc32c": info.crc32c,
        "setHash": info.set_hash,
        "compacted": info.compacted,
    }


def _info(item: dict[str, Any]) -> ManifestInfo:
    bounds = item["partitionBounds"]
    return ManifestInfo(
        path=item["path"],
        num_entries=item["numEntries"],
        min_added=item["minAddedAtVersion"],
        max_added=item["maxAddedAtVersion"],
        bounds=None
        if bounds is None
        else {name: Bounds(min=b["min"], max=b["max"], has_null=b.get("hasNull")) for name, b in bounds},
        size=item.get("sizeInBytes"),
        crc32c=item.get("crc32c"),
        set_hash=item.get("setHash"),
        compacted=bool(item.get("compacted")),
    )


def _counted(table: pa.Table) -> tuple[ManifestInfo, ...]:
    items = combined(table.column("manifests")).flatten()
    told = {field.name for field in items.type}
    columns = [
        items.field(name).to_pylist() if name in told else [None] * len(items)
        for name in ("path", "numEntries", "sizeInBytes", "compacted")
    ]
    return tuple(
        ManifestInfo(path, entries, 0, 0, size=size, compacted=bool(compacted))
        for path, entries, size, compacted in zip(*columns, strict=True)
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _numbers(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(pc.fill_null(table.column(name), -1).to_numpy(), dtype=np.int64)


def _corrupt(key: str, reason: str) -> CheckpointCorrupt:
    return CheckpointCorrupt(f"{key} is not a usable state: {reason}", path=key, reason=reason)
