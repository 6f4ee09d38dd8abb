"""What several modules of tests look at and only one driver on the cluster has to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.spark.orphans import with_orphans
from tests.table.merge_world import table_of

import indextables

NAMES = ("before", "after")
"""Tables during whose care an executor dies, before or after a task has done its work."""


@dataclass(frozen=True)
class Survived:
    """What `tests.spark.cluster_jobs` left; `merged` and `purged` are the tables as they were opened before."""

    folder: Path
    merged: dict[str, indextables.Table]
    purged: dict[str, indextables.Table]


@pytest.fixture(scope="session")
def survived(spark_cluster, tmp_path_factory) -> Survived:
    """Tables that were written, merged and purged while workers and executors died."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "writes").mkdir()
    merged = {name: table_of(folder / "merges" / name, [50] * 6) for name in NAMES}
    purged = {name: with_orphans(folder / "purges" / name, 2500) for name in NAMES}
    table_of(folder / "changes" / "t", [50] * 4)
    done = spark_cluster.run("tests.spark.cluster_jobs", folder)
    assert done.code == 0, done.output
    return Survived(folder, merged, purged)
