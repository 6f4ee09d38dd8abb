"""Reads and writes Parquet checkpoints in Delta's shape: one struct column per action, one row per action.

Written as one file, or above `checkpoint.maxFileSize` as parts whose content depends on the state and the number of
parts alone, so that two writers of one version cannot mix theirs up. Read: these, and the flat form with an
`actionType` column that lies under `_checkpoints/`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointCorrupt, LimitExceeded
from indextables.lazy import pc
from indextables.log.checkpoint.columns import conform
from indextables.log.checkpoint.extras import encode_extras
from indextables.log.checkpoint.json import Parsed
from indextables.log.checkpoint.seal import BLANK, check_seal, seal
from indextables.log.wire import (
    DOMAIN_TYPE,
    FILES_SCHEMA,
    METADATA_TYPE,
    PROTOCOL_TYPE,
    TXN_TYPE,
    DomainMetadata,
    Metadata,
    Protocol,
    StateRef,
    StateTotals,
    TableState,
    Txn,
    parquet_checkpoint_key,
    parquet_checkpoint_part_key,
)

__all__ = ["read_parquet_state", "write_parquet_state"]

MAX_BYTES = 8 << 30
"""Bytes that the columns of one checkpoint file may claim to have when decompressed."""

_ROWS_PER_GROUP = 100_000

_SCHEMA = pa.schema(
    [
        ("txn", TXN_TYPE),
        ("add", pa.struct(list(FILES_SCHEMA))),
        ("metaData", METADATA_TYPE),
        ("protocol", PROTOCOL_TYPE),
        ("domainMetadata", DOMAIN_TYPE),
    ]
)

_CODECS = {"snappy": "snappy", "zstd": "zstd", "gzip": "gzip", "lz4": "lz4", "none": "none"}


def write_parquet_state(env: Env, state: TableState, totals: StateTotals) -> Iterator[tuple[str, bytes]]:
    """Keys and bytes, the last of which makes the checkpoint complete.

    Each is made when it is asked for, so that no more than one part is in memory, however many files there are.
    """
    codec, limit = env.options[opt.CHECKPOINT_COMPRESSION], env.options[opt.CHECKPOINT_MAX_FILE_SIZE]
    files = state.files.sort_by([("addedAtVersion", "ascending"), ("addedAtLine", "ascending"), ("path", "ascending")])
    heads = _heads(state, totals)
    whole = _encode(heads, files, codec, limit if len(files) > 1 else None)
    if whole.content is not None:
        yield parquet_checkpoint_key(state.version), seal(whole.content)
        return
    parts = min(len(files), -(-whole.size // limit))
    rows = -(-len(files) // parts)
    for at in range(parts):
        part = _encode(None if at else heads, files.slice(at * rows, rows), codec, None)
        yield parquet_checkpoint_part_key(state.version, at + 1, parts), seal(part.content or b"")


def read_parquet_state(env: Env, ref: StateRef, *, with_files: bool = True) -> Parsed:
    """Raises CheckpointCorrupt, LimitExceeded and StoreError."""
    parsed = Parsed()
    for key, data in zip(ref.keys, env.ambient.map("versions", env.store.get, ref.keys), strict=True):
        try:
            _collect(parsed, data, key, with_files=with_files)
        except (pa.ArrowException, OSError, ValueError, msgspec.ValidationError, KeyError, TypeError) as error:
            message = f"{key} is not a Parquet checkpoint: {error}"
            raise CheckpointCorrupt(message, path=key, reason=str(error)) from error
    return parsed


def _heads(state: TableState, totals: StateTotals) -> pa.Table:
    rows: list[dict[str, object]] = [{"protocol": _plain(state.protocol)}]
    metadata = _plain(state.metadata)
    metadata["configuration"] = list(state.metadata.configuration.items())
    metadata["format"] = {
        "provider": state.metadata.format.provider,
        "options": list(state.metadata.format.options.items()),
    }
    rows.append({"metaData": metadata})
    rows += [{"txn": _plain(txn)} for txn in state.txns.values()]
    domains = [*state.domains.values(), encode_extras(state, totals)]
    rows += [{"domainMetadata": _plain(domain)} for domain in domains]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _plain(action: msgspec.Struct) -> dict[str, object]:
    return {name: getattr(action, name) for name in action.__struct_fields__}


def _adds(files: pa.Table) -> pa.Table:
    structs = pa.chunked_array([b.to_struct_array() for b in files.to_batches()], _SCHEMA.field("add").type)
    columns = [structs if field.name == "add" else pa.nulls(len(files), field.type) for field in _SCHEMA]
    return pa.table(columns, schema=_SCHEMA)


class _Sink(io.RawIOBase):
    """Counts what is written, and keeps it unless that is more than `limit` bytes."""

    def __init__(self, limit: int | None) -> None:
        self.size = 0
        self._limit = limit
        self._kept: bytearray | None = bytearray()

    @property
    def content(self) -> bytes | None:
        """All that was written, None if it was too much to keep."""
        return None if self._kept is None else bytes(self._kept)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            self._kept = None
        if self._kept is not None:
            self._kept += data
        return len(data)


def _encode(heads: pa.Table | None, files: pa.Table, codec: str, limit: int | None) -> _Sink:
    """A file of these actions, still without its seal."""
    sink = _Sink(limit)
    with pq.ParquetWriter(sink, _SCHEMA.with_metadata({"seal": BLANK}), compression=_CODECS[codec]) as writer:
        if heads is not None:
            writer.write_table(heads)
        for at in range(0, max(1, len(files)), _ROWS_PER_GROUP):
            writer.write_table(_adds(files.slice(at, _ROWS_PER_GROUP)), row_group_size=_ROWS_PER_GROUP)
    return sink


def _collect(parsed: Parsed, data: bytes, key: str, *, with_files: bool) -> None:
    check_seal(data, key)
    file = pq.ParquetFile(
        pa.BufferReader(data), thrift_string_size_limit=100 << 20, thrift_container_size_limit=10 << 20
    )
    claimed = sum(file.metadata.row_group(at).total_byte_size for at in range(file.metadata.num_row_groups))
    if claimed > MAX_BYTES:
        raise LimitExceeded(f"{key} claims {claimed} bytes", path=key, limit=MAX_BYTES, actual=claimed)
    names = set(file.schema_arrow.names)
    if "actionType" in names:
        flat = file.read()
        flat.validate(full=True)
        _collect_flat(parsed, flat, key)
        return
    heads = [name for name in ("protocol", "metaData", "txn", "domainMetadata") if name in names]
    table = file.read(columns=heads)
    table.validate(full=True)
    for row in _rows(table, "protocol"):
        parsed.protocol = msgspec.convert(_known(row, Protocol), Protocol)
    for row in _rows(table, "metaData"):
        parsed.metadata = msgspec.convert(_known(_mapped(row), Metadata), Metadata)
    parsed.txns = parsed.txns + [msgspec.convert(_known(row, Txn), Txn) for row in _rows(table, "txn")]
    parsed.domains = parsed.domains + [
        msgspec.convert(_known(row, DomainMetadata), DomainMetadata) for row in _rows(table, "domainMetadata")
    ]
    if with_files and "add" in names:
        column = file.read(columns=["add"]).column("add")
        column.validate(full=True)
        adds = pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(chunk) for chunk in column.drop_null().chunks],
            schema=pa.schema(list(column.type)),
        )
        _append(parsed, conform(adds, key))


def _collect_flat(parsed: Parsed, table: pa.Table, key: str) -> None:
    """The flat form: one row per action, `actionType` tells which; removes in it have no effect on a state."""
    kinds = table.column("actionType")
    for row in table.filter(pc.equal(kinds, "metadata")).to_pylist():
        parsed.metadata = Metadata(
            id=row.get("metadataId") or "",
            schemaString=row.get("schemaString") or "",
            partitionColumns=row.get("partitionColumns") or [],
        )
    columns = [name for name in table.column_names if name in FILES_SCHEMA.names]
    _append(parsed, conform(table.filter(pc.equal(kinds, "add")).select(columns), key))


def _append(parsed: Parsed, files: pa.Table) -> None:
    parsed.files = files if parsed.files is None else pa.concat_tables([parsed.files, files])


def _rows(table: pa.Table, name: str) -> list[dict[str, object]]:
    return table.column(name).drop_null().to_pylist() if name in table.column_names else []


def _known(row: dict[str, object], kind: type[msgspec.Struct]) -> dict[str, object]:
    return {name: row[name] for name in kind.__struct_fields__ if row.get(name) is not None}


def _mapped(row: dict[str, object]) -> dict[str, object]:
    form = row.get("format")
    changed = dict(row)
    if isinstance(form, dict):
        changed["format"] = {**form, "options": dict(form.get("options") or [])}
    changed["configuration"] = dict(row.get("configuration") or [])  # type: ignore[call-overload]
    return changed
