"""Which files does an overwrite replace? All, those of the partitions a predicate names, or those of given partitions.

What is replaced is asked of the version that the commit goes on top of, so that nothing that was appended meanwhile
survives by accident. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument
from indextables.log.wire import Add
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.query.partition import partition_from_text, partition_to_text
from indextables.query.prune import prune
from indextables.query.stats import map_values

__all__ = ["AllRows", "Partitions", "Range", "Where", "files_inside"]


class Range(Protocol):
    """A set of rows that whole files make up."""

    def parameters(self) -> dict[str, str | None]:
        """How `commitInfo` tells about it."""
        ...

    def inside(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> pa.Table:
        """The files that are in it. Raises InvalidArgument for one of which that cannot be told."""
        ...

    def may_match(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> bool:
        """False if surely none of the files is in it."""
        ...


class AllRows(msgspec.Struct, frozen=True):
    """Everything."""

    def parameters(self) -> dict[str, str | None]:
        return {}

    def inside(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> pa.Table:
        del schema, partition_columns
        return files

    def may_match(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> bool:
        del schema, partition_columns
        return bool(files.num_rows)


class Where(msgspec.Struct, frozen=True):
    """The partitions for whose values a predicate is true; `text` is what the user wrote."""

    predicate: Node
    text: str

    def parameters(self) -> dict[str, str | None]:
        return {"predicate": self.text}

    def inside(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> pa.Table:
        return files_inside(files, self.predicate, schema, partition_columns)

    def may_match(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> bool:
        return bool(pc.any(prune(files, self.predicate, schema, partition_columns), min_count=0).as_py())


class Partitions(msgspec.Struct, frozen=True):
    """The partitions that have these values, one tuple for each, in the order of the partition columns, as logged."""

    values: tuple[tuple[str | None, ...], ...]

    @staticmethod
    def of(adds: Sequence[Add], partition_columns: Sequence[str]) -> Partitions:
        """Those that files are in."""
        found = {tuple(add.partitionValues.get(name) for name in partition_columns) for add in adds}
        return Partitions(tuple(sorted(found, key=repr)))

    def parameters(self) -> dict[str, str | None]:
        return {"partitionOverwriteMode": "dynamic"}

    def inside(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> pa.Table:
        kept, unknown = self._matched(files, schema, partition_columns)
        if unknown.any():
            path = files["path"].filter(pa.array(unknown))[0].as_py()
            raise _unreadable(path, ", ".join(partition_columns))
        return files.filter(pa.array(kept))

    def may_match(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> bool:
        kept, unknown = self._matched(files, schema, partition_columns)
        return bool((kept | unknown).any())

    def _matched(self, files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> tuple[Any, Any]:
        """For each file whether its values are among these, and whether that cannot be told.

        Values are compared in the form in which they are written, whatever form the log has.
        """
        rows, given = np.zeros(files.num_rows, np.int64), np.zeros(len(self.values), np.int64)
        found, unknown = np.ones(files.num_rows, bool), np.zeros(files.num_rows, bool)
        for place, name in enumerate(partition_columns):
            kind = schema.field(name).type
            wanted = _written(pa.array([value[place] for value in self.values], pa.string()), kind)[0]
            values, known = _written(map_values(files["partitionValues"], name), kind)
            distinct = pc.unique(wanted)
            codes = pc.index_in(values, value_set=distinct)
            found &= codes.is_valid().to_numpy(zero_copy_only=False)
            unknown |= ~known.to_numpy(zero_copy_only=False)
            rows = rows * len(distinct) + pc.fill_null(codes, 0).to_numpy(zero_copy_only=False)
            given = given * len(distinct) + pc.index_in(wanted, value_set=distinct).to_numpy(zero_copy_only=False)
            # Numbered anew, so that many columns cannot overflow.
            numbers, both = np.unique(np.concatenate([rows, given]), return_inverse=True)
            del numbers
            rows, given = both[: len(rows)], both[len(rows) :]
        return np.isin(rows, given) & found & ~unknown, unknown


def files_inside(files: pa.Table, where: Node, schema: pa.Schema, partition_columns: Sequence[str]) -> pa.Table:
    """The files for whose partition values `where`, which reads no other columns, is true; not those it is unknown for.

    Raises InvalidArgument for a file that may be meant and has no readable partition value, QueryInvalid where `where`
    has no answer for a value.
    """
    files = files.filter(prune(files, where, schema, partition_columns))
    typed: dict[str, pa.Array] = {}
    for name in columns_of(where):
        texts = map_values(files["partitionValues"], name)
        typed[name], known = partition_from_text(texts, schema.field(name).type)
        if known.false_count:
            raise _unreadable(files["path"].filter(pc.invert(known))[0].as_py(), name)
    return files.filter(evaluate(where, pa.table(typed) if typed else files))


def _written(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The texts in the one form that this library writes (null stays null), and which of them are values at all."""
    typed, known = partition_from_text(texts, kind)
    return partition_to_text(typed), known


def _unreadable(path: str, column: str) -> InvalidArgument:
    message = f"{path} has no readable value of partition column {column!r}: it cannot be told whether to replace it"
    return InvalidArgument(message, path=path, column=column)
