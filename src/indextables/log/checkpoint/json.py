"""Reads and writes JSON checkpoints: one object, or one action a line; in one file, or as parts that a head names.

Written: up to `checkpoint.maxFileSize` one object `{"protocol", "metaData", "txn", "domainMetadata", "add"}`; above
it parts of one action a line, and a plain head that lists them, put last. Read: both forms in both places, plain or
compressed. An `add` carries where it came from (`addedAtVersion`, `addedAtLine`, `addedAtTimestamp`).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import pyarrow as pa
from arro3.core import Schema
from arro3.io import read_json, write_ndjson

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointCorrupt
from indextables.log.checkpoint.columns import conform
from indextables.log.checkpoint.extras import STATE_DOMAIN, encode_extras
from indextables.log.checkpoint.seal import BLANK, check_seal, seal
from indextables.log.wire import (
    FILES_SCHEMA,
    LOG_DIR,
    DomainMetadata,
    MergeSkip,
    Metadata,
    Protocol,
    StateRef,
    StateTotals,
    TableState,
    Txn,
    check_quotable,
    compress,
    expand_all,
    json_checkpoint_key,
    json_checkpoint_part_key,
    parse_key,
)

__all__ = ["Parsed", "read_json_state", "write_json_state"]


T = TypeVar("T")

_ABSENT = (b"", b"null")
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_ENTRY = Schema.from_arrow(FILES_SCHEMA)

# Files that are made into lines together.
_ROWS = 1_000


class Parsed(msgspec.Struct):
    """What a JSON or Parquet checkpoint holds, action by action, before it is checked as a whole."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: list[Txn] = []
    domains: list[DomainMetadata] = []
    skips: list[MergeSkip] = []
    files: pa.Table | None = None

    @property
    def extras(self) -> DomainMetadata | None:
        """The action of our own domain, if the checkpoint has one."""
        return next((action for action in self.domains if action.domain == STATE_DOMAIN), None)


class _Object(msgspec.Struct):
    """A line of a checkpoint, and equally a whole checkpoint in one object."""

    protocol: Protocol | None = None
    metaData: Metadata | None = None
    add: msgspec.Raw = msgspec.Raw()
    txn: msgspec.Raw = msgspec.Raw()
    domainMetadata: msgspec.Raw = msgspec.Raw()
    mergeskip: msgspec.Raw = msgspec.Raw()
    commitInfo: msgspec.Raw = msgspec.Raw()
    parts: list[str] | None = None


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_OBJECT = msgspec.json.Decoder(_Object)


def read_json_state(env: Env, ref: StateRef, *, with_files: bool = True) -> Parsed:
    """Raises CheckpointCorrupt, LimitExceeded and StoreError."""
    head = _objects(env.store.get(ref.keys[0]), ref.keys[0])
    first = next(head, None)
    if first is not None and first.parts is not None:
        keys = [LOG_DIR + name for name in first.parts]
        _check_parts(ref, keys)
        parsed = Parsed()
        blobs = env.ambient.map("versions", env.store.get, keys)
        for key, blob in zip(keys, blobs, strict=True):
            _collect(parsed, _objects(blob, key), key, with_files=with_files)
        return parsed
    parsed = Parsed()
    if first is not None:
        _collect(parsed, iter([first]), ref.keys[0], with_files=with_files)
    _collect(parsed, head, ref.keys[0], with_files=with_files)
    return parsed


def write_json_state(
    env: Env, state: TableState, totals: StateTotals, new_id: Callable[[], str]
) -> Iterator[tuple[str, bytes]]:
    """Keys and bytes, the one that makes the checkpoint exist last; what `new_id` gives stands in the names of parts.

    Each is made when it is asked for, so that no more than one part is in memory, however many files there are.
    """
    size, heads = env.options[opt.CHECKPOINT_MAX_FILE_SIZE], _heads(state, totals)
    pieces = _add_lines(state.files)
    held = bytearray()
    while len(held) + sum(map(len, heads)) <= size:
        piece = next(pieces, None)
        if piece is None:
            yield json_checkpoint_key(state.version), _pack(env, _one_object(state, totals, bytes(held)))
            return
        held += piece
    checkpoint_id, names = new_id(), list[str]()
    above = b"".join(head + b"\n" for head in heads)
    for body in _cut(held, pieces, size):
        key = json_checkpoint_part_key(state.version, checkpoint_id, len(names) + 1)
        names.append(key.removeprefix(LOG_DIR))
        yield key, _pack(env, b"".join((above, body, b'{"seal":"', BLANK, b'"}\n')))
        above = b""
    head = {
        "seal": BLANK.decode(),
        "version": state.version,
        "checkpointId": checkpoint_id,
        "parts": names,
        "createdTime": env.ambient.now_ms(),
        "format": "json",
    }
    yield json_checkpoint_key(state.version), seal(msgspec.json.encode(head))


def _check_parts(ref: StateRef, keys: list[str]) -> None:
    """Raises CheckpointCorrupt unless a head names parts of its version that are there, each once."""
    there = set(ref.keys)
    for key in keys:
        file = parse_key(key)
        if file is None or file.kind != "json-checkpoint-part" or file.version != ref.version or key not in there:
            message = f"{ref.keys[0]} names the part {key}, which is not there"
            raise CheckpointCorrupt(message, path=ref.keys[0], reason="missing part")
    if len(set(keys)) != len(keys):
        raise CheckpointCorrupt(f"{ref.keys[0]} names a part twice", path=ref.keys[0], reason="repeated part")


def _heads(state: TableState, totals: StateTotals) -> list[bytes]:
    encode = msgspec.json.encode
    actions: list[object] = [{"protocol": state.protocol}, {"metaData": state.metadata}]
    actions += [{"txn": txn} for txn in state.txns.values()]
    actions += [{"domainMetadata": domain} for domain in state.domains.values()]
    actions.append({"domainMetadata": encode_extras(state, totals)})
    return [encode(action) for action in actions]


def _one_object(state: TableState, totals: StateTotals, lines: bytes) -> bytes:
    parts = {
        "seal": BLANK.decode(),
        "protocol": state.protocol,
        "metaData": state.metadata,
        "txn": list(state.txns.values()),
        "domainMetadata": [*state.domains.values(), encode_extras(state, totals)],
    }
    adds = b",".join(line.removeprefix(b'{"add":').removesuffix(b"}") for line in lines.split(b"\n") if line)
    return msgspec.json.encode(parts)[:-1] + b',"add":[' + adds + b"]}\n"


def _add_lines(files: pa.Table) -> Iterator[bytes]:
    """The files as lines, `_ROWS` of them at a time."""
    for at in range(0, len(files), _ROWS):
        batches = files.slice(at, _ROWS).to_batches()
        out = io.BytesIO()
        write_ndjson(pa.table({"add": pa.chunked_array([batch.to_struct_array() for batch in batches])}), out)
        yield out.getvalue()


def _cut(held: bytearray, pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Whole lines of at most `size` bytes together, or a longer line alone, of what is held and then of the pieces."""
    is_first = True
    while True:
        while len(held) > size:
            end = (held.rfind(b"\n", 0, size) + 1) or (held.find(b"\n") + 1)
            yield bytes(held[:end])
            del held[:end]
            is_first = False
        piece = next(pieces, None)
        if piece is None:
            break
        held += piece
    if held or is_first:
        yield bytes(held)


def _pack(env: Env, body: bytes) -> bytes:
    body = seal(body)
    return compress(body) if env.options[opt.TRANSACTION_COMPRESSION_ENABLED] else body


def _objects(data: bytes, name: str) -> Iterator[_Object]:
    text = expand_all(data, lambda reason: _broken(name, reason))
    check_seal(text, name)
    for line in text.split(b"\n"):
        if line.strip():
            try:
                yield _OBJECT.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise _broken(name, error) from error


def _collect(parsed: Parsed, objects: Iterator[_Object], name: str, *, with_files: bool) -> None:
    adds: list[bytes] = []
    for item in objects:
        if bytes(item.commitInfo) not in _ABSENT:
            raise _broken(name, "it tells of a commit, as only version files do")
        parsed.protocol = item.protocol or parsed.protocol
        parsed.metadata = item.metaData or parsed.metadata
        try:
            parsed.txns += _items(item.txn, Txn)
            parsed.domains += _items(item.domainMetadata, DomainMetadata)
            parsed.skips += _items(item.mergeskip, MergeSkip)
            if with_files:
                adds += _raws(item.add)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _broken(name, error) from error
    if adds:
        table = _table(b"\n".join(adds), name)
        parsed.files = table if parsed.files is None else pa.concat_tables([parsed.files, table])


def _items(raw: msgspec.Raw, kind: type[T]) -> list[T]:
    """One action, or an array of them."""
    if bytes(raw) in _ABSENT:
        return []
    values = msgspec.json.decode(raw)
    return [msgspec.convert(value, kind) for value in (values if isinstance(values, list) else [values])]


def _raws(raw: msgspec.Raw) -> list[bytes]:
    data = bytes(raw)
    if data in _ABSENT:
        return []
    return [bytes(item) for item in _ITEMS.decode(data)] if data[:1] == b"[" else [data]


def _table(lines: bytes, name: str) -> pa.Table:
    try:
        check_quotable(lines, FILES_SCHEMA)
        return conform(pa.table(read_json(io.BytesIO(lines), _ENTRY)), name)
    except (ValueError, OSError, pa.ArrowException) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: object) -> CheckpointCorrupt:
    message = f"{name} is not a JSON checkpoint: {error}"
    return CheckpointCorrupt(message, path=name, reason=str(error))
