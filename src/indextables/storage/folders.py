"""How is a local folder reached, made and walked? Below the root no symbolic link is followed, ever."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from indextables.errors import StoreError
from indextables.storage.store import ObjectMeta
from indextables.storage.url import is_key, parse_location

__all__ = ["TEMP_FOLDER", "Folders", "etag_of", "is_no_file", "meta_of", "remove_empty", "sync", "unlisted"]

TEMP_FOLDER = ".indextables-tmp"
"""Files that are being written live here until they get their name. Never listed, and no key may start with it."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW_ROOT = _FOLDER | os.O_NOFOLLOW

_IN_THE_WAY = {errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}

_READINGS = 8
"""How often the names of one folder are read while others delete from it."""


class Folders:
    """The folders below one root.

    1. `enter` and `enter_for_write` give descriptors that lie below the root, whatever links someone planted there.
    2. With `fsync`, every folder on the way to a written file is durable before the descriptor is returned.
    3. OSErrors are passed on as they are; a symbolic link in the way raises StoreError.
    """

    def __init__(self, root: str, *, fsync: bool) -> None:
        self.root = Path(root)
        self._path = str(self.root)
        self._fsync = fsync
        self._durable: set[tuple[int, int]] = set()

    def enter(self, parts: Sequence[str]) -> int:
        """A descriptor of an existing folder; the caller closes it."""
        try:
            # Root and first folder in one step: the way to the root may lead over links, the last name is none.
            first = os.open(f"{self._path}/{parts[0]}", _BELOW_ROOT) if parts else os.open(self._path, _FOLDER)
        except OSError as error:
            if error.errno not in _IN_THE_WAY:
                raise
            # Told by the step that it stops.
            return self._descend(os.open(self._path, _FOLDER), parts, create=False)
        return self._descend(first, parts[1:], create=False)

    def enter_for_write(self, parts: Sequence[str]) -> tuple[int, int]:
        """Descriptors of the temporary folder and of a folder, both made where missing; the caller closes them."""
        root = self._enter_root()
        try:
            temp, _ = _open_or_make(root, TEMP_FOLDER)
            try:
                return temp, self._descend(os.dup(root), parts, create=True)
            except BaseException:
                os.close(temp)
                raise
        finally:
            os.close(root)

    def walk(self, prefix: Sequence[str], after: str | None) -> Iterator[ObjectMeta]:
        """The regular files below `prefix`, in order of their keys (by code point, as UTF-8 sorts), past `after`.

        Folders that end before `after` are not opened. Each open folder costs one descriptor while it is walked. Its
        names are read first, and the files looked at as the walk gets there: where one has gone, what replaced it may
        have come after the names were read, so that they are read again.
        """
        start = "".join(part + "/" for part in prefix)
        try:
            stack = [_Listing(self.enter(prefix), start, after, top=not prefix)]
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            while stack:
                listing = stack[-1]
                name = listing.next_name()
                if name is None:
                    stack.pop().close()
                elif name[-1] == "/":
                    child = _open_listed(listing.descriptor, name[:-1])
                    if child is not None:
                        listing.passed(name)
                        stack.append(_Listing(child, listing.prefix + name, after))
                    else:
                        listing.read_again()
                else:
                    found = _stat_listed(listing.descriptor, name)
                    if found is not None:
                        listing.passed(name)
                        yield meta_of(listing.prefix + name, found)
                    else:
                        listing.read_again()
        finally:
            for listing in stack:
                listing.close()

    def _enter_root(self) -> int:
        try:
            root = os.open(self._path, _FOLDER)
        except FileNotFoundError:
            self._make_root()
            root = os.open(self._path, _FOLDER)
        try:
            self._settle(root, lambda: _sync_path(self.root.parent))
        except BaseException:
            os.close(root)
            raise
        return root

    def _make_root(self) -> None:
        missing = [self.root]
        while not missing[-1].parent.is_dir():
            missing.append(missing[-1].parent)
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            if self._fsync:
                _sync_path(folder.parent)

    def _descend(self, folder: int, parts: Sequence[str], *, create: bool) -> int:
        """The folder `parts` below `folder`, whose descriptor is closed."""
        for part in parts:
            try:
                child, is_new = _open_or_make(folder, part) if create else (_open_folder(folder, part), False)
                try:
                    if create:
                        self._settle(child, functools.partial(sync, folder), is_new=is_new)
                except BaseException:
                    os.close(child)
                    raise
            finally:
                os.close(folder)
            folder = child
        return folder

    def _settle(self, folder: int, sync_parent: Callable[[], None], *, is_new: bool = False) -> None:
        """Make the entry of this folder in its parent durable, once per folder and process.

        That holds for folders that were there already: whoever made one may not have got as far as its own fsync. A
        folder that we have just made may have the inode of one that is gone.
        """
        if not self._fsync:
            return
        found = os.fstat(folder)
        identity = (found.st_dev, found.st_ino)
        if is_new or identity not in self._durable:
            sync_parent()
            self._durable.add(identity)


def sync(descriptor: int) -> None:
    """Force a file or folder to the disk itself."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
        else:
            return
    os.fsync(descriptor)


def remove_empty(url: str) -> None:
    """Take away the folder at a local URL and those below it, each if nothing is in it; links are not followed."""
    for folder, _, _ in os.walk(parse_location(url).path, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def unlisted(url: str) -> Iterator[tuple[str, bool]]:
    """What no listing of a local URL tells: folders and symbolic links below it, each with whether it is a link.

    Folders, and links to folders, end with a slash; links are not followed. A folder that cannot be read has nothing.
    """
    root = parse_location(url).path
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError),
            os.scandir(Path(root, prefix)) as entries,
        ):
            for entry in entries:
                if entry.is_symlink():
                    yield f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}", True
                elif entry.is_dir():
                    waiting.append(f"{prefix}{entry.name}/")
                    yield waiting[-1], False


def is_no_file(url: str, key: str) -> bool:
    """True if something has the name of this key below a local URL that is no object: a folder, a link, a pipe."""
    try:
        return not stat.S_ISREG(os.lstat(Path(parse_location(url).path, key)).st_mode)
    except OSError:
        return False


def etag_of(found: os.stat_result) -> str:
    """Changes whenever the file is replaced or written to: a new inode, or at least a new time.

    Inodes are used again, and a restore sets the time of the content as it was. Nobody can set the time of the last
    change of the inode; a new name, a name less and a new mode change it too, which costs whoever remembers the file
    one more look.
    """
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}-{found.st_size:x}"


def meta_of(key: str, found: os.stat_result) -> ObjectMeta:
    """What a listing tells about a file."""
    return ObjectMeta(key, found.st_size, found.st_mtime_ns // 1_000_000, etag_of(found))


class _Listing:
    """One folder that is being walked: its descriptor, the part of the key that leads to it, its names in order."""

    def __init__(self, descriptor: int, prefix: str, after: str | None, *, top: bool = False) -> None:
        self.descriptor = descriptor
        self.prefix = prefix
        self._after = after
        self._top = top
        self._passed = ""
        self._readings = 1
        try:
            self._names = self._read()
        except BaseException:
            os.close(descriptor)
            raise

    def next_name(self) -> str | None:
        return next(self._names, None)

    def passed(self, name: str) -> None:
        """This name has been told, and every smaller one."""
        self._passed = name

    def read_again(self) -> None:
        """Go on with the names that are there by now, from the last one that was told on; not for ever."""
        if self._readings < _READINGS:
            self._readings += 1
            self._names = (name for name in self._read() if name > self._passed)

    def _read(self) -> Iterator[str]:
        return iter(sorted(_names(self.descriptor, self.prefix, self._after, top=self._top)))

    def close(self) -> None:
        os.close(self.descriptor)


def _names(descriptor: int, prefix: str, after: str | None, *, top: bool) -> Iterator[str]:
    """Names of files, and names of folders with a slash so that they sort as their keys do, that may be past `after`.

    Links, and names that are no keys (not UTF-8, control characters), are not objects.
    """
    passed = after[len(prefix) :] if after is not None and after.startswith(prefix) else ""
    with os.scandir(descriptor) as entries:
        for entry in entries:
            name = entry.name
            # Most names of a long log: neither they nor what is in a folder of that name can be past `after`.
            if name < passed and not passed.startswith(name):
                continue
            # Bytes that are not UTF-8 show as surrogates, which no key holds.
            if not is_key(name) or (top and name == TEMP_FOLDER):
                continue
            if entry.is_file(follow_symlinks=False):
                if after is None or prefix + name > after:
                    yield name
            elif entry.is_dir(follow_symlinks=False):
                name += "/"
                if after is None or prefix + name > after or after.startswith(prefix + name):
                    yield name


def _open_listed(folder: int, name: str) -> int | None:
    """A folder that a listing found, or None if it has gone or was replaced since."""
    try:
        return os.open(name, _BELOW_ROOT, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _stat_listed(folder: int, name: str) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _open_folder(folder: int, name: str) -> int:
    try:
        return os.open(name, _BELOW_ROOT, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and _is_link(folder, name):
            message = f"{name} is a symbolic link inside the table, and those are not followed: replace it by a folder"
            raise StoreError(message, key=name) from None
        raise


def _open_or_make(folder: int, name: str) -> tuple[int, bool]:
    """A descriptor of the folder, and whether it was made here."""
    made = False
    while True:
        try:
            return _open_folder(folder, name), made
        except FileNotFoundError:
            try:
                os.mkdir(name, dir_fd=folder)
                made = True
            except FileExistsError:
                continue


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _sync_path(path: Path) -> None:
    """Make the entries of a folder outside the root durable, as far as we may open it.

    A folder that others own may be closed to us; what we made ourselves lies in folders that we can open.
    """
    try:
        descriptor = os.open(path, _FOLDER)
    except PermissionError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
