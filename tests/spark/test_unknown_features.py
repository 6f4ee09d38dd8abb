"""What this library does not understand it does not touch through Spark either, by no verb of an `IndexTable`."""

from __future__ import annotations

import json

import pytest
from tests.spark.orphans import ROWS
from tests.world.commits import record_skip

import indextables
from indextables.errors import ProtocolUnsupported
from indextables.log.care.opening import open_log
from indextables.log.wire.names import version_key
from indextables.spark.table.indextable import IndexTable
from indextables.table.environment import open_env

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]

KNOWN = ["avroState", "parquetSplit", "schemaDeduplication"]
WRITES = {
    "addColumns": lambda t: t.addColumns("y int"),
    "addConstraint": lambda t: t.addConstraint("sane", "m IS NOT NULL"),
    "alterColumn": lambda t: t.alterColumn("m", comment="a text"),
    "dropColumns": lambda t: t.dropColumns("m"),
    "dropConstraint": lambda t: t.dropConstraint("known"),
    "renameColumn": lambda t: t.renameColumn("m", "n"),
    "setDescription": lambda t: t.setDescription("texts"),
    "setIndexing": lambda t: t.setIndexing({"m": "string"}),
    "setName": lambda t: t.setName("texts"),
    "setProperties": lambda t: t.setProperties({"checkpoint.interval": "7"}),
    "unsetProperties": lambda t: t.unsetProperties("indexing.typemap.m"),
    "upgradeProtocol": lambda t: t.upgradeProtocol("columnMapping"),
    "checkpoint": lambda t: t.checkpoint(),
    "clearSkips": lambda t: t.clearSkips(),
    "compact": lambda t: t.compact(),
    "delete": lambda t: t.delete("p = 'a'"),
    "dropPartitions": lambda t: t.dropPartitions("p = 'a'"),
    "merge": lambda t: t.merge(t.spark.range(3).selectExpr("'a' AS m"), "m = 'a'").whenMatchedDelete().execute(),
    "mergeSplits": lambda t: t.mergeSplits(),
    "mirror": lambda t: t.mirror(),
    "purge": lambda t: t.purge(olderThanHours=0, force=True),
    "reindex": lambda t: t.reindex(force=True),
    "repair": lambda t: t.repair(t.url + "-repaired"),
    "restoreToTimestamp": lambda t: t.restoreToTimestamp("2100-01-01"),
    "restoreToVersion": lambda t: t.restoreToVersion(1),
    "truncateTimeTravel": lambda t: t.truncateTimeTravel(),
    "update": lambda t: t.update("p = 'a'", {"m": "'b'"}),
    "upsert": lambda t: t.upsert(t.spark.range(3).selectExpr("'a' AS m", "'a' AS p"), "m"),
}
READS = {
    "changes": lambda t: t.changes(1, 2).collect(),
    "count": lambda t: t.count("m"),
    "describeState": lambda t: t.describeState(),
    "detail": lambda t: t.detail().collect(),
    "flushCaches": lambda t: t.flushCaches(),
    "health": lambda t: t.health(),
    "history": lambda t: t.history().collect(),
    "invalidateCaches": lambda t: t.invalidateCaches(),
    "prewarm": lambda t: t.prewarm(),
    "schema": lambda t: t.schema,
    "search": lambda t: t.search("m").collect(),
    "skips": lambda t: t.skips().collect(),
    "toDF": lambda t: t.toDF().collect(),
    "verify": lambda t: t.verify(),
    "version": lambda t: t.version,
}
OTHERS = {
    *("alias", "convert", "create", "createIfNotExists", "forName", "forPath", "isIndexTable"),
    *("env", "log", "options", "place", "progress", "reader_options", "runner", "spark", "url"),
}


def world(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_no_verb_of_spark_writes_what_it_does_not_understand(spark, tmp_path):
    path = tmp_path / "world" / "t"
    known = {"known": "p IS NOT NULL"}
    table = indextables.create(path, ROWS.schema, partition_by=["p"], indexing={"m": "text"}, constraints=known)
    table.append(ROWS)
    table.append(ROWS)
    record_skip(open_log(open_env(path)), table.files()["path"][0].as_py(), "it is broken", "merge")
    frame = spark.createDataFrame(ROWS.to_pandas())
    needs = {"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": KNOWN, "writerFeatures": [*KNOWN, "zz"]}
    (path / version_key(4)).write_text(json.dumps({"protocol": needs}) + "\n")
    indextables.invalidate_caches()
    other = IndexTable.forPath(spark, str(path))
    names = {name for name in dir(other) if not name.startswith("_")}
    assert names == {*WRITES, *READS, *(OTHERS & names)}
    before = world(tmp_path / "world")
    writes = {
        **WRITES,
        "append": lambda _: indextables.write(frame, str(path), mode="append"),
        "overwrite": lambda _: indextables.write(frame, str(path), mode="overwrite"),
    }
    for name, call in writes.items():
        with pytest.raises(ProtocolUnsupported, match="upgrade the library"):
            call(other)
        assert world(tmp_path / "world") == before, name
    for name, call in READS.items():
        call(other)
        assert world(tmp_path / "world") == before, name
