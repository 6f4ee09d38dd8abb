"""Queries of Structured Streaming that end."""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql.streaming import DataStreamWriter


def run_to_the_end(writing: DataStreamWriter, path: str | Path) -> None:
    """Start the query and wait until it has done what there is to do; raises what it fails with.

    Spark waits ten seconds for the Python process of a stream, which no setting changes. A busy machine may need more;
    a query that is started again goes on where it was.
    """
    while not _ended(writing, path):
        pass


def _ended(writing: DataStreamWriter, path: str | Path) -> bool:
    query = writing.start(str(path))
    try:
        query.awaitTermination()
    except PySparkException as error:
        if "failed to connect back" not in str(error):
            raise
        return False
    finally:
        query.stop()
    return True
