from __future__ import annotations

import contextlib
import gzip
import json
import zlib

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.logs import METADATA, add, info, remove, vector

from indextables.errors import IndexTablesError, LimitExceeded, LogCorrupt, PathEscape
from indextables.log.checkpoint.avro.schema import ENTRY_COLUMNS
from indextables.log.wire import compression, lines
from indextables.log.wire.actions import (
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    Line,
    MergeSkip,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from indextables.log.wire.codec import (
    REMOVES_SCHEMA,
    commit_info_of,
    decode_version,
    encode_version,
    raw_lines,
)
from indextables.log.wire.files import ADD_TYPE, FILES_SCHEMA, METADATA_TYPE, PROTOCOL_TYPE, REMOVE_TYPE
from indextables.log.wire.protocol import new_table_protocol

GOOD = b'{"add":{"path":"a","partitionValues":{"day":"x"},"size":1,"modificationTime":1,"dataChange":true}}\n'
# Blocks of few lines are checked line by line, larger ones by counting: both must agree.
PADDING = [b"", GOOD * 60]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COUNT = st.one_of(st.none(), st.integers(0, 2**63 - 1))
MAPS = st.one_of(st.none(), st.dictionaries(TEXT, st.one_of(st.none(), TEXT), max_size=3))
NAMES = st.from_regex(r"[a-z0-9]{1,8}(/[a-z0-9]{1,8})?", fullmatch=True)
VECTORS = st.one_of(st.none(), st.builds(vector, TEXT, st.one_of(st.none(), st.integers(0, 2**31))))
ADDS = st.builds(
    Add,
    path=NAMES,
    partitionValues=st.dictionaries(TEXT, st.one_of(st.none(), TEXT), max_size=3),
    size=st.integers(0, 2**63 - 1),
    modificationTime=st.integers(0, 2**63 - 1),
    dataChange=st.booleans(),
    stats=st.one_of(st.none(), TEXT, st.just('{"numRecords":5,"minValues":{"a":1}}')),
    tags=MAPS,
    minValues=MAPS,
    maxValues=MAPS,
    numRecords=COUNT,
    footerStartOffset=COUNT,
    hasFooterOffsets=st.booleans(),
    timeRangeStart=st.one_of(st.none(), TEXT),
    splitTags=st.one_of(st.none(), st.lists(TEXT, max_size=3)),
    numMergeOps=st.one_of(st.none(), st.integers(0, 2**31 - 1)),
    docMappingJson=st.one_of(st.none(), TEXT),
    companionSourceFiles=st.one_of(st.none(), st.lists(TEXT, max_size=2)),
    deletionVector=VECTORS,
)
REMOVES = st.builds(
    Remove,
    path=NAMES,
    dataChange=st.booleans(),
    deletionTimestamp=COUNT,
    extendedFileMetadata=st.one_of(st.none(), st.booleans()),
    partitionValues=MAPS,
    size=COUNT,
    tags=MAPS,
    deletionVector=VECTORS,
)


def rows(table, kind):
    """The actions that a table's rows stand for."""
    names = [field for field in kind.__struct_fields__ if field in table.column_names]
    found = table.select(names).to_pylist(maps_as_pydicts="strict")
    return [msgspec.convert({k: v for k, v in row.items() if v is not None}, kind) for row in found]


@pytest.mark.slow
@given(st.lists(st.one_of(ADDS, REMOVES), min_size=1, max_size=8), st.sampled_from([1, 10]), st.booleans())
def test_actions_round_trip_through_bytes_and_columns(some, times, compress):
    actions = some * times
    content = decode_version(encode_version(actions, compress=compress), 7)
    assert rows(content.adds, Add) == [a for a in actions if isinstance(a, Add)]
    assert rows(content.removes, Remove) == [a for a in actions if isinstance(a, Remove)]
    assert content.adds.schema == FILES_SCHEMA
    assert content.removes.schema == REMOVES_SCHEMA
    numbers = [i for i, action in enumerate(actions, start=1) if isinstance(action, Add)]
    assert content.adds.column("addedAtLine").to_pylist() == numbers


@pytest.mark.slow
@given(st.lists(ADDS, max_size=8), st.lists(REMOVES, max_size=4))
def test_columns_round_trip_through_bytes(adds, removes):
    once = decode_version(encode_version([info(3), *removes, *adds], compress=False), 3)
    again = decode_version(encode_version([info(3)], adds=once.adds, removes=once.removes, compress=True), 3)
    assert again.adds.equals(once.adds)
    assert again.removes.equals(once.removes)


@pytest.mark.slow
@given(st.lists(ADDS, min_size=1, max_size=4))
def test_a_large_block_reads_as_its_lines_one_by_one(some):
    adds = some * 40
    whole = decode_version(encode_version(adds, compress=False), 1).adds
    single = [decode_version(encode_version([a], compress=False), 1).adds for a in some] * 40
    dropped = ["addedAtLine"]
    assert whole.num_rows > 32
    assert whole.drop_columns(dropped).equals(pa.concat_tables(single).drop_columns(dropped))


@pytest.mark.parametrize(("action", "kind"), [(Metadata, METADATA_TYPE), (Protocol, PROTOCOL_TYPE)])
def test_a_parquet_checkpoint_has_a_column_for_every_field(action, kind):
    assert {field.name for field in kind} == set(action.__struct_fields__)


def test_every_small_action_round_trips():
    actions = [
        info(2, operationParameters={"mode": "Append", "none": None}, userMetadata="é", isBlindAppend=True),
        new_table_protocol(),
        METADATA,
        Txn("app", 5, 99),
        DomainMetadata("d", "{}"),
        MergeSkip("a", 1, "bad", "merge", partitionValues={"day": None}, size=3, retryAfter=9, skipCount=2),
        Cdc("c", {"day": "x"}, 4),
    ]
    content = decode_version(encode_version(actions, compress=True), 2)
    assert content.commit_info == actions[0]
    assert (content.protocol, content.metadata) == (actions[1], actions[2])
    assert (content.txns, content.domains, content.skips, content.cdc) == tuple((a,) for a in actions[3:])
    assert content.token == actions[0].token
    assert content.timestamp_ms == actions[0].inCommitTimestamp


def test_commit_info_comes_first_whatever_the_order():
    data = encode_version([METADATA, info(0)], compress=False)
    assert data.startswith(b'{"commitInfo":')


def test_added_at_tells_version_line_and_time():
    content = decode_version(encode_version([info(9), remove("x"), add("a"), add("b")], compress=False), 9)
    row = content.adds.select(["addedAtVersion", "addedAtLine", "addedAtTimestamp"]).to_pylist()
    assert row == [
        {"addedAtVersion": 9, "addedAtLine": line, "addedAtTimestamp": info(9).inCommitTimestamp} for line in (3, 4)
    ]


@pytest.mark.parametrize("start", [1, 40])
def test_a_slice_of_a_table_is_encoded_as_itself(start):
    actions = [add(f"f{i}", tags={"i": str(i)}, deletionVector=vector(str(i)) if i % 2 else None) for i in range(90)]
    table = decode_version(encode_version(actions, compress=False), 1).adds.slice(start, 30)
    assert decode_version(encode_version([], adds=table, compress=False), 1).adds.column("path") == table.column("path")
    lines = [encode_version([action], compress=False) for action in actions[start : start + 30]]
    assert encode_version([], adds=table, compress=False).replace(b',"hasFooterOffsets":false', b"") == b"".join(lines)


def test_columns_and_structs_describe_the_same_fields():
    assert [f.name for f in ADD_TYPE] == list(Add.__struct_fields__)
    assert [f.name for f in REMOVE_TYPE] == list(Remove.__struct_fields__)
    assert set(lines.CheckedLine.__struct_fields__) == set(Line.__struct_fields__)
    assert set(ENTRY_COLUMNS) == {*Add.__struct_fields__, "addedAtVersion", "addedAtLine", "addedAtTimestamp"}
    assert len(ENTRY_COLUMNS) == len(set(ENTRY_COLUMNS)) == len(FILES_SCHEMA)


def test_every_number_of_an_action_is_checked_for_its_range():
    for kind, name in ((ADD_TYPE, "add"), (REMOVE_TYPE, "remove")):
        for field in kind:
            if not pa.types.is_integer(field.type):
                continue
            line = b'{"%s":{"%s":-1}}\n' % (name.encode(), field.name.encode())
            with pytest.raises(LimitExceeded, match=field.name):
                decode_version(line, 1)


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'"x"',
        b"5",
        b"null",
        b"{",
        b"}",
        b"{}{}",
        b"{} x",
        b'{"add":1}',
        b'{"add":[]}',
        b'{"add":{"path":5}}',
        b'{"add":{"path":"a"}}',
        GOOD[:-2],
        GOOD[:40],
        GOOD[:-1] + GOOD[:-1],
        GOOD[:-3] + b",}}",
        GOOD.replace(b'"size":1', b'"size":"1"')[:-1],
        GOOD.replace(b'"size":1', b'"size":1.5')[:-1],
        GOOD.replace(b'"size":1', b'"size":1.0')[:-1],
        GOOD.replace(b'"size":1', b'"size":true')[:-1],
        GOOD.replace(b'"size":1', b'"size":NaN')[:-1],
        GOOD.replace(b'"size":1', b'"size":Infinity')[:-1],
        GOOD.replace(b'"size":1', b'"size":01')[:-1],
        GOOD.replace(b'"size":1', b'"size":null')[:-1],
        GOOD.replace(b'"size":1,', b"")[:-1],
        GOOD.replace(b'"size":1', b'"size":1,"size":2')[:-1],
        GOOD.replace(b'"size":1', b'"size":1,"u":{"a":1,"a":1}')[:-1],
        GOOD.replace(b'"size":1', b'"size":1,"tags":{"a":"1","a":"2"}')[:-1],
        GOOD.replace(b'"size":1', b'"size":1,"tags":{"a":5}')[:-1],
        GOOD.replace(b'"size":1', b'"size":1,"tags":[]')[:-1],
        GOOD.replace(b'"size":1', b'"size":1,"deletionVector":{"storageType":"u"}')[:-1],
        GOOD.replace(b'"day":"x"', b'"day":5')[:-1],
        GOOD.replace(b"true", b'"true"')[:-1],
        GOOD.replace(b"true", b"null")[:-1],
        GOOD.replace(b'"a"', b'"\\ud800"')[:-1],
        GOOD.replace(b'"a"', b'"\xed\xa0\x80"')[:-1],
        GOOD.replace(b'"a"', b'"\xff"')[:-1],
        GOOD.replace(b'"a"', b'"a\tb"')[:-1],
        GOOD.replace(b'"a"', b'"\\x"')[:-1],
        GOOD.replace(b'{"add"', b'{"txn":{"appId":"a","version":1},"add"')[:-1],
        GOOD.replace(b'{"add"', b'{"remove":{"path":"a","dataChange":true},"add"')[:-1],
        GOOD.replace(b'{"add"', b'{"add":{},"add"')[:-1],
        b'{"u":"\xff"}',
        b"\xef\xbb\xbf" + GOOD[:-1],
        b'{"txn":5}',
        b'{"txn":{"appId":"a"}}',
        b'{"txn":{"appId":"a","version":"1"}}',
        b'{"txn":{"appId":"a","version":1,"version":2}}',
        b'{"metaData":{"id":"a"}}',
        b'{"protocol":{"minReaderVersion":1}}',
        b'{"commitInfo":{"operationParameters":{"a":5}}}',
    ],
)
def test_a_broken_line_is_named_with_its_number(line, padding):
    with pytest.raises(LogCorrupt) as caught:
        decode_version(padding + line + b"\n", 3)
    assert caught.value.details["version"] == 3
    assert caught.value.details["line"] == padding.count(b"\n") + 1
    assert "restore the file from a copy" in str(caught.value)


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize(
    "line",
    [
        GOOD.replace(b'"size":1', b'"size":-1'),
        GOOD.replace(b'"size":1', b'"size":9223372036854775808'),
        GOOD.replace(b'"size":1', b'"size":1' + b"0" * 5000),
        GOOD.replace(b'"size":1', b'"size":1e400'),
        GOOD.replace(b'"size":1', b'"size":1,"u":' + b"[" * 65 + b"]" * 65),
        GOOD.replace(b'"size":1', b'"size":1,"u":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        b'{"u":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"u":' + b"[" * 100_000 + b"\n",
        b'{"txn":{"appId":"a","version":-1}}\n',
        b'{"protocol":{"minReaderVersion":9223372036854775808,"minWriterVersion":1}}\n',
    ],
)
def test_a_line_beyond_a_cap_is_named_with_its_number(line, padding):
    with pytest.raises(LimitExceeded) as caught:
        decode_version(padding + line, 3)
    assert caught.value.details["line"] == padding.count(b"\n") + 1


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        b"\n",
        b"  \n",
        b'{"unknown":{"deep":[1,{"x":[2]}],"n":1e400}}\n',
        b'{"add":null}\n',
        b'{"txn":null}\n',
    ],
)
def test_lines_that_say_nothing_known_are_passed_over(line, padding):
    content = decode_version(GOOD + padding + line + GOOD, 3)
    assert content.adds.num_rows == 2 + padding.count(b"\n")
    assert content.adds.column("addedAtLine").to_pylist()[-1] == 3 + padding.count(b"\n")


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize(
    "extra",
    [
        b',"unknown":5',
        b',"unknown":{"path":"x","size":-1}',
        b',"stats":null',
        b',"stats": null , "tags" : null',
        b',"tags":{"a":null}',
        b',"minValues":{"path":"x","size":"5"}',
        b',"stats":"{\\"path\\":\\"x\\",\\"size\\":5}"',
        b',"hasFooterOffsets":null',
    ],
)
def test_unknown_fields_and_nulls_change_nothing_else(extra, padding):
    content = decode_version(padding + GOOD.replace(b'"size":1', b'"size":1' + extra), 3)
    row = content.adds.slice(content.adds.num_rows - 1).to_pylist()[0]
    assert (row["path"], row["size"], row["hasFooterOffsets"]) == ("a", 1, False)


def test_null_stands_for_absent_in_every_action():
    given = {"id": "a", "schemaString": "s", "name": None, "format": {"provider": None, "options": None}}
    given |= {"configuration": None, "partitionColumns": None, "createdTime": None}
    line = json.dumps({"metaData": given}).encode() + b"\n"
    metadata = decode_version(line, 0).metadata
    assert metadata.configuration == {}
    assert metadata.format.provider == "indextables"


@pytest.mark.parametrize("name", ["metaData", "protocol", "commitInfo"])
def test_what_may_stand_once_stands_once(name):
    line = {
        "metaData": b'{"metaData":{"id":"a","schemaString":"s"}}\n',
        "protocol": b'{"protocol":{"minReaderVersion":1,"minWriterVersion":1}}\n',
        "commitInfo": b'{"commitInfo":{}}\n',
    }[name]
    with pytest.raises(LogCorrupt, match=f"line 3 of version 5.*{name} stands there a second time"):
        decode_version(line + GOOD + line, 5)


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n\n", b" \n"])
def test_an_empty_file_is_no_version(data):
    with pytest.raises(LogCorrupt, match=r"version 4.*empty"):
        decode_version(data, 4)


@pytest.mark.parametrize("data", [GOOD[:-1], GOOD + GOOD[:20], GOOD + b" "])
def test_a_file_without_its_last_newline_is_cut_short(data):
    with pytest.raises(LogCorrupt, match="cut short"):
        decode_version(data, 4)


@pytest.mark.parametrize("data", [GOOD.replace(b"\n", b"\r\n"), GOOD.decode().encode("utf-16"), b"\x00" + GOOD])
def test_text_in_another_form_is_refused(data):
    with pytest.raises(LogCorrupt):
        decode_version(data, 4)


def test_compression_is_told_from_the_first_bytes():
    expected = decode_version(GOOD, 1).adds
    for data in (gzip.compress(GOOD), b"\x01\x01" + gzip.compress(GOOD), compression.compress(GOOD)):
        assert decode_version(data, 1).adds.equals(expected)


def test_our_gzip_is_the_same_for_the_same_actions():
    assert encode_version([info(1), add("a")], compress=True) == encode_version([info(1), add("a")], compress=True)


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(GOOD)[:-4],
        gzip.compress(GOOD)[:12],
        b"\x1f\x8b",
        b"\x01\x01\x1f\x8b",
        gzip.compress(GOOD)[:-6] + b"\x00\x00" + gzip.compress(GOOD)[-4:],
        gzip.compress(GOOD) + b"x",
        gzip.compress(GOOD) * 2,
        gzip.compress(gzip.compress(GOOD)),
        b"\x28\xb5\x2f\xfd" + GOOD,
        b"\x01\x01" + GOOD,
    ],
)
def test_damaged_or_foreign_compression_is_corrupt(data):
    with pytest.raises(LogCorrupt) as caught:
        decode_version(data, 4)
    assert caught.value.details["version"] == 4


def bomb(piece, count):
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([packer.compress(piece * (1 << 14)) for _ in range(count)]) + packer.flush()


@pytest.mark.slow
@pytest.mark.parametrize("piece", [b"\n", b"{}\n", b" ", b'{"u":1}\n', b"[", GOOD])
def test_a_bomb_ends_in_a_typed_error(piece):
    data = bomb(piece, 2 * (64 << 20) // (len(piece) << 14) + 1)
    assert len(data) < 4 << 20
    with pytest.raises(LimitExceeded, match="version 8"):
        decode_version(data, 8)


def test_a_bomb_of_ten_gibibytes_ends_in_a_typed_error():
    packer = zlib.compressobj(9, wbits=31)
    block = packer.compress(b"\n" * (1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    repeated = packer.compress(b"\n" * (1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = block + repeated * 640
    with pytest.raises(LimitExceeded):
        decode_version(data, 8)


def test_a_line_beyond_its_cap_is_refused():
    with pytest.raises(LimitExceeded, match="33554432"):
        decode_version(b'{"u":"' + b"x" * (33 << 20) + b'"}\n', 8)


def test_a_flood_of_lines_without_files_is_refused():
    with pytest.raises(LimitExceeded, match="neither add nor remove"):
        decode_version(b"{}\n" * 1_000_001, 8)


def test_a_plain_file_of_many_blocks_keeps_its_line_numbers():
    count = 3 * compression.BLOCK_BYTES // len(GOOD)
    content = decode_version(b"\n" + GOOD * count, 8)
    assert content.adds.column("addedAtLine").to_pylist() == list(range(2, count + 2))


def test_raw_lines_keep_what_is_not_known():
    line = b'{"add":{"path":"a","new":[1,2]},"other":{}}'
    assert raw_lines(gzip.compress(line + b"\n\n" + GOOD)) == [line, GOOD[:-1]]


def test_paths_come_out_in_one_spelling():
    data = encode_version([add("a b"), add("s3://bucket/tbl/c"), remove("%61%20b")], compress=False)
    content = decode_version(data, 1, root_url="s3://bucket/tbl")
    assert content.adds.column("path").to_pylist() == ["a%20b", "c"]
    assert content.removes.column("path").to_pylist() == ["a%20b"]


@pytest.mark.parametrize("padding", [0, 60])
def test_a_path_that_escapes_names_version_and_line(padding):
    data = encode_version([*[add(f"f{i}") for i in range(padding)], add("../x")], compress=False)
    with pytest.raises(PathEscape, match=f"line {padding + 1} of version 6"):
        decode_version(data, 6)


def test_commit_info_is_read_from_the_first_line_alone():
    data = encode_version([info(6, userMetadata="hello"), add("a")], compress=True)
    assert commit_info_of(data, 6).userMetadata == "hello"
    later = b'{"metaData":{"id":"a","schemaString":"s"}}\n{"commitInfo":{"operation":"X"}}\n'
    assert commit_info_of(later, 6).operation == "X"
    assert commit_info_of(GOOD, 6) is None


def test_without_files_only_small_actions_are_kept():
    content = decode_version(encode_version([info(1), Txn("a", 1), add("x")], compress=True), 1, files=False)
    assert content.adds.num_rows == 0
    assert content.txns == (Txn("a", 1),)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_version_or_a_typed_error(data):
    with contextlib.suppress(IndexTablesError):
        decode_version(data, 1)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.one_of(TEXT, st.sampled_from([*Add.__struct_fields__, *Line.__struct_fields__])), inner, max_size=4
            ),
        ),
        max_leaves=12,
    )
)
def test_any_json_is_a_version_or_a_typed_error(value):
    with contextlib.suppress(IndexTablesError):
        decode_version(json.dumps(value).encode() + b"\n", 1)


def test_errors_survive_pickling_with_their_facts():
    with pytest.raises(LogCorrupt) as caught:
        decode_version(b"x\n", 3)
    kind, message, details = caught.value.__reduce__()[1]
    assert kind is LogCorrupt
    assert details["line"] == 1
    assert "version 3" in message


def test_a_commit_info_of_another_shape_is_tolerated_where_it_is_not_asked_for():
    assert isinstance(decode_version(b'{"commitInfo":{"operation":"X","unknown":[1]}}\n', 1).commit_info, CommitInfo)
