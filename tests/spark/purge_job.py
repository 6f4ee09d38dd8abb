"""A driver on a cluster that purges a table while an executor dies in the middle of deleting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers.spark_faults import Broken

from indextables.spark.table.indextable import IndexTable
from indextables.table.maintenance.purge.deleting import delete_keys
from indextables.table.maintenance.purge.verb import purge
from indextables.table.requests import Purge
from indextables.table.running import Answer, Job, Runner


class BrokenDeletes:
    """The runner of the cluster, but that an executor dies in the first unit that deletes, before or after it does."""

    def __init__(self, inner: Runner, marker: str, *, after: bool) -> None:
        self._inner = inner
        self._broken = Broken(inner, marker, after=after)

    @property
    def width(self) -> int:
        return self._inner.width

    def run(self, job: Job, units: Sequence[bytes]) -> list[Answer]:
        return (self._broken if job is delete_keys else self._inner).run(job, units)


def main(spark: Any, folder: str) -> None:
    """Purges the tables `before` and `after` below `folder`, and writes down what went."""
    for name in ("before", "after"):
        table = IndexTable.forPath(spark, f"{folder}/{name}")
        runner = BrokenDeletes(table._handle.runner(), f"{folder}/{name}.marker", after=name == "after")
        report = purge(table._handle.log(), Purge(), runner=runner)
        told = {"splits": report.count("split"), "failed": report.failed, "reason": report.reason}
        Path(f"{folder}/{name}.json").write_text(json.dumps(told))
