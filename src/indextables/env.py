"""`Env` is what functions that do I/O are given: store, ambient and options."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from indextables.ambient import Ambient
from indextables.options import Options
from indextables.storage.store import Store

__all__ = ["Env"]


class Env(msgspec.Struct, frozen=True):
    """Where the table is, what time it is, and what was asked for."""

    store: Store
    ambient: Ambient
    options: Options
    user: str | None = None
    """Who commits say did it."""
    table_id: str | None = None
    """The table that is meant: the log of another one at this place is neither read nor written. None: any."""

    def over(self, configuration: Mapping[str, str]) -> Options:
        """The options with the table's properties below what was asked for; see `Options.over`."""
        return self.options.over(configuration, self.store.url)
