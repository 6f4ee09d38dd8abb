"""`PurgeReport` says what a purge did, or would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.wire import text_array
from indextables.storage.store import ObjectMeta
from indextables.table.maintenance.purge.plan import LISTED

__all__ = ["PurgeReport", "rows_of"]


class PurgeReport(msgspec.Struct, frozen=True):
    """What a purge did, or would do in a dry run.

    `files` has a row for each object that went (in a dry run: would go): `path` below the table's root, `kind` (split,
    vector, version, state, manifest or intent), `size` and `modified`, null where nobody asked. `failed` may still be
    there, each with the reason. `kept` counts the table's own data files that stay, by reason. `foreign` objects below
    the root have names that this library does not give: they were not touched. `reason` says why nothing was done, or
    why it ended early. `cut` is the oldest version that can still be read, where versions went.
    """

    version: int
    dry_run: bool
    files: pa.Table
    kept: dict[str, int] = {}
    failed: dict[str, str] = {}
    foreign: int = 0
    cut: int | None = None
    reason: str = ""

    @property
    def deleted(self) -> int:
        """How many objects went, or would go."""
        return int(self.files.num_rows)

    @property
    def bytes(self) -> int:
        """How many bytes of data files went, or would go."""
        return int(pc.sum(self.files["size"], min_count=0).as_py() or 0)

    def count(self, kind: str) -> int:
        """How many objects of a kind went, or would go."""
        return int(pc.sum(pc.equal(self.files["kind"], kind), min_count=0).as_py() or 0)


def rows_of(kinds: Mapping[str, Sequence[str]], listing: Sequence[ObjectMeta]) -> pa.Table:
    """Rows of `LISTED` for these keys by kind, with what the listing tells of each; null where it tells nothing."""
    told = {meta.key: meta for meta in listing}
    tables = [LISTED.empty_table()]
    for kind, keys in kinds.items():
        metas = [told.get(key) for key in keys]
        rows = [
            text_array(list(keys)),
            pa.array([kind] * len(keys), pa.string()),
            pa.array([None if meta is None else meta.size for meta in metas], pa.int64()),
            pa.array([None if meta is None else meta.modified_ms for meta in metas], LISTED.field("modified").type),
        ]
        tables.append(pa.table(rows, schema=LISTED))
    return pa.concat_tables(tables)
