"""The doors of a session, as tests use them."""

from __future__ import annotations

import indextables


def write(frame, path, mode="append", **options):
    frame.write.format("indextables").options(**options).mode(mode).save(str(path))


def read(spark, path, **options):
    return spark.read.format("indextables").options(**options).load(str(path))


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def held(path, column="id"):
    """What the table holds, without Spark."""
    return sorted(indextables.open(path).to_arrow(columns=[column])[column].to_pylist())


def splits(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*.split"))


def last_commit(path):
    """The newest commit as the history tells it."""
    return indextables.open(path).history(1).to_pylist()[0]
