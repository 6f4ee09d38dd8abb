"""Which data files may go? Pure decisions over columns: a listing, what the log names, and who needs what.

A data file goes only if all of this holds:

1. its name is one that this library gives, below the table's root and not inside another table;
2. no version that stays readable names it, and neither does a deletion vector's descriptor;
3. the store saw it longer ago than the retention, the table's history was not truncated since, and no commit within
   the retention removed it, of those that are in the log or go with this purge;
4. no live writer or reader protects it.

Times are the store's and commits', never this machine's alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.wire import LOG_DIR, LOG_FOLDERS, combined, int64_array, text_array
from indextables.table.maintenance.purge.keys import Hashes, Keys
from indextables.table.rows import folder_pattern
from indextables.table.writing import SPLITS

__all__ = [
    "LISTED",
    "LOG_END",
    "NAMED",
    "NESTED",
    "SPLIT_NAME",
    "VECTOR_NAME",
    "Claims",
    "Decision",
    "KeyRange",
    "Names",
    "decide",
    "listed_table",
    "nested_roots",
    "ranges_over",
]

LISTED = pa.schema(
    [("path", pa.string()), ("kind", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("ms", "UTC"))]
)
"""Objects of the store: keys below the root, what they are, and what the store tells about them."""

NAMED = "named by a version"
"""Why most data files stay."""

NESTED = rf"^(?P<root>.+/)(?:{'|'.join(LOG_FOLDERS)})/"
"""A key that belongs to the log of a table inside this one."""

LOG_END = LOG_DIR.rstrip("/") + "0"
"""The first key that can follow the log's folder: `0` comes right after `/`."""

SPLIT_NAME = r"split-[0-9a-f]{32}\.split"
VECTOR_NAME = r"deletion_vector_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin"
_VECTOR = rf"^(?:[0-9A-Za-z]+/)?{VECTOR_NAME}$"


class Names(msgspec.Struct, frozen=True):
    """The names that this library gives to data files of a table, as regular expressions of whole keys."""

    split: str
    vector: str

    @classmethod
    def of(cls, partitionings: Sequence[Sequence[str]]) -> Names:
        """For a table that is, or was, partitioned by one of these lists of columns."""
        folders = "|".join(dict.fromkeys(folder_pattern(columns) for columns in partitionings))
        return cls(rf"^(?:{folders}){SPLITS}{SPLIT_NAME}$", _VECTOR)


class KeyRange(msgspec.Struct, frozen=True):
    """The keys greater than `after` and up to `until`; empty means without a bound."""

    after: str = ""
    until: str = ""


class Claims(msgspec.Struct, frozen=True):
    """Who needs what. `removed` are hashes of keys, each with the store's or commit's time in ms."""

    named: Keys
    removed: Hashes = np.zeros(0, np.uint64)
    removed_ms: npt.NDArray[np.int64] = np.zeros(0, np.int64)
    protected: frozenset[str] = frozenset()
    since_ms: int | None = None
    truncated_ms: int | None = None


class Decision(msgspec.Struct, frozen=True):
    """What goes, and how many of the table's own data files stay for which reason."""

    goes: pa.Table
    kept: dict[str, int]


def ranges_over(keys: pa.Array, keys_per_range: int) -> list[KeyRange]:
    """All keys, in ranges of about equal size, judged by those that are given. The log is in the midst of one.

    Together they cover every key that there can be, whatever is known: what nobody knows is what purge looks for.
    """
    cuts: list[str] = []
    if len(keys) > keys_per_range:
        places = pc.sort_indices(keys).take(int64_array(np.arange(keys_per_range, len(keys), keys_per_range)))
        cuts = list(dict.fromkeys(keys.take(places).to_pylist()))
    return list(_ranges("", cuts))


def listed_table(keys: Sequence[str], sizes: Sequence[int], times_ms: Sequence[int], names: Names) -> pa.Table:
    """The objects whose names are ours, of `LISTED`; all others are left out."""
    column = text_array(list(keys))
    is_split = pc.match_substring_regex(column, names.split)
    is_vector = pc.match_substring_regex(column, names.vector)
    kinds = pc.if_else(is_split, "split", pc.if_else(is_vector, "vector", None))
    modified = int64_array(np.array(times_ms, dtype=np.int64)).cast(pa.timestamp("ms", "UTC"))
    table = pa.table([column, kinds, int64_array(np.array(sizes, dtype=np.int64)), modified], schema=LISTED)
    return table.filter(pc.is_valid(kinds))


def nested_roots(keys: Sequence[str]) -> list[str]:
    """The folders below the root that hold a log of their own, each with its slash."""
    found = pc.extract_regex(text_array(list(keys)), NESTED)
    return pc.unique(pc.struct_field(found.drop_null(), "root")).to_pylist() if len(found) else []


def decide(listed: pa.Table, claims: Claims, *, now_ms: int, retention_ms: int, nested: Sequence[str] = ()) -> Decision:
    """What of the listing goes. `now_ms` is the store's time."""
    kept: dict[str, int] = {}
    left = listed.combine_chunks()

    def keep(reason: str, mask: pa.Array) -> None:
        nonlocal left
        stays = pc.fill_null(combined(mask), fill_value=False)
        if stays.true_count:
            kept[reason] = kept.get(reason, 0) + stays.true_count
            left = left.filter(pc.invert(stays)).combine_chunks()

    for root in nested:
        keep("inside another table", pc.starts_with(left["path"], root))
    keep(NAMED, claims.named.hold(left["path"]))
    oldest_ms = now_ms - retention_ms
    oldest = pa.scalar(oldest_ms, pa.int64())
    keep("young", pc.greater_equal(_times(left), oldest))
    if claims.truncated_ms is not None and now_ms - claims.truncated_ms <= retention_ms:
        since = pa.scalar(claims.truncated_ms, pa.int64())
        keep("history truncated lately", pc.less_equal(_times(left), since))
    lately = Keys(claims.removed[claims.removed_ms >= oldest_ms])
    keep("removed lately", lately.hold(left["path"]))
    if claims.since_ms is not None:
        keep("protected by a writer", pc.greater_equal(_times(left), pa.scalar(claims.since_ms, pa.int64())))
    if claims.protected:
        keep("protected by a writer", pc.is_in(left["path"], value_set=text_array(sorted(claims.protected))))
    return Decision(left, kept)


def _ranges(after: str, cuts: Sequence[str]) -> Iterator[KeyRange]:
    for cut in cuts:
        yield KeyRange(after, cut)
        after = cut
    yield KeyRange(after, "")


def _times(table: pa.Table) -> pa.Array:
    return combined(table["modified"].cast(pa.int64()))
