"""What the answers of an object store mean, one fault at a time."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.servers.s3 import Answer, Fault, S3Server
from tests.world.clock import QuickAmbient

from indextables.errors import (
    ObjectNotFound,
    StoreError,
    StoreFull,
    StorePermissionDenied,
    StoreUnavailable,
    StoreUnsafe,
)
from indextables.options import Options
from indextables.storage import CallPolicy, PutAnswer, Store, open_store
from indextables.storage import object as object_store


@pytest.fixture
def ambient() -> QuickAmbient:
    return QuickAmbient()


@pytest.fixture
def store(s3: S3Server, table_name: str, ambient: QuickAmbient) -> Store:
    return open_store(s3.table_url(table_name), s3.options(), ambient=ambient)


THROTTLES: list[Answer] = [408, 429, 500, 501, 502, 503, 504]
BREAKS: list[Answer] = ["reset", "close"]


@pytest.mark.parametrize("answer", [*THROTTLES, *BREAKS])
@pytest.mark.parametrize("landed", [False, True], ids=["not landed", "landed"])
def test_a_conditional_put_without_a_usable_answer_is_unknown(s3: S3Server, store: Store, answer: Answer, landed: bool):
    s3.inject(Fault(method="PUT", after=answer) if landed else Fault(method="PUT", before=answer))
    assert store.put_if_absent("slot", b"mine") is PutAnswer.UNKNOWN
    assert s3.count("PUT") == 1
    assert store.exists("slot") is landed


@pytest.mark.parametrize("answer", [409, 412])
@pytest.mark.parametrize("landed", [False, True], ids=["not landed", "landed"])
def test_a_refusal_proves_nothing_and_is_told_as_such(s3: S3Server, store: Store, answer: int, landed: bool):
    s3.inject(Fault(method="PUT", after=answer) if landed else Fault(method="PUT", before=answer))
    assert store.put_if_absent("slot", b"mine") is PutAnswer.REFUSED
    assert s3.count("PUT") == 1
    assert store.exists("slot") is landed


@pytest.mark.parametrize("landed", [False, True], ids=["not landed", "landed"])
def test_a_conditional_put_that_is_not_answered_in_time_is_unknown(s3: S3Server, store: Store, landed: bool):
    release = threading.Event()
    s3.inject(Fault(method="PUT", hook_after=release.wait) if landed else Fault(method="PUT", hook=release.wait))
    try:
        assert store.put_if_absent("slot", b"mine", policy=CallPolicy(deadline_s=0.3)) is PutAnswer.UNKNOWN
        assert s3.count("PUT") <= 1
    finally:
        release.set()


def test_a_conditional_put_to_a_dead_server_is_unknown(table_name: str):
    options = Options({"storage.endpoint": "http://127.0.0.1:9", "storage.accessKey": "a", "storage.secretKey": "b"})
    assert open_store(f"s3://bucket/{table_name}", options).put_if_absent("slot", b"") is PutAnswer.UNKNOWN


@pytest.mark.parametrize("answer", [401, 403])
def test_missing_rights_are_told_at_once_and_wrote_nothing(s3: S3Server, store: Store, table_name: str, answer: int):
    s3.inject(Fault(before=answer, times=100))
    for call in (
        lambda: store.put_if_absent("k", b""),
        lambda: store.put("k", b""),
        lambda: store.get("k"),
        lambda: store.get_range("k", 0, 1),
        lambda: store.head("k"),
        lambda: store.exists("k"),
        lambda: list(store.list_from("")),
    ):
        with pytest.raises(StorePermissionDenied):
            call()
    assert list(store.delete_many(["k"])) == ["k"]
    s3.calm()
    assert s3.keys(table_name) == []


def test_a_missing_bucket_is_not_a_missing_object(s3: S3Server, store: Store):
    s3.inject(Fault(method="PUT", before=404, times=2))
    with pytest.raises(StoreError) as caught:
        store.put_if_absent("k", b"")
    assert not isinstance(caught.value, (ObjectNotFound, StoreUnavailable))
    with pytest.raises(StoreError):
        store.put("k", b"")


@pytest.mark.parametrize("code", ["NoSuchBucket", "XAdminUserNotFound"])
def test_an_object_does_not_look_absent_because_the_door_is_locked(s3: S3Server, store: Store, code: str):
    s3.inject(Fault(method="GET", before=404, times=10, code=code))
    for call in (lambda: store.get("k"), lambda: store.get_range("k", 0, 1), lambda: list(store.list_from(""))):
        with pytest.raises(StoreError) as caught:
            call()
        assert not isinstance(caught.value, (ObjectNotFound, StoreUnavailable))
        assert code in str(caught.value)


@pytest.mark.parametrize("answer", [*THROTTLES, *BREAKS, "truncate"])
def test_reads_are_repeated_until_they_are_whole(s3: S3Server, store: Store, answer: Answer):
    data = bytes(range(256)) * 8000
    store.put("key", data)
    s3.inject(Fault(method="GET", after=answer, times=2))
    assert store.get("key") == data
    s3.inject(Fault(method="GET", after=answer, times=2))
    assert store.get_range("key", 1000, 1_900_000) == data[1000:1_900_000]
    s3.inject(Fault(method="GET", query="list-type", after=answer, times=2))
    assert [meta.key for meta in store.list_from("")] == ["key"]


@pytest.mark.parametrize("size", [3 << 10, 5 << 10], ids=["as large", "larger"])
def test_a_large_object_that_is_replaced_while_it_is_read_is_read_whole(
    s3: S3Server, store: Store, table_name: str, monkeypatch: pytest.MonkeyPatch, size: int
):
    monkeypatch.setattr(object_store, "_LARGE", 1 << 10)
    monkeypatch.setattr(object_store, "_PART", 1 << 10)
    store.put("key", bytes(3 << 10))
    replaced = b"x" * size
    # The first request tells the size; the first part of the old object is on its way when the new one comes.
    s3.inject(
        Fault(method="GET"), Fault(method="GET", hook_after=lambda: s3.put_directly(f"{table_name}/key", replaced))
    )
    assert store.get("key") == replaced


def test_a_large_object_that_never_stays_as_it_is_cannot_be_read(
    s3: S3Server, store: Store, table_name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(object_store, "_LARGE", 1 << 10)
    contents = itertools.count()

    def replace() -> None:
        s3.put_directly(f"{table_name}/key", b"%04d" % next(contents) * 1000)

    replace()
    s3.inject(Fault(method="HEAD", hook=replace, times=1000))
    with pytest.raises(StoreUnavailable):
        store.get("key")


@pytest.mark.parametrize("answer", [409, *THROTTLES, *BREAKS])
def test_heads_plain_puts_and_deletes_are_repeated(s3: S3Server, store: Store, table_name: str, answer: Answer):
    s3.inject(Fault(method="PUT", after=answer), Fault(method="PUT", before=answer))
    store.put("key", b"data")
    assert s3.count("PUT") == 3
    s3.inject(Fault(method="HEAD", before=answer))
    assert store.head("key").size == 4
    s3.inject(Fault(method="POST", after=answer))
    assert store.delete_many(["key"]) == {}
    assert s3.keys(table_name) == []


def test_a_full_store_is_told_as_such_and_proves_nothing_of_a_commit(s3: S3Server, store: Store):
    s3.inject(Fault(method="PUT", before=507, times=2))
    with pytest.raises(StoreFull):
        store.put("key", b"")
    assert store.put_if_absent("slot", b"") is PutAnswer.UNKNOWN


def test_repeated_attempts_are_logged(s3: S3Server, store: Store, caplog: pytest.LogCaptureFixture):
    store.put("key", b"data")
    s3.inject(Fault(method="GET", before=503, times=2))
    with caplog.at_level(logging.DEBUG, logger="indextables.storage"):
        assert store.get("key") == b"data"
    assert [record.args[0] for record in caplog.records if record.name == "indextables.storage"] == [1, 2]


def test_a_fault_in_the_middle_of_a_multipart_upload_is_repaired(s3: S3Server, store: Store):
    data = bytes(range(256)) * 80_000
    s3.inject(
        Fault(method="POST", query="uploads", before=503),
        Fault(method="PUT", query="partNumber=2", after="reset"),
        Fault(method="PUT", query="partNumber=1", before=500),
        Fault(method="POST", query="uploadId", before=503),
    )
    store.put("large", data)
    assert store.get("large") == data


def test_a_lost_answer_to_a_finished_upload_leaves_the_object_whole(s3: S3Server, store: Store):
    data = bytes(range(256)) * 80_000
    s3.inject(Fault(method="POST", query="uploadId", after="reset"))
    store.put("large", data)
    assert store.get("large") == data


@pytest.mark.parametrize("answer", [503, "close"])
def test_a_guard_is_asked_again_before_a_delete_is_repeated(s3: S3Server, store: Store, answer: Answer):
    store.put("a", b"1")
    store.put("b", b"1")
    s3.inject(Fault(method="POST", query="delete", before=answer))
    asked: list[list[str]] = []

    def once(keys: Sequence[str]) -> str:
        asked.append(list(keys))
        return "somebody needs it by now" if len(asked) > 1 else ""

    assert store.delete_many(["a", "b"], guard=once) == dict.fromkeys(["a", "b"], "somebody needs it by now")
    assert asked == [["a", "b"]] * 2
    assert store.exists("a")


def test_what_a_guard_raises_is_raised_and_is_no_failure_of_the_delete(s3: S3Server, store: Store):
    store.put("a", b"1")
    asked: list[Sequence[str]] = []

    def cannot_tell(keys: Sequence[str]) -> str:
        asked.append(keys)
        raise StoreUnavailable("no answer", key="a")

    with pytest.raises(StoreUnavailable, match="no answer"):
        store.delete_many(["a"], guard=cannot_tell)
    assert len(asked) == 1
    assert store.exists("a")


def test_a_bulk_delete_that_fails_for_good_names_what_may_be_left(s3: S3Server, store: Store):
    for key in ("a", "b", "c"):
        store.put(key, b"")
    s3.undeletable = "/b$"
    left = store.delete_many(["a", "b", "c", "d"])
    assert list(left) == ["b"]
    assert [meta.key for meta in store.list_from("")] == ["b"]


def test_a_store_that_answers_nobody_is_not_asked_for_every_key(s3: S3Server, store: Store, ambient: QuickAmbient):
    keys = [f"k{number:03d}" for number in range(500)]
    release = threading.Event()
    s3.inject(Fault(before=503, times=5), Fault(hook=release.wait, before=503, times=1000))
    try:
        left = store.delete_many(keys, policy=CallPolicy(deadline_s=1, attempts=2))
    finally:
        release.set()
    assert list(left) == keys
    assert s3.count() < 20


def test_attempts_are_bounded_and_waits_are_jittered_and_grow(s3: S3Server, store: Store, ambient: QuickAmbient):
    s3.inject(Fault(before=503, times=1000))
    policy = CallPolicy(deadline_s=1000, attempts=8, base_delay_s=0.1, max_delay_s=2)
    with pytest.raises(StoreUnavailable) as caught:
        store.get("key", policy=policy)
    assert caught.value.key == "key"
    assert s3.count("GET") == 8
    assert len(ambient.slept) == 7
    assert all(0 <= slept <= min(2, 0.1 * 2**number) for number, slept in enumerate(ambient.slept))
    assert len(set(ambient.slept)) == 7


def test_the_deadline_ends_the_attempts(s3: S3Server, store: Store, ambient: QuickAmbient):
    s3.inject(Fault(before=503, times=1000))
    with pytest.raises(StoreUnavailable):
        store.head("key", policy=CallPolicy(deadline_s=5, attempts=1000, base_delay_s=1, max_delay_s=2))
    assert sum(ambient.slept) < 5
    assert s3.count("HEAD") < 100


def test_one_attempt_is_one_request(s3: S3Server, store: Store):
    s3.inject(Fault(before="close", times=1000))
    once = CallPolicy(attempts=1)
    for call in (
        lambda: store.get("k", policy=once),
        lambda: store.head("k", policy=once),
        lambda: store.put("k", b"", policy=once),
        lambda: list(store.list_from("", policy=once)),
    ):
        s3.requests.clear()
        with pytest.raises(StoreUnavailable):
            call()
        assert s3.count() == 1


def test_a_request_that_hangs_leaves_time_for_another(s3: S3Server, store: Store):
    store.put("key", b"data")
    release = threading.Event()
    s3.inject(Fault(method="GET", hook=release.wait))
    try:
        assert store.get("key", policy=CallPolicy(deadline_s=12)) == b"data"
    finally:
        release.set()


def test_calls_cost_the_requests_they_must(s3: S3Server, store: Store):
    def cost(call: object) -> int:
        s3.requests.clear()
        call()
        return s3.count()

    data = bytes(4 << 20)
    assert cost(lambda: store.put_if_absent("key", b"x")) == 1
    assert cost(lambda: store.put("key", data)) == 1
    assert cost(lambda: store.get("key")) == 1
    assert cost(lambda: store.head("key")) == 1
    assert cost(lambda: store.exists("no")) == 1
    assert cost(lambda: store.get_range("key", 5, 10)) == 1
    assert cost(lambda: store.get_ranges("key", [(0, 10), (1_000_000, 1_000_010), (20, 30)])) == 1
    assert cost(lambda: store.get_ranges("key", [(0, 10), (3_000_000, 3_000_010)])) == 2
    assert cost(lambda: list(store.list_from(""))) == 1
    assert cost(lambda: store.delete_many([f"k{number}" for number in range(1000)])) == 1


def test_pages_are_fetched_as_the_listing_advances(s3: S3Server, store: Store, table_name: str):
    for number in range(2500):
        s3.put_directly(f"{table_name}/log/{number:05d}", b"")
    s3.requests.clear()
    listing = store.list_from("log/")
    assert s3.count() == 0
    assert next(listing).key == "log/00000"
    assert s3.count() <= 2
    assert len(list(listing)) == 2499
    assert s3.count() == 3


def test_a_listing_that_breaks_goes_on_where_it_was(s3: S3Server, store: Store, table_name: str):
    keys = [f"log/{number:05d}" for number in range(2500)]
    for key in keys:
        s3.put_directly(f"{table_name}/{key}", b"")
    listing = store.list_from("log/")
    assert next(listing).key == keys[0]
    s3.inject(Fault(query="continuation-token", after="truncate", times=2))
    assert [meta.key for meta in listing] == keys[1:]


@pytest.mark.parametrize("count", [999, 1000, 1001, 2000, 2500])
def test_a_listing_whose_page_token_is_lost_goes_on_all_the_same(
    s3: S3Server, store: Store, table_name: str, count: int
):
    keys = [f"log/{number:05d}" for number in range(count)]
    for key in keys:
        s3.put_directly(f"{table_name}/{key}", b"")
    s3.loses_page_tokens = True
    assert [meta.key for meta in store.list_from("log/")] == keys
    assert [meta.key for meta in store.list_from("log/", keys[3])] == keys[4:]


def test_an_error_inside_a_success_is_not_taken_for_one(s3: S3Server, store: Store):
    for key in ("a", "b"):
        store.put(key, b"")
    s3.inject(Fault(method="POST", query="uploadId", before="error in 200", times=2))
    data = bytes(20 << 20)
    store.put("large", data)
    assert store.get("large") == data
    s3.inject(Fault(method="POST", query="delete", before="error in 200"))
    left = store.delete_many(["a", "b"])
    assert {key for key in ("a", "b") if store.exists(key)} == set(left)


def test_a_listing_that_stays_broken_raises_instead_of_ending(s3: S3Server, store: Store, table_name: str):
    for number in range(2500):
        s3.put_directly(f"{table_name}/log/{number:05d}", b"")
    s3.inject(Fault(query="continuation-token", before=500, times=1000))
    s3.inject(Fault(query="start-after", before=500, times=1000))
    with pytest.raises(StoreUnavailable):
        list(store.list_from("log/"))


def test_an_unordered_page_is_put_in_order(s3: S3Server, store: Store):
    for key in ("a", "b", "c/d"):
        store.put(key, b"")
    s3.shuffles_listings = True
    assert [meta.key for meta in store.list_from("")] == ["a", "b", "c/d"]
    assert [meta.key for meta in store.list_from("", "a")] == ["b", "c/d"]


def test_markers_of_folders_are_not_objects_of_the_table(s3: S3Server, store: Store, table_name: str):
    s3.put_directly(f"{table_name}/", b"")
    s3.put_directly(f"{table_name}/log/", b"")
    store.put("log/1", b"")
    assert [meta.key for meta in store.list_from("log/")] == ["log/1"]


def test_a_foreign_name_that_cannot_be_a_key_stops_the_listing(s3: S3Server, store: Store, table_name: str):
    s3.put_directly(f"{table_name}/log//double", b"")
    with pytest.raises(StoreError) as caught:
        list(store.list_from(""))
    assert "double" in str(caught.value)


def test_a_range_of_a_shorter_object_is_told_without_repeating(s3: S3Server, store: Store, ambient: QuickAmbient):
    store.put("key", b"0123456789")
    with pytest.raises(StoreError):
        store.get_range("key", 20, 30)
    assert ambient.slept == []
    assert s3.count("GET") == 1


def test_a_store_that_ignores_put_if_absent_is_refused(s3: S3Server, store: Store, table_name: str):
    s3.ignores_conditions = True
    with pytest.raises(StoreUnsafe) as caught:
        store.probe()
    assert store.url in str(caught.value)
    assert s3.keys(table_name) == []
    s3.ignores_conditions = False
    assert store.probe().skew_ms == 0


def test_the_probe_is_not_confused_by_faults(s3: S3Server, store: Store, table_name: str):
    s3.inject(Fault(method="PUT", after=503), Fault(method="PUT", before=409))
    assert store.probe().skew_ms == 0
    assert s3.keys(table_name) == []


def test_the_probe_gives_up_on_a_store_that_never_answers(s3: S3Server, store: Store):
    s3.inject(Fault(method="PUT", before=500, times=100))
    with pytest.raises(StoreUnavailable):
        store.probe()


def test_the_probe_runs_once_per_process(s3: S3Server, store: Store, table_name: str):
    store.probe()
    requests = s3.count()
    store.probe()
    open_store(s3.table_url(table_name), s3.options()).probe()
    assert s3.count() == requests


@pytest.mark.parametrize("offset_s", [3600, -600])
def test_the_probe_measures_how_far_the_clocks_are_apart(s3: S3Server, store: Store, offset_s: int):
    s3.clock_offset_s = offset_s
    began = time.time()
    skew_ms = store.probe().skew_ms
    # The store tells whole seconds, and the probe counts only what the time that it took cannot explain.
    took_ms = (time.time() - began) * 1000
    assert abs(skew_ms - offset_s * 1000) <= took_ms + 1000


def test_one_store_serves_many_threads(s3: S3Server, store: Store):
    def work(number: int) -> bytes:
        key, data = f"key-{number:03d}", b"%d" % number * 1000
        store.put(key, data)
        assert store.put_if_absent(key, b"") is PutAnswer.REFUSED
        return store.get(key)

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(work, range(200))) == [b"%d" % number * 1000 for number in range(200)]
    assert len(list(store.list_from(""))) == 200
