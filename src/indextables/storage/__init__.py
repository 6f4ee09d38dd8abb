"""Where are the bytes? One small protocol over local files and object stores; the only user of obstore."""

from __future__ import annotations

import os

from indextables import options as opt
from indextables.ambient import Ambient, SystemAmbient
from indextables.options import Options
from indextables.storage.ordered import put_in_order
from indextables.storage.store import CallPolicy, ObjectMeta, PutAnswer, Store, StoreFacts
from indextables.storage.url import Location, check_key, parse_location

__all__ = [
    "CallPolicy",
    "Location",
    "ObjectMeta",
    "PutAnswer",
    "Store",
    "StoreFacts",
    "check_key",
    "open_store",
    "parse_location",
    "put_in_order",
]


def open_store(url: str | os.PathLike[str], options: Options | None = None, *, ambient: Ambient | None = None) -> Store:
    """The store whose root is `url`: a path or any URL that `storage/url.py` names.

    Nothing is read or written yet. Raises InvalidArgument for a place or an option that is wrong, NotSupported for a
    scheme that is not offered.
    """
    location = parse_location(url)
    options = options if options is not None else Options()
    ambient = ambient or SystemAmbient()
    policy = CallPolicy(
        deadline_s=float(options[opt.STORAGE_TIMEOUT_SECONDS]), attempts=options[opt.STORAGE_RETRIES] + 1
    )
    if location.scheme == "file":
        from indextables.storage.local import LocalStore

        return LocalStore(location, fsync=options[opt.STORAGE_FSYNC], policy=policy, ambient=ambient)
    if location.scheme == "memory":
        from indextables.storage.memory import MemoryStore

        return MemoryStore(location, ambient=ambient)
    from indextables.storage.object import open_object_store

    return open_object_store(location, options, policy=policy, ambient=ambient)
