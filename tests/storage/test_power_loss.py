"""What is on the disk after the power fails? Every moment, and many ways in which unsynced writes can get lost.

The system calls of real commits are recorded. A model of a disk replays them up to each moment and loses power: names
without contents, contents without names, torn pages. What is left is written out as a folder and opened by the real
store.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from tests.storage.disk_model import Disk, Recorder

from indextables.options import Options
from indextables.storage import PutAnswer, Store, open_store, put_in_order


def record(root: Path, *, fsync: bool) -> tuple[list[tuple], dict[str, list[bytes]]]:
    """Three commits, a pointer written twice, and a data file. Returns the events and all bytes each key ever had."""
    recorder = Recorder()
    store = open_store(root, Options({"storage.fsync": str(fsync)}))
    history: dict[str, list[bytes]] = {}

    def write_file(key: str, data: bytes) -> None:
        history.setdefault(key, []).append(data)
        source = root.parent.parent / "source"
        source.write_bytes(data)
        store.put_file(key, source)
        recorder.events.append(("ack", key, data))

    def write(key: str, data: bytes, *, once: bool) -> None:
        history.setdefault(key, []).append(data)
        if once:
            assert store.put_if_absent(key, data) is PutAnswer.CREATED
        else:
            store.put(key, data)
        recorder.events.append(("ack", key, data))

    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        patch.setattr(os, "copy_file_range", _no_kernel_copy)
        write_file("data/p=1/x.split", bytes(range(256)) * 20)
        for version in range(3):
            write(f"log/{version}.json", b"%d" % version * 1500, once=True)
            if version:
                write("log/_last", b"pointer to %d " % version * 100, once=False)
    return recorder.events, history


def _no_kernel_copy(*_: int) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def violations(tmp_path: Path, *, fsync: bool, tries: int, skipped: str = "") -> list[str]:
    """Everything wrong with any disk that a power loss can leave; events of the kind `skipped` never reach it."""
    root = tmp_path / "recorded" / "table"
    root.parent.mkdir(parents=True)
    events, history = record(root, fsync=fsync)
    chance = random.Random(7)
    faults: list[str] = []
    disk = Disk(base=str(root.parent))
    acknowledged: dict[str, bytes] = {}
    for moment, event in enumerate(events):
        if event[0] == "ack":
            acknowledged[event[1]] = event[2]
        elif event[0] != skipped:
            disk.apply(event)
        for number, keeps in enumerate([0.0, 1.0, *[0.5] * tries]):
            left = disk.after_power_loss(chance, keeps=keeps)
            place = tmp_path / f"{moment}-{number}"
            _write_out(left, root, place)
            faults += _check(open_store(place), history, acknowledged, f"moment {moment} ({event[0]}), keeps {keeps}")
    return faults


def _write_out(left: dict[str, bytes | None], root: Path, place: Path) -> None:
    for path in sorted(left):
        target = place / Path(path).relative_to(root) if Path(path) != root else place
        data = left[path]
        if data is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.write_bytes(data)


def _check(store: Store, history: dict[str, list[bytes]], acknowledged: dict[str, bytes], when: str) -> list[str]:
    faults = []
    found = {meta.key: store.get(meta.key) for meta in store.list_from("")}
    for key, data in found.items():
        # A new data file may be cut before it was reported: no version names it.
        if data not in history[key] and (key in acknowledged or not key.startswith("data/")):
            faults.append(f"{when}: {key} is torn")
    for key, data in acknowledged.items():
        if key not in found:
            faults.append(f"{when}: acknowledged {key} is lost")
        elif history[key].index(data) > (history[key].index(found[key]) if found[key] in history[key] else -1):
            faults.append(f"{when}: acknowledged {key} is older than it was reported")
    return faults


def test_after_a_power_loss_everything_reported_is_there_and_nothing_is_torn(tmp_path: Path):
    assert violations(tmp_path, fsync=True, tries=8) == []


def test_the_model_would_notice_missing_fsyncs(tmp_path: Path):
    faults = violations(tmp_path, fsync=False, tries=3)
    assert any("is lost" in fault for fault in faults)
    assert any("is torn" in fault for fault in faults)


@pytest.mark.parametrize(("skipped", "damage"), [("sync", "is torn"), ("sync folder", "is lost")])
def test_the_model_would_notice_one_kind_of_fsync_missing(tmp_path: Path, skipped: str, damage: str):
    assert any(damage in fault for fault in violations(tmp_path, fsync=True, tries=3, skipped=skipped))


def test_what_was_reported_deleted_stays_so_and_goes_before_what_was_deleted_later(tmp_path: Path):
    root = tmp_path / "table"
    recorder = Recorder()
    keys = ["a/1", "a/2", "b/1", "a/3", "c"]
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        store = open_store(root)
        for key in keys:
            store.put(key, b"x")
        for batch in (["a/1", "b/1"], ["a/2"], ["c", "a/3"]):
            recorder.events.append(("begin", batch))
            assert store.delete_many(batch) == {}
            recorder.events.append(("ack", batch))
    chance = random.Random(7)
    disk = Disk(base=str(tmp_path))
    gone: set[str] = set()
    going: set[str] = set()
    for event in recorder.events:
        if event[0] == "begin":
            going |= set(event[1])
        elif event[0] == "ack":
            gone |= set(event[1])
        else:
            disk.apply(event)
        for keeps in [0.0, 1.0, *[0.5] * 8]:
            left = {str(Path(path).relative_to(root)) for path in disk.after_power_loss(chance, keeps=keeps)}
            assert not gone & left
            if going:
                assert set(keys) - going <= left
    assert gone == set(keys)


@pytest.mark.parametrize("skipped", ["", "sync"])
def test_what_is_put_in_order_may_be_missing_and_is_never_torn(tmp_path: Path, skipped: str):
    root = tmp_path / "table"
    wanted = {f"log/{number:02d}": b"%d" % number * 1500 for number in range(20)}
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        assert put_in_order(open_store(root), list(wanted.items())) == 20
    named = [Path(event[2]).name for event in recorder.events if event[0] == "name" and "/log/" in event[2]]
    assert named == [key[4:] for key in wanted]
    chance = random.Random(7)
    disk = Disk(base=str(tmp_path))
    torn = []
    for event in recorder.events:
        if event[0] != skipped:
            disk.apply(event)
        for keeps in (0.0, 1.0, 0.5, 0.5):
            left = disk.after_power_loss(chance, keeps=keeps)
            shown = {str(Path(path).relative_to(root)): data for path, data in left.items() if "/log/" in path}
            torn += [key for key, data in shown.items() if data != wanted[key]]
    assert bool(torn) == bool(skipped)
