"""Remembers in the log which input files were taken, so that each is taken once; a restore sets them free. Pure.

A file is an application of its own, named by its bytes. Its batch number is odd while its rows are in the table and
even after a restore took them away, so that the number, as every watermark, only ever grows.
"""

from __future__ import annotations

from collections.abc import Mapping

from indextables.log.wire import Txn

__all__ = ["application", "is_taken", "next_batch", "turned"]

_PREFIX = "indextables-ingest:"


def application(identity: str) -> str:
    """The name under which the log remembers a file of these bytes."""
    return _PREFIX + identity


def is_taken(batch: int | None) -> bool:
    """True if the rows of a file with this batch number are in the table."""
    return batch is not None and batch % 2 == 1


def next_batch(batch: int | None) -> int:
    """The number under which a file that is not in the table is taken."""
    return 1 if batch is None else batch + 1


def turned(then: Mapping[str, Txn], now: Mapping[str, Txn]) -> dict[str, int]:
    """New batch numbers for files whose rows come or go when the table becomes what it was with `then`."""
    found = {}
    for name, held in now.items():
        was = then.get(name)
        if name.startswith(_PREFIX) and is_taken(held.version) != is_taken(None if was is None else was.version):
            found[name] = held.version + 1
    return found
