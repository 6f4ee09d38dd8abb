"""Workers that plan, as Spark calls them: they are told the options of the call and nothing of the session."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.servers.s3 import Fault, S3Server

from indextables.errors import StorePermissionDenied
from indextables.spark.session.settings import SESSION
from indextables.spark.source.source import IndexTablesSource

SCHEMA = StructType([StructField("id", LongType())])
WAYS = "sees nothing of the session"


def planned(kind, options):
    source = IndexTablesSource(options)
    return source.schema() if kind == "read" else source.writer(schema=SCHEMA, overwrite=False)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_store_that_does_not_let_a_planner_in_names_the_ways_that_hand_the_session_on(
    s3: S3Server, table_name: str, kind: str
):
    options = {"path": s3.table_url(table_name), **s3.options()}
    s3.inject(Fault(method="GET", before=403, times=100))
    with pytest.raises(StorePermissionDenied, match=WAYS):
        planned(kind, options)
    # A door that hands it on has no such excuse.
    with pytest.raises(StorePermissionDenied) as told:
        planned(kind, {**options, SESSION: json.dumps({"spark.indextables.progress": "never"})})
    assert WAYS not in str(told.value)
