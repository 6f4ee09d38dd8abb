"""Where a table is and what was asked for: the one place where the embedded engine makes stores and clocks."""

from __future__ import annotations

import os
from collections.abc import Mapping

from indextables.ambient import Ambient, SystemAmbient
from indextables.log.actions import Metadata
from indextables.log.env import LogEnv
from indextables.options import Options
from indextables.storage import open_store

__all__ = ["open_env", "with_table"]

_AMBIENT = SystemAmbient()


def open_env(
    url: str | os.PathLike[str],
    options: Mapping[str, object] | None = None,
    *,
    session: Mapping[str, object] | None = None,
    ambient: Ambient | None = None,
) -> LogEnv:
    """The environment of the table at `url`. Nothing is read yet. Raises InvalidArgument, NotSupported."""
    resolved = Options(options, session=session)
    ambient = ambient or _AMBIENT
    return LogEnv(store=open_store(url, resolved, ambient=ambient), ambient=ambient, options=resolved)


def with_table(env: LogEnv, metadata: Metadata) -> Options:
    """The options of `env` with the table's configuration below them."""
    return env.options.over(metadata.configuration)
