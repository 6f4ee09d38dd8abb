"""Of very many files purge looks at a part at a time, and remembers hashes of keys: it finds the same."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.state.logs import with_options
from tests.table.operate_world import contents, new_table, orphan, purge_of
from tests.world.commits import overwrite

from indextables.errors import IndexTablesError
from indextables.log.wire.actions import Add, DeletionVector
from indextables.log.wire.arrays import text_array
from indextables.log.wire.names import version_key
from indextables.split.file import dv
from indextables.table.maintenance.purge.keys import Keys, hashes_of

VECTOR = "ab^-aqEH.-t@S}K{vb[*k^"


def grown_wide(commits: int):
    """Every version replaces five files by others, one of them with a vector; a state every fifth."""
    table, clock = new_table(**{"state.entriesPerManifest": "2"})
    log = table._log
    log.env.store.put(dv.file_key(VECTOR, "here"), b"vectors")
    for number in range(commits):
        adds = []
        for place in range(5):
            path = f"splits/split-{log.env.ambient.token()}.split"
            log.env.store.put(path, b"rows")
            vector = DeletionVector("u", VECTOR, 10, 1, 1) if place == 3 else None
            adds.append(Add(path, {}, 4, 1, dataChange=True, numRecords=9, deletionVector=vector))
        overwrite(log, adds)
        clock.advance(days=1)
        if number % 5 == 4:
            table.checkpoint()
    table.refresh()
    return table


def reported(table, **options: object):
    env = with_options(table._log.env, transaction_cache_enabled=False, **options)
    report = purge_of(env, dry_run=True)
    return report.kept, report.cut, report.files.sort_by("path").to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("lost", [None, 31])
def test_very_many_files_are_purged_as_few_are(lost):
    table = grown_wide(40)
    orphan(table, 1)
    if lost is not None:
        # The state below stands alone then: no version file leads on from it.
        table._log.env.store.delete_many([version_key(lost)])
    kept, cut, files = reported(table)
    assert reported(table, state_filesInMemory=1) == (kept, cut, files)
    assert "split" in {row["kind"] for row in files}
    assert kept["named by a version"] > 5


def test_what_a_state_that_stands_alone_names_stays():
    table = grown_wide(40)
    log = table._log
    named = set(log.snapshot(30).files["path"].to_pylist())
    # Nothing but that state tells of its version.
    log.env.store.delete_many([version_key(version) for version in range(26, 32)])
    for many in (1, 1_000_000):
        report = purge_of(with_options(log.env, state_filesInMemory=many), dry_run=True)
        assert report.count("split") > 0
        assert not named & set(report.files["path"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("lost", [[31], [0, 31], [2, 31, 33]])
def test_versions_below_one_that_is_lost_keep_their_files(lost):
    """They are read from the checkpoint below them, or from version 0."""
    table = grown_wide(40)
    log = table._log
    log.env.store.delete_many([version_key(version) for version in lost])
    log.invalidate()
    before = {}
    for version in range(41):
        with contextlib.suppress(IndexTablesError):
            before |= contents(table, [version])
    assert len(before) > 20
    purge_of(log.env, older_than_hours=24)
    assert contents(table, before) == before


@given(st.sets(st.text(max_size=9)), st.sets(st.text(max_size=9)), st.lists(st.text(max_size=9)))
def test_a_set_of_keys_holds_what_was_put_in(one, other, more):
    keys = Keys(hashes_of(text_array(sorted(one)))).union(Keys(hashes_of(text_array(sorted(other)))), Keys())
    asked = [*one, *more, *other]
    found = keys.hold(pa.chunked_array([text_array(asked[:3]), text_array(asked[3:])]))
    assert found.to_pylist() == [key in one | other for key in asked]
    assert len(keys) == len(one | other)


def test_a_key_that_shares_its_hash_with_another_is_held_too():
    """Whoever is wrong about it keeps a file that could go; that it could be told apart is not asked for."""
    keys = Keys(np.array([1, 2, 2, 3], np.uint64), np.array([3], np.uint64))
    assert keys.hashes.tolist() == [1, 2, 3]
