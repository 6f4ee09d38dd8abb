"""Local files that keep the promises of a Store: temp, fsync, link without replace, fsync of the folder."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import stat
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from indextables.ambient import Ambient, SystemAmbient
from indextables.errors import (
    InvalidArgument,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StorePermissionDenied,
    StoreUnavailable,
    StoreUnsafe,
)
from indextables.storage.folders import TEMP_FOLDER, Folders, meta_of, sync
from indextables.storage.links import PASSING, is_same_file, is_taken, link
from indextables.storage.mounts import Mounts, check_mount, system_mounts
from indextables.storage.moving import copy, pread, write
from indextables.storage.probe import once_per_process, skew_between
from indextables.storage.retry import retry
from indextables.storage.store import CallPolicy, Guard, Noted, ObjectMeta, PutAnswer, StoreFacts
from indextables.storage.url import Location, check_key, check_prefix

__all__ = ["LocalStore"]

T = TypeVar("T")

_TEMP_NAME = re.compile(r"[0-9a-f]{32}")
_TEMP_MAX_AGE_MS = 3_600_000
_CREATED = PutAnswer.CREATED
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class LocalStore:
    """A Store on a file system with hard links. Safe for any number of threads, processes and forks.

    With `fsync` off, a commit survives a crash of the process but not of the machine. Symbolic links below the root,
    folders, sockets and the like are not objects.
    """

    is_local = True
    outlives_process = True

    def __init__(
        self,
        location: Location,
        *,
        fsync: bool = True,
        policy: CallPolicy | None = None,
        ambient: Ambient | None = None,
        mounts: Mounts = system_mounts,
    ) -> None:
        self._location = location
        self.identity: Hashable = location.url
        self._url = location.url
        self._mounts = mounts
        self._fsync = fsync
        self._policy = policy or CallPolicy()
        self._ambient: Ambient = ambient or SystemAmbient()
        self._folders = Folders(location.path, fsync=fsync)
        self._unsettled: set[str] = set()
        """Keys whose conditional put ended in doubt: they may be there without being durable."""

    def __repr__(self) -> str:
        return f"LocalStore({self.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (self._location, self._fsync, self._policy, self._ambient))

    @property
    def url(self) -> str:
        return self._url

    @property
    def root(self) -> Path:
        """The folder itself, for readers that open files by path."""
        return Path(self._location.path)

    def get(self, key: str, *, policy: CallPolicy | None = None, noted: Noted | None = None) -> bytes:
        if key in self._unsettled:
            self._settle(key)

        def read(file: int, size: int) -> bytes:
            if noted is not None:
                noted(meta_of(key, os.fstat(file)))
            return pread(file, 0, size, key)

        return self._read(key, policy, read)

    def get_range(self, key: str, start: int, end: int, *, policy: CallPolicy | None = None) -> bytes:
        return self.get_ranges(key, [(start, end)], policy=policy)[0]

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, policy: CallPolicy | None = None
    ) -> list[bytes]:
        def read(file: int, size: int) -> list[bytes]:
            for start, end in ranges:
                if not 0 <= start <= end:
                    raise InvalidArgument(f"[{start}, {end}) is not a range of {key}", key=key)
                if end > size:
                    message = f"{key} ends at byte {size}, before byte {end} that was asked for"
                    raise StoreError(message, key=key, size=size)
            return [pread(file, start, end, key) for start, end in ranges]

        return self._read(key, policy, read)

    def put(self, key: str, data: bytes | memoryview, *, policy: CallPolicy | None = None) -> None:
        del policy
        self._replace(key, lambda file: write(file, memoryview(data)))

    def put_file(self, key: str, source: Path, *, policy: CallPolicy | None = None) -> None:
        """The name of a new file comes first, so that file and folder are forced to the disk at once.

        Who has not heard that it is there asks for no such key: what a power loss leaves of it before that may be cut.
        """
        del policy
        if self._fsync and not self.exists(key):
            self._place(key, lambda file: copy(source, file))
        else:
            self._replace(key, lambda file: copy(source, file))

    def put_if_absent(self, key: str, data: bytes | memoryview, *, policy: CallPolicy | None = None) -> PutAnswer:
        durable = policy is None or policy.durable
        parts = _parts(key)
        with self._typed(key, writing="once"):
            temp_folder, folder = self._folders.enter_for_write(parts[:-1])
            try:
                if is_taken(folder, parts[-1], key):
                    return PutAnswer.REFUSED
                with self._temp(temp_folder, lambda file: write(file, memoryview(data)), durable=durable) as temp:
                    answer = link(temp_folder, temp, folder, parts[-1], key)
                if answer is PutAnswer.CREATED and durable:
                    answer = self._confirm(folder)
                if answer is PutAnswer.UNKNOWN and self._fsync:
                    self._unsettled.add(key)
                return answer
            finally:
                _close(folder, temp_folder)

    def put_in_order(self, objects: Sequence[tuple[str, bytes]]) -> int:
        """As `storage.put_in_order`, for keys of one folder."""
        temps = [self._ambient.token() for _ in objects]
        key, parts = objects[0][0], _parts(objects[0][0])
        with self._typed(key, writing="once"):
            temp_folder, folder = self._folders.enter_for_write(parts[:-1])

            def fill(temp: str, data: bytes) -> OSError | None:
                try:
                    self._fill(temp_folder, temp, lambda file: write(file, memoryview(data)), durable=True)
                except OSError as error:
                    return error
                return None

            try:
                work = [functools.partial(fill, temp, data) for temp, (_, data) in zip(temps, objects, strict=True)]
                # Many wait for the disk together; all are waited for, before the folder is let go.
                failed = next((error for error in list(self._ambient.map("flush", _call, work)) if error), None)
                if failed is not None:
                    raise failed
                for done, (temp, (name, _)) in enumerate(zip(temps, objects, strict=True)):
                    last = _parts(name)[-1]
                    if is_taken(folder, last, name) or link(temp_folder, temp, folder, last, name) is not _CREATED:
                        return done
                return len(objects)
            finally:
                for temp in temps:
                    with contextlib.suppress(OSError):
                        os.unlink(temp, dir_fd=temp_folder)
                _close(folder, temp_folder)

    def list_from(
        self, prefix: str, after: str | None = None, *, policy: CallPolicy | None = None
    ) -> Iterator[ObjectMeta]:
        del policy
        check_prefix(prefix)
        return self._list(prefix, after)

    def head(self, key: str, *, policy: CallPolicy | None = None) -> ObjectMeta:
        parts = _parts(key)
        return self._retried(key, policy, lambda: meta_of(key, self._found(key, parts)))

    def exists(self, key: str, *, policy: CallPolicy | None = None) -> bool:
        parts = _parts(key)

        def look() -> bool:
            try:
                self._found(key, parts)
            except FileNotFoundError:
                # Commits ask for slots that are empty: nobody reads an error that would be made of each.
                return False
            return True

        try:
            return self._retried(key, policy, look)
        except ObjectNotFound:
            return False

    def _found(self, key: str, parts: Sequence[str]) -> os.stat_result:
        folder = self._folders.enter(parts[:-1])
        try:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(folder)
        return self._regular(key, found)

    def delete_many(
        self, keys: Iterable[str], *, policy: CallPolicy | None = None, guard: Guard | None = None
    ) -> dict[str, str]:
        """Deletes are on the disk when this returns: what is deleted later must not be gone without them.

        Where the folder cannot be forced to the disk, its keys may be there again after a power loss: they are left.
        """
        del policy
        left: dict[str, str] = {}
        folder, folder_parts, reason = -1, None, ""
        unlinked: list[str] = []
        try:
            for key in keys:
                reason = reason or ("" if guard is None else guard([key]))
                if reason:
                    left[key] = reason
                    continue
                parts = _parts(key)
                try:
                    with self._typed(key):
                        if folder_parts != parts[:-1]:
                            left |= self._settled(folder, unlinked)
                            _close(folder)
                            folder, folder_parts = -1, None
                            folder, folder_parts = self._folders.enter(parts[:-1]), parts[:-1]
                        self._regular(key, os.stat(parts[-1], dir_fd=folder, follow_symlinks=False))
                        os.unlink(parts[-1], dir_fd=folder)
                        unlinked.append(key)
                except ObjectNotFound:
                    continue
                except StoreError as error:
                    left[key] = str(error)
            left |= self._settled(folder, unlinked)
        finally:
            _close(folder)
        return left

    def _settled(self, folder: int, unlinked: list[str]) -> dict[str, str]:
        """Force what was unlinked in a folder to the disk; the keys for which that failed. Empties the list."""
        keys = list(unlinked)
        unlinked.clear()
        if not keys or not self._fsync:
            return {}
        try:
            with self._typed(keys[0]):
                sync(folder)
        except StoreError as error:
            return dict.fromkeys(keys, f"it may come back after a power loss: {error}")
        return {}

    def probe(self) -> StoreFacts:
        """Hard links are tried in the temporary folder; leftovers of dead writers are taken away on the way."""
        return once_per_process(self.url, self._probe)

    def _probe(self) -> StoreFacts:
        check_mount(self.url, self._location.path, self._mounts)
        with self._typed("", writing="again"):
            temp_folder, folder = self._folders.enter_for_write(())
            _close(folder)
            try:
                before_ms = self._ambient.now_ms()
                with self._temp(temp_folder, _write_probe) as first, self._temp(temp_folder, _write_probe) as second:
                    found = os.stat(first, dir_fd=temp_folder, follow_symlinks=False)
                    skew_ms = skew_between(found.st_mtime_ns // 1_000_000, before_ms, self._ambient.now_ms())
                    self._try_links(temp_folder, first, second)
                self._take_leftovers(temp_folder, self._ambient.now_ms() + skew_ms)
            finally:
                _close(temp_folder)
        return StoreFacts(skew_ms=skew_ms)

    def _try_links(self, temp_folder: int, first: str, second: str) -> None:
        """A second link to a taken name must be refused and leave the first, as `put_if_absent` relies on it."""
        name = self._ambient.token()
        try:
            answers = [link(temp_folder, temp, temp_folder, name, "") for temp in (first, second)]
            kept = is_same_file(temp_folder, first, temp_folder, name)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=temp_folder)
        if answers != [PutAnswer.CREATED, PutAnswer.REFUSED] or not kept:
            message = f"{self.url} does not refuse to replace a file by a hard link: commits would be lost here"
            raise StoreUnsafe(message, url=self.url)

    def _take_leftovers(self, temp_folder: int, now_ms: int) -> None:
        """Remove what a writer left behind. A live one touches its file all the time, so that age tells them apart."""
        with os.scandir(temp_folder) as entries:
            names = [entry.name for entry in entries if _TEMP_NAME.fullmatch(entry.name)]
        for name in names:
            # Another process may take it first, and a file of another user is theirs to take.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                found = os.stat(name, dir_fd=temp_folder, follow_symlinks=False)
                if found.st_mtime_ns // 1_000_000 < now_ms - _TEMP_MAX_AGE_MS:
                    os.unlink(name, dir_fd=temp_folder)

    def _read(self, key: str, policy: CallPolicy | None, use: Callable[[int, int], T]) -> T:
        """`use(descriptor, size)` on the open file."""
        parts = _parts(key)

        def attempt() -> T:
            folder = self._folders.enter(parts[:-1])
            try:
                # A pipe planted under the name must not block the open.
                file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            finally:
                os.close(folder)
            try:
                return use(file, self._regular(key, os.fstat(file)).st_size)
            finally:
                os.close(file)

        return self._retried(key, policy, attempt)

    def _replace(self, key: str, fill: Callable[[int], None]) -> None:
        parts = _parts(key)
        with self._typed(key, writing="again"):
            temp_folder, folder = self._folders.enter_for_write(parts[:-1])
            try:
                with self._temp(temp_folder, fill) as temp:
                    os.rename(temp, parts[-1], src_dir_fd=temp_folder, dst_dir_fd=folder)
                if self._confirm(folder) is PutAnswer.UNKNOWN:
                    message = f"{key} was written, but its folder could not be made durable: treat it as not written"
                    raise StoreUnavailable(message, key=key)
            finally:
                _close(folder, temp_folder)

    def _place(self, key: str, fill: Callable[[int], None]) -> None:
        parts, temp = _parts(key), self._ambient.token()
        with self._typed(key, writing="again"):
            temp_folder, folder = self._folders.enter_for_write(parts[:-1])
            file = -1
            try:
                file = os.open(temp, _NEW_FILE, 0o666, dir_fd=temp_folder)
                try:
                    fill(file)
                    os.rename(temp, parts[-1], src_dir_fd=temp_folder, dst_dir_fd=folder)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(temp, dir_fd=temp_folder)
                    raise
                try:
                    self._sync_both(file, folder)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(parts[-1], dir_fd=folder)
                    raise
            finally:
                _close(file, folder, temp_folder)

    def _sync_both(self, file: int, folder: int) -> None:
        """One journal entry holds both, where there is a journal: together they wait for the disk once."""
        other = self._ambient.submit("flush", functools.partial(sync, folder))
        try:
            sync(file)
        finally:
            # Whatever became of the file: nobody closes a folder that is still being forced to the disk.
            other.exception()
        other.result()

    @contextlib.contextmanager
    def _temp(self, temp_folder: int, fill: Callable[[int], None], *, durable: bool = True) -> Iterator[str]:
        """The name of a filled, durable temporary file, which is gone afterwards unless it was renamed."""
        name = self._ambient.token()
        try:
            self._fill(temp_folder, name, fill, durable=durable)
            yield name
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=temp_folder)

    def _fill(self, temp_folder: int, name: str, fill: Callable[[int], None], *, durable: bool) -> None:
        file = os.open(name, _NEW_FILE, 0o666, dir_fd=temp_folder)
        try:
            fill(file)
            if self._fsync and durable:
                sync(file)
        finally:
            # Network file systems report lost writes here: before the file gets its name.
            os.close(file)

    def _confirm(self, folder: int) -> PutAnswer:
        """CREATED once the folder's new entry is durable; UNKNOWN if that failed, for then nobody can tell."""
        if self._fsync:
            try:
                sync(folder)
            except OSError:
                return PutAnswer.UNKNOWN
        return PutAnswer.CREATED

    def _settle(self, key: str) -> None:
        """Make what a put in doubt has left durable before it is read back: who finds its own bytes believes in them.

        Raises StoreError while that fails.
        """
        with self._typed(key):
            folder = self._folders.enter(_parts(key)[:-1])
            try:
                sync(folder)
            finally:
                _close(folder)
        self._unsettled.discard(key)

    def _list(self, prefix: str, after: str | None) -> Iterator[ObjectMeta]:
        parts = prefix.split("/")[:-1]
        with self._typed(prefix):
            yield from self._folders.walk(parts, after)

    def _retried(self, key: str, policy: CallPolicy | None, attempt: Callable[[], T]) -> T:
        def typed(_seconds_left: float) -> T:
            with self._typed(key):
                return attempt()

        return retry(typed, policy or self._policy, self._ambient)

    @contextlib.contextmanager
    def _typed(self, key: str, *, writing: Literal["", "again", "once"] = "") -> Iterator[None]:
        """OSErrors leave as errors of this library.

        StoreUnavailable asks the caller to try again, and of a write "once" it would say that it may have landed.
        """
        try:
            yield
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise self._error(key, error, writing=writing) from error

    def _error(self, key: str, error: OSError, *, writing: str) -> StoreError:
        what = f"{self.url}/{key}".rstrip("/")
        reason = os.strerror(error.errno) if error.errno else "unknown error"
        if error.errno in _ABSENT and not writing:
            return ObjectNotFound(f"{what} does not exist ({reason})", key=key)
        if error.errno == errno.ELOOP:
            return StoreError(f"{what} is a symbolic link, and those are not followed inside a table", key=key)
        if error.errno in _FULL:
            return StoreFull(f"no space left for {what} ({reason}): free some and try again", key=key)
        if error.errno in _DENIED:
            return StorePermissionDenied(f"not allowed on {what} ({reason}): check owner and mode", key=key)
        if error.errno in PASSING and writing != "once":
            return StoreUnavailable(f"{what} could not be reached ({reason})", key=key)
        return StoreError(f"{what} failed ({reason})", key=key)

    def _regular(self, key: str, found: os.stat_result) -> os.stat_result:
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not stat.S_ISREG(found.st_mode):
            raise ObjectNotFound(f"{self.url}/{key} is not a file", key=key)
        return found


def _reopen(location: Location, fsync: bool, policy: CallPolicy, ambient: Ambient) -> LocalStore:  # noqa: FBT001 - pickle
    return LocalStore(location, fsync=fsync, policy=policy, ambient=ambient)


def _call(work: Callable[[], T]) -> T:
    return work()


def _parts(key: str) -> list[str]:
    parts = check_key(key).split("/")
    if parts[0] == TEMP_FOLDER:
        raise InvalidArgument(f"{key!r} lies in the folder for unfinished files", key=key)
    return parts


def _close(*folders: int) -> None:
    """Closing a folder writes nothing, so that its errors must not turn a finished write into a failed one."""
    for descriptor in folders:
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _write_probe(file: int) -> None:
    write(file, memoryview(b"probe"))
