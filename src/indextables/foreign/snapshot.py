"""`ForeignSnapshot` is one version of another system's table: which rows it has, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from indextables.foreign.columns import Match
from indextables.foreign.rows import ForeignFile
from indextables.log.wire import Metadata, bool_array
from indextables.log.wire import Protocol as TableProtocol
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, conjuncts
from indextables.query.prune import is_partition_only

__all__ = ["Added", "AddedFile", "Files", "ForeignSnapshot", "partition_mask"]


class ForeignSnapshot(Protocol):
    """A version of a table of another system."""

    @property
    def system(self) -> str:
        """Who wrote it: `Delta`, `Parquet`."""
        ...

    @property
    def version(self) -> int: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def protocol(self) -> TableProtocol: ...

    @property
    def schema(self) -> pa.Schema:
        """The columns, as the source declares them; `plain_field` shows one to users."""
        ...

    @property
    def partition_columns(self) -> list[str]: ...

    @property
    def match(self) -> Match:
        """How columns are found in data files."""
        ...

    @property
    def files(self) -> pa.Table:
        """The live files, a row for each, with the columns path, size, numRecords and deletionVector at least."""
        ...

    def files_where(self, where: Node | None) -> pa.Table:
        """Those of them that may hold rows for which `where` is true."""
        ...

    def data_files(self, where: Node | None) -> Sequence[ForeignFile]:
        """The files that may hold rows for which `where` is true, in the order of their rows."""
        ...


class AddedFile(NamedTuple):
    """A file that brought new rows, and the version that brought it."""

    version: int
    path: str


class Added(NamedTuple):
    """The files that brought rows, in the order of the log; `lost` is the first version that took rows away."""

    files: list[AddedFile]
    lost: int | None = None


class Files(Sequence[ForeignFile]):
    """Files of which each is made when it is asked for: of many, a read opens some at a time."""

    def __init__(self, count: int, make: Callable[[int], ForeignFile]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._make(number) for number in range(self._count)[place]]
        return self._make(range(self._count)[place])


def partition_mask(values: Mapping[str, pa.Array], where: Node | None, files: int) -> pa.BooleanArray | None:
    """For each file whether its partition values allow a row for which `where` is true; None if all do."""
    if where is None or not values:
        return None
    terms = [term for term in conjuncts(where) if is_partition_only(term, list(values))]
    if not terms:
        return None
    table = pa.table(dict(values))
    kept: Any = np.ones(files, bool)
    for term in terms:
        told = evaluate(term, table).to_numpy(zero_copy_only=False)
        kept &= np.equal(told, True) if told.dtype == object else told.astype(bool)  # noqa: FBT003 - a value
    return bool_array(kept)
