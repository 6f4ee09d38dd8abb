"""Deletes data files in bulk, each bulk only while the lease is held for a while still."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.care import Ticket, holds
from indextables.log.read import clock
from indextables.table.running import Runner

__all__ = ["BULK", "delete", "delete_keys"]

BULK = 1000
"""How many files are deleted by one job."""
_SPARE_MS = 300_000
"""What a lease must last for when a bulk of deletes is sent: longer than the store is tried, and than clocks differ."""


def delete(runner: Runner, batch: pa.Table, ticket: Ticket) -> tuple[dict[str, str], list[str]]:
    """Keys that could not be deleted, each with the reason, and those that it was too late for."""
    keys = batch["path"].to_pylist()
    units = [keys[start : start + BULK] for start in range(0, len(keys), BULK)]
    failed: dict[str, str] = {}
    late: list[str] = []
    answers = runner.run(delete_keys, [msgspec.msgpack.encode((ticket, unit)) for unit in units])
    for unit, answer in zip(units, answers, strict=True):
        if isinstance(answer, IndexTablesError):
            failed |= dict.fromkeys(unit, str(answer))
            continue
        told = _READ_FAILED.decode(answer)
        late += unit if told is None else []
        failed |= told or {}
    return failed, late


def delete_keys(env: Env, unit: bytes) -> bytes:
    """Job: delete, if the lease is held for a while still; the keys that may be there, each with the reason.

    None where nothing was deleted, because the lease is over or about to be. Raises StoreError.
    """
    ticket, keys = _DELETES.decode(unit)
    is_off = abs(clock.skew_ms(env)) > env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]
    if is_off or not holds(env, ticket, spare_ms=_SPARE_MS):
        return msgspec.msgpack.encode(None)
    return msgspec.msgpack.encode(env.store.delete_many(keys))


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_DELETES = msgspec.msgpack.Decoder(tuple[Ticket, list[str]])
_READ_FAILED = msgspec.msgpack.Decoder(dict[str, str] | None)
