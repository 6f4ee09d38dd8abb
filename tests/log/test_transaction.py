"""Transactions and the verbs of the log: what is read, what is written, what happens when somebody else was faster."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from tests.log.commits import METADATA, SCHEMA, add, local_env, new_table, open_log, remove
from tests.world.commits import append, change_metadata, overwrite, record_skip

from indextables.errors import (
    CommitConflict,
    InvalidArgument,
    MetadataChanged,
    ProtocolUnsupported,
    SchemaMismatch,
    TableNotFound,
)
from indextables.log.commit.create import create_table, new_metadata
from indextables.log.commit.resolve import retry_times, upgrade_protocol
from indextables.log.commit.staged import Staged
from indextables.log.commit.transaction import Transaction
from indextables.log.wire import protocol
from indextables.log.wire.actions import DeletionVector, DomainMetadata, Metadata, Protocol
from indextables.log.wire.crcfile import parse_crc, totals_of
from indextables.log.wire.files import FILES_SCHEMA
from indextables.log.wire.names import crc_key


@pytest.fixture
def log(tmp_path):
    return new_table(tmp_path / "table")


@pytest.fixture
def rival(log):
    return open_log(log.env)


def paths(log):
    return sorted(open_log(log.env).snapshot().files["path"].to_pylist())


def test_the_first_write_to_a_new_table_is_version_1(log):
    assert append(log, [add("a")]).version == 1
    assert paths(log) == ["a"]


def test_appending_to_nothing_says_that_there_is_no_table(tmp_path):
    with pytest.raises(TableNotFound, match="No transaction log found"):
        append(open_log(local_env(tmp_path / "nothing")), [add("a")])


def test_many_files_are_one_version_and_may_come_as_columns(log):
    adds = pa.table(
        {
            "path": [f"f{i}" for i in range(1000)],
            "partitionValues": pa.array([[]] * 1000, FILES_SCHEMA.field("partitionValues").type),
            "size": list(range(1000)),
            "modificationTime": [1] * 1000,
            "dataChange": [True] * 1000,
            "numRecords": [2] * 1000,
        }
    )
    assert append(log, adds).version == 1
    assert len(paths(log)) == 1000


def test_overwrite_removes_every_live_file_then_adds(log):
    append(log, [add("a"), add("b")])
    assert overwrite(log, [add("c")]).version == 2
    content = open_log(log.env).read_version(2)
    assert sorted(content.removes["path"].to_pylist()) == ["a", "b"]
    assert paths(log) == ["c"]


def test_overwrite_with_nothing_leaves_an_empty_table_with_its_schema(log):
    append(log, [add("a")])
    overwrite(log, [])
    snapshot = open_log(log.env).snapshot()
    assert snapshot.files.num_rows == 0
    assert snapshot.metadata.schemaString == SCHEMA
    assert overwrite(log, []).version == 3


def test_overwrite_of_an_empty_table_works(log):
    overwrite(log, [add("a")])
    assert paths(log) == ["a"]


def test_an_overwrite_that_loses_to_an_append_replaces_that_too(log, rival):
    append(log, [add("a")])
    log.snapshot()
    append(rival, [add("b")])
    assert overwrite(log, [add("c")]).version == 3
    assert paths(log) == ["c"]


def test_two_overwrites_of_the_same_version_clash(log, rival, monkeypatch):
    append(log, [add("a")])
    store = log.env.store
    real, done = store.put_if_absent, []

    def overtaken(key, data, **more):
        if key.endswith(".json") and not done:
            done.append(key)
            overwrite(rival, [add("theirs")])
        return real(key, data, **more)

    monkeypatch.setattr(store, "put_if_absent", overtaken)
    with pytest.raises(CommitConflict, match="version 2") as caught:
        overwrite(log, [add("ours")])
    assert caught.value.winner == 2
    assert paths(log) == ["theirs"]


def test_create_is_idempotent_and_keeps_the_table(log):
    append(log, [add("a")])
    again = create_table(open_log(log.env), METADATA)
    assert (again.version, again.is_new) == (1, False)
    assert paths(log) == ["a"]


def test_create_on_a_table_with_another_schema_names_the_difference(log):
    other = new_metadata(log, pa.schema([pa.field("id", pa.string())]))
    with pytest.raises(SchemaMismatch, match=r"id int64.*id string"):
        create_table(open_log(log.env), other)
    partitioned = new_metadata(log, pa.schema([pa.field("id", pa.int64())]), partition_by=("id",))
    with pytest.raises(SchemaMismatch, match="partitioned by"):
        create_table(open_log(log.env), partitioned)


def test_partition_columns_must_be_columns(log):
    with pytest.raises(InvalidArgument, match="day"):
        new_metadata(log, pa.schema([pa.field("id", pa.int64())]), partition_by=("day",))


def test_new_metadata_has_ids_and_an_identity_of_its_own(log):
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    first, second = new_metadata(log, schema), new_metadata(log, schema)
    assert first.id != second.id
    assert "indextables.id" in first.schemaString


def test_metadata_can_change_but_not_identity(log):
    changed = msgspec.structs.replace(METADATA, configuration={"k": "v"})
    assert change_metadata(log, changed).version == 1
    assert open_log(log.env).snapshot().metadata.configuration == {"k": "v"}
    with pytest.raises(InvalidArgument, match="never change"):
        change_metadata(log, msgspec.structs.replace(METADATA, id="other"))
    with pytest.raises(InvalidArgument, match="never change"):
        change_metadata(log, msgspec.structs.replace(METADATA, createdTime=99))


def test_a_change_of_metadata_stops_appends_prepared_before_it(log, rival):
    snapshot = log.snapshot()
    change_metadata(rival, msgspec.structs.replace(METADATA, configuration={"k": "v"}))
    with pytest.raises(MetadataChanged, match="properties"):
        Transaction(log, snapshot, operation="WRITE").add([add("a")]).commit_or_raise()


def test_registered_mappings_of_two_writers_both_stay(log, rival):
    mine = msgspec.structs.replace(METADATA, configuration={"docMappingSchema.a": "1"})
    theirs = msgspec.structs.replace(METADATA, configuration={"docMappingSchema.b": "2"})
    first, second = log.snapshot(), rival.snapshot()
    Transaction(rival, second, operation="WRITE").set_metadata(theirs).add([add("b")]).commit_or_raise()
    Transaction(log, first, operation="WRITE").set_metadata(mine).add([add("a")]).commit_or_raise()
    configuration = open_log(log.env).snapshot().metadata.configuration
    assert configuration == {"docMappingSchema.a": "1", "docMappingSchema.b": "2"}
    assert paths(log) == ["a", "b"]


def test_two_rewrites_of_one_file_never_both_commit(log, rival):
    append(log, [add("a"), add("b")])
    first, second = log.snapshot(), rival.snapshot()
    Transaction(rival, second, operation="UPDATE").remove([remove("a")]).add([add("a2")]).commit_or_raise()
    with pytest.raises(CommitConflict, match="already removed a"):
        Transaction(log, first, operation="UPDATE").remove([remove("a")]).add([add("a3")]).commit_or_raise()
    Transaction(log, first, operation="UPDATE").remove([remove("b")]).add([add("b2")]).commit_or_raise()
    assert paths(log) == ["a2", "b2"]


def test_a_transaction_that_read_everything_does_not_miss_an_append_when_serializable(log, rival):
    snapshot = log.snapshot()
    append(rival, [add("new")])
    relaxed = Transaction(log, snapshot, operation="SUM").read_all().add([add("s1")])
    assert relaxed.commit_or_raise().version == 2
    strict = Transaction(log, snapshot, operation="SUM", isolation="Serializable").read_all().add([add("s2")])
    with pytest.raises(CommitConflict, match="predicate"):
        strict.commit_or_raise()


def test_the_isolation_level_is_a_property_of_the_table(tmp_path):
    log = open_log(local_env(tmp_path / "t"))
    create_table(log, msgspec.structs.replace(METADATA, configuration={"isolationLevel": "Serializable"}))
    snapshot = log.snapshot()
    append(open_log(log.env), [add("new")])
    with pytest.raises(CommitConflict):
        Transaction(log, snapshot, operation="SUM").read_all().add([add("s")]).commit_or_raise()
    assert open_log(log.env).read_version(1).commit_info.isolationLevel == "Serializable"


def test_predicates_decide_which_appends_matter(log, rival):
    snapshot = log.snapshot()
    append(rival, [add("day=2/x")])

    def in_day(day):
        return lambda adds: any(path.startswith(f"day={day}/") for path in adds["path"].to_pylist())

    def tx(day):
        return Transaction(log, snapshot, operation="DELETE", isolation="Serializable").read_where(in_day(day))

    tx(1).add([add("one")]).commit_or_raise()
    with pytest.raises(CommitConflict):
        tx(2).add([add("two")]).commit_or_raise()


VECTOR = DeletionVector("i", "abc", 3, 1)


def test_vectors_are_united_on_the_winners(log, rival):
    append(log, [add("a")])
    first, second = log.snapshot(), rival.snapshot()
    tx = Transaction(rival, second, operation="DELETE").remove([remove("a")]).add([add("a", deletionVector=VECTOR)])
    tx.commit_or_raise()
    both = DeletionVector("i", "abd", 4, 2)

    def unite(staged, winner):
        assert winner.adds["deletionVector"].to_pylist()[0]["pathOrInlineDv"] == "abc"
        return Staged(removes=(remove("a", deletionVector=VECTOR),), adds=(add("a", deletionVector=both),))

    mine = Transaction(log, first, operation="DELETE").remove([remove("a")]).add([add("a", deletionVector=both)])
    assert mine.repair_with(unite).commit_or_raise().version == 3
    live = open_log(log.env).snapshot().files
    assert live["deletionVector"].to_pylist()[0]["cardinality"] == 2
    stale = Transaction(log, first, operation="DELETE").remove([remove("a")]).add([add("a", deletionVector=both)])
    with pytest.raises(CommitConflict, match="changed rows that this statement changes too"):
        stale.repair_with(lambda *_: None).commit_or_raise()


def test_files_written_before_a_constraint_came_are_refused_and_those_before_another_property_are_not(log, rival):
    written_for = log.snapshot().metadata
    quiet = msgspec.structs.replace(written_for, configuration={"checkpoint.interval": "20"})
    Transaction(rival, rival.snapshot(), operation="SET TBLPROPERTIES").set_metadata(quiet).commit_or_raise()
    log.snapshot()
    Transaction(log, operation="WRITE", written_for=written_for).add([add("a")]).commit_or_raise()
    ruled = msgspec.structs.replace(quiet, configuration={**quiet.configuration, "constraints.positive": "id > 0"})
    Transaction(rival, rival.snapshot(), operation="ADD CONSTRAINT").set_metadata(ruled).commit_or_raise()
    log.snapshot()
    with pytest.raises(MetadataChanged, match="constraints"):
        Transaction(log, operation="WRITE", written_for=written_for).add([add("b")]).commit_or_raise()
    assert paths(log) == ["a"]


def test_appends_in_flight_survive_the_first_vector_of_a_table(log, rival):
    append(log, [add("a")])
    late = Transaction(log, log.snapshot(), operation="WRITE").add([add("b")])
    vectors = protocol.with_feature(rival.snapshot().protocol, "deletionVectors")
    first = Transaction(rival, rival.snapshot(), operation="DELETE").set_protocol(vectors)
    first.remove([remove("a")]).add([add("a", deletionVector=VECTOR)]).commit_or_raise()
    late.commit_or_raise()
    assert paths(log) == ["a", "b"]
    assert "deletionVectors" in open_log(log.env).snapshot().protocol.writerFeatures


def test_a_merge_leaves_out_what_somebody_deleted(log, rival):
    append(log, [add("a"), add("b"), add("c")])
    first = log.snapshot()
    Transaction(rival, rival.snapshot(), operation="DELETE").remove([remove("b")]).commit_or_raise()

    def regroup(staged, touched):
        assert list(touched) == ["b"]
        return Staged(
            removes=tuple(r for r in staged.removes if r.path not in touched), adds=(add("ac", data_change=False),)
        )

    def merge(names):
        sources = [remove(name, data_change=False) for name in names]
        return Transaction(log, first, operation="MERGE SPLITS").remove(sources).add([add("abc", data_change=False)])

    assert merge("abc").regroup_with(regroup).commit_or_raise().version == 3
    assert paths(log) == ["ac"]
    with pytest.raises(CommitConflict):
        merge("ab").commit_or_raise()


def test_protocols_rise_and_never_fall(tmp_path):
    log = open_log(local_env(tmp_path / "t"))
    create_table(log, METADATA, Protocol(2, 2))
    assert upgrade_protocol(log, 1, 1).repeated
    assert upgrade_protocol(log, 3, 3).version == 1
    assert open_log(log.env).snapshot().protocol.minReaderVersion == 3
    assert upgrade_protocol(log, 2, 2).repeated
    with pytest.raises(ProtocolUnsupported):
        upgrade_protocol(log, 9, 9)


def test_skips_count_up_and_cool_down(log):
    append(log, [add("a")])
    assert record_skip(log, "a", "corrupt", "merge", size=10, cooldown_hours=1) == 2
    assert record_skip(log, "a", "corrupt", "merge", cooldown_hours=2) == 3
    snapshot = open_log(log.env).snapshot()
    skip = snapshot.skips["a"]
    assert skip.skipCount == 2
    assert skip.retryAfter == skip.skipTimestamp + 2 * 3_600_000
    assert retry_times(snapshot, skip.retryAfter - 1) == {"a": skip.retryAfter}
    assert retry_times(snapshot, skip.retryAfter) == {}
    assert paths(log) == ["a"]


def test_domains_of_two_writers_clash_only_on_the_same_name(log, rival):
    first = log.snapshot()
    Transaction(rival, rival.snapshot(), operation="D").set_domain(DomainMetadata("x", "1")).commit_or_raise()
    Transaction(log, first, operation="D").set_domain(DomainMetadata("y", "1")).commit_or_raise()
    with pytest.raises(CommitConflict, match="domain"):
        Transaction(log, first, operation="D").set_domain(DomainMetadata("x", "2")).commit_or_raise()


def test_a_process_reads_its_own_write_at_once(log):
    for i in range(5):
        outcome = append(log, [add(f"f{i}")])
        assert log.snapshot().version == outcome.version
        assert log.snapshot().files.num_rows == i + 1


@pytest.mark.slow
def test_threads_of_one_process_get_versions_of_their_own(log):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(lambda i: append(log, [add(f"f{i}")]).version, range(40)))
    assert sorted(versions) == list(range(1, 41))
    assert len(paths(log)) == 40


def test_files_are_staged_in_one_call(log):
    tx = Transaction(log, operation="WRITE").add([add("a")])
    with pytest.raises(InvalidArgument):
        tx.add([add("b")])


def test_racing_creators_go_on_with_one_version_0(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    env = local_env(tmp_path / "t")

    def create(i):
        metadata = Metadata(id=f"table-{i}", schemaString=SCHEMA, createdTime=i)
        return create_table(open_log(env), metadata)

    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(create, range(16)))
    assert sum(c.is_new for c in created) == 1
    assert len({c.metadata.id for c in created}) == 1


VECTOR = DeletionVector("i", "abc", 3, 1)


def vector_by_add_alone(log):
    """PROTOCOL 1.6: an `add` replaces the entry of its path, whether or not a `remove` goes with it."""
    transaction = Transaction(log, log.snapshot(), operation="DELETE").read_files(["a"])
    return transaction.add([add("a", deletionVector=VECTOR)]).commit_or_raise()


def test_a_merge_that_loses_against_a_vector_by_add_alone_doubles_no_rows(log, rival):
    append(log, [add("a"), add("b")])
    taken = [remove("a", data_change=False), remove("b", data_change=False)]
    merge = Transaction(log, log.snapshot(), operation="MERGE SPLITS").remove(taken).add([add("m", data_change=False)])
    vector_by_add_alone(rival)
    with pytest.raises(CommitConflict, match="changed a"):
        merge.commit_or_raise()
    assert paths(log) == ["a", "b"]


def test_a_delete_that_loses_against_a_vector_by_add_alone_is_refused(log, rival):
    append(log, [add("a"), add("b")])
    delete = Transaction(log, log.snapshot(), operation="DELETE").read_files(["a"]).remove([remove("a")])
    vector_by_add_alone(rival)
    with pytest.raises(CommitConflict, match="changed a"):
        delete.commit_or_raise()


def test_a_vector_by_add_alone_that_loses_against_a_merge_brings_no_rows_back(log, rival):
    append(log, [add("a"), add("b")])
    delete = Transaction(log, log.snapshot(), operation="DELETE").add([add("a", deletionVector=VECTOR)])
    taken = [remove("a", data_change=False), remove("b", data_change=False)]
    merge = Transaction(rival, rival.snapshot(), operation="MERGE SPLITS").remove(taken)
    merge.add([add("m", data_change=False)]).commit_or_raise()
    with pytest.raises(CommitConflict, match="removed a"):
        delete.commit_or_raise()
    assert paths(log) == ["m"]


def test_totals_never_count_a_file_twice_that_got_its_vector_by_add_alone(log, rival):
    append(log, [add("a"), add("b")])
    vector_by_add_alone(log)
    append(log, [add("c")])
    vector_by_add_alone(rival)
    append(log, [add("d")])
    for number in (2, 3, 4, 5):
        told = parse_crc(log.env.store.get(crc_key(number))).totals()
        assert told in (None, totals_of(open_log(log.env).snapshot(number).state))


def test_an_append_that_registers_a_mapping_is_blind(log):
    metadata = log.snapshot().metadata
    registry = {**metadata.configuration, "docMappingSchema.abc": "{}"}
    mapping = msgspec.structs.replace(metadata, configuration=registry)
    Transaction(log, operation="WRITE").add([add("a")]).set_metadata(mapping).commit_or_raise()
    assert log.read_version(1).commit_info.isBlindAppend is True
    renamed = msgspec.structs.replace(mapping, name="other")
    Transaction(log, operation="WRITE").add([add("b")]).set_metadata(renamed).commit_or_raise()
    assert log.read_version(2).commit_info.isBlindAppend is False
