"""Where a table is and what was asked for: the one place where the embedded engine makes stores and clocks."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

import msgspec

from indextables.ambient import Ambient, SystemAmbient
from indextables.errors import InvalidArgument
from indextables.log.actions import Metadata
from indextables.log.env import LogEnv
from indextables.log.state.pools import pool_sizes, read_patience
from indextables.options import Options
from indextables.storage import open_store
from indextables.table.arguments import check_mapping

__all__ = ["open_env", "table_env"]

# Tables that ask for the same threads share them.
_AMBIENTS: dict[tuple[object, ...], SystemAmbient] = {}
_LOCK = threading.Lock()


def open_env(
    url: str | os.PathLike[str],
    options: Mapping[str, object] | None = None,
    *,
    session: Mapping[str, object] | None = None,
    ambient: Ambient | None = None,
) -> LogEnv:
    """The environment of the table at `url`, with the threads that the options ask for. Nothing is read yet.

    Raises InvalidArgument, NotSupported.
    """
    if not isinstance(url, str | os.PathLike):
        raise InvalidArgument(f"a table is at a path or URL, not at {url!r}")
    resolved = Options(check_mapping("options", options), session=session)
    ambient = ambient or _ambient(resolved)
    return LogEnv(store=open_store(url, resolved, ambient=ambient), ambient=ambient, options=resolved)


def table_env(env: LogEnv, metadata: Metadata) -> LogEnv:
    """`env` with the table's properties below what was asked for. Raises InvalidArgument for one that is wrong."""
    return msgspec.structs.replace(env, options=env.over(metadata.configuration))


def _ambient(options: Options) -> SystemAmbient:
    sizes, patience = pool_sizes(options), read_patience(options)
    key = (*sizes.items(), *patience.items())
    with _LOCK:
        found = _AMBIENTS.get(key)
        if found is None:
            found = _AMBIENTS[key] = SystemAmbient(sizes, patience)
        return found
