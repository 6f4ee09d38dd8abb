"""Object stores through obstore."""

from __future__ import annotations

from indextables.ambient import Ambient
from indextables.errors import NotSupported
from indextables.options import Options
from indextables.storage.store import CallPolicy, Store
from indextables.storage.url import Location


def open_object_store(location: Location, options: Options, *, policy: CallPolicy, ambient: Ambient) -> Store:
    """The store of an `s3`, `az` or `gs` location."""
    del options, policy, ambient
    raise NotSupported(f"{location.scheme}:// is not supported", scheme=location.scheme)
