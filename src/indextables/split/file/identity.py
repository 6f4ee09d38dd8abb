"""Are these files the splits that the log names? For those who hand splits to a reader that does not know ids."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.ambient import Ambient
from indextables.split.file import layout
from indextables.split.file.reader import footer_range, parse_footer, read_ranges
from indextables.split.file.ref import SplitRef
from indextables.storage.store import Store

__all__ = ["check_identity"]


def check_identity(store: Store, refs: Sequence[SplitRef], ambient: Ambient) -> None:
    """Read the end of each file, at once as threads allow. Raises SplitCorrupt for one that is another, StoreError.

    References without offsets are passed over: whoever reads them goes by what the file says.
    """

    def one(ref: SplitRef) -> None:
        data = read_ranges(store, ref.key, [footer_range(ref)], "footer")[0]
        value = layout.key_value(data) if ref.id is not None else None
        if value is None:
            parse_footer(data, ref)
        else:
            layout.check_id(layout.decode_key(value, ref.key).id, ref.id, ref.key, "footer")

    for _ in ambient.map("splits", one, [ref for ref in refs if ref.has_offsets]):
        pass
