"""Has this process inherited a running object store client? Then it must not touch it.

The native client runs threads that do not survive fork(): a call in the child hangs, and a child that tries can bring
its parent down. So the child gets an error at once, and only if its parent had used a client before the fork.
"""

from __future__ import annotations

from indextables.errors import ForkUnsafe
from indextables.process import NativeThreads

__all__ = ["note_use"]


_CLIENT = NativeThreads("object store client in use", f"{__name__}._CLIENT")


def note_use() -> None:
    """Call before every use of the native client. Raises ForkUnsafe where the parent had used it before the fork."""
    if _CLIENT.inherited:
        message = (
            "an object store was used before this process was forked, and cannot be used in the child: "
            "start workers with the 'spawn' or 'forkserver' method, or open object stores after the fork only"
        )
        raise ForkUnsafe(message)
    _CLIENT.used = True
