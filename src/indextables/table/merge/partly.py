"""Reads the files of some partitions, of a table that has more files than memory is for (`state.filesInMemory`).

Whoever merges needs the files between which it merges: those of the same partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import LogError
from indextables.log.read import Log, Snapshot
from indextables.log.wire import text_array
from indextables.query.expr import And, Column, Comparison, IsNull, Literal, Node, Or
from indextables.query.partition import partition_from_text
from indextables.table.writing import files_inside

__all__ = ["files_beside", "files_beside_the_newest"]

_MOST_PARTITIONS = 256
"""A merge that touches more partitions than this looks at all files."""

Values = Mapping[str, str | None]
"""Partition values by column, as the log spells them."""


def files_beside(env: Env, snapshot: Snapshot, places: Iterable[Values]) -> pa.Table:
    """The files of the partitions with these values, perhaps with others; all files, unless there are very many.

    Raises LogError, StoreError.
    """
    if not snapshot.has_more_files(env.options[opt.STATE_FILES_IN_MEMORY]):
        return snapshot.files
    where = _where(snapshot, places)
    return snapshot.files if where is None else snapshot.files_where(lambda _: where)


def files_beside_the_newest(env: Env, log: Log, snapshot: Snapshot, versions: int) -> pa.Table:
    """All files; of very many, those of the partitions to which the newest `versions` added.

    Of a table without partitions none is given then: no process could hold them beside its other work. Raises
    InvalidArgument for a partition value that cannot be read, LogError, StoreError.
    """
    if not snapshot.has_more_files(env.options[opt.STATE_FILES_IN_MEMORY]):
        return snapshot.files
    where = _where(snapshot, _lately_filled(log, snapshot.version, versions)) or Or(())
    found = snapshot.files_where(lambda _: where)
    # What the versions above the checkpoint added is among them, whatever its partition.
    return files_inside(found, where, snapshot.schema, snapshot.partition_columns)


def _lately_filled(log: Log, newest: int, versions: int) -> list[Values]:
    found: list[Values] = []
    for version in range(max(0, newest - versions + 1), newest + 1):
        try:
            adds = log.read_version(version).adds
        except LogError:
            # Cleanup took it: the writers of that time have looked.
            continue
        found += [dict(values or {}) for values in adds["partitionValues"].to_pylist()]
    return found


def _where(snapshot: Snapshot, places: Iterable[Values]) -> Node | None:
    """Which partitions these are; None where that tells nothing: a table without any, values that cannot be read."""
    columns = snapshot.partition_columns
    terms: dict[tuple[str | None, ...], Node] = {}
    for values in places:
        texts = tuple(values.get(name) for name in columns)
        if texts not in terms:
            node = _is_place(snapshot, texts)
            if node is None or len(terms) == _MOST_PARTITIONS:
                return None
            terms[texts] = node
    return Or(tuple(terms.values())) if columns else None


def _is_place(snapshot: Snapshot, texts: tuple[str | None, ...]) -> Node | None:
    terms: list[Node] = []
    for name, text in zip(snapshot.partition_columns, texts, strict=True):
        column = Column(name, snapshot.schema.field(name).type)
        if text is None:
            terms.append(IsNull(column))
            continue
        typed, known = partition_from_text(text_array([text]), column.type)
        if known.false_count:
            return None
        terms.append(Comparison("<=>", column, Literal(typed[0])))
    return And(tuple(terms))
