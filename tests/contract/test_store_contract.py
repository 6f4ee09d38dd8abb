"""The promises of `Store`, on every store."""

from __future__ import annotations

import itertools
import pickle
import time
from pathlib import Path

import pytest
from tests.contract.places import Place

from indextables.errors import InvalidArgument, ObjectNotFound, StoreError
from indextables.storage import PutAnswer, Store, put_in_order

ODD_KEYS = [
    "plain",
    "with space",
    "100%",
    "%41",
    "a%2Fb",
    "plus+and&equals=",
    "hash#question?",
    "quote\"and'tick`",
    "tilde~star*",
    "[brackets]{braces}",
    "semi;colon:pipe|",
    "<angle>",
    "ünïcødé/日本/🙂",
    "e\u0301 is not \u00e9",
    "...dots...",
    ".hidden/_under",
    "a/b/c/d/e/f/g",
    "k=v/date=2024-01-01 00%3A00",
    " lead and trail ",
]

ESCAPES = [
    "",
    "/",
    "/abs",
    "a//b",
    "a/",
    ".",
    "..",
    "../x",
    "a/../b",
    "a/..",
    "./a",
    "a/./b",
    "nul\0",
    "line\nfeed",
    "back\\slash",
    "\ud800",
]


def keys_of(store: Store, prefix: str = "", after: str | None = None) -> list[str]:
    return [meta.key for meta in store.list_from(prefix, after)]


@pytest.mark.parametrize("size", [0, 1, 4096, 1_000_003])
def test_bytes_come_back_as_they_were_put(store: Store, size: int):
    data = bytes(range(251)) * (size // 251 + 1)
    store.put("a/key", data[:size])
    assert store.get("a/key") == data[:size]
    assert store.head("a/key").size == size


def test_any_buffer_can_be_put(store: Store):
    store.put("put", memoryview(b"-0123-")[1:5])
    assert store.put_if_absent("created", memoryview(b"-4567-")[1:5]) is PutAnswer.CREATED
    assert (store.get("put"), store.get("created")) == (b"0123", b"4567")


def test_put_replaces(store: Store):
    store.put("key", b"a longer first value")
    first = store.head("key")
    store.put("key", b"second")
    assert store.get("key") == b"second"
    assert store.head("key").etag != first.etag


def test_a_get_tells_which_object_its_bytes_are_of(store):
    store.put("key", b"one")
    told = []
    assert store.get("key", noted=told.append) == b"one"
    assert told == [store.head("key")]
    store.put("key", b"two")
    assert store.get("key", noted=told.append) == b"two"
    assert told[1] == store.head("key") != told[0]


def test_a_missing_key_is_object_not_found(store: Store):
    store.put("there/is", b"something")
    for call in (store.get, store.head, lambda key: store.get_range(key, 0, 1), lambda key: store.get_range(key, 0, 0)):
        for key in ("nothing", "there", "there/is/not", "there/i"):
            with pytest.raises(ObjectNotFound) as caught:
                call(key)
            assert caught.value.key == key
            assert isinstance(caught.value, FileNotFoundError)
    assert not store.exists("nothing")
    assert store.exists("there/is")
    assert not store.exists("there")


def test_put_in_order_creates_up_to_the_first_that_is_there(store: Store):
    wanted = [(f"log/{number}", b"%d" % number) for number in range(9)]
    store.put("log/5", b"theirs")
    assert put_in_order(store, wanted) == 5
    assert keys_of(store, "log/") == [f"log/{number}" for number in range(6)]
    assert store.get("log/5") == b"theirs"
    assert put_in_order(store, wanted[6:]) == 3
    assert [store.get(key) for key, _ in wanted[6:]] == [data for _, data in wanted[6:]]
    assert put_in_order(store, []) == 0


def test_put_if_absent_creates_once_and_leaves_the_first_bytes(store: Store):
    assert store.put_if_absent("slot", b"first") is PutAnswer.CREATED
    assert store.put_if_absent("slot", b"second") is PutAnswer.REFUSED
    assert store.get("slot") == b"first"


def test_a_deleted_key_can_be_created_again(store: Store):
    store.put_if_absent("slot", b"first")
    assert store.delete_many(["slot"]) == {}
    assert store.put_if_absent("slot", b"second") is PutAnswer.CREATED
    assert store.get("slot") == b"second"


def test_ranges_are_exact_and_in_the_order_asked_for(store: Store):
    data = bytes(i * 7 % 256 for i in range(3 << 20))
    store.put("key", data)
    ranges = [(2_500_000, 2_500_010), (0, 1), (5, 5), (0, 100), (50, 150), (len(data) - 1, len(data)), (0, len(data))]
    assert store.get_ranges("key", ranges) == [data[start:end] for start, end in ranges]
    assert store.get_range("key", 10, 20) == data[10:20]
    assert store.get_ranges("key", []) == []


@pytest.mark.parametrize("wanted", [(0, 11), (9, 12), (10, 11), (50, 60), (11, 11)])
def test_a_range_past_the_end_is_an_error_and_never_a_shorter_answer(store: Store, wanted: tuple[int, int]):
    store.put("key", b"0123456789")
    with pytest.raises(StoreError) as caught:
        store.get_range("key", *wanted)
    assert not isinstance(caught.value, ObjectNotFound)
    assert caught.value.key == "key"


@pytest.mark.parametrize("wanted", [(-1, 4), (5, 4), (-5, -1)])
def test_what_is_no_range_is_refused(store: Store, wanted: tuple[int, int]):
    store.put("key", b"0123456789")
    with pytest.raises(InvalidArgument):
        store.get_range("key", *wanted)


def test_odd_keys_come_back_byte_for_byte(store: Store):
    for key in ODD_KEYS:
        assert store.put_if_absent(key, key.encode()) is PutAnswer.CREATED
    assert keys_of(store) == sorted(ODD_KEYS, key=str.encode)
    for key in ODD_KEYS:
        assert store.get(key) == key.encode()
        assert store.head(key).key == key
    assert store.delete_many(ODD_KEYS) == {}
    assert keys_of(store) == []


def test_keys_that_leave_the_root_are_refused_before_anything_happens(store: Store):
    for key in ESCAPES:
        for call in (
            store.get,
            lambda key: store.get_range(key, 0, 1),
            lambda key: store.put(key, b""),
            lambda key: store.put_if_absent(key, b""),
            lambda key: store.put_file(key, Path(__file__)),
            store.head,
            store.exists,
            lambda key: store.delete_many([key]),
            lambda key: list(store.list_from(f"{key}/")),
        ):
            with pytest.raises(InvalidArgument):
                call(key)
    with pytest.raises(InvalidArgument):
        list(store.list_from("no-slash"))
    assert keys_of(store) == []


def test_a_listing_is_in_the_order_of_whole_keys(store: Store):
    keys = ["a", "a!", "a-/x", "a.c", "a/", "a/b", "a/b/c", "a0", "aa", "b", "B", "é", "z/", "Ω/1", "🙂", "\uffee"]
    keys = [key for key in keys if not key.endswith("/")]
    # A local file cannot be a folder at the same time.
    keys = [key for key in keys if not any(other.startswith(f"{key}/") for other in keys)]
    for key in reversed(keys):
        store.put(key, b"")
    assert keys_of(store) == sorted(keys, key=str.encode)
    for after in [*keys, "", "a/", "a-", "a/b/", "zz", "\U0010ffff"]:
        assert keys_of(store, "", after) == [
            key for key in sorted(keys, key=str.encode) if key.encode() > after.encode()
        ]


def test_a_prefix_is_a_folder_and_not_its_neighbours(store: Store):
    for key in ("log/1", "log/2/3", "log2/1", "lo", "log-1", "other/log/1"):
        store.put(key, b"x")
    assert keys_of(store, "log/") == ["log/1", "log/2/3"]
    assert keys_of(store, "log/", "log/1") == ["log/2/3"]
    assert keys_of(store, "log/", "a") == ["log/1", "log/2/3"]
    assert keys_of(store, "log/", "m") == []
    assert keys_of(store, "log/2/") == ["log/2/3"]


def test_a_missing_folder_is_an_empty_listing(store: Store):
    assert keys_of(store, "no/such/folder/") == []
    assert keys_of(store) == []


def test_tables_beside_each_other_do_not_see_each_other(place: Place):
    neighbours = [place.open(), Place(place.kind, place.url + "2", place.settings).open()]
    for number, store in enumerate(neighbours):
        store.put("key", b"%d" % number)
    assert [store.get("key") for store in neighbours] == [b"0", b"1"]
    assert [keys_of(store) for store in neighbours] == [["key"], ["key"]]


def test_listings_of_more_than_a_page_are_complete_and_deletes_too(store: Store):
    keys = [f"log/{number:020d}.json" for number in range(1203)]
    for key in keys:
        store.put(key, b"")
    store.put("zzz", b"")
    assert keys_of(store, "log/") == keys
    assert keys_of(store, "log/", keys[1100]) == keys[1101:]
    assert [meta.key for meta in itertools.islice(store.list_from("log/", keys[5]), 3)] == keys[6:9]
    assert store.delete_many([*keys, "never/was"]) == {}
    assert keys_of(store) == ["zzz"]


def test_a_listing_tells_what_head_tells(store: Store):
    before = time.time() * 1000
    store.put("a", b"12345")
    store.put("b/c", b"")
    found = list(store.list_from(""))
    assert [(meta.key, meta.size) for meta in found] == [("a", 5), ("b/c", 0)]
    for meta in found:
        assert store.head(meta.key) == meta
        assert before - 5000 < meta.modified_ms < time.time() * 1000 + 5000


def test_deleting_what_is_not_there_is_no_failure(store: Store):
    store.put("a", b"")
    store.put("b", b"")
    assert store.delete_many(iter(["x", "a", "no/folder/y", "a"])) == {}
    assert keys_of(store) == ["b"]
    assert store.delete_many([]) == {}


@pytest.mark.parametrize("size", [0, 10, 13_000_001])
def test_a_file_of_any_size_can_be_put(store: Store, tmp_path: Path, size: int):
    source = tmp_path / "source file"
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    source.write_bytes(data)
    store.put_file("data/x.split", source)
    assert store.get("data/x.split") == data
    assert source.read_bytes() == data


def test_large_values_are_put_and_read_whole(store: Store):
    data = bytes(range(256)) * (33 << 12)
    store.put("large", data)
    assert store.get("large") == data
    assert store.put_if_absent("also large", data[: 9 << 20]) is PutAnswer.CREATED
    assert store.get("also large") == data[: 9 << 20]


def test_a_file_that_is_not_there_cannot_be_put(store: Store, tmp_path: Path):
    with pytest.raises(InvalidArgument):
        store.put_file("key", tmp_path / "nothing")
    assert keys_of(store) == []


def test_the_probe_passes_and_leaves_nothing_behind(store: Store):
    facts = store.probe()
    assert abs(facts.skew_ms) < 5000
    assert keys_of(store) == []
    assert store.probe() is facts or store.probe() == facts


def test_a_second_handle_sees_what_the_first_wrote(place: Place):
    place.open().put("key", b"value")
    assert place.open(door=1).get("key") == b"value"


def test_a_pickle_opens_the_same_store(store: Store):
    store.put("key", b"value")
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own bytes
    assert copy.url == store.url
    assert copy.get("key") == b"value"
    assert isinstance(copy, Store)


def test_the_url_opens_the_same_store_again(place: Place):
    store = place.open()
    store.put("key", b"value")
    again = Place(place.kind, store.url, place.settings).open()
    assert again.url == store.url
    assert not store.url.endswith("/")
    assert again.get("key") == b"value"
