"""Sets of keys that take eight bytes a key, for tables of very many files: sorted hashes.

Equal keys have equal hashes, so that whatever is in a set is found in it. Two keys may share a hash: then a set seems
to hold a key that nobody put in. Sets tell what stays: such a key is a file that could go and stays. No file goes that
is needed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.read import Snapshot
from indextables.log.wire import PathRule, bool_array, combined, int64_array, int64_values, path_rule, text_hashes
from indextables.table.writing import data_keys

__all__ = ["Hashes", "Keys", "Named", "hashes_of", "key_hashes", "named_by"]

Hashes = npt.NDArray[np.uint64]

_SAMPLED = 1024


class Keys:
    """A set of keys, of which it may hold more than were put in (see above), and never fewer."""

    __slots__ = ("_hashes",)

    def __init__(self, *parts: Hashes) -> None:
        """The union of these hashes, which may repeat, in any order."""
        hashes = np.concatenate(parts) if parts else np.zeros(0, np.uint64)
        hashes.sort()
        fresh = np.ones(len(hashes), np.bool_)
        np.not_equal(hashes[1:], hashes[:-1], out=fresh[1:])
        self._hashes: Hashes = hashes if fresh.all() else hashes[fresh]

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def hashes(self) -> Hashes:
        """The hashes, ascending, each once."""
        return self._hashes

    def union(self, *others: Keys) -> Keys:
        """What is in any of them."""
        return Keys(self._hashes, *(other.hashes for other in others)) if any(map(len, others)) else self

    def hold(self, keys: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
        """For each key whether it is in the set; true for every one that is."""
        return bool_array(self.hold_hashes(hashes_of(keys)))

    def hold_hashes(self, asked: Hashes) -> npt.NDArray[np.bool_]:
        """The same for hashes of keys."""
        if not len(self._hashes):
            return np.zeros(len(asked), np.bool_)
        # In ascending order a search goes through memory once, from its beginning to its end.
        order = np.argsort(asked)
        ascending = asked[order]
        places = np.minimum(np.searchsorted(self._hashes, ascending), len(self._hashes) - 1)
        found = np.empty(len(asked), np.bool_)
        found[order] = self._hashes[places] == ascending
        return found


class Named:
    """The keys of data files that a version names; `some`, one in about `share`, are texts: so are all spread."""

    __slots__ = ("keys", "some")

    share = _SAMPLED

    def __init__(self, told: pa.Table) -> None:
        """Of what `key_hashes` told."""
        self.keys = Keys(int64_values(told["hash"]).view(np.uint64))
        self.some = combined(told["some"].drop_null())


def hashes_of(keys: pa.Array | pa.ChunkedArray) -> Hashes:
    """A hash of each key."""
    return text_hashes(combined(keys))


def key_hashes(files: pa.Table, root_url: str, rule: PathRule) -> pa.Table:
    """The hash of each key that rows of the log name, and some of the keys. Raises PathEscape, DvCorrupt."""
    keys = data_keys(files, root_url, rule)
    hashes = hashes_of(keys)
    is_some = bool_array(hashes % np.uint64(_SAMPLED) == 0)
    some = pc.if_else(is_some, keys, pa.nulls(1, pa.string())[0])
    return pa.table({"hash": int64_array(hashes.view(np.int64)), "some": some})


def named_by(snapshot: Snapshot, root_url: str) -> Named:
    """What a version names, of whose very many files a part is in memory at a time.

    Raises LogError, PathEscape, DvCorrupt.
    """
    rule = path_rule(snapshot.protocol)
    return Named(snapshot.gathered(lambda files: key_hashes(files, root_url, rule)))
