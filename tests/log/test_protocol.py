from __future__ import annotations

import pytest

from indextables.errors import NotSupported, ProtocolUnsupported
from indextables.log.wire.actions import Protocol
from indextables.log.wire.protocol import (
    FEATURES,
    V1,
    check_readable,
    check_rows_writable,
    check_writable,
    has_own_splits,
    is_foreign,
    new_table_protocol,
    upgraded,
    with_feature,
)


def test_a_new_table_is_version_4_with_its_features():
    protocol = new_table_protocol()
    assert (protocol.minReaderVersion, protocol.minWriterVersion) == (4, 4)
    assert set(protocol.readerFeatures) == {"avroState", "deletionVectors", "schemaDeduplication", "parquetSplit"}
    assert set(protocol.writerFeatures) == {*protocol.readerFeatures, "rowTracking"}
    check_writable(protocol)


@pytest.mark.parametrize("protocol", [V1, Protocol(1, 2), Protocol(2, 2), Protocol(3, 3, ["footerOffsets"], [])])
def test_every_older_version_is_read_and_written(protocol):
    check_readable(protocol)
    check_writable(protocol)


@pytest.mark.parametrize("protocol", [Protocol(5, 4), Protocol(2**63 - 1, 2**63 - 1)])
def test_a_newer_reader_version_is_refused_with_both_versions(protocol):
    for check in (check_readable, check_writable):
        with pytest.raises(
            ProtocolUnsupported, match=rf"protocol version {protocol.minReaderVersion}.*has 4.*upgrade"
        ) as e:
            check(protocol, "s3://b/t")
        assert (e.value.details["required"], e.value.details["supported"]) == (protocol.minReaderVersion, 4)


def test_a_newer_writer_version_still_reads():
    protocol = Protocol(4, 5, ["parquetSplit"], ["parquetSplit"])
    check_readable(protocol)
    with pytest.raises(ProtocolUnsupported, match="written"):
        check_writable(protocol)


def test_an_unknown_reader_feature_blocks_reads_and_writes():
    protocol = with_unknown(new_table_protocol(), reader="newFeature")
    for check in (check_readable, check_writable):
        with pytest.raises(ProtocolUnsupported, match="newFeature"):
            check(protocol)


def test_an_unknown_writer_feature_blocks_only_writes():
    protocol = with_unknown(new_table_protocol(), writer="newFeature")
    check_readable(protocol)
    with pytest.raises(ProtocolUnsupported, match="newFeature"):
        check_writable(protocol)


def test_features_do_not_count_before_version_3():
    check_readable(Protocol(2, 2, ["newFeature"], ["newFeature"]))


def with_unknown(protocol, *, reader=None, writer=None):
    readers = [*protocol.readerFeatures, *([reader] if reader else [])]
    writers = [*protocol.writerFeatures, *([writer] if writer else [])]
    return Protocol(protocol.minReaderVersion, protocol.minWriterVersion, readers, writers)


@pytest.mark.parametrize("features", [None, [], ["avroState"]])
def test_tables_of_another_system_are_read_and_not_written(features):
    protocol = Protocol(4, 4, features, features)
    assert is_foreign(protocol)
    check_readable(protocol)
    with pytest.raises(NotSupported, match="convert"):
        check_writable(protocol)


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_the_first_use_of_a_feature_raises_the_protocol(feature):
    raised = with_feature(Protocol(2, 2), feature)
    assert (raised.minReaderVersion, raised.minWriterVersion) == (4, 4)
    assert (feature in raised.readerFeatures) == (
        feature not in ("checkConstraints", "deltaMirror", "generatedColumns", "identityColumns", "rowTracking")
    )
    assert feature in raised.writerFeatures
    assert with_feature(raised, feature) is raised


def test_features_that_are_there_stay():
    assert set(with_feature(new_table_protocol(), "typeWidening").readerFeatures) == {
        *new_table_protocol().readerFeatures,
        "typeWidening",
    }


def test_an_unknown_feature_cannot_be_asked_for():
    with pytest.raises(ValueError, match="nope"):
        with_feature(V1, "nope")


def test_an_upgrade_never_lowers():
    assert upgraded(Protocol(3, 3), 1, 2) == Protocol(3, 3)
    current = new_table_protocol()
    assert upgraded(current, 2, 2) is current


@pytest.mark.parametrize("protocol", [V1, Protocol(2, 2), Protocol(3, 3, ["checkpoints"], ["checkpoints"])])
def test_an_upgrade_to_version_4_does_not_make_old_splits_ours(protocol):
    raised = upgraded(protocol, 4, 4)
    assert {"avroState", "schemaDeduplication"} <= set(raised.readerFeatures)
    assert not has_own_splits(raised)
    check_writable(raised)
    with pytest.raises(NotSupported, match="splits of IndexTables4Spark"):
        check_rows_writable(raised)


def test_rows_are_written_to_tables_of_ours_only():
    check_rows_writable(new_table_protocol())
    with pytest.raises(NotSupported):
        check_rows_writable(Protocol(2, 2))


def test_a_table_of_ours_stays_ours_when_it_is_upgraded():
    raised = upgraded(Protocol(3, 3, ["parquetSplit"], ["parquetSplit"]), 4, 4)
    assert not is_foreign(raised)
    check_writable(raised)


def test_an_upgrade_beyond_this_library_is_refused():
    with pytest.raises(ProtocolUnsupported):
        upgraded(V1, 5, 5)
