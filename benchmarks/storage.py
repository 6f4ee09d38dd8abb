"""What does a store call cost beyond what the disk and the wire cost anyway?"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median

from tests.servers.s3 import S3Server

from benchmarks.harness import Bar
from indextables.options import Options
from indextables.storage import Store, open_store

BODY = b"x" * 1000


def run(scale: str) -> list[Bar]:
    rounds = 100 if scale == "small" else 400
    with tempfile.TemporaryDirectory() as folder, S3Server() as server:
        return [*_local(Path(folder), rounds), *_versions(Path(folder), rounds), *_s3(server, rounds)]


def _local(folder: Path, rounds: int) -> list[Bar]:
    durable = open_store(folder / "durable")
    quick = open_store(folder / "quick", Options({"storage.fsync": "false"}))
    (folder / "bare").mkdir()
    times = _interleaved(
        rounds,
        {
            "durable": lambda number: durable.put_if_absent(f"log/{number:020d}", BODY),
            "quick": lambda number: quick.put_if_absent(f"log/{number:020d}", BODY),
            "bare": lambda number: _bare_durable_write(folder / "bare" / f"{number:020d}"),
            "get": lambda number: quick.get("log/" + f"{number // 2:020d}") if number else None,
            "bare get": lambda number: (folder / "bare" / f"{number // 2:020d}").read_bytes() if number else None,
        },
    )
    return [
        Bar("durable create", times["durable"], times["bare"], "ms", 2, peer_name="one fsync of file and folder"),
        Bar("create without fsync", times["quick"], None, "ms"),
        Bar("get of 1 kB", times["get"], times["bare get"], "ms", peer_name="Path.read_bytes"),
    ]


def _versions(folder: Path, rounds: int) -> list[Bar]:
    """Creates must not slow down with the files that are there already."""
    options = Options({"storage.fsync": "false"})
    few, many = open_store(folder / "few", options), open_store(folder / "many", options)
    _fill(few, 10)
    _fill(many, 10_000)
    times = _interleaved(
        rounds,
        {
            "few": lambda number: few.put_if_absent(f"log/{10_000 + number:020d}", BODY),
            "many": lambda number: many.put_if_absent(f"log/{10_000 + number:020d}", BODY),
        },
    )
    began = time.perf_counter()
    found = sum(1 for _ in many.list_from("log/"))
    listing = (time.perf_counter() - began) * 1000
    began = time.perf_counter()
    next(many.list_from("log/", f"log/{9_999:020d}"))
    tail = (time.perf_counter() - began) * 1000
    return [
        Bar("create among 10,000 files", times["many"], times["few"], "ms", 1.3, peer_name="among 10"),
        Bar(f"listing of {found} local files", listing, None, "ms"),
        Bar("first file past 10,000", tail, None, "ms"),
    ]


def _s3(server: S3Server, rounds: int) -> list[Bar]:
    from obstore.store import S3Store

    store = open_store(server.table_url("t"), server.options())
    bare = S3Store(
        server.bucket,
        config={
            "endpoint": server.endpoint,
            "region": "us-east-1",
            "access_key_id": server.access_key,
            "secret_access_key": server.secret_key,
        },
        client_options={"allow_http": True, "timeout": timedelta(seconds=30)},
        retry_config={"max_retries": 0},
    )
    times = _interleaved(
        rounds,
        {
            "create": lambda number: store.put_if_absent(f"log/{number:020d}", BODY),
            "bare create": lambda number: bare.put(f"bare/{number:020d}", BODY, mode="create"),
            "get": lambda number: store.get(f"log/{number // 2:020d}") if number else None,
            "bare get": lambda number: bytes(bare.get(f"bare/{number // 2:020d}").bytes()) if number else None,
        },
    )
    for number in range(10_000):
        server.put_directly(f"t/many/{number:020d}", b"")
    began = time.perf_counter()
    found = sum(1 for _ in store.list_from("many/"))
    listing = (time.perf_counter() - began) * 1000
    server.requests.clear()
    next(store.list_from("many/", f"many/{9_990:020d}"))
    return [
        Bar("S3 create", times["create"], times["bare create"], "ms", 1.3, peer_name="the native client alone"),
        Bar("S3 get of 1 kB", times["get"], times["bare get"], "ms", 1.3, peer_name="the native client alone"),
        Bar(f"S3 listing of {found} keys", listing, None, "ms"),
        Bar("requests to find the tail of 10,000 keys", server.count(), None, "requests", 1, absolute=True),
    ]


def _fill(store: Store, count: int) -> None:
    for number in range(count):
        store.put_if_absent(f"log/{number:020d}", b"")


def _bare_durable_write(path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(file, BODY)
    os.fsync(file)
    os.close(file)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _interleaved(rounds: int, calls: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """The median milliseconds of each call, taken in turns and in random order, so that noise hits all alike."""
    chance = random.Random(1)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in chance.sample(list(calls), len(calls)):
            began = time.perf_counter()
            calls[name](number)
            times[name].append((time.perf_counter() - began) * 1000)
    return {name: median(found) for name, found in times.items()}
