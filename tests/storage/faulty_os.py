"""The system calls of a local store, one step at a time: recorded, and failing where a test says so."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

STEPS = ("open", "write", "fsync", "link", "rename", "mkdir", "stat", "unlink")


@dataclass
class SystemCalls:
    """What was called, as (name, what it was called on). Step `fail_at` raises `code`, before or after its effect."""

    fail_at: int | None = None
    code: int = 0
    after_effect: bool = False
    once: bool = True
    seen: list[tuple[str, str]] = field(default_factory=list)

    def wrap(self, name: str, real: Callable) -> Callable:
        def call(*args, **kwargs):
            step = len(self.seen)
            self.seen.append((name, _target(args, kwargs)))
            fails = self.fail_at is not None and (step == self.fail_at or (not self.once and step > self.fail_at))
            if fails and not self.after_effect:
                raise OSError(self.code, os.strerror(self.code))
            result = real(*args, **kwargs)
            if fails:
                if name == "open":
                    os.close(result)
                raise OSError(self.code, os.strerror(self.code))
            return result

        return call


@contextlib.contextmanager
def watched(calls: SystemCalls) -> Iterator[SystemCalls]:
    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, calls.wrap(name, getattr(os, name)))
        yield calls


def open_files() -> Counter[str]:
    """The files and folders that this process has open, and how often.

    Connections of servers that run in threads come and go: they are no matter of a store of local files.
    """
    found: Counter[str] = Counter()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[str(descriptor.readlink())] += 1
    return Counter({target: count for target, count in found.items() if target.startswith("/")})


def _target(args: tuple, kwargs: dict) -> str:
    """The path that a call is about, with descriptors resolved."""
    what = args[1] if "dst_dir_fd" in kwargs else args[0]
    if isinstance(what, int):
        return str(Path(f"/proc/self/fd/{what}").readlink())
    folder = kwargs.get("dst_dir_fd", kwargs.get("dir_fd"))
    base = f"{Path(f'/proc/self/fd/{folder}').readlink()}/" if folder is not None else ""
    return base + os.fsdecode(what)
