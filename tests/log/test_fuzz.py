"""Structure-aware fuzzing: valid files, mutated where their structure is, from a fixed seed.

What comes out is a value or a typed error, in bounded time and memory; a run that fails prints the seed of its input.
`INDEXTABLES_FUZZ` sets the number of inputs per target.
"""

from __future__ import annotations

import gzip
import os
import random
import resource
import sys
import zlib
from pathlib import Path

import pytest
from tests.log.logs import METADATA, SCHEMA, add, append, create, info, memory_env, open_log, paths, remove, vector

from indextables.env import Env
from indextables.errors import IndexTablesError, PathEscape
from indextables.log.checkpoint.pointer import read_pointer
from indextables.log.read.folding import replay
from indextables.log.wire.actions import Cdc, DomainMetadata, MergeSkip, Txn
from indextables.log.wire.codec import commit_info_of, decode_version, encode_version, raw_lines
from indextables.log.wire.crcfile import CrcFile, encode_crc, parse_crc
from indextables.log.wire.names import LOG_DIR, POINTER_KEY, parse_key, version_key
from indextables.log.wire.paths import canonical_path, key_of
from indextables.log.wire.protocol import new_table_protocol
from indextables.log.wire.schema import schema_from_json

INPUTS = int(os.environ.get("INDEXTABLES_FUZZ", "1500"))

TOKENS = [
    *[b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\n", b"\r\n", b"\x00", b" ", b"\t", b"{}", b"[]"],
    *[b"null", b"true", b"-1", b"1e400", b"NaN", b"0.5", b'"5"', b"9223372036854775807", b"9223372036854775808"],
    *[b"\\ud800", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"[" * 70, b'{"a":' * 70, b"\x1f\x8b", b"\x01\x01"],
    *[b'{"add":', b'{"remove":', b'{"metaData":', b'"path":"../x"', b'"path":"a"', b'"size":', b'"size":1,', b"%2e%2e"],
    *[b'"deletionVector":{}', b'"tags":{"a":"1","a":"2"}'],
]

SEEDS = [
    encode_version([info(1), add("a", tags={"k": None}, minValues={"id": "1"}, splitTags=["x"])], compress=False),
    encode_version([info(1), remove("a"), add("a", deletionVector=vector("v", 1))], compress=False),
    encode_version([info(0), new_table_protocol(), METADATA], compress=False),
    encode_version(
        [info(1), Txn("a", 1), DomainMetadata("d", "{}"), MergeSkip("a", 1, "r", "m"), Cdc("c", {}, 1)], compress=False
    ),
    encode_version([info(1), *(add(f"f{i}", size=i) for i in range(40))], compress=False),
]


def mutated(rng, data, tokens=TOKENS):
    """A few changes where they hurt: tokens in, pieces out, pieces twice, bytes flipped, lines in another order."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        choice = rng.randrange(8)
        if choice <= 2:
            data = data[:at] + rng.choice(tokens) + data[at:]
        elif choice == 3:
            data = data[:at] + data[at + rng.randint(1, 20) :]
        elif choice == 4:
            end = min(len(data), at + rng.randint(1, 40))
            data = data[:end] + data[at:end] + data[end:]
        elif choice == 5 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif choice == 6:
            token = rng.choice(tokens)
            data = data[:at] + token + data[at + len(token) :]
        else:
            lines = data.split(b"\n")
            rng.shuffle(lines)
            data = b"\n".join(lines)
    return data


MAX_GROWTH_KIB = 256 << 10


@pytest.fixture(autouse=True)
def bounded_memory():
    """No test may make the process grow: its peak stays within a bound of what it used before."""
    before = peak_kib(forget=True)
    yield
    assert peak_kib() - before < MAX_GROWTH_KIB


def peak_kib(*, forget=False):
    """The most memory that the process has used, since it was last forgotten where the system can forget it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    return int(status.read_text().split("VmHWM:")[1].split()[0])


def drive(name, attempt):
    for number in range(INPUTS):
        rng = random.Random(f"{name}-{number}")
        try:
            attempt(rng)
        except IndexTablesError:
            continue
        except BaseException as error:
            error.add_note(f"input {name}-{number}")
            raise


@pytest.mark.slow
def test_version_files():
    def attempt(rng):
        data = mutated(rng, rng.choice(SEEDS))
        content = decode_version(data, 1)
        assert content.adds.num_rows + content.removes.num_rows <= data.count(b"\n")
        again = (
            decode_version(encode_version([], adds=content.adds, removes=content.removes, compress=True), 1)
            if (content.adds.num_rows or content.removes.num_rows)
            else content
        )
        assert again.adds.column("path") == content.adds.column("path")

    drive("version", attempt)


def test_what_was_read_can_be_replayed():
    first = decode_version(encode_version([info(0), new_table_protocol(), METADATA], compress=False), 0)

    def attempt(rng):
        content = decode_version(mutated(rng, rng.choice(SEEDS)), 1)
        state = replay(None, [first, content])
        assert state.files.num_rows <= content.adds.num_rows

    drive("replay", attempt)


def test_compressed_version_files():
    def attempt(rng):
        packed = rng.choice([gzip.compress, lambda d: b"\x01\x01" + gzip.compress(d)])(rng.choice(SEEDS))
        decode_version(mutated(rng, packed), 1)

    drive("gzip", attempt)


def test_lines_and_commit_information():
    def attempt(rng):
        data = mutated(rng, rng.choice(SEEDS))
        raw_lines(data)
        commit_info_of(data, 1)

    drive("lines", attempt)


@pytest.mark.slow
def test_small_files_and_large_files_are_judged_alike():
    """A block of many lines is checked by counting, one of few line by line: the verdict must be the same."""
    padding = encode_version([add(f"pad{i}") for i in range(40)], compress=False)

    def verdict(data):
        try:
            content = decode_version(data, 1)
        except IndexTablesError as error:
            return type(error)
        return content.adds.column("path").to_pylist(), content.removes.column("path").to_pylist()

    def attempt(rng):
        data = mutated(rng, rng.choice(SEEDS[:4]))
        small, large = verdict(data), verdict(padding + data)
        if isinstance(small, tuple) and isinstance(large, tuple):
            assert large == ([f"pad{i}" for i in range(40)] + small[0], small[1])
        else:
            # A file of blank lines is empty only without the padding.
            assert small == large or not data.strip()

    drive("alike", attempt)


def test_names():
    seeds = [version_key(1), LOG_DIR + "state-v00000000000000000001/_manifest.avro", POINTER_KEY]
    pieces = [
        b"0",
        b"1",
        b".",
        b"/",
        b"..",
        b"json",
        b"checkpoint",
        b"-",
        b"\n",
        "\u0661".encode(),
        b"manifests/",
        b"%",
    ]

    def attempt(rng):
        key = mutated(rng, rng.choice(seeds).encode(), pieces).decode("utf-8", errors="replace")
        file = parse_key(key)
        if file is not None:
            assert ".." not in key
            assert file.version <= 2**63 - 1
            if file.kind == "version":
                assert key == version_key(file.version)

    drive("names", attempt)


def test_paths():
    roots = ["s3://bucket/data/tbl", "file:///data/tbl"]
    pieces = [
        b"..",
        b".",
        b"/",
        b"%2e",
        b"%2f",
        b"%5c",
        b"%25",
        b"\\",
        b"s3://bucket/data/tbl/",
        b"file:///",
        b"//",
        b"%00",
        b"\x00",
        b"=",
        b":",
        b"_transaction_log",
    ]

    def attempt(rng):
        path = mutated(rng, b"day=1/splits/split-1.split", pieces).decode("utf-8", errors="replace")
        root = rng.choice(roots)
        key = key_of(path, root)
        parts = key.split("/")
        assert not {"", ".", ".."} & set(parts)
        assert "\\" not in key
        assert "\x00" not in key
        assert parts[0].lower() not in {"_transaction_log", "_delta_log"}
        assert key_of(canonical_path(path, root), root) == key

    drive("paths", attempt)


def test_check_files():
    seed = encode_crc(CrcFile(5, "t" * 32, 1, 2, 3, 1, 1, "0123456789abcdef"))
    drive("crc", lambda rng: parse_crc(mutated(rng, seed)))


def test_pointers():
    env = memory_env()
    create(env)
    append(env, 1)
    seed = b'{"version":1,"size":1,"sizeInBytes":5,"numFiles":1,"format":"avro-state","stateDir":"state-v1"}'

    def attempt(rng):
        env.store.put(POINTER_KEY, mutated(rng, seed))
        pointer = read_pointer(env)
        assert pointer is None or pointer.version >= 0

    drive("pointer", attempt)
    assert paths(open_log(env).snapshot()) == ["f1.split"]


def test_schemas():
    pieces = [
        b"struct",
        b"array",
        b"map",
        b"decimal(38,38)",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b"null",
        b'"nullable":5',
        b"-1",
        b"\\ud800",
    ]

    def attempt(rng):
        schema_from_json(mutated(rng, SCHEMA.encode(), pieces).decode("utf-8", errors="replace"))

    drive("schema", attempt)


def test_whole_logs():
    """Any file of the log folder damaged: a read gives the table, an earlier reachable one never, or a typed error."""

    def attempt(rng):
        env: Env = memory_env()
        create(env)
        append(env, 1, 2)
        keys = [meta.key for meta in env.store.list_from(LOG_DIR)]
        key = rng.choice(keys)
        data = mutated(rng, env.store.get(key))
        if rng.randrange(8) == 0:
            env.store.delete_many([key])
        else:
            env.store.put(key, data)
        assert open_log(env).snapshot().version == 2 or key == version_key(2)

    for number in range(INPUTS // 10):
        rng = random.Random(f"log-{number}")
        try:
            attempt(rng)
        except IndexTablesError:
            continue


BOMBS = {
    "newlines": b"\n",
    "spaces": b" ",
    "empty objects": b"{}\n",
    "unknown actions": b'{"u":{}}\n' + b'{"u":5}\n' * 9,
    "open brackets": b"[",
    "open objects": b'{"a":',
    "one string": b"a",
    "versions": SEEDS[0],
    "digits": b"9",
    "nothing": b'{"u":0}\n',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("size", [8 << 20, 80 << 20])
@pytest.mark.timeout(120)
def test_bombs_are_refused_in_bounded_time_and_memory(name, size):
    piece = BOMBS[name]
    packer = zlib.compressobj(1, wbits=31)
    block = piece * ((1 << 20) // len(piece))
    data = b"".join(packer.compress(block) for _ in range(size >> 20)) + packer.flush()
    with pytest.raises(IndexTablesError):
        decode_version(data, 1)


def test_path_escapes_in_every_combination_stay_inside():
    """Every string made of up to four pieces of an escape: refused, or a key below the root."""
    pieces = ["..", ".", "/", "%2e%2e", "%2f", "%252e", "a", "\\", "s3://bucket/tbl/", "_transaction_log"]
    texts = [""]
    for _ in range(4):
        texts = [*texts, *(text + piece for text in texts if len(text) < 40 for piece in pieces)]
    seen = 0
    for text in dict.fromkeys(texts):
        seen += 1
        try:
            key = key_of(text, "s3://bucket/tbl")
        except PathEscape:
            continue
        assert not {"", ".", ".."} & set(key.split("/"))
        assert key.split("/")[0] != "_transaction_log"
    assert seen > 5000


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_the_same_with_two_hundred_times_the_inputs(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "INPUTS", 200 * INPUTS)
    for test in (
        test_version_files,
        test_what_was_read_can_be_replayed,
        test_compressed_version_files,
        test_lines_and_commit_information,
        test_small_files_and_large_files_are_judged_alike,
        test_names,
        test_paths,
        test_check_files,
        test_pointers,
        test_schemas,
    ):
        test()
