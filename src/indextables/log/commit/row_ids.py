"""Gives new files the ids of their rows: from the table's counter, at each attempt to commit. Pure.

The counter is a domain of the table, which every version of a table that tracks rows says anew: the highest id that was
ever given. So a commit that lost its race counts on from the winner, and no id is given twice.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import LogCorrupt
from indextables.log.commit.staged import Files, Staged
from indextables.log.wire import Add, DomainMetadata, int64_array

__all__ = ["DOMAIN", "counted", "next_row_id"]

DOMAIN = "indextables.rowTracking"


class _Counter(msgspec.Struct, frozen=True):
    rowIdHighWaterMark: int


def _mark(following: int) -> DomainMetadata:
    """What the log says where `following` is the next id to give."""
    return DomainMetadata(DOMAIN, msgspec.json.encode(_Counter(following - 1)).decode())


def next_row_id(domains: Iterable[DomainMetadata]) -> int | None:
    """The next id to give, as these domains tell it; None if they do not. Raises LogCorrupt for what is no number."""
    told = next((domain for domain in domains if domain.domain == DOMAIN and not domain.removed), None)
    if told is None:
        return None
    try:
        highest = _COUNTER.decode(told.configuration).rowIdHighWaterMark
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        message = f"the counter of row ids cannot be read: {error}. Ids would be given twice: repair the log"
        raise LogCorrupt(message, domain=DOMAIN) from error
    if not -1 <= highest < 2**63 - 1:
        raise LogCorrupt(f"the counter of row ids is {highest}: repair the log", domain=DOMAIN)
    return highest + 1


def counted(staged: Staged, following: int) -> Staged:
    """What is staged, with ids from `following` on for the rows of files that have none, and the counter after them.

    A file that was in the table before keeps its ids, and so do rows that bring them.
    """
    adds, after = _numbered(staged.adds, following)
    others = tuple(domain for domain in staged.domains if domain.domain != DOMAIN)
    return msgspec.structs.replace(staged, adds=adds, domains=(*others, _mark(after)))


def _numbered(adds: Files, following: int) -> tuple[Files, int]:
    if isinstance(adds, pa.Table):
        return _numbered_columns(adds, following)
    found: list[Add] = []
    for add in adds:
        if add.baseRowId is not None or add.numRecords is None:
            found.append(add)
            continue
        found.append(msgspec.structs.replace(add, baseRowId=following))
        following += add.numRecords
    return tuple(found), following


def _numbered_columns(adds: pa.Table, following: int) -> tuple[pa.Table, int]:
    place = adds.schema.get_field_index("baseRowId")
    if place < 0:
        adds = adds.append_column("baseRowId", pa.nulls(adds.num_rows, pa.int64()))
        place = adds.num_columns - 1
    counts_rows = "numRecords" in adds.column_names and pa.types.is_integer(adds["numRecords"].type)
    if not adds.num_rows or not counts_rows:
        # What no reader would take is refused when it is encoded.
        return adds, following
    bases, rows = adds["baseRowId"], adds["numRecords"]
    new = bases.is_null().to_numpy() & rows.is_valid().to_numpy()
    counts = np.where(new, rows.fill_null(0).to_numpy(), 0)
    ends = following + np.cumsum(counts)
    given = np.where(new, ends - counts, bases.fill_null(0).to_numpy())
    known = new | bases.is_valid().to_numpy()
    column = int64_array(given)
    column = column if known.all() else pa.array(given, pa.int64(), mask=~known)
    return adds.set_column(place, "baseRowId", column), int(ends[-1])


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_COUNTER = msgspec.json.Decoder(_Counter)
