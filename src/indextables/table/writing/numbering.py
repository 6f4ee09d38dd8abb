"""Numbers rows in identity columns, from ranges that the writer claims as it goes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.errors import InvariantViolated, LimitExceeded
from indextables.log.commit import claim
from indextables.log.wire import field_id
from indextables.query.stored import Identity, identity_columns
from indextables.table.rows import places_of_identity

__all__ = ["Numbering"]

_SECOND, _GROWTH, _LARGEST = 1_000, 10, 10_000_000
"""How many numbers a writer claims that needs more than its first batch; ten times more each time."""


class Numbering:
    """The numbers of one writer. They grow from row to row, in the direction of the step."""

    def __init__(self, env: Env, schema: pa.Schema) -> None:
        self._columns = [_Column(env, schema.field(name), told) for name, told in identity_columns(schema).items()]
        self._places = [schema.get_field_index(column.name) for column in self._columns]

    def into(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with a number wherever an identity column holds null.

        Raises LimitExceeded where none is left, LogCorrupt, StoreError.
        """
        arrays = list(batch.columns)
        for place, column in zip(self._places, self._columns, strict=True):
            arrays[place] = column.filled(arrays[place])
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


class _Column:
    """What is left of the ranges that were claimed for a column."""

    def __init__(self, env: Env, field: pa.Field, identity: Identity) -> None:
        number = field_id(field)
        if number is None:
            raise InvariantViolated(f"the identity column {field.name} has no id: nothing was written")
        self.name = str(field.name)
        self._env = env
        self._field = number
        self._identity = identity
        self._next = self._end = 0
        self._size = 0

    def filled(self, values: pa.Array) -> pa.Array:
        count = values.null_count
        if not count:
            return values
        numbers = self._take(count)
        if count == len(values):
            return pa.array(numbers)
        missing = values.is_null().to_numpy(zero_copy_only=False)
        found = values.fill_null(0).to_numpy(zero_copy_only=False).copy()
        found[missing] = numbers
        return pa.array(found)

    def _take(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        parts = []
        while count:
            if self._next == self._end:
                self._claim(count)
            taken = min(count, self._end - self._next)
            start = self._identity.start + self._next * self._identity.step
            # Each number fits; what overflows on the way comes back.
            parts.append(np.arange(taken, dtype=np.int64) * np.int64(self._identity.step) + np.int64(start))
            self._next += taken
            count -= taken
        return np.concatenate(parts)

    def _claim(self, count: int) -> None:
        # One batch, which most writes have, takes what it needs: no gap.
        wanted = max(count, min(self._size, _LARGEST))
        self._size = _SECOND if not self._size else self._size * _GROWTH
        places = places_of_identity(self._identity)
        got = claim(self._env, self._field, least=count, wanted=wanted, places=places)
        if got is None:
            message = (
                f"the identity column {self.name} (GENERATED {self._identity.sql}) has no {count} numbers left. "
                "Nothing was written; make a new table with another start or a smaller step"
            )
            raise LimitExceeded(message, limit=places, column=self.name)
        self._next, self._end = got.first, got.end
