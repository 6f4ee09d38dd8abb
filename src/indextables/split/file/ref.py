"""`SplitRef` is what a reader must know about a split before it touches its bytes."""

from __future__ import annotations

import msgspec

from indextables.split.file.columns import Columns

__all__ = ["SplitRef"]


class SplitRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names one split. Everything but `key` may be unknown: `reader.resolve` reads the footer for what is missing.

    1. Offsets are from the start of the object; `[footer_start, footer_end)` is the Thrift of the Parquet footer.
    2. `[index_start, index_start + range1_length)` is the first range of the index: directory and term dictionary.
       `range1_length` 0 says that the file carries no section of ours.
    3. `id` is the id that the split must carry, as the log has it. None: the log knows none, and the split is told from
       others by its size and its footer.
    4. `vector` is a serialised deletion vector (`dv.encode`), already loaded from wherever the log keeps it.
    5. `base_row_id` is the id of the first row, where rows have ids and somebody asks for them.
    6. `columns` says how the columns of the table stand in its files; None: as the table has them.
    """

    key: str
    size: int | None = None
    num_rows: int | None = None
    footer_start: int | None = None
    footer_end: int | None = None
    index_start: int | None = None
    range1_length: int | None = None
    id: str | None = None
    vector: bytes | None = None
    base_row_id: int | None = None
    columns: Columns | None = None

    @property
    def has_offsets(self) -> bool:
        """True if the split opens by ranged reads alone: neither its size nor its footer has to be looked up."""
        return (
            self.num_rows is not None
            and self.footer_start is not None
            and self.footer_end is not None
            and self.index_start is not None
            and self.range1_length is not None
        )
