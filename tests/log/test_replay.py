from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.logs import METADATA, add, info, paths, remove, token, vector

from indextables.errors import LogGap, MetadataMissing
from indextables.log.read.folding import replay, replay_plainly
from indextables.log.wire.actions import DomainMetadata, MergeSkip, Protocol, Txn
from indextables.log.wire.codec import decode_version, encode_version
from indextables.log.wire.files import FILES_SCHEMA
from indextables.log.wire.protocol import V1
from indextables.log.wire.state import TokenWindow

PATHS = [f"f{i}" for i in range(5)]
VECTORS = st.sampled_from([None, vector("v1"), vector("v1", 4), vector("v2")])
EVENTS = st.one_of(
    st.builds(lambda p, v, s: add(p, size=s, deletionVector=v), st.sampled_from(PATHS), VECTORS, st.integers(1, 9)),
    st.builds(lambda p, v: remove(p, deletionVector=v), st.sampled_from(PATHS), VECTORS),
    st.builds(Txn, st.sampled_from("ab"), st.integers(0, 9)),
    st.builds(lambda d, r: DomainMetadata(d, "x", r), st.sampled_from("ab"), st.booleans()),
    st.builds(lambda p, n: MergeSkip(p, n, "r", "merge"), st.sampled_from(PATHS), st.integers(0, 9)),
)
LOGS = st.lists(st.lists(EVENTS, max_size=8), min_size=1, max_size=6)


def version(number, *actions):
    return decode_version(encode_version([info(number), *actions], compress=False), number)


def contents(log):
    first = [METADATA, *log[0]] if log else [METADATA]
    return [version(0, *first), *(version(i, *actions) for i, actions in enumerate(log[1:], start=1))]


def model(log):
    """The rule, one action after the other, over plain objects."""
    live = {}
    for actions in log:
        for action in actions:
            if type(action).__name__ == "Add":
                live[action.path] = action
            elif type(action).__name__ == "Remove" and action.path in live:
                same = _key(live[action.path].deletionVector) == _key(action.deletionVector)
                if same:
                    del live[action.path]
    return live


def _key(v):
    return None if v is None else (v.storageType, v.pathOrInlineDv, v.offset)


def live(state):
    found = state.files.select(["path", "size", "deletionVector"]).to_pylist()
    return {row["path"]: (row["size"], row["deletionVector"]) for row in found}


@pytest.mark.slow
@given(LOGS)
def test_replay_gives_what_the_rule_says(log):
    expected = {
        path: (a.size, msgspec.to_builtins(a.deletionVector) if a.deletionVector else None)
        for path, a in model(log).items()
    }
    found = live(replay(None, contents(log)))
    cleaned = {
        path: (size, None if v is None else {k: x for k, x in v.items() if x is not None})
        for path, (size, v) in found.items()
    }
    assert cleaned == expected


@pytest.mark.slow
@given(LOGS)
def test_plain_replay_and_columnar_replay_agree(log):
    versions = contents(log)
    assert_same(replay(None, versions), replay_plainly(None, versions))


@pytest.mark.slow
@given(LOGS, st.integers(0, 6))
def test_a_state_plus_its_tail_is_the_whole_replay(log, cut):
    versions = contents(log)
    cut = min(cut, len(versions))
    whole = replay(None, versions)
    if cut == 0:
        return
    base = replay(None, versions[:cut])
    assert_same(replay(base, versions[cut:]), whole)
    assert_same(replay_plainly(base, versions[cut:]), whole)


@settings(max_examples=30)
@given(LOGS)
def test_every_path_is_live_at_most_once(log):
    found = paths(replay(None, contents(log)))
    assert len(found) == len(set(found))


def assert_same(left, right):
    assert left.files.schema == right.files.schema == FILES_SCHEMA
    assert left.files.combine_chunks().equals(right.files.combine_chunks())
    for name in ("version", "protocol", "metadata", "txns", "domains", "skips", "tokens", "in_commit_timestamp"):
        assert getattr(left, name) == getattr(right, name), name


@pytest.mark.parametrize(
    "update",
    [
        [add("f", size=2, deletionVector=vector("new"))],
        [remove("f"), add("f", size=2, deletionVector=vector("new"))],
        [add("f", size=2, deletionVector=vector("new")), remove("f")],
    ],
    ids=["add-alone", "remove-then-add", "add-then-remove"],
)
def test_every_way_to_write_a_deletion_vector_replays_to_the_same(update):
    state = replay(None, [version(0, METADATA), version(1, add("f", size=1)), version(2, *update)])
    assert live(state)["f"][0] == 2
    assert live(state)["f"][1]["pathOrInlineDv"] == "new"


def test_a_remove_of_another_vector_takes_nothing_away():
    versions = [version(0, METADATA), version(1, add("f", deletionVector=vector("a"))), version(2, remove("f"))]
    assert paths(replay(None, versions)) == ["f"]


def test_a_remove_before_its_add_takes_nothing_away():
    state = replay(None, [version(0, METADATA), version(1, remove("f"), add("f"))])
    assert paths(state) == ["f"]


def test_a_remove_of_an_unknown_path_is_harmless():
    assert paths(replay(None, [version(0, METADATA, add("f")), version(1, remove("g"))])) == ["f"]


def test_a_removed_path_can_come_back():
    versions = [version(0, METADATA, add("f")), version(1, remove("f")), version(2, add("f", size=7))]
    assert live(replay(None, versions))["f"][0] == 7


def test_files_keep_the_order_of_their_adds():
    versions = [version(0, METADATA, add("c"), add("a")), version(1, add("b"), add("a", size=3))]
    assert replay(None, versions).files.column("path").to_pylist() == ["c", "b", "a"]


def test_entries_of_a_base_count_as_older_than_every_version_after_it():
    """Checkpoints of IndexTables4Spark say that every file was added at version 0."""
    base = replay(None, [version(0, METADATA), version(1, add("f"))])
    column = pa.array([99], pa.int64())
    files = base.files.set_column(base.files.column_names.index("addedAtVersion"), "addedAtVersion", column)
    odd = msgspec.structs.replace(base, files=files)
    assert paths(replay(odd, [version(2, remove("f"))])) == []
    assert live(replay(odd, [version(2, add("f", size=8))]))["f"][0] == 8


def test_the_newest_protocol_and_metadata_count():
    newer = msgspec.structs.replace(METADATA, name="x")
    state = replay(None, [version(0, METADATA, Protocol(2, 2)), version(1, newer), version(2, Protocol(4, 4))])
    assert (state.protocol, state.metadata) == (Protocol(4, 4), newer)


def test_a_log_without_protocol_is_of_the_first_kind():
    assert replay(None, [version(0, METADATA)]).protocol == V1


def test_a_log_without_metadata_is_refused():
    with pytest.raises(MetadataMissing, match="No metadata found"):
        replay(None, [version(0, add("f"))])


def test_a_gap_is_refused_and_named():
    versions = contents([[], [], []])
    for broken in ([versions[0], versions[2]], versions[1:], [versions[1], versions[0]]):
        with pytest.raises(LogGap) as caught:
            replay(None, broken)
        assert caught.value.details["version"] in {0, 1}
    with pytest.raises(LogGap):
        replay(replay(None, versions[:1]), versions[2:])


def test_nothing_after_a_base_is_the_base():
    base = replay(None, contents([[add("f")]]))
    assert_same(replay(base, []), base)


def test_skips_of_removed_files_go_and_live_ones_stay():
    skip = MergeSkip("f", 1, "r", "merge")
    later = msgspec.structs.replace(skip, skipCount=2)
    versions = [version(0, METADATA, add("f"), add("g"), MergeSkip("g", 1, "r", "merge"), skip), version(1, later)]
    assert replay(None, versions).skips == {"f": later, "g": MergeSkip("g", 1, "r", "merge")}
    assert replay(None, [*versions, version(2, remove("g"))]).skips == {"f": later}


def test_a_removed_domain_is_gone():
    versions = [version(0, METADATA, DomainMetadata("d", "1")), version(1, DomainMetadata("d", "", removed=True))]
    assert replay(None, versions[:1]).domains["d"].configuration == "1"
    assert replay(None, versions).domains == {}


def test_the_token_window_grows_and_is_cut_at_its_old_end():
    versions = contents([[] for _ in range(6)])
    assert replay(None, versions).tokens == TokenWindow(0, tuple(map(token, range(6))))
    assert replay(None, versions, token_window=2).tokens == TokenWindow(4, (token(4), token(5)))
    base = replay(None, versions[:3], token_window=2)
    assert replay(base, versions[3:], token_window=4).tokens == TokenWindow(2, tuple(map(token, range(2, 6))))


def test_a_window_starts_after_a_base_that_carries_none():
    versions = contents([[] for _ in range(4)])
    base = msgspec.structs.replace(replay(None, versions[:2]), tokens=None)
    assert replay(base, versions[2:]).tokens == TokenWindow(2, (token(2), token(3)))


def test_a_version_without_a_token_is_listed_without_one():
    bare = decode_version(encode_version([add("f")], compress=False), 1)
    assert replay(None, [version(0, METADATA), bare]).tokens == TokenWindow(0, (token(0), None))
