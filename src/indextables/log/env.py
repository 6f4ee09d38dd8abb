"""What every function of the log that does I/O is given."""

from __future__ import annotations

import msgspec

from indextables.ambient import Ambient
from indextables.options import Options
from indextables.storage.store import Store

__all__ = ["LogEnv"]


class LogEnv(msgspec.Struct, frozen=True):
    """Where the table is, what time it is, and what was asked for."""

    store: Store
    ambient: Ambient
    options: Options
