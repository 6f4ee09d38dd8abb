"""Reads and writes `_last_checkpoint`, a hint that spares whoever writes checkpoints a listing.

Readers of the table do not ask it: they find the newest state by listing, whatever it says. Other systems, `verify` and
people do. Every form that was ever written is read:
at least `version`, everything else optional, unknown keys ignored.
"""

from __future__ import annotations

import msgspec

from indextables.env import Env
from indextables.errors import ObjectNotFound
from indextables.log.wire import (
    MAX_VERSION,
    POINTER_KEY,
    StateRef,
    json_checkpoint_key,
    parquet_checkpoint_key,
    parquet_checkpoint_part_key,
    state_key,
)

__all__ = ["Pointer", "names_something", "pointer_to", "read_pointer", "replace_pointer", "write_pointer"]

_LARGEST = 1 << 20


class Pointer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content. `size` counts entries, `sizeInBytes` bytes of the checkpoint, `numFiles` live files."""

    version: int
    size: int | None = None
    sizeInBytes: int | None = None
    numFiles: int | None = None
    parts: int | None = None
    createdTime: int | None = None
    format: str | None = None
    stateDir: str | None = None
    protocolVersion: int | None = None
    checksum: str | None = None
    checkpointId: str | None = None


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_DECODER = msgspec.json.Decoder(Pointer)


def read_pointer(env: Env) -> Pointer | None:
    """What the hint says, or None where it is missing or says nothing usable. Raises StoreError."""
    try:
        data = env.store.get(POINTER_KEY)
    except ObjectNotFound:
        return None
    if len(data) > _LARGEST:
        return None
    try:
        pointer = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return pointer if 0 <= pointer.version <= MAX_VERSION else None


def write_pointer(env: Env, pointer: Pointer) -> bool:
    """Point to a complete, validated checkpoint, unless the hint already names a newer one that exists.

    False if it was left alone. Two writers may race here; the loser's older hint costs a longer tail, no result.
    """
    current = read_pointer(env)
    if current is not None and current.version > pointer.version and names_something(env, current):
        return False
    env.store.put(POINTER_KEY, msgspec.json.encode(pointer))
    return True


def replace_pointer(env: Env, pointer: Pointer) -> None:
    """Point to a checkpoint whatever the hint said before: for repair, which has looked at all of them."""
    env.store.put(POINTER_KEY, msgspec.json.encode(pointer))


def pointer_to(ref: StateRef, facts: dict[str, object]) -> Pointer:
    """The pointer for a checkpoint just written."""
    state_dir = ref.keys[0].split("/")[-2] if ref.format == "avro-state" else None
    parts = None if len(ref.keys) == 1 else len(ref.keys) - (1 if ref.format == "json" else 0)
    return msgspec.convert(
        {"version": ref.version, "format": ref.format, "stateDir": state_dir, "parts": parts, **facts}, Pointer
    )


def names_something(env: Env, pointer: Pointer) -> bool:
    """True if a checkpoint of that version is there: a pointer into the void must not stop the next one."""
    version = pointer.version
    candidates = [state_key(version), parquet_checkpoint_key(version), json_checkpoint_key(version)]
    if pointer.parts:
        candidates.append(parquet_checkpoint_part_key(version, 1, pointer.parts))
    return any(env.store.exists(key) for key in candidates)
