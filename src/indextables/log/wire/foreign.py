"""Is a folder another system's table? Then no log of ours begins in it."""

from __future__ import annotations

from indextables.errors import InvalidArgument
from indextables.storage.store import Store

__all__ = ["check_not_foreign"]

_SIGNS = (("Delta", "_delta_log/", ""), ("Iceberg", "metadata/", ".metadata.json"))


def check_not_foreign(store: Store) -> None:
    """Raises InvalidArgument if the log of a Delta or an Iceberg table lies below the root of `store`."""
    for system, folder, ending in _SIGNS:
        found = next((meta.key for meta in store.list_from(folder) if meta.key.endswith(ending)), None)
        if found is not None:
            message = (
                f"{store.url} holds a table of {system} ({found}): nothing was written. Give another path, and copy "
                "its rows there: indextables.convert(source, target), or append what its own library reads"
            )
            raise InvalidArgument(message, url=store.url, system=system)
