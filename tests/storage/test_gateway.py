"""A real gateway: it checks signatures, and it can be killed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from tests.servers import versitygw
from tests.servers.process import free_port

from indextables.errors import StoreError, StorePermissionDenied
from indextables.options import Options
from indextables.storage import CallPolicy, PutAnswer, open_store

pytestmark = pytest.mark.soak


def test_a_wrong_secret_is_refused(versitygws: tuple[dict[str, str], dict[str, str]], table_name: str):
    settings = versitygws[0] | {"storage.secretKey": "wrong"}
    store = open_store(f"s3://{versitygw.BUCKET}/{table_name}", Options(settings))
    for call in (lambda: store.get("k"), lambda: store.put("k", b""), lambda: store.put_if_absent("k", b"")):
        with pytest.raises(StorePermissionDenied):
            call()


def test_an_unknown_access_key_does_not_make_objects_look_absent(
    versitygws: tuple[dict[str, str], dict[str, str]], table_name: str
):
    url = f"s3://{versitygw.BUCKET}/{table_name}"
    open_store(url, Options(versitygws[0])).put("k", b"")
    store = open_store(url, Options(versitygws[0] | {"storage.accessKey": "AKUNKNOWN"}))
    for call in (
        lambda: store.get("k"),
        lambda: store.put_if_absent("new", b""),
        lambda: list(store.list_from("")),
        store.probe,
    ):
        with pytest.raises(StoreError) as caught:
            call()
        assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("round_", range(5))
def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path, round_: int):
    port, once = free_port(), CallPolicy(deadline_s=5, attempts=1)
    store = open_store(f"s3://{versitygw.BUCKET}/t", Options(versitygw.settings(port)))
    answers: dict[int, PutAnswer] = {}
    enough = threading.Event()

    def write() -> None:
        for number in range(100_000):
            answers[number] = store.put_if_absent(f"log/{number:06d}", b"%d" % number * 100, policy=once)
            if number == 100 * (round_ + 1):
                enough.set()
            if answers[number] is PutAnswer.UNKNOWN:
                return

    with versitygw.gateway(tmp_path, port) as (_, process):
        writer = threading.Thread(target=write)
        writer.start()
        assert enough.wait(60)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        writer.join()
    with versitygw.gateway(tmp_path, port):
        for number, answer in answers.items():
            if answer is PutAnswer.CREATED:
                assert store.get(f"log/{number:06d}") == b"%d" % number * 100
        last = max(answers)
        assert answers[last] is PutAnswer.UNKNOWN
        # The same key and bytes again settle it, whether or not the first request had landed.
        assert store.put_if_absent(f"log/{last:06d}", b"%d" % last * 100) in (PutAnswer.CREATED, PutAnswer.REFUSED)
        assert store.get(f"log/{last:06d}") == b"%d" % last * 100
