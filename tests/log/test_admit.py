"""What is written can be read: every commit is either refused before its first byte, or comes back as it was staged."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.commits import METADATA, add, local_env, new_table, open_log, remove
from tests.world.commits import append, change_metadata, record_skip

from indextables.errors import InvalidArgument
from indextables.log.commit.create import create_table, new_metadata
from indextables.log.commit.transaction import Transaction
from indextables.log.wire import compression
from indextables.log.wire.actions import (
    Add,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    MergeSkip,
    Metadata,
    Remove,
    Txn,
)
from indextables.log.wire.admit import admitted
from indextables.log.wire.codec import decode_version
from indextables.log.wire.files import FILES_SCHEMA

INFO = CommitInfo(timestamp=1, inCommitTimestamp=1, operation="TEST", token="0" * 32)


@pytest.fixture
def log(tmp_path):
    return new_table(tmp_path / "table")


def version_files(log):
    return sorted(meta.key for meta in log.env.store.list_from("_transaction_log/") if meta.key.endswith(".json"))


@pytest.mark.parametrize("version", ["x", 2**70, 2**63, 1.5, None, True, -5])
def test_a_batch_number_that_no_reader_takes_is_refused(log, version):
    with pytest.raises(InvalidArgument, match="batch number"):
        append(log, [add("a")], txn=("app", version))
    assert len(version_files(log)) == 1


@pytest.mark.parametrize("app_id", [5, None, "", "\ud800"])
def test_an_application_id_that_no_reader_takes_is_refused(log, app_id):
    with pytest.raises(InvalidArgument, match="application id"):
        append(log, [add("a")], txn=(app_id, 1))
    assert len(version_files(log)) == 1


def test_the_largest_batch_number_is_written_and_read(log):
    append(log, [add("a")], txn=("app", 2**63 - 1))
    assert open_log(log.env).snapshot().txns["app"].version == 2**63 - 1


BAD_FILES = [
    add("../a"),
    add("p=%2500/a"),
    add("a", size=-1),
    add("a", size=2**63),
    add("a", size="10"),
    add("a", stats="\ud800"),
    add("a", tags={"k": 5}),
    add("a", tags={"5": "x", 5: "y"}),
    add("a", size=1.0),
    add(5),
    add("a", deletionVector=DeletionVector("u", "v", 1, -1)),
]


@pytest.mark.parametrize("file", BAD_FILES, ids=repr)
def test_a_file_that_no_reader_takes_is_refused(log, file):
    with pytest.raises(InvalidArgument, match="before anything is written"):
        append(log, [file])
    assert len(version_files(log)) == 1
    assert append(log, [add("a")]).version == 1


@pytest.mark.parametrize("path", ["../a", "_transaction_log/a", "", "p=%2500/a", "x" * 5000])
def test_a_removed_path_that_no_reader_takes_is_refused(log, path):
    with pytest.raises(InvalidArgument, match="before anything is written"):
        Transaction(log, operation="TEST").remove([remove(path)]).commit()
    assert len(version_files(log)) == 1


def columns(**changes):
    table = pa.table(
        {
            "path": [f"f{i}" for i in range(100)],
            "partitionValues": pa.array([[]] * 100, FILES_SCHEMA.field("partitionValues").type),
            "size": [1] * 100,
            "modificationTime": [1] * 100,
            "dataChange": [True] * 100,
        }
    )
    for name, values in changes.items():
        kind = FILES_SCHEMA.field(name).type
        column = values if isinstance(values, pa.Array) else pa.array(values, kind)
        at = table.schema.get_field_index(name)
        table = table.append_column(name, column) if at < 0 else table.set_column(at, name, column)
    return table


NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 100, [None, pa.py_buffer(b"\0\0\0\0" + b"\1\0\0\0" * 100), pa.py_buffer(b"\xff")]
)
A_VECTOR = {"storageType": "u", "pathOrInlineDv": "v", "sizeInBytes": 1, "cardinality": 1}
BAD_COLUMNS = {
    "escape": {"path": ["../f", *(f"f{i}" for i in range(99))]},
    "null": {"size": [None] + [1] * 99},
    "negative": {"numRecords": [1] * 99 + [-1]},
    "key twice": {"tags": [[("a", "1"), ("a", "2")]] + [None] * 99},
    "not UTF-8": {"stats": NOT_UTF8},
    "half a vector": {"deletionVector": [{"storageType": "u"}] + [None] * 99},
    "vector below zero": {"deletionVector": [{**A_VECTOR, "offset": -1}] + [None] * 99},
    "no number": {"numRecords": pa.array(["x"] * 100)},
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_columns_that_no_reader_takes_are_refused(log, name):
    with pytest.raises(InvalidArgument, match="before anything is written"):
        append(log, columns(**BAD_COLUMNS[name]))
    assert len(version_files(log)) == 1


def test_columns_without_a_required_one_are_refused(log):
    with pytest.raises(InvalidArgument, match="add has no size"):
        append(log, columns().drop_columns(["size"]))


def test_good_columns_are_written(log):
    append(log, columns(deletionVector=[A_VECTOR] + [None] * 99))
    assert open_log(log.env).snapshot().files.num_rows == 100


@pytest.mark.parametrize(
    "given",
    [
        {"name": 5},
        {"name": "\ud800"},
        {"description": [1]},
        {"configuration": {"a": 5}},
        {"configuration": {"a": None}},
        {"configuration": {5: "x"}},
        {"configuration": {"a": "\ud800"}},
        {"configuration": {"checkpoint.interval": "x"}},
    ],
    ids=repr,
)
def test_a_table_is_not_made_from_what_cannot_be_read(tmp_path, given):
    log = open_log(local_env(tmp_path / "new"))
    with pytest.raises(InvalidArgument):
        create_table(log, new_metadata(log, pa.schema([("id", pa.int64())]), **given))
    assert version_files(log) == []


@pytest.mark.parametrize("configuration", [{"a": 1}, {1: "a"}, {"checkpoint.interval": "x"}])
def test_metadata_that_cannot_be_read_is_not_committed(log, configuration):
    with pytest.raises(InvalidArgument):
        change_metadata(log, msgspec.structs.replace(METADATA, configuration=configuration))
    assert len(version_files(log)) == 1


@pytest.mark.parametrize(("path", "reason"), [("../a", "why"), ("a", "\ud800"), ("a", 5)])
def test_a_skip_that_cannot_be_read_is_not_committed(log, path, reason):
    with pytest.raises(InvalidArgument):
        record_skip(log, path, reason, "MERGE")
    assert len(version_files(log)) == 1


def test_a_line_above_the_cap_is_refused_in_either_form():
    long = "x" * (compression.MAX_LINE_BYTES + 1)
    for more in ({"adds": columns(stats=[long] + [None] * 99)}, {}):
        actions = [INFO] if more else [INFO, add("a", stats=long)]
        with pytest.raises(InvalidArgument):
            admitted(actions, **more, version=1, root_url="", compress=True)


@pytest.mark.slow
def test_text_that_shrinks_like_a_bomb_is_stored_as_it_is():
    skips = [MergeSkip(f"f{i}", 1, "x" * (30 << 20), "MERGE") for i in range(3)]
    data = admitted([INFO, *skips], version=1, root_url="", compress=True)
    assert len(decode_version(data, 1).skips) == 3


any_text = st.text(st.characters(), max_size=12)
any_number = st.one_of(st.integers(-2, 3), st.integers(2**63 - 2, 2**63 + 1), st.just(True), st.just("1"), st.just(1.0))
any_map = st.dictionaries(any_text, st.one_of(any_text, st.none(), st.integers()), max_size=3)
any_path = st.one_of(any_text, st.text("ab./%02=5_\\", max_size=12))
any_action = st.one_of(
    st.builds(Txn, any_text, any_number, st.none() | any_number),
    st.builds(DomainMetadata, any_text, any_text, st.booleans()),
    st.builds(MergeSkip, any_path, any_number, any_text, any_text, any_map, st.none(), any_number),
    st.builds(Add, any_path, any_map, any_number, any_number, st.booleans(), any_text, any_map),
    st.builds(Remove, any_path, st.booleans(), any_number, st.none(), st.none() | any_map),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(actions=st.lists(any_action, max_size=4), metadata=st.none() | st.builds(Metadata, any_text, any_text, any_text))
def test_whatever_is_staged_comes_back_or_is_refused(actions, metadata):
    given_actions = [INFO, *([] if metadata is None else [metadata]), *actions]
    try:
        data = admitted(given_actions, version=3, root_url="memory://a/b", compress=True)
    except InvalidArgument:
        return
    content = decode_version(data, 3, root_url="memory://a/b")
    assert content.metadata == metadata
    assert list(content.txns) == [action for action in actions if isinstance(action, Txn)]
    assert list(content.domains) == [action for action in actions if isinstance(action, DomainMetadata)]
    assert len(content.skips) == sum(isinstance(action, MergeSkip) for action in actions)
    added = [action for action in actions if isinstance(action, Add)]
    assert content.adds["size"].to_pylist() == [file.size for file in added]
    assert content.adds["stats"].to_pylist() == [file.stats for file in added]
    assert [dict(row) for row in content.adds["partitionValues"].to_pylist()] == [f.partitionValues for f in added]
    assert content.removes.num_rows == sum(isinstance(action, Remove) for action in actions)
