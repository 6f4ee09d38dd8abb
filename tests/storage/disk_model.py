"""A disk that loses power: it keeps what was forced to it, plus any part of the rest."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SECTOR = 512


@dataclass
class Recorder:
    """Files are known by number, folders and names by path; `ack` marks that the store has reported a write."""

    events: list[tuple] = field(default_factory=list)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        real = {name: getattr(os, name) for name in ("mkdir", "write", "fsync", "link", "rename", "unlink", "open")}

        def record_open(path, flags, *args, dir_fd=None, **kwargs):
            made = real["open"](path, flags, *args, dir_fd=dir_fd, **kwargs)
            if flags & os.O_CREAT:
                self.events.append(("create", os.fstat(made).st_ino, _path(path, dir_fd)))
            return made

        def record_mkdir(path, *args, dir_fd=None, **kwargs):
            real["mkdir"](path, *args, dir_fd=dir_fd, **kwargs)
            self.events.append(("mkdir", _path(path, dir_fd)))

        def record_write(file, data):
            count = real["write"](file, data)
            self.events.append(("write", os.fstat(file).st_ino, bytes(data[:count])))
            return count

        def record_fsync(file):
            real["fsync"](file)
            inside = Path(f"/proc/self/fd/{file}").readlink()
            self.events.append(("sync folder", str(inside)) if inside.is_dir() else ("sync", os.fstat(file).st_ino))

        def record_link(source, target, *, src_dir_fd, dst_dir_fd, **kwargs):
            real["link"](source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **kwargs)
            self.events.append(("name", _inode(target, dst_dir_fd), _path(target, dst_dir_fd)))

        def record_rename(source, target, *, src_dir_fd, dst_dir_fd):
            number = _inode(source, src_dir_fd)
            real["rename"](source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            self.events.append(("forget", _path(source, src_dir_fd)))
            self.events.append(("name", number, _path(target, dst_dir_fd)))

        def record_unlink(path, *, dir_fd=None):
            real["unlink"](path, dir_fd=dir_fd)
            self.events.append(("forget", _path(path, dir_fd)))

        for name, replacement in (
            ("open", record_open),
            ("mkdir", record_mkdir),
            ("write", record_write),
            ("fsync", record_fsync),
            ("link", record_link),
            ("rename", record_rename),
            ("unlink", record_unlink),
        ):
            patch.setattr(os, name, replacement)


@dataclass
class Disk:
    """What a file system holds, and which of it is safe. `base` was there before."""

    base: str
    contents: dict[int, bytes] = field(default_factory=dict)
    safe_contents: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int | None] = field(default_factory=dict)
    """File number by path; None for a folder."""
    safe_names: dict[str, int | None] = field(default_factory=dict)
    pending: dict[str, list[int | str | None]] = field(default_factory=dict)
    """For each path, what it has been since its folder was last forced to the disk; "gone" where it was removed."""

    def apply(self, event: tuple) -> None:
        kind = event[0]
        if kind == "create":
            self.contents.setdefault(event[1], b"")
            self._name(event[2], event[1])
        elif kind == "write":
            self.contents[event[1]] += event[2]
        elif kind == "sync":
            self.safe_contents[event[1]] = self.contents[event[1]]
        elif kind == "mkdir":
            self._name(event[1], None)
        elif kind == "name":
            self._name(event[2], event[1])
        elif kind == "forget":
            self.names.pop(event[1], None)
            self.pending.setdefault(event[1], []).append("gone")
        elif kind == "sync folder":
            for path in [path for path in self.pending if str(Path(path).parent) == event[1]]:
                del self.pending[path]
                if path in self.names:
                    self.safe_names[path] = self.names[path]
                else:
                    self.safe_names.pop(path, None)

    def _name(self, path: str, number: int | None) -> None:
        self.names[path] = number
        self.pending.setdefault(path, []).append(number)

    def after_power_loss(self, chance: random.Random, *, keeps: float) -> dict[str, bytes | None]:
        """Paths and bytes that survive; each unsafe change does with probability `keeps`, and pages may be torn."""
        names: dict[str, int | str | None] = dict(self.safe_names)
        for path, states in self.pending.items():
            if chance.random() < keeps:
                names[path] = chance.choice(states)
        found: dict[str, bytes | None] = {}
        for path, number in names.items():
            if number == "gone":
                continue
            found[path] = None if number is None else self._surviving(int(number), chance, keeps)
        # A name whose folder was lost is lost with it.
        return {path: data for path, data in found.items() if _reachable(path, found, self.base)}

    def _surviving(self, number: int, chance: random.Random, keeps: float) -> bytes:
        safe, now = self.safe_contents.get(number, b""), self.contents[number]
        if safe == now or chance.random() < keeps / 2:
            return now
        cut = chance.randrange(0, len(now) + 1, SECTOR) if len(now) >= SECTOR else 0
        return max(safe, now[:cut] + bytes(min(SECTOR, len(now) - cut)), key=len)


def _reachable(path: str, found: dict[str, bytes | None], base: str) -> bool:
    """True if every folder from `base` down to the path is there."""
    return all(
        found.get(str(folder), b"") is None for folder in Path(path).parents if str(folder).startswith(f"{base}/")
    )


def _path(path: str, folder: int | None) -> str:
    return str(Path(f"/proc/self/fd/{folder}").readlink() / path) if folder is not None else str(path)


def _inode(path: str, folder: int) -> int:
    return os.stat(path, dir_fd=folder, follow_symlinks=False).st_ino
