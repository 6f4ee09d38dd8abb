"""A driver on a cluster that merges splits while an executor dies, before or after its task has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from tests.servers.spark_faults import Broken

from indextables.spark.table.indextable import IndexTable
from indextables.table.merge.verb import merge_splits
from indextables.table.requests import MergeSplits


def main(spark: Any, folder: str) -> None:
    """Merges the tables `before` and `after` below `folder`, and writes down the reports."""
    for name in ("before", "after"):
        table = IndexTable.forPath(spark, f"{folder}/{name}")
        runner = Broken(table._handle.runner(), f"{folder}/{name}.marker", after=name == "after")
        report = merge_splits(table._handle.log(), MergeSplits(max_source_splits_per_merge=3), runner=runner)
        told = {key: value for key, value in msgspec.structs.asdict(report).items() if key not in {"plan", "skipped"}}
        Path(f"{folder}/{name}.json").write_text(json.dumps(told))
