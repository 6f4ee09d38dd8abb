"""A table in memory whose searches are answered by looking at every row: the oracle's own source."""

from __future__ import annotations

import pyarrow as pa


class MemorySource:
    """Remembers what was asked of it in `asked` and `limits`."""

    def __init__(self, table: pa.Table, *, chunk: int = 3):
        self.table = table
        self.chunk = chunk
        self.asked = []
        self.limits = []

    @property
    def schema(self):
        return self.table.schema

    def batches(self, columns, where, required, marked, limit, *, scored):
        self.asked.append((columns, where, tuple(s.query for s in required), tuple(s.query for s in marked)))
        self.limits.append(limit)
        for start in range(0, self.table.num_rows, self.chunk):
            rows = self.table.slice(start, self.chunk)
            lines = rows.to_pylist()
            keep = [all(matches(line, s.column, s.query) for s in required) for line in lines]
            rows = rows.filter(pa.array(keep, pa.bool_()))
            kept = [line for line, kept in zip(lines, keep, strict=True) if kept]
            arrays = [rows.column(name).combine_chunks() for name in columns]
            arrays += [pa.array([matches(line, s.column, s.query) for line in kept], pa.bool_()) for s in marked]
            names = [*columns, *(s.name for s in marked)]
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, names=names)
            else:
                yield pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), len(kept), [None]))


def matches(line, column, query):
    """One word in one column, or in any text column."""
    texts = [line[column]] if column is not None else [v for v in line.values() if isinstance(v, str)]
    return any(query.lower() in (text or "").lower().split() for text in texts)
