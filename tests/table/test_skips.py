"""A split that cannot be merged: recorded, left alone for a while, tried again, never hidden."""

from __future__ import annotations

import pytest
from tests.table.merge_world import damage, ids, log_of, splits_in_store, table_of

import indextables
from indextables.errors import InvalidArgument, SplitCorrupt


@pytest.fixture
def table(tmp_path):
    return table_of(tmp_path / "t", [40] * 5)


def again(table, **options):
    return indextables.open(table.url, options={key.replace("__", "."): value for key, value in options.items()})


def test_a_source_that_cannot_be_read_is_recorded_and_the_others_are_merged(table):
    files = table.files()["path"].to_pylist()
    damage(table, files[2])
    report = table.merge_splits()
    assert [(skip.path, bool(skip.reason)) for skip in report.skipped] == [(files[2], True)]
    assert (report.new_splits, report.source_splits) == (2, 4)
    (skip,) = table.skips().to_pylist()
    assert (skip["path"], skip["operation"], skip["skipCount"], skip["inCooldown"]) == (
        files[2],
        "MERGE SPLITS",
        1,
        True,
    )
    assert (skip["retryAfter"] - skip["skippedAt"]).total_seconds() == 24 * 3600
    assert files[2] in table.files()["path"].to_pylist()
    # It stands where it stood: rows before and behind it have not changed places.
    assert table.files()["numRecords"].to_pylist() == [80, 40, 80]
    with pytest.raises(SplitCorrupt):
        table.to_arrow()


def test_in_its_cooldown_it_is_left_out_and_afterwards_tried_again(table):
    bad = table.files()["path"].to_pylist()[0]
    damage(table, bad)
    table.merge_splits()
    report = table.merge_splits()
    assert (report.cooling, report.groups, report.skipped) == (1, 0, [])
    impatient = again(table, skippedFiles__cooldownDuration="0")
    impatient.clear_skips()
    for count in (1, 2, 3):
        assert [skip.path for skip in impatient.merge_splits().skipped] == [bad]
        assert impatient.skips()["skipCount"].to_pylist() == [count]
    damage(table, bad)
    assert impatient.merge_splits().skipped == []
    assert impatient.skips().num_rows == 0
    assert ids(impatient.to_arrow()) == list(range(200))


def test_skips_survive_checkpoints_and_are_seen_in_the_state(table):
    bad = table.files()["path"].to_pylist()[4]
    damage(table, bad)
    table.merge_splits()
    assert [skip.path for skip in table.state().skips] == [bad]
    table.checkpoint()
    assert [skip.path for skip in table.state().skips] == [bad]
    table.clear_skips()
    assert table.state().skips == ()
    table.merge_splits()
    assert [skip.path for skip in table.state().skips] == [bad]
    fresh = indextables.open(table.url)
    assert fresh.skips()["path"].to_pylist() == [bad]
    fresh.compact()
    assert again(table).merge_splits().cooling == 1


def test_cleared_skips_are_gone_for_good_and_the_next_merge_tries(table):
    files = table.files()["path"].to_pylist()
    for path in files[:2]:
        damage(table, path)
    table.merge_splits()
    assert table.clear_skips([files[0]]) == 1
    assert table.skips()["path"].to_pylist() == [files[1]]
    with pytest.raises(InvalidArgument, match="is not skipped"):
        table.clear_skips([files[0]])
    assert table.clear_skips([]) == 0
    assert table.clear_skips() == 1
    assert table.clear_skips() == 0
    table.checkpoint()
    assert indextables.open(table.url).skips().num_rows == 0
    assert table.history(1)["operation"].to_pylist() == ["CLEAR SKIPS"]
    for path in files[:2]:
        damage(table, path)
    assert table.merge_splits().skipped == []
    assert table.files().num_rows == 1
    assert ids(table.to_arrow()) == list(range(200))


def test_when_every_source_fails_nothing_is_added_or_removed(table):
    for path in table.files()["path"].to_pylist():
        damage(table, path)
    before = splits_in_store(table)
    report = table.merge_splits()
    # The last one is left without a neighbour before anybody tries to read it.
    assert (len(report.skipped), report.versions, report.new_splits) == (4, [], 0)
    actions = table.refresh().log()["action"].to_pylist()
    assert actions == ["commitInfo", "domainMetadata"] + ["mergeskip"] * 4
    assert splits_in_store(table) == before


def test_a_source_that_is_gone_is_skipped_as_long_as_the_log_names_it(table):
    log = log_of(table)
    gone = table.files()["path"].to_pylist()[1]
    log.env.store.delete_many([gone])
    report = table.merge_splits()
    assert [skip.path for skip in report.skipped] == [gone]
    table.overwrite([])
    assert table.skips().num_rows == 0


def test_a_broken_source_is_left_out_when_rows_are_sorted_too(table):
    bad = table.files()["path"].to_pylist()[3]
    damage(table, bad)
    report = table.merge_splits(cluster_by=["message", "v"])
    assert [skip.path for skip in report.skipped] == [bad]
    assert (report.merged_groups, report.source_splits, report.rows) == (1, 4, 160)
    assert bad in table.files()["path"].to_pylist()


def test_a_skip_can_be_recorded_by_hand_for_live_files_only(table):
    files = table.files()["path"].to_pylist()
    with pytest.raises(InvalidArgument, match="no live file"):
        table.skip([files[2], "splits/nothing.split"], reason="known to be odd")
    assert table.skips().num_rows == 0
    assert table.skip([files[2]], reason="known to be odd", hours=2) == table.version
    (skip,) = table.skips().to_pylist()
    assert (skip["path"], skip["reason"], skip["operation"]) == (files[2], "known to be odd", "BY HAND")
    assert (skip["retryAfter"] - skip["skippedAt"]).total_seconds() == 2 * 3600
    table.merge_splits()
    assert files[2] in table.files()["path"].to_pylist()
    assert table.clear_skips() == 1
    table.merge_splits()
    assert files[2] not in table.files()["path"].to_pylist()
