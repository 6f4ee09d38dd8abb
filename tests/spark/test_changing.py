"""DELETE, UPDATE, MERGE and upsert through an `IndexTable` leave the rows, ids and counts that a plain loop leaves."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.spark.vectors import copy_split
from tests.world.row_ids import scan_row_ids

import indextables
from indextables.errors import CardinalityViolation, InvalidArgument, NotSupported, QueryInvalid, SchemaMismatch
from indextables.spark.change import MergeAsked, Source, delete_rows, merge_rows, update_rows
from indextables.split.file import ROW_ID
from indextables.table.change import Clause, Terms

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("p", pa.string()),
        ("k", pa.string()),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("msg", pa.string()),
    ]
)
ODD = [0.5, None, float("nan"), -0.0, float("inf")]


def row(number, **more):
    made = {"id": number, "p": "ab"[number % 2], "k": f"k{number}", "n": number % 7 or None, "f": ODD[number % 5]}
    return {**made, "tags": [f"t{number % 3}"], "msg": f"request {number} done", **more}


class World:
    """A table, and the rows that it must have, each under its id."""

    def __init__(self, spark, path, partitioned=True):
        self.spark = spark
        self.path = str(path)
        made = indextables.create(
            path, SCHEMA, partition_by=["p"] if partitioned else (), indexing={"msg": "text", "k": "string"}
        )
        for start in (0, 40, 80):
            made.append([row(number) for number in range(start, start + 40)])
        # So that every statement meets vectors.
        made.delete("id % 40 = 5")
        self.table = indextables.IndexTable.forPath(spark, self.path)
        self.rows = self.found()

    def found(self):
        table = indextables.open(self.path)
        batches = scan_row_ids(table._log.env, table._snapshot)
        numbered = pa.Table.from_batches(batches, pa.schema([*table.schema, (ROW_ID, pa.int64())]))
        ids = numbered[ROW_ID].to_pylist()
        assert len(set(ids)) == len(ids)
        return dict(zip(ids, numbered.drop_columns([ROW_ID]).to_pylist(), strict=True))

    def check(self, answer, *, deleted=(), updated=None, inserted=(), found_by=None):
        """Take over what must have become of the rows, and compare them and the counts."""
        updated = updated or {}
        before = indextables.open(self.path).version
        told = answer.collect()[0]
        for one in deleted:
            del self.rows[one]
        for one, more in updated.items():
            self.rows[one] = {**self.rows[one], **more}
        counts = (told.num_deleted_rows, told.num_updated_rows, told.num_inserted_rows)
        assert counts == (len(deleted), len(updated), len(inserted))
        assert told.num_affected_rows == sum(counts)
        assert told.version == (before if sum(counts) else None)
        if found_by is not None:
            assert told.located_by == found_by
        now = self.found()
        new = {one: made for one, made in now.items() if one not in self.rows}
        assert sorted(map(repr, new.values())) == sorted(map(repr, inserted))
        assert {one: repr(made) for one, made in now.items() if one in self.rows} == {
            one: repr(made) for one, made in self.rows.items()
        }
        self.rows |= new
        return told

    def those(self, is_meant):
        return [one for one, made in self.rows.items() if is_meant(made)]


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    return World(spark, tmp_path_factory.mktemp("changing") / "t")


def test_delete_takes_the_rows_that_a_loop_would(world):
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    table = world.table
    tasks = indextables.IndexTable.forPath(world.spark, world.path, {"search.driver.maxSplits": "0"}).alias("t")
    for condition, search, is_meant, found_by in (
        ("id < 40 AND p = 'a'", None, lambda r: r["id"] < 40 and r["p"] == "a", "files"),
        ("f > 1", None, lambda r: r["f"] is not None and (r["f"] != r["f"] or r["f"] > 1), "scan"),
        (F.col("n") == 3, None, lambda r: r["n"] == 3, "scan"),
        ("k IN ('k41', 'k42')", None, lambda r: r["k"] in ("k41", "k42"), "index"),
        (None, "msg:43", lambda r: r["id"] == 43, "index"),
        ("size(tags) = 1 AND length(k) = 3", "msg:44", lambda r: r["id"] == 44, "mixed"),
        ("n IS NULL AND id < 60", "request", lambda r: r["n"] is None and r["id"] < 60, "index"),
        ("f = 0.0 AND id > 100", None, lambda r: r["f"] == 0 and r["id"] > 100, "scan"),
        ("id < 0", None, lambda r: False, "files"),
    ):
        gone = world.those(is_meant)
        dry = table.delete(condition, search, dryRun=True).collect()[0]
        assert (dry.num_deleted_rows, dry.version, dry.dry_run) == (len(gone), None, True)
        if found_by == "scan" and isinstance(condition, str):
            assert dry.located_by == "index", "the driver looks at few rows"
        chosen = tasks if found_by == "scan" else table
        told = world.check(chosen.delete(condition, search), deleted=gone, found_by=found_by)
        assert told.metrics["numDeletedRows"] == len(gone)
    # The index in tasks.
    gone = world.those(lambda r: r["id"] in (110, 111))
    answer = tasks.delete("TEXTSEARCH(t.msg, '110 OR 111') AND t.k LIKE 'k11%'", "request")
    world.check(answer, deleted=gone, found_by="index")
    last = table.history(1).collect()[0]
    assert (last.operation, last.operationMetrics["numDeletionVectorsUpdated"]) == ("DELETE", "2")


def test_update_sets_the_rows_that_a_loop_would_and_keeps_their_ids(world):
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    table = world.table.alias("t")
    for condition, values, is_meant, made in (
        (
            "t.id < 50",
            {"n": "t.n + 1", "msg": "upper(k)"},
            lambda r: r["id"] < 50,
            lambda r: {"n": None if r["n"] is None else r["n"] + 1, "msg": r["k"].upper()},
        ),
        (
            F.col("t.k") == "k70",
            {"p": F.lit("c"), "N": 7, "tags": "array('x', null)"},
            lambda r: r["k"] == "k70",
            lambda r: {"p": "c", "n": 7, "tags": ["x", None]},
        ),
        ("p = 'c'", {"n": "id * 1.0", "f": "n"}, lambda r: r["p"] == "c", lambda r: {"n": r["id"], "f": float(r["n"])}),
        ("f IS NULL", {"f": None, "k": "concat(k, '!')"}, lambda r: r["f"] is None, lambda r: {"k": r["k"] + "!"}),
        ("id > 1000", {"n": "1"}, lambda r: False, None),
        (None, {"msg": "concat('all ', id)"}, lambda r: True, lambda r: {"msg": f"all {r['id']}"}),
    ):
        chosen = world.those(is_meant)
        updated = {one: made(world.rows[one]) for one in chosen}
        assert table.update(condition, values, dryRun=True).collect()[0].num_updated_rows == len(chosen)
        told = world.check(table.update(condition, values), updated=updated)
        assert told.metrics["numUpdatedRows"] == len(chosen)
    assert indextables.open(world.path).count("all") == len(world.rows)


def test_what_is_wrong_is_refused_and_changes_nothing(world):
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    table, numbers = world.table, world.spark.range(3)
    numbers.createOrReplaceTempView("numbers")
    before = table.version
    for call, kind in (
        (lambda: table.update("id = 61", {"nope": "1"}), InvalidArgument),
        (lambda: table.update("id = 61", {"n": "nope + 1"}), QueryInvalid),
        (lambda: table.update("id = 61", {"n": "0.5D"}), InvalidArgument),
        (lambda: table.update("id = 61", {"n": "3000000000"}), InvalidArgument),
        (lambda: table.update("id = 61", {"n": "'seven'"}), InvalidArgument),
        (lambda: table.update("id = 61", {"id": None}), SchemaMismatch),
        (lambda: table.update("id = 61", {}), InvalidArgument),
        (table.update, InvalidArgument),
        (lambda: table.delete("nope = 1"), QueryInvalid),
        (lambda: table.delete("id +"), QueryInvalid),
        (lambda: table.delete(5), InvalidArgument),
        (lambda: table.delete("id IN (SELECT 1)"), NotSupported),
        (lambda: table.delete("id IN (TABLE numbers)"), NotSupported),
        (lambda: table.delete("EXISTS (FROM numbers)"), NotSupported),
        (lambda: table.delete(F.col("n") == F.expr("(SELECT max(id) FROM numbers)")), NotSupported),
        (lambda: table.delete(F.col("id") == numbers.agg(F.max("id")).scalar()), NotSupported),
        (lambda: table.update("id = 61", {"n": F.lit(1) + numbers.agg(F.max("id")).scalar()}), NotSupported),
        (lambda: table.delete(search='msg:"'), QueryInvalid),
        (lambda: table.delete("id = 61", txnAppId="a"), InvalidArgument),
        (lambda: table.delete("id = 61", dryRun="yes"), InvalidArgument),
    ):
        with pytest.raises(kind):
            call()
    # A text that is a value is no query.
    for condition in (F.col("msg") == "(select 1)", F.expr("msg = '(SELECT 1)'"), 'msg = "(SELECT 1)"'):
        assert table.delete(condition).collect()[0].version is None
    assert table.version == before
    assert set(world.found()) == set(world.rows)


@pytest.mark.parametrize("here", [True, False], ids=["by the driver", "by tasks"])
def test_a_session_without_ansi_has_no_errors_wherever_rows_are_looked_at(spark, tmp_path, here):
    path = tmp_path / "t"
    indextables.create(path, SCHEMA).append([row(1, n=0), row(2, n=2), row(3, n=3, k="x")])
    table = indextables.IndexTable.forPath(spark, path, {} if here else {"search.driver.maxSplits": "0"})
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert table.delete("6 / n > 2").collect()[0].num_deleted_rows == 1, "6 / 0 is null"
        updated = table.update("n + 2147483647 < 0", {"f": 2}).collect()[0]
        assert updated.num_updated_rows == 1, "a sum that is too large begins again below 0"
        assert table.delete("cast(k AS int) IS NULL").collect()[0].num_deleted_rows == 2
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_a_batch_is_done_once_and_a_row_that_changed_since_is_left_alone(world):
    table = world.table
    batch = {"txnAppId": "job", "txnVersion": 3, "userMetadata": "cleanup"}
    world.check(table.delete("id = 60", **batch), deleted=world.those(lambda r: r["id"] == 60))
    again = table.delete("id = 61", **batch).collect()[0]
    assert (again.num_affected_rows, again.version) == (0, table.version)
    read = table.version
    world.check(
        table.update("id = 65", {"n": "99"}), updated={one: {"n": 99} for one in world.those(lambda r: r["id"] == 65)}
    )
    with pytest.raises(indextables.errors.CommitConflict):
        table.delete("id = 65", expectVersion=read)
    world.check(table.delete("id = 75", expectVersion=read), deleted=world.those(lambda r: r["id"] == 75))


def test_rows_are_found_where_spark_cannot_tell_files_apart(spark, tmp_path):
    path = tmp_path / "t"
    made = indextables.create(path, SCHEMA, indexing={"msg": "text"})
    made.append([row(number) for number in range(10)])
    copy_split(path, "other/splits")
    table = indextables.IndexTable.forPath(spark, str(path), {"search.driver.maxSplits": "0"})
    assert table.delete("id < 3 AND length(k) > 0").collect()[0].num_deleted_rows == 6
    assert table.update("length(k) > 0", {"msg": "'changed'"}).collect()[0].num_updated_rows == 14
    assert sorted(indextables.open(path).to_arrow(["id"])["id"].to_pylist()) == sorted([*range(3, 10)] * 2)
    assert indextables.open(path).count("changed") == 14


def source_of(world, rows):
    """Rows of a source: those of the table, and `op`, which conditions ask for."""
    return world.spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA.append(pa.field("op", pa.string()))))


def merged(world, source, matched, new, alone):
    """A MERGE as a plain loop: each clause is a condition and what becomes of the row, None if it goes."""
    given = {row["id"]: row for row in source}
    deleted, updated, inserted = [], {}, []
    for one, there in world.rows.items():
        partner = given.get(there["id"])
        for condition, made in alone if partner is None else matched:
            if condition(there, partner):
                if made is None:
                    deleted.append(one)
                else:
                    updated[one] = made(there, partner)
                break
    known = {row["id"] for row in world.rows.values()}
    for row in source:
        taken = [made for condition, made in new if row["id"] not in known and condition(row)]
        inserted += [taken[0](row)] if taken else []
    return {"deleted": deleted, "updated": updated, "inserted": inserted}


def plain(row):
    return {name: row[name] for name in SCHEMA.names}


def test_merge_leaves_what_a_loop_leaves_with_every_clause(spark, tmp_path):
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    world = World(spark, tmp_path / "t", partitioned=False)
    rows = [
        row(n, msg="new", n=n % 3, op=["up", "all", "gone", "stay"][n % 4])
        for n in (*range(20, 60, 3), 5, *range(200, 212))
    ]
    frame = source_of(world, rows)
    # A source may have ids of rows, as the change feed does: they are not those of the table.
    fed = frame.withColumn("_row_id", F.lit(7).cast("long"))
    told = world.check(
        world.table.alias("t")
        .merge(fed.alias("s"), "t.id = s.id AND t.id < 1000")
        .whenMatchedDelete("s.op = 'gone'")
        .whenMatchedUpdate(
            F.col("s.op") == "up", {"n": "t.n + s.n", "msg": F.concat("t.msg", F.lit(" "), F.col("s.msg"))}
        )
        .whenMatchedUpdateAll("s.op = 'all'")
        .whenNotMatchedInsert("s.op = 'up'", {"id": "s.id", "k": "concat(s.k, '!')"})
        .whenNotMatchedInsertAll(F.col("op") != "stay")
        .whenNotMatchedBySourceUpdate("t.id > 110", {"p": "'moved'"})
        .whenNotMatchedBySourceDelete("t.n = 2")
        .execute(userMetadata="a merge"),
        **merged(
            world,
            rows,
            [
                (lambda t, s: s["op"] == "gone", None),
                (
                    lambda t, s: s["op"] == "up",
                    lambda t, s: {
                        "n": None if t["n"] is None else t["n"] + s["n"],
                        "msg": f"{t['msg']} {s['msg']}",
                    },
                ),
                (lambda t, s: s["op"] == "all", lambda t, s: plain(s)),
            ],
            [
                (
                    lambda s: s["op"] == "up",
                    lambda s: {**dict.fromkeys(SCHEMA.names), "id": s["id"], "k": s["k"] + "!"},
                ),
                (lambda s: s["op"] != "stay", plain),
            ],
            [
                (lambda t, s: t["id"] > 110, lambda t, s: {"p": "moved"}),
                (lambda t, s: t["n"] == 2, None),
            ],
        ),
        found_by="scan",
    )
    assert told.metrics["numSourceRows"] == len(rows)
    assert told.metrics["numTargetRowsMatchedDeleted"] + told.metrics["numTargetRowsNotMatchedBySourceDeleted"] == (
        told.num_deleted_rows
    )
    last = world.table.history(1).collect()[0]
    assert (last.operation, last.userMetadata) == ("MERGE", "a merge")
    # The same once more, where a Column tells the log nothing, as a dry run.
    again = world.table.alias("t").merge(frame.alias("s"), F.col("t.id") == F.col("s.id")).whenMatchedUpdateAll()
    dry = again.execute(dryRun=True).collect()[0]
    held = {one["id"] for one in world.rows.values()}
    assert (dry.num_updated_rows, dry.version) == (len(held & {one["id"] for one in rows}), None)
    _evolves(world, frame)
    _refuses(world, frame)


def _evolves(world, frame):
    """A column that only the source has comes, and one that it lacks stays."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    there = world.those(lambda r: r["id"] in (40, 41, 43))
    more = (
        frame.where("id = 200")
        .select("id")
        .union(frame.sparkSession.createDataFrame([(40,), (41,), (43,), (900,)], "id long"))
    )
    source = more.select("id", F.lit("e").alias("extra")).alias("s")
    for found in world.rows.values():
        found["extra"] = None
    world.check(
        world.table.alias("t")
        .merge(source, "t.id = s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .withSchemaEvolution()
        .execute(),
        updated={one: {"extra": "e"} for one in [*there, *world.those(lambda r: r["id"] == 200)]},
        inserted=[{**dict.fromkeys(SCHEMA.names), "id": 900, "extra": "e"}],
    )


def _refuses(world, frame):
    table, before = world.table.alias("t"), world.table.version
    # Values for which Python has no object are told as well.
    odd = "timestamp_micros(-62135596800000000) AS first", "timestamp_micros(400000000000000000) AS far"
    twice = frame.where("id = 41").drop("op").selectExpr("*", "'x' AS extra")
    twice = twice.union(twice.withColumn("msg", twice.k)).alias("s")
    odd = twice.selectExpr("*", *odd, "make_interval(1, 2) AS span").alias("s")
    on = "t.id = s.id"
    with pytest.raises(CardinalityViolation) as found:
        table.merge(odd, on).whenMatchedUpdate(set={"msg": "s.msg"}).execute()
    assert found.value.details["target"]["id"] == 41
    assert sorted(one["msg"] for one in found.value.details["source"]) == ["k41", "new"]
    assert {(one["first"].year, one["far"][:6], one["span"]) for one in found.value.details["source"]} == {
        (1, "14645-", "1 years 2 months")
    }
    with pytest.raises(CardinalityViolation):
        table.upsert(twice, "id")
    for call, kind in (
        (lambda: table.merge(frame.alias("s"), on).execute(), InvalidArgument),
        (lambda: table.merge(frame.alias("s"), "t.nope = s.id").whenMatchedDelete().execute(), QueryInvalid),
        (lambda: table.merge(frame.alias("s"), on).whenNotMatchedInsert(values={"id": "t.id"}).execute(), QueryInvalid),
        (lambda: table.merge(frame.alias("s"), on).whenNotMatchedBySourceDelete("s.n = 1").execute(), QueryInvalid),
        (lambda: table.merge(frame.alias("s"), on).whenMatchedUpdate(set={"nope": "1"}).execute(), InvalidArgument),
        (lambda: table.merge(frame.alias("s"), on).whenMatchedUpdate(set={"n": "s.msg"}).execute(), InvalidArgument),
        (lambda: table.merge(frame.alias("s"), on).whenMatchedUpdateAll().execute(), SchemaMismatch),
        (lambda: table.merge(frame.alias("s"), on).whenMatchedUpdate(set={}), InvalidArgument),
        (lambda: table.merge([{"id": 1}], on), InvalidArgument),
        (lambda: table.upsert(frame, "nope"), InvalidArgument),
        (lambda: table.upsert(frame, "id"), SchemaMismatch),
    ):
        with pytest.raises(kind):
            call()
    assert world.table.version == before
    # As in Delta: a row that one DELETE without a condition takes is gone, however many rows ask for it.
    gone = world.those(lambda r: r["id"] == 41)
    world.check(table.merge(twice, on).whenMatchedDelete().execute(), deleted=gone)


@pytest.mark.parametrize("here", [True, False], ids=["by the driver", "by tasks"])
def test_upsert_replaces_rows_by_their_keys_and_adds_the_others(spark, tmp_path, monkeypatch, here):
    if not here:
        monkeypatch.setattr("indextables.spark.change.here._MOST_TARGET_ROWS", -1)
        # Rows come to the driver as bitmaps that Spark makes.
        monkeypatch.setattr("indextables.spark.change.addresses._MOST_PLAIN", -1)
    world = World(spark, tmp_path / "t")
    rows = [row(n, msg="up", p="ac"[n % 2]) for n in (*range(10, 30), *range(300, 310))]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))
    given = {(one["k"], one["id"]): one for one in rows}
    there = {
        one: given[found["k"], found["id"]] for one, found in world.rows.items() if (found["k"], found["id"]) in given
    }
    new = [one for one in rows if one["id"] not in {found["id"] for found in world.rows.values()}]
    world.check(world.table.upsert(frame, ["K", "id"], dryRun=False), updated=there, inserted=new)
    again = world.table.upsert(frame.selectExpr("cast(id AS int) AS id", *SCHEMA.names[1:]), "id").collect()[0]
    assert (again.num_updated_rows, again.num_inserted_rows) == (30, 0)
    assert len(world.found()) == len(world.rows)


@pytest.mark.parametrize("here", [True, False], ids=["by the driver", "by tasks"])
def test_keys_of_an_upsert_have_any_name_and_any_type_that_spark_compares(spark, tmp_path, monkeypatch, here):
    if not here:
        monkeypatch.setattr("indextables.spark.change.here._MOST_TARGET_ROWS", -1)
    nested = pa.struct([("x", pa.int32()), ("y", pa.string())])
    columns = {"n": pa.int64(), "a": pa.string(), "b": pa.binary(), "told": nested, "_row_id_": pa.bool_()}
    schema = pa.schema([*columns.items(), ("v", pa.int32())])
    there = {"n": 1, "a": "x", "b": b"\0", "told": {"x": 1, "y": None}, "_row_id_": True, "v": 0}
    other = {"n": 2, "a": "y", "b": b"", "told": {"x": 1, "y": ""}, "_row_id_": False, "v": 0}
    nobody = {**dict.fromkeys(schema.names), "v": 5}
    for keys in (["n"], ["a"], ["b"], ["told"], ["_row_id_"], ["told", "n"], list(columns)):
        path = tmp_path / "_".join(keys)
        indextables.create(path, schema).append([there, other, nobody])
        table = indextables.IndexTable.forPath(spark, path)
        rows = [{**there, "v": 7}, {**there, **dict.fromkeys(keys), "v": 8}]
        told = table.upsert(spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema)), keys).collect()[0]
        assert (told.num_updated_rows, told.num_inserted_rows) == (1, 1), "null equals nothing"
        found = indextables.open(path).to_arrow().to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, [other, nobody, *rows]))
        twice = spark.createDataFrame(pa.Table.from_pylist([there, there], schema=schema))
        with pytest.raises(CardinalityViolation, match="the same key"):
            table.upsert(twice, keys)


def test_what_others_commit_meanwhile_is_taken_into_account(spark, tmp_path):
    world = World(spark, tmp_path / "t", partitioned=False)
    other = indextables.open(world.path)

    def during(run, meanwhile):
        """Run a statement; `meanwhile` happens once, when its rows are found."""
        left = [meanwhile]

        def progress(step):
            if step.what == "located" and left:
                left.pop()()

        return run(world.table.alias("t")._door(), Terms(), progress)

    # A delete takes a row in that came meanwhile, and leaves to others what they deleted.
    report = during(
        lambda door, terms, progress: delete_rows(door, "n = 1 AND length(k) > 0", None, terms, progress),
        lambda: (other.update({"n": 1}, "id = 2"), other.delete("id = 8")),
    )
    assert (report.deleted, report.reruns) == (len(world.those(lambda r: r["n"] == 1)), 0)
    # An update of a row that is gone by now begins again.
    report = during(
        lambda door, terms, progress: update_rows(door, "id < 7", {"msg": "'updated'"}, None, terms, progress),
        lambda: other.delete("id = 3"),
    )
    assert (report.updated, report.reruns) == (3, 1)
    # Two merges that bring the same new key leave one row.
    fresh = spark.createDataFrame(pa.Table.from_pylist([row(700, msg="mine")], schema=SCHEMA))
    clauses = (Clause("matched", "update"), Clause("not matched", "insert"))
    report = during(
        lambda door, terms, progress: merge_rows(
            door, MergeAsked(Source(fresh.alias("s")), "t.id = s.id", clauses), terms, progress
        ),
        lambda: other.upsert([row(700, msg="theirs")], "id"),
    )
    assert (report.updated, report.inserted, report.reruns) == (1, 0, 1)
    left = {found["id"]: found["msg"] for found in indextables.open(world.path).to_arrow().to_pylist()}
    assert [number for number in range(9) if number in left] == [0, 4, 6, 7]
    assert (left[700], left[4]) == ("mine", "updated")
    assert len(left) == indextables.open(world.path).count()


def test_statements_of_sql_change_rows_as_the_methods_do(spark, tmp_path):
    world = World(spark, tmp_path / "t")
    spark.conf.set("spark.indextables.tables.changing", world.path)

    def run(text, args=None):
        return indextables.sql(spark, text, args)

    gone = world.those(lambda r: r["id"] in (10, 11))
    world.check(run("DELETE FROM changing c WHERE TEXTSEARCH(msg, '10 OR 11') AND c.id < 50"), deleted=gone)
    world.check(
        run("UPDATE changing SET n = n + :more, msg = 'new words' WHERE length(k) = 2", {"more": 5}),
        updated={
            one: {"n": None if world.rows[one]["n"] is None else world.rows[one]["n"] + 5, "msg": "new words"}
            for one in world.those(lambda r: len(r["k"]) == 2)
        },
    )
    # The source reads the table itself.
    updated = {one: {"msg": f"{world.rows[one]['id']} again"} for one in world.those(lambda r: r["id"] < 15)}
    new = [
        {**world.rows[one], "id": world.rows[one]["id"] + 1000} for one in world.those(lambda r: r["id"] in (20, 21))
    ]
    answer = run(
        "MERGE INTO changing AS t USING (SELECT *, id + IF(id < 15, 0, 1000) AS key FROM changing WHERE id < 22 AND "
        "(id < 15 OR id > 19)) AS s ON t.id = s.key WHEN MATCHED THEN UPDATE SET msg = concat(s.id, ' again') "
        "WHEN NOT MATCHED THEN INSERT (id, p, k, n, f, tags, msg) VALUES (key, p, k, n, f, tags, msg)"
    )
    world.check(answer, updated=updated, inserted=new)
    spark.conf.unset("spark.indextables.tables.changing")
