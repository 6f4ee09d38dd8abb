"""A stream reads every added row once, in the order of versions, whatever its limits are and wherever it stops."""

from __future__ import annotations

import itertools
import json

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indextables
from indextables.errors import (
    InvalidArgument,
    NotSupported,
    SchemaMismatch,
    TableReplaced,
    VersionExpired,
    VersionNotFound,
)
from indextables.log.care.opening import open_log
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Add, Metadata, Remove
from indextables.table.environment import open_env
from indextables.table.read.tail import Limits, Place, Tail, pieces_between, place_after, place_from, place_to

SIZES = st.lists(st.lists(st.integers(0, 50), max_size=5), min_size=1, max_size=12)
LIMIT = st.builds(Limits, st.none() | st.integers(1, 4), st.none() | st.integers(1, 80))


def walk(versions, first, *, is_starting, limits):
    """The pieces that a reader gets, batch by batch, until nothing is left."""

    def sizes(place):
        return ((number, np.array(versions[number], np.int64)) for number in range(place.version, len(versions)))

    place = Place(first, 0, is_starting)
    for limit in limits:
        reached = place_after(place, sizes(place), limit)
        if reached == place:
            return
        yield limit, pieces_between(place, reached)
        place = reached


def files_of(pieces, versions):
    return [
        (piece.version, index)
        for piece in pieces
        for index in range(piece.first, len(versions[piece.version]) if piece.last is None else piece.last)
    ]


@pytest.mark.slow
@given(SIZES, st.data(), st.lists(LIMIT, min_size=1, max_size=4), st.booleans())
def test_every_file_is_read_once_in_version_order(versions, data, limits, is_starting):
    first = data.draw(st.integers(0, len(versions)))
    is_starting = is_starting and first < len(versions)
    batches = list(walk(versions, first, is_starting=is_starting, limits=itertools.cycle(limits)))
    read = [file for _, pieces in batches for file in files_of(pieces, versions)]
    assert read == [(v, i) for v in range(first, len(versions)) for i in range(len(versions[v]))]
    for _, pieces in batches:
        assert [piece.is_snapshot for piece in pieces].count(True) <= 1
        assert all(piece.version == first for piece in pieces if piece.is_snapshot)


@given(SIZES, LIMIT, st.booleans())
def test_no_batch_exceeds_its_limits_but_by_its_only_file(versions, limit, is_starting):
    for _, pieces in walk(versions, 0, is_starting=is_starting, limits=itertools.repeat(limit)):
        files = files_of(pieces, versions)
        assert limit.files is None or len(files) <= limit.files
        total = sum(versions[version][index] for version, index in files)
        assert limit.bytes is None or total <= limit.bytes or len([f for f in files if versions[f[0]][f[1]]]) == 1


@given(SIZES)
def test_without_limits_one_batch_reads_everything(versions):
    assert len(list(walk(versions, 0, is_starting=False, limits=itertools.repeat(Limits())))) == 1


@given(st.integers(0, 2**62), st.integers(0, 2**31), st.booleans())
def test_a_place_survives_being_written_down_and_has_one_text(version, index, is_starting):
    place = Place(version, index, is_starting)
    text = json.dumps(place_to(place, "id"))
    assert place_from(json.loads(text), "id") == place
    assert json.dumps(place_to(place_from(json.loads(text), "id"), "id")) == text


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"tableId": "id", "version": -1, "index": 0, "isStartingVersion": False},
        {"tableId": "id", "version": "1", "index": 0, "isStartingVersion": False},
        {"tableId": "id", "version": 1, "index": True, "isStartingVersion": False},
        {"tableId": "id", "version": 1, "index": 0, "isStartingVersion": 1},
    ],
)
def test_what_is_no_offset_of_ours_is_refused(values):
    with pytest.raises(InvalidArgument, match="not an offset"):
        place_from(values, "id")


def test_the_offset_of_another_table_is_refused():
    with pytest.raises(TableReplaced, match="new checkpoint location"):
        place_from(place_to(Place(1, 0), "one"), "two")


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (Place(3, 0), Place(2, 0)),
        (Place(3, 2), Place(3, 1)),
        (Place(3, 0), Place(3, 1, is_starting_version=True)),
        (Place(2, 0, is_starting_version=True), Place(3, 1, is_starting_version=True)),
    ],
)
def test_a_stream_does_not_go_back(start, end):
    with pytest.raises(InvalidArgument, match="go back"):
        pieces_between(start, end)


# With real tables

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
STEP = st.sampled_from(["append", "append", "merge", "property", "replace"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tail")


def make(path):
    return indextables.create(path, SCHEMA, partition_by=["part"])


def log_of(path):
    return open_log(open_env(path, {"storage.fsync": "false"}))


def tail_of(log, **more):
    return Tail(log, log.metadata_at().metadata, **more)


def append(path, start, count):
    rows = pa.table({"id": range(start, start + count), "part": [str(n % 3) for n in range(count)]}, SCHEMA)
    indextables.open(path, {"storage.fsync": "false"}).append(rows)


def rewrite(log, *, data_change):
    """Every live file again under another name, as a merge or a delete would."""
    snapshot = log.snapshot()
    adds, removes = [], []
    for row in snapshot.files.to_pylist():
        source = log.env.store.get(row["path"])
        copy = row["path"].replace(".split", "-x.split")
        log.env.store.put(copy, source)
        named = {name: row[name] for name in Add.__struct_fields__ if row.get(name) is not None}
        named["partitionValues"] = dict(row["partitionValues"])
        for name in ("minValues", "maxValues", "tags"):
            if name in named:
                named[name] = dict(named[name])
        adds.append(msgspec.structs.replace(Add(**named), path=copy, dataChange=data_change))
        removes.append(Remove(path=row["path"], dataChange=data_change, deletionTimestamp=1))
    if adds:
        operation = "DELETE" if data_change else "MERGE SPLITS"
        Transaction(log, snapshot, operation=operation).add(adds).remove(removes).commit_or_raise()


def set_property(log, number):
    snapshot = log.snapshot()
    configuration = {**snapshot.metadata.configuration, "some.key": str(number)}
    changed = msgspec.structs.replace(snapshot.metadata, configuration=configuration)
    Transaction(log, snapshot, operation="SET").set_metadata(changed).commit_or_raise()


def drain(log, start, limits, **more):
    """The ids that a stream reads from `start`, batch by batch; every batch is planned by a reader of its own."""
    from indextables.table.read.plan import refs_of
    from indextables.table.read.scan import scan_split

    place, batches = start, []
    while (reached := tail_of(log, **more).reach(place, limits)) != place:
        ids = []
        for version, files in tail_of(log, **more).files_between(place, reached):
            for ref in refs_of(log.env, files, log.snapshot(version).schema):
                for batch in scan_split(log.env, SCHEMA, ref, ["id"], None, version):
                    ids += batch["id"].to_pylist()
        batches.append(ids)
        place = reached
    return batches


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(STEP, max_size=7), st.lists(STEP, max_size=5), LIMIT)
def test_a_stream_reads_the_first_snapshot_and_then_every_append_once(folder, before, after, limits):
    path = folder / str(len(list(folder.iterdir())))
    make(path)
    log = log_of(path)
    numbers = itertools.count(0, 10)

    def do(step):
        if step == "append":
            first = next(numbers)
            append(path, first, 5)
            return set(range(first, first + 5))
        if step == "property":
            set_property(log, next(numbers))
        else:
            rewrite(log, data_change=step == "replace")
        return set()

    expected = set().union(*(do(step) for step in before))
    start = tail_of(log).starting()
    later = set().union(*(do(step) for step in after))
    read = [n for batch in drain(log, start, limits, skip_change_commits=True) for n in batch]
    assert sorted(read) == sorted(expected | later)
    in_tail = [n // 10 for n in read if n in later]
    assert in_tail == sorted(in_tail)
    assert set(read[len(expected) :]) == later


@pytest.fixture
def table(tmp_path):
    """Versions 1 to 3 add ids 0 to 5, 10 to 15 and 20 to 25."""
    make(tmp_path / "t")
    for start in (0, 10, 20):
        append(tmp_path / "t", start, 6)
    return tmp_path / "t"


def test_a_stream_may_start_at_a_version_at_the_end_or_at_a_time(table):
    log = log_of(table)
    tail = tail_of(log)
    assert [sorted(batch) for batch in drain(log, tail.starting("2"), Limits(files=3))] == [
        [10, 11, 12, 13, 14, 15],
        [20, 21, 22, 23, 24, 25],
    ]
    assert drain(log, tail.starting("latest"), Limits()) == []
    times = {row["version"]: row["timestamp"] for row in indextables.open(table).history().to_pylist()}
    third = int(times[3].timestamp() * 1000)
    assert tail.starting(timestamp_ms=third) == Place(3, 0)
    assert tail.starting(timestamp_ms=int(times[2].timestamp() * 1000) + 1) == Place(3, 0)
    assert tail.starting(timestamp_ms=0) == Place(0, 0)
    with pytest.raises(InvalidArgument, match="after the newest commit"):
        tail.starting(timestamp_ms=third + 1)


@pytest.mark.parametrize("version", ["-1", "first", "1.5", ""])
def test_a_start_that_is_no_version_is_refused(table, version):
    with pytest.raises(InvalidArgument, match="startingVersion"):
        tail_of(log_of(table)).starting(version)


def test_a_start_that_does_not_exist_yet_is_refused_but_the_next_version_may_be_waited_for(table):
    tail = tail_of(log_of(table))
    assert tail.starting("4") == Place(4, 0)
    with pytest.raises(VersionNotFound, match="the newest is 3"):
        tail.starting("5")
    with pytest.raises(InvalidArgument, match="not both"):
        tail.starting("1", 5)


def test_a_start_that_cleanup_took_is_expired(table):
    log = log_of(table)
    indextables.open(table).checkpoint()
    for version in (0, 1):
        (table / f"_transaction_log/{version:020d}.json").unlink()
    log.invalidate()
    tail = tail_of(log)
    with pytest.raises(VersionExpired):
        tail.starting("1")
    with pytest.raises(VersionExpired):
        tail.starting(timestamp_ms=0)
    with pytest.raises(VersionExpired):
        tail.reach(Place(1, 0), Limits())
    assert sum(len(batch) for batch in drain(log, tail.starting(), Limits(files=2))) == 18


def test_a_commit_that_removes_rows_stops_a_stream_that_was_not_told_to_skip_it(table):
    log = log_of(table)
    rewrite(log, data_change=True)
    append(table, 30, 6)
    with pytest.raises(NotSupported, match=r"version 4 .*DELETE.* skipChangeCommits"):
        tail_of(log).reach(Place(3, 0), Limits())
    with pytest.raises(NotSupported, match="version 4"):
        list(tail_of(log).files_between(Place(3, 0), Place(5, 0)))
    assert [sorted(b) for b in drain(log, Place(4, 0), Limits(), skip_change_commits=True)] == [
        [30, 31, 32, 33, 34, 35]
    ]


@pytest.mark.parametrize(
    ("change", "stops"),
    [
        (lambda table: table.delete("id = 1"), True),
        (lambda table: table.update({"id": "id + 1000"}, "id = 1"), True),
        (lambda table: table.upsert([{"id": 1, "part": "0"}], "id"), True),
        (lambda table: table.upsert([{"id": 900, "part": "0"}], "id"), False),
        (lambda table: table.delete("id > 1000"), False),
    ],
)
def test_verbs_that_change_rows_stop_a_stream_and_those_that_add_rows_do_not(table, change, stops):
    """Also once the files that lost rows were folded: what was changed is not told by what only moves rows."""
    handle = indextables.open(table)
    change(handle)
    handle.merge_splits()
    append(table, 30, 6)
    log = log_of(table)
    if stops:
        with pytest.raises(NotSupported, match="skipChangeCommits"):
            tail_of(log).reach(Place(4, 0), Limits())
    found = [n for batch in drain(log, Place(4, 0), Limits(), skip_change_commits=stops) for n in batch]
    assert sorted(n for n in found if n != 900) == [30, 31, 32, 33, 34, 35]
    assert (900 in found) == (not stops and 900 in handle.to_arrow(["id"])["id"].to_pylist())


def test_a_vector_by_add_alone_is_such_a_commit(table):
    log = log_of(table)
    snapshot = log.snapshot()
    rows = snapshot.files.slice(0, 1)
    vector = pa.array([{"storageType": "i", "pathOrInlineDv": "abc", "sizeInBytes": 3, "cardinality": 1}])
    place = rows.schema.get_field_index("deletionVector")
    rows = rows.set_column(place, "deletionVector", vector.cast(rows.schema.field(place).type))
    path = rows["path"][0].as_py()
    transaction = Transaction(log, snapshot, operation="DELETE").read_files([path])
    transaction.add(rows.drop_columns(["addedAtVersion", "addedAtLine", "addedAtTimestamp"])).commit_or_raise()
    append(table, 30, 6)
    with pytest.raises(NotSupported, match=r"version 4 .*DELETE.* skipChangeCommits"):
        tail_of(log).reach(Place(3, 0), Limits())
    assert [sorted(b) for b in drain(log, Place(4, 0), Limits(), skip_change_commits=True)] == [
        [30, 31, 32, 33, 34, 35]
    ]


def test_rows_before_such_a_commit_can_be_read_up_to_it(table):
    log = log_of(table)
    rewrite(log, data_change=True)
    assert tail_of(log).reach(Place(2, 0), Limits(files=3)) == Place(3, 0)


def test_a_merge_is_passed_over(table):
    log = log_of(table)
    rewrite(log, data_change=False)
    append(table, 30, 6)
    assert [sorted(batch) for batch in drain(log, Place(3, 0), Limits(files=3))] == [
        [20, 21, 22, 23, 24, 25],
        [30, 31, 32, 33, 34, 35],
    ]


@pytest.mark.slow
def test_splits_that_were_merged_and_rows_that_were_reindexed_do_not_come_again(table):
    log = log_of(table)
    opened = indextables.open(table)
    assert opened.merge_splits().new_splits
    opened.reindex(force=True)
    append(table, 30, 6)
    assert log.latest_version() > 5
    assert [sorted(batch) for batch in drain(log, Place(3, 0), Limits(files=3))] == [
        [20, 21, 22, 23, 24, 25],
        [30, 31, 32, 33, 34, 35],
    ]
    start = Place(log.latest_version(), 0, is_starting_version=True)
    assert sorted(n for batch in drain(log, start, Limits(files=1)) for n in batch) == [
        n for first in (0, 10, 20, 30) for n in range(first, first + 6)
    ]


def with_schema(metadata, schema):
    from indextables.log.wire.schema import schema_to_json

    return msgspec.structs.replace(metadata, schemaString=schema_to_json(schema))


def test_a_column_that_the_stream_does_not_know_stops_it_and_a_new_start_goes_on(table):
    log = log_of(table)
    started = tail_of(log)
    snapshot = log.snapshot()
    wider = snapshot.schema.append(pa.field("more", pa.string(), metadata={"indextables.id": "99"}))
    changed = with_schema(snapshot.metadata, wider)
    Transaction(log, snapshot, operation="SET").set_metadata(changed).commit_or_raise()
    append(table, 30, 6)
    with pytest.raises(SchemaMismatch, match=r"version 4 .*column more.*Start the stream again"):
        started.reach(Place(4, 0), Limits())
    assert [sorted(batch) for batch in drain(log, Place(4, 0), Limits())] == [[30, 31, 32, 33, 34, 35]]


def test_a_table_that_was_made_anew_is_not_read_on(table):
    log = log_of(table)
    other = Metadata(id="another", schemaString=log.metadata_at().metadata.schemaString)
    with pytest.raises(TableReplaced):
        Tail(log, other).reach(Place(0, 0), Limits())
