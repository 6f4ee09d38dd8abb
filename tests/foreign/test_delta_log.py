"""The log of a Delta table by its protocol: checkpoints, pointers, gaps, features, times. Tables made by hand."""

from __future__ import annotations

import json
import os

import pytest
from tests.foreign.delta_world import PLAIN, DeltaWorld, rows, with_features

import indextables
from indextables.errors import (
    CheckpointCorrupt,
    LogCorrupt,
    LogGap,
    MetadataMissing,
    NotSupported,
    ProtocolUnsupported,
    TableNotFound,
    VersionExpired,
    VersionNotFound,
)


@pytest.fixture
def world(tmp_path):
    return DeltaWorld(tmp_path / "table")


def ids(world, **when):
    return sorted(indextables.open(world.root, **when).to_arrow()["id"].to_pylist())


def four_versions(world):
    """Versions 0 to 3 with rows 1 to 4, of which 2 is removed; and the actions that a checkpoint of 3 has."""
    world.create()
    adds = [world.add(rows(number)) for number in (1, 2, 3, 4)]
    world.commit(adds[0], adds[1])
    world.commit(adds[2])
    world.commit(world.remove(adds[1]), adds[3])
    head = [json.loads(line) for line in (world.log / f"{0:020d}.json").read_text().splitlines()]
    return [*head, adds[0], adds[2], adds[3]]


def without_commits(world, *versions):
    for version in versions:
        (world.log / f"{version:020d}.json").unlink()


def test_versions_are_replayed_in_order(world):
    four_versions(world)
    assert ids(world) == [1, 3, 4]
    assert [ids(world, version=number) for number in range(4)] == [[], [1, 2], [1, 2, 3], [1, 3, 4]]


def test_a_file_that_comes_back_under_its_name_is_live_again(world):
    world.create()
    add = world.add(rows(1))
    world.commit(add)
    world.commit(world.remove(add))
    world.commit(add)
    assert [ids(world, version=number) for number in range(4)] == [[], [1], [], [1]]


def test_odd_but_legal_version_files_are_read(world):
    """No newline at the end, blank lines, actions and fields that nobody knows, nulls."""
    world.create(more=[{"txn": {"appId": "a", "version": 1}}, {"somethingNew": {"a": [1, {"b": None}]}}, {"add": None}])
    add = world.add(rows(1))
    add["add"] |= {"tags": {"a": "b"}, "baseRowId": 5, "clusteringProvider": "liquid", "deletionVector": None}
    world.commit(add, {"cdc": {"path": "x"}}, {"domainMetadata": {"domain": "d", "configuration": "{}"}}, end="")
    text = json.dumps(world.add(rows(2)))
    (world.log / f"{2:020d}.json").write_text(f"\n\n{text}\r\n\n")
    assert ids(world) == [1, 2]


def test_a_version_that_only_tells_of_itself_changes_nothing(world):
    four_versions(world)
    (world.log / f"{4:020d}.json").write_text('{"commitInfo":{}}\n')
    table = indextables.open(world.root)
    assert (table.version, table.count()) == (4, 3)


@pytest.mark.parametrize("commits_gone", [False, True])
@pytest.mark.parametrize("kind", ["classic", "parts", "v2 parquet", "v2 json", "v2 classic name", "sidecars by path"])
def test_every_kind_of_checkpoint_is_read(world, kind, commits_gone):
    actions = four_versions(world)
    name = "80a083e8-7026-4e79-81be-64bd76c43a11"
    head, adds, about = actions[:2], actions[2:], [{"checkpointMetadata": {"version": 3}}]
    if kind == "classic":
        world.checkpoint(3, [*actions, {"remove": {"path": "gone", "deletionTimestamp": 1}}])
    elif kind == "parts":
        world.checkpoint(3, [*head, adds[0]], "checkpoint.0000000001.0000000002.parquet")
        world.checkpoint(3, adds[1:], "checkpoint.0000000002.0000000002.parquet")
    elif kind == "v2 parquet":
        sidecars = [world.sidecar(adds[:1]), world.sidecar(adds[1:])]
        world.checkpoint(3, [*head, *about, *sidecars], f"checkpoint.{name}.parquet")
    elif kind == "v2 json":
        world.checkpoint(3, [*head, *about, world.sidecar(adds)], f"checkpoint.{name}.json")
    elif kind == "v2 classic name":
        world.checkpoint(3, [*head, *about, world.sidecar(adds[:2]), adds[2]])
    else:
        sidecar = world.sidecar(adds)
        sidecar["sidecar"]["path"] = f"file://{world.root}/_delta_log/_sidecars/{sidecar['sidecar']['path']}"
        world.checkpoint(3, [*head, *about, sidecar], f"checkpoint.{name}.json")
    if commits_gone:
        without_commits(world, 0, 1, 2, 3)
    world.next = 4
    world.commit(world.add(rows(9)))
    assert ids(world) == [1, 3, 4, 9]
    assert ids(world, version=3) == [1, 3, 4]


def test_of_a_checkpoint_in_parts_all_must_be_there(world):
    actions = four_versions(world)
    world.checkpoint(3, actions[:3], "checkpoint.0000000001.0000000002.parquet")
    assert ids(world) == [1, 3, 4]
    without_commits(world, 0)
    with pytest.raises(VersionExpired) as caught:
        indextables.open(world.root)
    assert caught.value.earliest is None


@pytest.mark.parametrize(
    "text", ["", "nothing", '{"version":"3"}', '{"version":99}', '{"version":1}', '{"version":-1}', "[]", "[" * 10_000]
)
def test_the_pointer_is_only_a_hint(world, text):
    actions = four_versions(world)
    world.checkpoint(3, actions)
    world.point_to(text)
    assert ids(world) == [1, 3, 4]
    assert ids(world, version=1) == [1, 2]


def test_a_right_pointer_spares_reading_what_is_below(world):
    actions = four_versions(world)
    world.checkpoint(3, actions)
    world.point_to('{"version":3,"size":5}')
    (world.log / f"{1:020d}.json").write_text("not a version")
    assert ids(world) == [1, 3, 4]
    with pytest.raises(LogCorrupt) as caught:
        indextables.open(world.root, version=2)
    assert caught.value.version == 1


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", None])
def test_version_files_answer_where_a_checkpoint_is_damaged(world, damage):
    actions = four_versions(world)
    path = world.checkpoint(3, actions if damage is not None else actions[:1])
    if damage is not None:
        path.write_bytes(damage)
    world.point_to('{"version":3}')
    assert ids(world) == [1, 3, 4]
    without_commits(world, 0)
    with pytest.raises(CheckpointCorrupt) as caught:
        indextables.open(world.root)
    assert caught.value.path == f"_delta_log/{3:020d}.checkpoint.parquet"


def test_a_checkpoint_that_says_another_version_is_not_used(world):
    actions = [*four_versions(world), {"checkpointMetadata": {"version": 2}}]
    world.checkpoint(3, actions[:-2])
    assert ids(world) == [1, 3]
    world.checkpoint(3, [*actions[:-2], actions[-1]])
    assert ids(world) == [1, 3, 4]


def test_compacted_logs_and_check_files_are_left_alone(world):
    four_versions(world)
    (world.log / f"{0:020d}.{3:020d}.compacted.json").write_text("never read")
    (world.log / f"{3:020d}.crc").write_text("never read")
    (world.log / ".s3-optimization-0").write_text("")
    (world.log / "_commits").mkdir()
    (world.log / "_commits" / f"{4:020d}.uuid.json").write_text("staged")
    assert ids(world) == [1, 3, 4]


def test_a_gap_is_refused_and_named(world):
    four_versions(world)
    without_commits(world, 2)
    with pytest.raises(LogGap) as caught:
        indextables.open(world.root)
    assert caught.value.version == 2
    assert ids(world, version=1) == [1, 2]


def test_versions_that_are_not_there_are_told_apart(world):
    four_versions(world)
    with pytest.raises(VersionNotFound) as caught:
        indextables.open(world.root, version=4)
    assert caught.value.latest == 3


def test_a_log_without_versions_is_no_table(world):
    (world.log / "_last_checkpoint").write_text("{}")
    with pytest.raises(TableNotFound):
        indextables.open(world.root)


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_log_without_protocol_or_metadata_is_refused(world, missing):
    action = world.metadata('{"type":"struct","fields":[]}') if missing == "protocol" else {"protocol": PLAIN}
    world.commit(action)
    with pytest.raises(MetadataMissing, match=missing):
        indextables.open(world.root)


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview", "somethingNew"])
def test_what_readers_must_know_and_we_do_not_is_refused_by_name(world, feature):
    world.create(protocol=with_features("deletionVectors", feature))
    with pytest.raises(ProtocolUnsupported, match=feature) as caught:
        indextables.open(world.root)
    assert caught.value.required == [feature]
    assert ("catalog" in str(caught.value)) == feature.startswith("catalog")


@pytest.mark.parametrize(
    "feature",
    ["columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint"],
)
def test_features_that_we_know_are_read(world, feature):
    world.create(protocol=with_features(feature, "vacuumProtocolCheck"))
    world.commit(world.add(rows(1)))
    assert ids(world) == [1]


def test_features_of_writers_are_none_of_our_business(world):
    world.create(protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["somethingNew"]})
    world.commit(world.add(rows(1)))
    assert ids(world) == [1]


def test_a_newer_reader_version_is_refused(world):
    world.create(protocol={"minReaderVersion": 4, "minWriterVersion": 7})
    with pytest.raises(ProtocolUnsupported, match="version 4"):
        indextables.open(world.root)


def test_an_upgrade_counts_from_its_version_on(world):
    four_versions(world)
    world.commit({"protocol": with_features("somethingNew")})
    with pytest.raises(ProtocolUnsupported, match="somethingNew"):
        indextables.open(world.root)
    assert ids(world, version=3) == [1, 3, 4]


@pytest.mark.parametrize("kind", ["variant", "interval", "geometry(4326)"])
def test_types_that_we_have_not_are_refused_by_name(world, kind):
    field = {"name": "v", "type": kind, "nullable": True, "metadata": {}}
    world.create(json.dumps({"type": "struct", "fields": [field]}))
    with pytest.raises(NotSupported, match=kind.split("(", maxsplit=1)[0]):
        indextables.open(world.root)


def set_times(world, *seconds):
    for version, second in enumerate(seconds):
        os.utime(world.log / f"{version:020d}.json", (second, second))


def test_times_of_version_files_lead_to_versions(world):
    four_versions(world)
    set_times(world, 1000, 2000, 3000, 4000)
    table = indextables.open(world.root)
    assert [table.at(timestamp=ms).version for ms in (1_000_000, 1_999_999, 2_000_000, 3_500_000, 9_000_000)] == [
        0,
        0,
        1,
        2,
        3,
    ]
    assert indextables.open(world.root, timestamp="1970-01-01T00:50:00Z").version == 2
    with pytest.raises(VersionNotFound):
        table.at(timestamp=999_999)


def test_a_clock_that_went_back_does_not_hide_versions(world):
    """Each version counts as later than the one before it, as other readers of Delta do it."""
    four_versions(world)
    set_times(world, 1000, 3000, 2000, 4000)
    table = indextables.open(world.root)
    assert table.at(timestamp=2_500_000).version == 0
    assert table.at(timestamp=3_000_000).version == 1
    assert table.at(timestamp=3_000_001).version == 2
    listed = [row["timestamp"].timestamp() for row in table.history().to_pylist()]
    assert listed == sorted(listed, reverse=True)


def test_a_time_before_a_cleaned_up_log_is_told_so(world):
    actions = four_versions(world)
    world.checkpoint(3, actions)
    without_commits(world, 0, 1)
    for version in (2, 3):
        os.utime(world.log / f"{version:020d}.json", (version * 1000, version * 1000))
    table = indextables.open(world.root)
    assert table.at(timestamp=3_000_000).version == 3
    with pytest.raises(VersionExpired) as caught:
        table.at(timestamp=2_500_000)
    assert caught.value.earliest == 3


def with_commit_times(world, since):
    configuration = {"delta.enableInCommitTimestamps": "true"}
    if since:
        configuration["delta.inCommitTimestampEnablementVersion"] = str(since)
        configuration["delta.inCommitTimestampEnablementTimestamp"] = "5000000"
    return configuration


def test_commits_that_tell_their_time_are_found_by_it(world):
    info = [{"commitInfo": {"inCommitTimestamp": at, "operation": "WRITE"}} for at in (5_000_000, 6_000_000, 7_000_000)]
    schema = json.dumps(
        {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    )
    world.commit(info[0], {"protocol": PLAIN}, world.metadata(schema, configuration=with_commit_times(world, 0)))
    world.commit(info[1])
    world.commit(info[2])
    set_times(world, 9, 9, 9)
    table = indextables.open(world.root)
    assert [table.at(timestamp=ms).version for ms in (5_000_000, 6_999_999, 7_000_000, 10**12)] == [0, 1, 2, 2]
    with pytest.raises(VersionNotFound):
        table.at(timestamp=4_999_999)


def test_times_of_files_count_below_the_version_that_began_to_tell_them(world):
    four_versions(world)
    set_times(world, 1000, 2000, 9000, 9000)
    schema = json.dumps(
        {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    )
    on = world.metadata(schema, configuration=with_commit_times(world, 4))
    world.commit({"commitInfo": {"inCommitTimestamp": 5_000_000}}, on)
    table = indextables.open(world.root)
    assert table.at(timestamp=5_000_000).version == 4
    assert table.at(timestamp=4_999_999).version == 1
    assert table.history()["version"].to_pylist() == [4, 3, 2, 1, 0]


def test_a_commit_that_must_tell_its_time_and_does_not_is_refused(world):
    world.create(configuration=with_commit_times(world, 0))
    with pytest.raises(LogCorrupt, match="version 0"):
        indextables.open(world.root).at(timestamp=5)
