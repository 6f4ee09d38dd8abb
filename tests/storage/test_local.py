from __future__ import annotations

import errno
import multiprocessing
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.faulty_os import SystemCalls, open_files, watched

from indextables.errors import (
    InvalidArgument,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StorePermissionDenied,
    StoreUnavailable,
    StoreUnsafe,
)
from indextables.options import Options
from indextables.storage import CallPolicy, PutAnswer, Store, open_store
from indextables.storage.folders import TEMP_FOLDER
from indextables.storage.probe import _known

NO_RETRY = CallPolicy(attempts=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "table")


def temps(tmp_path: Path) -> list[str]:
    folder = tmp_path / "table" / TEMP_FOLDER
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def fail_to_sync_folders(patch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    patch.setattr(os, "fsync", fsync)


def test_a_created_file_is_durable_before_it_is_reported(store: Store, tmp_path: Path):
    with watched(SystemCalls()) as calls:
        assert store.put_if_absent("a/b/slot", b"data") is PutAnswer.CREATED
    root = tmp_path / "table"
    link = calls.seen.index(("link", f"{root}/a/b/slot"))
    temp = next(path for name, path in calls.seen if name == "write")
    assert Path(temp).parent == root / TEMP_FOLDER
    assert calls.seen.index(("write", temp)) < calls.seen.index(("fsync", temp)) < link
    assert ("fsync", f"{root}/a/b") in calls.seen[link:]
    for folder in (root, root / "a", root / "a/b"):
        made = max(i for i, seen in enumerate(calls.seen) if seen[0] in ("mkdir", "open") and seen[1] == str(folder))
        assert ("fsync", str(folder.parent)) in calls.seen[made:]


def test_a_replaced_file_is_durable_before_it_is_reported(store: Store, tmp_path: Path):
    store.put("a/key", b"first")
    with watched(SystemCalls()) as calls:
        store.put("a/key", b"second")
    rename = calls.seen.index(("rename", f"{tmp_path}/table/a/key"))
    temp = next(path for name, path in calls.seen if name == "write")
    assert ("fsync", temp) in calls.seen[:rename]
    assert calls.seen[rename + 1 :][0][0] in ("unlink", "fsync")
    assert ("fsync", f"{tmp_path}/table/a") in calls.seen[rename:]


def test_a_new_data_file_and_its_folder_are_durable_before_it_is_reported(store: Store, tmp_path: Path):
    (tmp_path / "source").write_bytes(b"data")
    store.put_file("a/first", tmp_path / "source")
    with watched(SystemCalls()) as calls:
        store.put_file("a/key", tmp_path / "source")
    key = f"{tmp_path}/table/a/key"
    rename = calls.seen.index(("rename", key))
    forced = [path for name, path in calls.seen[rename:] if name == "fsync"]
    assert sorted(forced) == [f"{tmp_path}/table/a", key]
    assert [name for name, _ in calls.seen].count("fsync") == 2


def test_a_data_file_that_is_replaced_is_durable_before_it_has_its_name(store: Store, tmp_path: Path):
    (tmp_path / "source").write_bytes(b"data")
    store.put("a/key", b"before")
    with watched(SystemCalls()) as calls:
        store.put_file("a/key", tmp_path / "source")
    rename = calls.seen.index(("rename", f"{tmp_path}/table/a/key"))
    assert "fsync" in [name for name, _ in calls.seen[:rename]]


@pytest.mark.parametrize("failing", [stat.S_ISDIR, stat.S_ISREG])
def test_a_new_data_file_that_cannot_be_made_durable_is_not_there(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: Callable[[int], bool]
):
    (tmp_path / "source").write_bytes(b"data")
    store.put_file("a/first", tmp_path / "source")
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if failing(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreUnavailable):
        store.put_file("a/key", tmp_path / "source")
    assert not store.exists("a/key")
    assert temps(tmp_path) == []


def test_no_folder_is_closed_while_it_is_forced_to_the_disk(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "source").write_bytes(b"data")
    store.put_file("a/first", tmp_path / "source")
    forced: set[int] = set()
    closed: list[int] = []
    at_it, gone = threading.Event(), threading.Event()
    real = os.close

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            assert at_it.wait(10)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        forced.add(descriptor)
        at_it.set()
        gone.wait(0.2)
        forced.discard(descriptor)

    def close(descriptor: int) -> None:
        if descriptor in forced:
            closed.append(descriptor)
            gone.set()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "close", close)
    with pytest.raises(StoreUnavailable):
        store.put_file("a/key", tmp_path / "source")
    assert closed == []


def test_a_folder_that_another_process_made_is_made_durable_too(tmp_path: Path):
    (tmp_path / "table/log").mkdir(parents=True)
    with watched(SystemCalls()) as calls:
        open_store(tmp_path / "table").put_if_absent("log/0", b"")
    assert ("fsync", str(tmp_path / "table")) in calls.seen
    assert ("fsync", str(tmp_path)) in calls.seen


def test_a_folder_that_is_made_again_is_made_durable_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It may get the inode of the folder before it, which was known to be durable."""
    real = os.fstat

    def always_the_same_inode(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        return os.stat_result((found[0], 7, *found[2:])) if stat.S_ISDIR(found.st_mode) else found

    monkeypatch.setattr(os, "fstat", always_the_same_inode)
    store.put_if_absent("log/0", b"")
    store.delete_many(["log/0"])
    (tmp_path / "table/log").rmdir()
    with watched(SystemCalls()) as calls:
        store.put_if_absent("log/0", b"")
    made = calls.seen.index(("mkdir", f"{tmp_path}/table/log"))
    assert ("fsync", f"{tmp_path}/table") in calls.seen[made:]


def test_a_known_folder_costs_two_fsyncs_per_commit(store: Store):
    store.put_if_absent("log/0", b"")
    with watched(SystemCalls()) as calls:
        store.put_if_absent("log/1", b"")
    assert [name for name, _ in calls.seen].count("fsync") == 2


def test_without_fsync_nothing_is_forced_to_disk(tmp_path: Path):
    store = open_store(tmp_path / "table", Options({"storage.fsync": "false"}))
    with watched(SystemCalls()) as calls:
        store.put("a/b", b"")
        store.put_if_absent("c/d", b"")
    assert "fsync" not in [name for name, _ in calls.seen]
    assert "link" in [name for name, _ in calls.seen]


def test_a_file_that_need_not_be_durable_is_not_forced_to_disk(store: Store):
    store.put_if_absent("log/0", b"")
    with watched(SystemCalls()) as calls:
        assert store.put_if_absent("log/0.crc", b"x", policy=CallPolicy(durable=False)) is PutAnswer.CREATED
    assert "fsync" not in [name for name, _ in calls.seen]


CODES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES, errno.EROFS, errno.EMFILE, errno.ENOMEM)


@pytest.mark.parametrize("once", [True, False], ids=["once", "for ever"])
@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("code", CODES, ids=[errno.errorcode[code] for code in CODES])
def test_every_failing_step_of_a_commit_is_told_truly(tmp_path: Path, code: int, after_effect: bool, once: bool):
    """On a fresh table and on a used one; a failed put leaves no temp, no descriptor and no half file."""
    for fresh in (True, False):
        for step in range(40):
            root = tmp_path / f"{fresh}-{step}"
            store = open_store(root)
            if not fresh:
                store.put_if_absent("log/0", b"0")
            before = open_files()
            outcome: object
            with watched(SystemCalls(step, code, after_effect, once)) as calls:
                try:
                    outcome = store.put_if_absent("log/1", b"data")
                except StoreError as error:
                    outcome = error
            assert not open_files() - before
            found = (root / "log/1").read_bytes() if (root / "log/1").exists() else None
            assert found in (None, b"data")
            if isinstance(outcome, StoreError):
                assert found is None
                assert not isinstance(outcome, StoreUnavailable)
            elif outcome is PutAnswer.CREATED:
                assert found == b"data"
            if step >= len(calls.seen):
                assert outcome is PutAnswer.CREATED
                break
            leftover = list((root / TEMP_FOLDER).iterdir()) if (root / TEMP_FOLDER).exists() else []
            if once and calls.seen[step][0] != "unlink" and not (after_effect and calls.seen[step][0] == "open"):
                assert leftover == []
            # With the fault gone, the same call succeeds, or finds what it had written itself.
            assert open_store(root).put_if_absent("log/1", b"data") in (PutAnswer.CREATED, PutAnswer.REFUSED)
            assert store.get("log/1") == b"data"
        else:
            pytest.fail("a commit takes more steps than the test looks at")


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
def test_every_failing_step_of_a_put_leaves_the_old_or_the_new_bytes(tmp_path: Path, after_effect: bool):
    for step in range(40):
        store = open_store(tmp_path / f"{step}")
        store.put("a/key", b"old")
        with watched(SystemCalls(step, errno.EIO, after_effect)) as calls:
            try:
                store.put("a/key", b"new")
                failed = False
            except StoreError:
                failed = True
        assert store.get("a/key") in ((b"old", b"new") if failed else (b"new",))
        if step >= len(calls.seen):
            break


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EACCES, StorePermissionDenied),
        (errno.EPERM, StorePermissionDenied),
        (errno.EROFS, StorePermissionDenied),
        (errno.EIO, StoreUnavailable),
        (errno.EMFILE, StoreError),
    ],
)
def test_the_reason_of_a_failed_write_is_in_its_type(store: Store, code: int, kind: type[StoreError]):
    store.put("a/key", b"old")
    write = _trace(store).index("write")
    with watched(SystemCalls(write, code)), pytest.raises(kind) as caught:
        store.put("a/key", b"new")
    assert type(caught.value) is kind
    assert caught.value.key == "a/key"
    assert store.get("a/key") == b"old"


def _trace(store: Store) -> list[str]:
    with watched(SystemCalls()) as calls:
        store.put("a/key", b"old")
    return [name for name, _ in calls.seen]


def test_a_failed_fsync_of_the_folder_makes_the_outcome_unknown(store: Store):
    store.put_if_absent("log/0", b"")
    with watched(SystemCalls()) as calls:
        store.put_if_absent("log/1", b"one")
    last = len(calls.seen) - 1
    assert calls.seen[last][0] == "fsync"
    with watched(SystemCalls(last, errno.EIO)):
        assert store.put_if_absent("log/2", b"two") is PutAnswer.UNKNOWN
    assert store.get("log/2") == b"two"


def test_what_a_put_in_doubt_has_left_is_read_back_only_once_it_is_durable(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A writer that finds its own bytes takes them for committed."""
    store.put_if_absent("log/0", b"")
    with monkeypatch.context() as patch:
        fail_to_sync_folders(patch)
        assert store.put_if_absent("log/1", b"one") is PutAnswer.UNKNOWN
        with pytest.raises(StoreUnavailable):
            store.get("log/1", policy=NO_RETRY)
        assert store.get("log/0") == b""
    with watched(SystemCalls()) as calls:
        assert store.get("log/1") == b"one"
    assert ("fsync", f"{tmp_path}/table/log") in calls.seen
    with watched(SystemCalls()) as calls:
        assert store.get("log/1") == b"one"
    assert "fsync" not in [name for name, _ in calls.seen]


def test_a_put_in_doubt_that_left_nothing_is_read_back_as_nothing(store: Store, monkeypatch: pytest.MonkeyPatch):
    store.put_if_absent("log/0", b"")
    with monkeypatch.context() as patch:
        fail_to_sync_folders(patch)
        assert store.put_if_absent("log/1", b"one") is PutAnswer.UNKNOWN
    store.delete_many(["log/0", "log/1"])
    with pytest.raises(ObjectNotFound):
        store.get("log/1")


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV])
def test_a_file_system_without_hard_links_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch, code: int):
    def no_links(*_args: object, **_kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StoreUnsafe):
        store.probe()
    with pytest.raises(StoreUnsafe):
        store.put_if_absent("key", b"")
    assert list(store.list_from("")) == []


def test_a_file_system_whose_link_replaces_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch):
    real = os.link

    def replacing(source: str, target: str, **kwargs: int) -> None:
        try:
            real(source, target, **kwargs)
        except FileExistsError:
            os.unlink(target, dir_fd=kwargs["dst_dir_fd"])
            real(source, target, **kwargs)

    monkeypatch.setattr(os, "link", replacing)
    with pytest.raises(StoreUnsafe):
        store.probe()
    assert store.url not in _known


def test_leftovers_of_dead_writers_go_and_those_of_live_ones_stay(store: Store, tmp_path: Path):
    folder = tmp_path / "table" / TEMP_FOLDER
    folder.mkdir(parents=True)
    dead, live, foreign = folder / ("0" * 32), folder / ("1" * 32), folder / "somebody's notes"
    for path in (dead, live, foreign):
        path.write_bytes(b"half")
    old = time.time() - 7200
    os.utime(dead, (old, old))
    os.utime(foreign, (old, old))
    store.probe()
    assert sorted(temps(tmp_path)) == sorted([live.name, foreign.name])
    assert list(store.list_from("")) == []
    with pytest.raises(InvalidArgument):
        store.get(f"{TEMP_FOLDER}/{live.name}")


def test_a_killed_writer_leaves_nothing_that_is_listed(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_write_for_ever, args=(str(tmp_path / "table"),), daemon=True)
    process.start()
    store = open_store(tmp_path / "table")
    while len(list(store.list_from("log/"))) < 20:
        assert process.is_alive()
    process.kill()
    process.join()
    for meta in store.list_from(""):
        assert store.get(meta.key) == b"x" * 100_000
    numbers = [int(meta.key[-20:]) for meta in store.list_from("log/")]
    assert numbers == list(range(len(numbers)))


def _write_for_ever(url: str) -> None:
    store = open_store(url, Options({"storage.fsync": "false"}))
    number = 0
    while True:
        store.put_if_absent(f"log/{number:020d}", b"x" * 100_000)
        number += 1


def test_links_inside_the_table_are_not_followed(store: Store, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"canary")
    store.put("data/real", b"real")
    root = tmp_path / "table"
    (root / "folder-link").symlink_to(outside)
    (root / "data/file-link").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "nothing")
    for key in ("folder-link/secret", "data/file-link", "dangling", "folder-link/new/deep"):
        for call in (store.get, store.head, store.exists, lambda key: store.get_range(key, 0, 1)):
            with pytest.raises(StoreError) as caught:
                call(key)
            assert not isinstance(caught.value, ObjectNotFound)
        with pytest.raises(StoreError):
            store.put_if_absent(key, b"overwritten")
        assert list(store.delete_many([key])) == [key]
    with pytest.raises(StoreError):
        store.put("folder-link/new", b"escaped")
    assert [meta.key for meta in store.list_from("")] == ["data/real"]
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_bytes() == b"canary"
    # Replacing a link replaces the link, not what it points to.
    store.put("data/file-link", b"mine")
    assert (outside / "secret").read_bytes() == b"canary"
    assert store.get("data/file-link") == b"mine"


def test_the_root_itself_may_be_reached_by_a_link(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    open_store(tmp_path / "link").put("a", b"1")
    assert open_store(tmp_path / "real").get("a") == b"1"


def test_what_is_no_file_is_no_object(store: Store, tmp_path: Path):
    store.put("log/0.json", b"")
    root = tmp_path / "table"
    (root / "log/1.json").mkdir()
    os.mkfifo(root / "log/2.json")
    assert [meta.key for meta in store.list_from("log/")] == ["log/0.json"]
    for key in ("log/1.json", "log/2.json", "log"):
        assert not store.exists(key)
        with pytest.raises(ObjectNotFound):
            store.get(key)
        with pytest.raises(StoreError) as caught:
            store.put_if_absent(key, b"")
        assert not isinstance(caught.value, StoreUnavailable)


def test_names_that_are_no_keys_are_not_listed(store: Store, tmp_path: Path):
    store.put("good", b"")
    for name in (b"\xff\xfe", b"new\nline", b"back\\slash"):
        (tmp_path / "table" / os.fsdecode(name)).touch()
    assert [meta.key for meta in store.list_from("")] == ["good"]


def test_a_file_in_the_way_of_a_folder_is_an_error_that_wrote_nothing(store: Store):
    store.put("a", b"file")
    with pytest.raises(StoreError) as caught:
        store.put_if_absent("a/b", b"")
    assert not isinstance(caught.value, (ObjectNotFound, StoreUnavailable))
    with pytest.raises(ObjectNotFound):
        store.get("a/b")


def test_a_name_too_long_for_the_file_system_is_an_error(store: Store):
    with pytest.raises(StoreError) as caught:
        store.put("x" * 300, b"")
    assert not isinstance(caught.value, ObjectNotFound)
    assert not store.exists("x" * 300)


def test_reads_survive_a_passing_fault_and_report_a_lasting_one(store: Store):
    store.put("key", b"data")
    with watched(SystemCalls(0, errno.EIO)):
        assert store.get("key") == b"data"
    with watched(SystemCalls(0, errno.EIO, once=False)), pytest.raises(StoreUnavailable):
        store.get("key", policy=CallPolicy(attempts=3, base_delay_s=0.001))
    with watched(SystemCalls(0, errno.EIO)), pytest.raises(StoreUnavailable):
        store.head("key", policy=NO_RETRY)


def test_short_reads_and_writes_are_continued(store: Store, monkeypatch: pytest.MonkeyPatch):
    real_write, real_pread = os.write, os.pread
    monkeypatch.setattr(os, "write", lambda file, data: real_write(file, data[:7]))
    monkeypatch.setattr(os, "pread", lambda file, size, offset: real_pread(file, min(size, 5), offset))
    store.put("key", bytes(range(100)))
    assert store.get("key") == bytes(range(100))
    assert store.get_range("key", 3, 90) == bytes(range(3, 90))


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ENOSYS, errno.EINVAL])
def test_a_file_is_copied_where_the_kernel_cannot(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
):
    def refuses(*_args: int) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "copy_file_range", refuses)
    (tmp_path / "source").write_bytes(bytes(range(256)) * 1000)
    store.put_file("key", tmp_path / "source")
    assert store.get("key") == bytes(range(256)) * 1000


def test_a_disk_that_fills_up_during_a_copy_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real, calls = os.copy_file_range, []

    def fills(source: int, file: int, count: int) -> int:
        calls.append(count)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(source, file, 10)

    monkeypatch.setattr(os, "copy_file_range", fills)
    (tmp_path / "source").write_bytes(b"x" * 1000)
    with pytest.raises(StoreFull):
        store.put_file("key", tmp_path / "source")
    assert not store.exists("key")
    assert temps(tmp_path) == []


def test_a_file_cut_while_it_is_read_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch):
    store.put("key", b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, offset: real(file, min(size, 5), offset) if offset < 5 else b"")
    with pytest.raises(StoreError):
        store.get("key")


def test_folders_before_the_start_of_a_listing_are_not_opened(store: Store, tmp_path: Path):
    for number in range(5):
        store.put(f"p={number}/file", b"")
    with watched(SystemCalls()) as calls:
        assert [meta.key for meta in store.list_from("", "p=2/file")] == ["p=3/file", "p=4/file"]
    opened = [Path(os.fsdecode(path)).name for name, path in calls.seen if name == "open"]
    assert sorted(name for name in opened if name.startswith("p=")) == ["p=2", "p=3", "p=4"]


def test_a_listing_is_read_as_it_is_consumed(store: Store):
    for number in range(5):
        store.put(f"p={number}/file", b"")
    before = open_files()
    with watched(SystemCalls()) as calls:
        listing = store.list_from("")
        assert calls.seen == []
        assert next(listing).key == "p=0/file"
        assert not any("p=1" in path for _, path in calls.seen)
    del listing
    assert not open_files() - before


def test_a_listing_that_fails_half_way_raises(store: Store):
    for number in range(3):
        store.put(f"p={number}/file", b"")
    with watched(SystemCalls()) as calls:
        list(store.list_from(""))
    for step in range(len(calls.seen)):
        with watched(SystemCalls(step, errno.EIO)), pytest.raises(StoreError):
            list(store.list_from(""))


def test_what_vanishes_during_a_listing_is_left_out(store: Store):
    for key in ("a", "b/1", "b/2", "c"):
        store.put(key, b"")
    listing = store.list_from("")
    assert next(listing).key == "a"
    store.delete_many(["b/1", "b/2", "c"])
    assert list(listing) == []


def test_deep_folders_do_not_exhaust_the_interpreter(store: Store, tmp_path: Path):
    folder = os.open(tmp_path, os.O_RDONLY)
    os.mkdir("table", dir_fd=folder)
    for name in ["table", *["d"] * 400]:
        deeper = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
        os.mkdir("d", dir_fd=folder)
    os.close(folder)
    assert list(store.list_from("")) == []


def test_deletes_happen_in_the_order_given(store: Store):
    keys = [f"log/{number}" for number in (3, 1, 2)] + ["data/x", "log/0"]
    for key in keys:
        store.put(key, b"")
    with watched(SystemCalls()) as calls:
        assert store.delete_many(keys) == {}
    deleted = [path for name, path in calls.seen if name == "unlink"]
    assert [Path(path).name for path in deleted] == ["3", "1", "2", "x", "0"]


def test_what_could_not_be_deleted_is_returned_with_the_reason(store: Store):
    for key in ("a", "b", "c"):
        store.put(key, b"")
    with watched(SystemCalls()) as calls:
        store.delete_many(["x"])
    with watched(SystemCalls(2, errno.EACCES)) as calls:
        left = store.delete_many(["a", "b", "c"])
    assert calls.seen[2][0] == "unlink"
    assert list(left) == ["a"]
    assert "Permission denied" in left["a"]
    assert [meta.key for meta in store.list_from("")] == ["a"]


def test_a_forked_child_can_use_the_same_store(store: Store):
    store.put("key", b"parent")
    pid = os.fork()
    if pid == 0:
        try:
            ok = store.get("key") == b"parent" and store.put_if_absent("child", b"1") is PutAnswer.CREATED
            os._exit(0 if ok else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert store.get("child") == b"1"


def test_a_file_that_is_written_to_in_place_is_another_one_whatever_its_time(store: Store, tmp_path: Path):
    store.put("key", b"first")
    file, before = tmp_path / "table" / "key", store.head("key")
    found = file.stat()
    file.write_bytes(b"other")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    after = store.head("key")
    assert (after.size, after.modified_ms) == (before.size, before.modified_ms)
    assert after.etag != before.etag


def test_readers_never_see_half_a_file(store: Store):
    values = [b"a" * 300_000, b"b" * 200_000]
    store.put("key", values[0])
    done = threading.Event()

    def write() -> None:
        for number in range(60):
            store.put("key", values[number % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert store.get("key") in values
    writer.join()


KEY_PARTS = st.text(alphabet=st.sampled_from("ab.-0~é!"), min_size=1, max_size=3).filter(lambda p: p not in (".", ".."))
KEYS = st.lists(KEY_PARTS, min_size=1, max_size=3).map("/".join)


@settings(max_examples=60, deadline=None)
@given(st.sets(KEYS, max_size=12), st.one_of(st.none(), KEYS, KEYS.map(lambda key: key + "/")))
def test_a_listing_is_the_sorted_set_of_keys_after_the_given_one(tmp_path_factory, keys: set[str], after: str | None):
    keys = {key for key in keys if not any(other.startswith(f"{key}/") for other in keys)}
    root = tmp_path_factory.mktemp("listing")
    for store in (
        open_store(root / "t", Options({"storage.fsync": "false"})),
        open_store(f"memory://{root.name}"),
    ):
        for key in keys:
            store.put(key, b"")
        expected = sorted((key for key in keys if after is None or key.encode() > after.encode()), key=str.encode)
        assert [meta.key for meta in store.list_from("", after)] == expected
        prefix = min(keys, default="a").split("/")[0] + "/"
        below = [key for key in expected if key.startswith(prefix)]
        assert [meta.key for meta in store.list_from(prefix, after)] == below
