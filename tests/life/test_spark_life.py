"""A life in Spark: statements and DataFrames show the rows of each version, whatever was asked before."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables
from indextables.spark.table.indextable import IndexTable
from tests.life.book import BY_PLACE, WHERES
from tests.life.sparked import Sparked
from tests.life.test_life import draft, live
from tests.life.told import Told, surface_of

NOT_DRIVEN = {
    **dict.fromkeys(("IndexTable.create", "IndexTable.createIfNotExists"), "builders: tests/spark/test_indextable.py"),
    "IndexTable.changes": "compared with Table.changes: tests/spark/test_feed.py",
    "IndexTable.forName": "names of a session: tests/spark/test_catalog.py",
    **dict.fromkeys(("IndexTable.spark", "IndexTable.url"), "what it was made with"),
}

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def sparked(spark, scratch):
    used = set()
    session = Told(indextables, "indextables", used).enable(spark)
    yield type("OneSparked", (Sparked,), {"folder": scratch, "session": session, "used": used})
    indextables.disable(spark)


def everything_once(machine) -> None:
    one = machine()
    one.born(True, True, {"checkpoint.interval": "2"}, [])
    rows = [draft(0), draft(1), draft(3)]
    for how in ("append", "overwrite", "where", "dynamic"):
        one.write(rows, BY_PLACE[0], how)
    one.insert(rows)
    one.embedded_write(rows, all_rows=False)
    one.select(WHERES[0], "alpha", searched=True, forget=True)
    one.travel(1, WHERES[0])
    one.change(WHERES[0], None, updates=True)
    for how in ("upsert", "merge", "sql"):
        one.merge(rows, how)
    one.change(None, "delta", updates=False)
    one.drop_partitions(BY_PLACE[0])
    for statement in ("MERGE SPLITS {}", "CHECKPOINT INDEXTABLE {}", "COMPACT INDEXTABLE {}"):
        one.care(statement)
    _handle_of_spark(one)
    one.clean_up()
    one.teardown()


def _handle_of_spark(one) -> None:
    """The methods of `IndexTable` that no statement of this life stands for."""
    table, now = one.table, one.book.now
    assert table.version == one.book.newest
    assert table.schema().names == list(now.shape.names)
    assert table.detail().collect()[0].numRows == len(now.rows)
    assert table.history().count() == one.book.newest + 1
    assert table.count("alpha", where="n >= 0") == table.search("alpha", limit=None).where("n >= 0").count()
    assert table.skips().count() == 0
    assert table.clearSkips() == 0
    assert table.verify().ok
    assert table.health().rows == table.describeState().num_files * 0 + len(now.rows)
    table.prewarm()
    table.mirror(stop=True)
    table.flushCaches()
    table.invalidateCaches()
    assert table.checkpoint() == table.compact() == one.book.newest
    table.purge(dryRun=True)
    table.repair(str(one.path.with_suffix(".repaired")))
    assert table.dropPartitions("p = 'nowhere'", dryRun=True).dropped == 0
    for version in table.reindex(force=True).versions:
        one.book.commit("REINDEX")
        assert version == one.book.newest
    for version in table.mergeSplits().versions:
        one.book.commit("MERGE SPLITS")
        assert version == one.book.newest
    one.caught_up()
    then = one.book.versions[1]
    report = table.restoreToVersion(1)
    one.book.commit("RESTORE", rows=then.rows, shape=then.shape, schema=then.schema)
    assert report.version == one.book.newest
    one.caught_up()
    table.restoreToTimestamp(one.times[one.book.newest])
    _altered(one)
    told = Told(IndexTable, "IndexTable", one.used)
    assert told.isIndexTable(one.session, str(one.path))
    files = one.path.with_suffix(".files")
    files.mkdir()
    pq.write_table(indextables.open(str(one.path)).to_arrow(), files / "rows.parquet")
    copied = told.convert(one.session, str(files), str(one.path.with_suffix(".copied")))
    assert copied.rows == len(one.book.now.rows)
    assert told.forPath(one.session, str(one.path)).version == one.book.newest
    table.truncateTimeTravel()
    one.book.commit("TRUNCATE TIME TRAVEL")
    one.may_go()
    one.caught_up()


def _altered(one) -> None:
    """Each verb of ALTER TABLE, on a table of its own: lives of `tests/table/test_altering.py` show what they do."""
    path = one.path.with_suffix(".altered")
    indextables.create(path, pa.schema([("id", pa.int64()), ("message", pa.string())]))
    table = Told(IndexTable.forPath(one.session, str(path)), "IndexTable", one.used)
    assert table.addColumns("later int DEFAULT 3") == 1
    assert table.alterColumn("later", dataType="bigint", comment="why") == 2
    assert table.renameColumn("later", "last") == 3
    assert table.setIndexing({"message": "text"}) == 4
    assert table.setProperties({"team": "us"}) == 5
    assert table.unsetProperties("team") == 6
    assert table.setName("a name") == 7
    assert table.setDescription("a description") == 8
    assert table.upgradeProtocol("typeWidening") == 8
    assert table.dropColumns("last") == 9
    assert table.addConstraint("sane", "id > 0") == 10
    assert table.dropConstraint("sane") == 11
    one.session.sql(f"ALTER TABLE indextables.`{path}` ADD COLUMNS (n string DEFAULT 'x' FIRST)")
    assert table.schema().names == ["n", "id", "message"]


def test_a_life_in_spark_knows_every_verb(sparked):
    everything_once(sparked)
    known = {verb for verb, parameter in surface_of(IndexTable, "IndexTable") if not parameter}
    forgotten = sorted(known - {verb for verb, _ in sparked.used} - set(NOT_DRIVEN))
    assert not forgotten, f"the life does not know these verbs: {forgotten}"


def test_statements_show_the_rows_of_each_version_whatever_was_asked_before(sparked):
    live(sparked, lives=2, steps=8)
