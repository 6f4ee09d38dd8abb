from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.logs import add, remove, vector

from indextables.log.wire.codec import decode_version, encode_version
from indextables.log.wire.sethash import EMPTY, combine, set_hash, subtract

MASK = 2**64 - 1


def mix(x):
    x ^= x >> 32
    x = x * 0x9E3779B97F4A7C15 & MASK
    x ^= x >> 29
    x = x * 0xBF58476D1CE4E5B9 & MASK
    return x ^ x >> 32


def text(value):
    data = value.encode()
    h = mix(len(data))
    for i in range(0, len(data), 8):
        h = mix(h ^ int.from_bytes(data[i : i + 8].ljust(8, b"\0"), "little"))
    return h


def by_hand(adds):
    """The specification, word by word."""
    total = 0
    for a in adds:
        v = a.deletionVector
        part = 0 if v is None else text(f"{v.storageType}|{'' if v.offset is None else v.offset}|{v.pathOrInlineDv}")
        total += mix(text(a.path) ^ mix(a.size + 1) ^ part)
    return f"{total & MASK:016x}"


def table(adds):
    return decode_version(encode_version([*adds, remove("x")], compress=False), 1).adds


NAMES = st.text("abcdefgh0123456789", min_size=1, max_size=30)
ADDS = st.lists(
    st.builds(
        lambda p, s, v: add(p, size=s, deletionVector=v),
        NAMES,
        st.integers(0, 2**62),
        st.sampled_from([None, vector("a"), vector("a", 3), vector("bé")]),
    ),
    max_size=12,
    unique_by=lambda a: a.path,
)


@pytest.mark.slow
@given(ADDS)
def test_the_hash_is_the_specified_one(adds):
    assert set_hash(table(adds)) == by_hand(adds)


@pytest.mark.slow
@given(ADDS, st.randoms())
def test_order_and_chunks_do_not_matter(adds, random):
    expected = set_hash(table(adds))
    shuffled = list(adds)
    random.shuffle(shuffled)
    assert set_hash(table(shuffled)) == expected
    whole = table(adds)
    half = whole.num_rows // 2
    assert set_hash(pa.concat_tables([whole.slice(half), whole.slice(0, half)])) == expected


@pytest.mark.slow
@given(ADDS, st.integers(0, 12))
def test_adding_and_taking_away_need_no_look_at_the_rest(adds, cut):
    whole, left, right = table(adds), table(adds[:cut]), table(adds[cut:])
    assert combine(set_hash(left), set_hash(right)) == set_hash(whole)
    assert subtract(set_hash(whole), set_hash(right)) == set_hash(left)


def test_every_part_of_an_entry_counts():
    variants = [add("a"), add("b"), add("a", size=11), add("a", deletionVector=vector("v"))]
    variants += [
        add("a", deletionVector=vector("v", 0)),
        add("a", deletionVector=vector("v", 1)),
        add("ab"),
        add("a\x00"),
    ]
    hashes = {by_hand([v]) for v in variants}
    assert len(hashes) == len(variants)


def test_the_empty_set():
    assert set_hash(table([])) == EMPTY == "0000000000000000"


def test_a_known_value_stays():
    assert by_hand([add("splits/split-1.split", size=5)]) == set_hash(table([add("splits/split-1.split", size=5)]))
    assert set_hash(table([add("splits/split-1.split", size=5)])) == "60a14634e9a3e716"


def test_removes_hash_like_the_entries_they_name():
    content = decode_version(encode_version([add("a", size=3), remove("a", size=3)], compress=False), 1)
    assert set_hash(content.adds) == set_hash(content.removes)
