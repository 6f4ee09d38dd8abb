"""Turns the report of a change of rows into the row that SQL and Spark answer with, Delta's columns first."""

from __future__ import annotations

import pyarrow as pa

from indextables.table.change.statement import ChangeReport

__all__ = ["CHANGED", "told_of"]

CHANGED = pa.schema(
    [
        ("num_affected_rows", pa.int64()),
        ("num_updated_rows", pa.int64()),
        ("num_deleted_rows", pa.int64()),
        ("num_inserted_rows", pa.int64()),
        ("path", pa.string()),
        ("version", pa.int64()),
        ("dry_run", pa.bool_()),
        ("located_by", pa.string()),
        ("repairs", pa.int64()),
        ("reruns", pa.int64()),
        ("metrics", pa.map_(pa.string(), pa.int64())),
    ]
)


def told_of(report: ChangeReport, url: str) -> pa.Table:
    """The one row that answers a statement."""
    counts = (report.updated, report.deleted, report.inserted)
    row = {
        "num_affected_rows": sum(counts),
        **dict(zip(CHANGED.names[1:4], counts, strict=True)),
        "path": url,
        **{name: getattr(report, name) for name in ("version", "dry_run", "located_by", "repairs", "reruns")},
        "metrics": list(report.metrics.items()),
    }
    return pa.Table.from_pylist([row], CHANGED)
