"""A store is a dictionary of bytes: any sequence of calls, on files, in memory and on S3."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.servers.s3 import S3Server

from indextables.errors import ObjectNotFound, StoreError
from indextables.options import Options
from indextables.storage import PutAnswer, Store, open_store

KEYS = st.sampled_from(["a", "b/1", "b/2", "b/c/3", "b.d", "é", "_log/0", "_log/1"])
DATA = st.binary(max_size=20)
CALLS = st.one_of(
    st.tuples(st.just("put"), KEYS, DATA),
    st.tuples(st.just("create"), KEYS, DATA),
    st.tuples(st.just("delete"), st.lists(KEYS, max_size=3)),
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("range"), KEYS, st.integers(0, 12), st.integers(0, 12)),
    st.tuples(st.just("list"), st.sampled_from(["", "b/", "b/c/", "_log/", "x/"]), st.one_of(st.none(), KEYS)),
)


def play(store: Store, calls: list[tuple]) -> None:
    model: dict[str, bytes] = {}
    for name, *args in calls:
        if name == "put":
            store.put(*args)
            model[args[0]] = args[1]
        elif name == "create":
            expected = PutAnswer.REFUSED if args[0] in model else PutAnswer.CREATED
            assert store.put_if_absent(*args) is expected
            model.setdefault(*args)
        elif name == "delete":
            assert store.delete_many(args[0]) == {}
            for key in args[0]:
                model.pop(key, None)
        elif name == "list":
            prefix, after = args
            found = [(meta.key, meta.size) for meta in store.list_from(prefix, after)]
            wanted = sorted(key for key in model if key.startswith(prefix) and (after is None or key > after))
            assert found == [(key, len(model[key])) for key in wanted]
        elif name == "get":
            check(store, "get", model.get(args[0]), args[0])
        else:
            key, start, length = args
            data = model.get(key)
            check(store, "range", data, key, start, start + length)
    assert {meta.key: store.get(meta.key) for meta in store.list_from("")} == model


def check(store: Store, how: str, data: bytes | None, key: str, start: int = 0, end: int = 0) -> None:
    def call() -> bytes:
        return store.get(key) if how == "get" else store.get_range(key, start, end)

    if data is None:
        with pytest.raises(ObjectNotFound):
            call()
        assert not store.exists(key)
    elif how == "range" and end > len(data):
        with pytest.raises(StoreError):
            call()
    else:
        assert call() == (data if how == "get" else data[start:end])


@settings(max_examples=80, deadline=None)
@given(st.lists(CALLS, max_size=15))
def test_local_files_are_a_dictionary(calls: list[tuple]):
    with tempfile.TemporaryDirectory() as folder:
        play(open_store(Path(folder) / "t", Options({"storage.fsync": "false"})), calls)


@settings(max_examples=80, deadline=None)
@given(st.lists(CALLS, max_size=15))
def test_memory_is_a_dictionary(calls: list[tuple]):
    play(open_store(f"memory://{uuid.uuid4().hex}"), calls)


@settings(max_examples=40, deadline=None)
@given(st.lists(CALLS, max_size=15))
def test_an_object_store_is_a_dictionary(s3_of_the_run: S3Server, calls: list[tuple]):
    play(open_store(s3_of_the_run.table_url(uuid.uuid4().hex), s3_of_the_run.options()), calls)
