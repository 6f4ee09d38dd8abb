"""Every way in which the bytes of a log can be wrong: one typed error, which names the version and the way out.

Readers raise it, writers refuse to go on, and nothing in the folder changes.
"""

from __future__ import annotations

import functools
import gzip
import zlib
from collections.abc import Callable

import pytest
from tests.log.logs import METADATA, add, append, create, info, local_env, memory_env, open_log, paths, remove, write
from tests.world.commits import append as append_files
from tests.world.commits import overwrite

from indextables.env import Env
from indextables.errors import (
    IndexTablesError,
    LimitExceeded,
    LogCorrupt,
    LogGap,
    MetadataMissing,
    NotSupported,
    PathEscape,
    ProtocolUnsupported,
    TableNotFound,
)
from indextables.log.wire.actions import Protocol
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import version_key

Break = Callable[[Env], None]


def gap(env):
    env.store.delete_many([version_key(2)])


def version_0_missing(env):
    env.store.delete_many([version_key(0)])


def put(version: int, change: Callable[[bytes], bytes]) -> Break:
    def spoil(env):
        env.store.put(version_key(version), change(env.store.get(version_key(version))))

    return spoil


def two_metadata(env):
    env.store.put(version_key(3), encode_version([info(3), METADATA, METADATA], compress=True))


def log_with(*actions) -> Break:
    return lambda env: write(env, 3, *actions)


@functools.cache
def bomb_bytes():
    packer = zlib.compressobj(1, wbits=31)
    return b"".join(packer.compress(b"\n" * (1 << 20)) for _ in range(70)) + packer.flush()


def bomb(_):
    return bomb_bytes()


CASES = {
    "gap": (gap, LogGap, 2, "restore its file"),
    "version 0 missing": (version_0_missing, LogGap, 0, "No transaction log found"),
    "empty": (put(3, lambda _: b""), LogCorrupt, 3, "restore the file from a copy"),
    "truncated plain": (put(3, lambda d: gzip.decompress(d)[:-7]), LogCorrupt, 3, "cut short"),
    "truncated gzip": (put(3, lambda d: d[:-9]), LogCorrupt, 3, "ends in the middle"),
    "half gzip": (put(3, lambda d: d[: len(d) // 2]), LogCorrupt, 3, "ends in the middle"),
    "flipped byte": (put(3, lambda d: d[:20] + bytes([d[20] ^ 255]) + d[21:]), LogCorrupt, 3, "restore the file"),
    "garbage": (put(3, lambda _: b"\x89PNG\r\n\x1a\n" + bytes(64)), LogCorrupt, 3, "restore the file"),
    "another file's text": (put(3, lambda _: b"<html>503</html>\n"), LogCorrupt, 3, "line 1"),
    "two metaData": (two_metadata, LogCorrupt, 3, "metaData stands there a second time"),
    "bomb": (put(3, bomb), LimitExceeded, 3, "times its size"),
    "unsupported protocol": (log_with(Protocol(9, 9)), ProtocolUnsupported, None, "upgrade the library"),
    "unknown feature": (log_with(Protocol(4, 4, ["x"], ["x"])), ProtocolUnsupported, None, "upgrade the library"),
    "escape upwards": (log_with(add("../other/f.split")), PathEscape, 3, "repair the log"),
    "escape encoded": (log_with(add("%2e%2e/other/f.split")), PathEscape, 3, "repair the log"),
    "escape to another bucket": (log_with(add("s3://other/tbl/f.split")), PathEscape, 3, "repair the log"),
    "escape absolute": (log_with(remove("/etc/passwd")), PathEscape, 3, "repair the log"),
}


def listing(env):
    return {meta.key: (meta.size, meta.etag, meta.modified_ms) for meta in env.store.list_from("")}


@pytest.fixture(params=["local", "memory"])
def env(request, tmp_path):
    env = local_env(tmp_path / "t") if request.param == "local" else memory_env()
    create(env)
    append(env, 1, 2, 3)
    return env


@pytest.mark.parametrize("case", CASES)
def test_a_reader_gets_its_own_typed_error(env, case):
    spoil, kind, version, way_out = CASES[case]
    spoil(env)
    before = listing(env)
    with pytest.raises(kind, match=way_out) as caught:
        paths(open_log(env).snapshot())
    if version is not None:
        assert caught.value.details["version"] == version
        assert str(version) in str(caught.value)
    assert listing(env) == before


@pytest.mark.parametrize("case", CASES)
def test_a_writer_refuses_to_go_on_and_changes_nothing(env, case):
    spoil, kind, _, _ = CASES[case]
    spoil(env)
    before = listing(env)
    for verb in (append_files, overwrite):
        with pytest.raises(kind):
            verb(open_log(env), [add("new.split")])
    assert {key: value for key, value in listing(env).items() if key in before} == before
    assert not [key for key in listing(env) if key not in before and key.startswith("_transaction_log/0")]


@pytest.mark.parametrize("case", [name for name, (_, _, version, _) in CASES.items() if version == 3])
def test_earlier_versions_stay_readable(env, case):
    CASES[case][0](env)
    log = open_log(env)
    assert paths(log.snapshot(2)) == ["f1.split", "f2.split"]


def test_foreign_names_are_passed_over(env):
    for name in ("4.json", "0000000000000000004.json", "00000000000000000004.json.gz", "00000000000000000004.JSON"):
        env.store.put("_transaction_log/" + name, b"garbage")
    assert open_log(env).snapshot().version == 3
    assert append_files(open_log(env), [add("new.split")]).version == 4


def test_a_folder_named_like_a_slot_is_not_the_newest_version(tmp_path):
    env = local_env(tmp_path / "t")
    create(env)
    (tmp_path / "t" / version_key(1)).mkdir()
    assert open_log(env).snapshot().version == 0


def test_metadata_missing_is_its_own_error():
    env = memory_env()
    write(env, 0, add("a"))
    with pytest.raises(MetadataMissing, match="No metadata found"):
        open_log(env).snapshot()
    with pytest.raises(MetadataMissing):
        append_files(open_log(env), [add("b")])


def test_nothing_at_all_is_its_own_error():
    env = memory_env()
    with pytest.raises(TableNotFound, match="No transaction log found"):
        append_files(open_log(env), [add("b")])
    assert listing(env) == {}


def test_tables_of_another_system_are_read_and_not_written():
    env = memory_env()
    write(env, 0, Protocol(4, 4), METADATA)
    assert paths(open_log(env).snapshot()) == []
    before = listing(env)
    with pytest.raises(NotSupported, match="convert"):
        append_files(open_log(env), [add("b")])
    assert {key: value for key, value in listing(env).items() if key in before} == before


@pytest.mark.slow
def test_no_error_is_anything_but_typed_when_every_byte_of_a_version_is_flipped(env):
    good = gzip.decompress(env.store.get(version_key(3)))
    for data in (good, env.store.get(version_key(3))):
        for position in range(0, len(data), 11):
            for mask in (1, 128, 255):
                env.store.put(version_key(3), data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :])
                try:
                    found = paths(open_log(env).snapshot())
                except IndexTablesError:
                    continue
                # A flip inside a name or a number of a plain file cannot be told from a commit that meant it.
                assert len(found) in {2, 3}
