from __future__ import annotations

import msgspec
import pytest
from tests.log.logs import METADATA, add, append, create, local_env, memory_env, open_log, remove, write
from tests.log.scripted import Scripted

from indextables.errors import TableNotFound
from indextables.log.care.verifying import verify
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.wire.actions import Protocol
from indextables.log.wire.codec import decode_version, encode_version
from indextables.log.wire.crcfile import EMPTY_TOTALS, build_next, encode_crc, parse_crc
from indextables.log.wire.names import POINTER_KEY, crc_key, version_key


def kinds(report):
    return [(finding.kind, finding.severity, finding.version) for finding in report.findings]


@pytest.fixture
def env():
    """A table with check files at every version and one checkpoint."""
    env = memory_env()
    create(env)
    append(env, 1, 2)
    write(env, 3, remove("f1.split"), add("g.split", size=4))
    append(env, 4)
    totals, state = EMPTY_TOTALS, None
    for version in range(5):
        data = env.store.get(version_key(version))
        content = decode_version(data, version)
        gone = None if state is None or not content.removes.num_rows else state.files.slice(0, 1)
        crc = build_next(totals, content, data, removed=gone)
        env.store.put(crc_key(version), encode_crc(crc))
        totals, state = crc.totals(), open_log(env).snapshot(version).state
    write_checkpoint(env, open_log(env).snapshot(3).state)
    return env


def test_a_sound_table_has_no_findings(env):
    report = verify(env)
    assert report.ok
    assert report.findings == ()
    assert (report.version, report.versions_checked, report.checkpoints_checked) == (4, 5, 1)


def test_nothing_is_no_table():
    with pytest.raises(TableNotFound):
        verify(memory_env())


def test_verifying_changes_nothing(env):
    before = {meta.key: (meta.etag, meta.modified_ms) for meta in env.store.list_from("")}
    verify(env, data_files=True)
    assert {meta.key: (meta.etag, meta.modified_ms) for meta in env.store.list_from("")} == before


def test_bytes_that_differ_from_the_check_file_are_found(env):
    data = env.store.get(version_key(2))
    content = decode_version(data, 2)
    write(env, 2, add("f2.split", size=11))
    assert decode_version(env.store.get(version_key(2)), 2).token == content.token
    report = verify(env)
    assert not report.ok
    assert ("version", "error", 2) in kinds(report)
    assert "crc32c" in report.findings[0].message


def test_totals_that_differ_from_replay_are_found(env):
    crc = parse_crc(env.store.get(crc_key(4)))
    env.store.put(crc_key(4), encode_crc(msgspec.structs.replace(crc, numFiles=7)))
    assert kinds(verify(env)) == [("totals", "error", 4)]


def test_a_set_hash_that_differs_from_replay_is_found(env):
    crc = parse_crc(env.store.get(crc_key(1)))
    env.store.put(crc_key(1), encode_crc(msgspec.structs.replace(crc, setHash="0" * 16)))
    assert kinds(verify(env)) == [("totals", "error", 1)]


def test_a_check_file_that_is_none_is_only_a_warning(env):
    env.store.put(crc_key(1), b"garbage")
    report = verify(env)
    assert report.ok
    assert kinds(report) == [("crc", "warning", 1)]


def test_a_check_file_that_cleanup_left_is_named_once_as_advice(env):
    env.store.delete_many([version_key(version) for version in range(3)])
    report = verify(env)
    assert (kinds(report), report.ok) == ([("crc", "warning", 0)], True)
    assert report.findings[0].key == crc_key(0)
    assert "3 check files" in report.findings[0].message
    assert "delete" in report.findings[0].message


def test_a_check_file_above_the_newest_version_tells_of_a_version_that_was_lost(env):
    env.store.delete_many([version_key(4)])
    report = verify(env)
    assert (kinds(report), report.ok, report.version) == ([("crc", "error", 4)], False, 3)
    assert "restore" in report.findings[0].message


def test_a_check_file_of_a_version_that_goes_while_it_is_listed_is_no_finding(env):
    """Names are listed in their order: the check file before its version file, which cleanup takes in between."""
    store = Scripted(env.store)

    def torn(call):
        listed = [meta for meta in call() if meta.key not in {version_key(number) for number in range(3)}]
        env.store.delete_many([key(number) for number in range(3) for key in (version_key, crc_key)])
        return iter(listed)

    store.play("list", "_transaction_log", torn)
    assert kinds(verify(msgspec.structs.replace(env, store=store))) == []


def test_missing_check_files_are_fine(env):
    env.store.delete_many([crc_key(v) for v in range(5)])
    assert verify(env).findings == ()


def test_a_corrupt_version_is_found_and_the_rest_is_still_looked_at(env):
    env.store.put(version_key(1), b"garbage\n")
    report = verify(env)
    assert not report.ok
    assert ("version", "error", 1) in kinds(report)
    assert report.versions_checked == 5


def test_a_gap_is_found(env):
    append(env, 6)
    report = verify(env)
    assert ("gap", "error", 5) in kinds(report)
    assert report.version is None


def test_an_unreadable_checkpoint_is_a_warning(env):
    ref = open_log(env).states()[0]
    env.store.put(ref.keys[0], b"garbage")
    report = verify(env)
    assert report.ok
    assert kinds(report) == [("checkpoint", "warning", 3)]


def test_a_checkpoint_with_other_files_than_replay_is_an_error():
    env = memory_env()
    create(env)
    append(env, 1, 2)
    state = open_log(env).snapshot(2).state
    write_checkpoint(env, msgspec.structs.replace(state, files=state.files.slice(1)))
    report = verify(env)
    assert kinds(report) == [("checkpoint", "error", 2)]
    assert "replay gives" in report.findings[0].message


def test_a_pointer_into_the_void_is_a_warning(env):
    env.store.put(POINTER_KEY, b'{"version":2}')
    assert kinds(verify(env)) == [("pointer", "warning", 2)]


def test_a_commit_time_that_steps_back_is_a_warning():
    env = memory_env()
    create(env)
    append(env, 1)
    env.store.put(version_key(2), env.store.get(version_key(1)))
    assert ("order", "warning", 2) in kinds(verify(env))


def test_files_of_two_tables_in_one_log_are_an_error():
    env = memory_env()
    create(env)
    write(env, 1, add("a"), table_id="another")
    assert ("table", "error", 1) in kinds(verify(env))


def test_data_files_are_checked_for_presence_and_size(tmp_path):
    env = local_env(tmp_path / "t")
    create(env, METADATA)
    write(env, 1, add("there.split", size=3), add("gone.split"), add("a%20b.split", size=9))
    env.store.put("there.split", b"abc")
    env.store.put("a b.split", b"short")
    report = verify(env, data_files=True)
    assert report.data_files_checked == 3
    assert sorted((finding.kind, finding.key) for finding in report.findings) == [
        ("data-file-missing", "gone.split"),
        ("data-file-size", "a b.split"),
    ]


def test_states_of_another_system_count_on_a_line_of_their_own():
    """A state-v0 that was written later than version 0 holds files which version 0 has not."""
    env = memory_env()
    write(env, 0, Protocol(4, 4), METADATA)
    state = open_log(env).snapshot().state
    later = decode_version(encode_version([add("a")], compress=False), 1).adds
    write_checkpoint(env, msgspec.structs.replace(state, files=later))
    assert verify(env).findings == ()
