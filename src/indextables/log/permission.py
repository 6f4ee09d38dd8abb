"""May this library write here? Asked of the newest version, before anything of a table is written or deleted.

A commit asks by itself, of the version that it goes on top of. All that writes or deletes outside of commits asks here:
checkpoints, cleanup, the pointer, intents and leases, a new log beside an old one.
"""

from __future__ import annotations

from indextables.errors import LogError, ProtocolUnsupported, TableNotFound
from indextables.log.env import LogEnv
from indextables.log.protocol import check_understood, check_writable
from indextables.log.snapshot import Log

__all__ = ["ask", "ask_broken"]


def ask(env: LogEnv) -> str:
    """The id of the table. Raises ProtocolUnsupported, NotSupported for another system's, and as `Log.metadata_at`."""
    _, protocol, metadata = Log(env).metadata_at()
    check_writable(protocol, env.store.url)
    return metadata.id


def ask_broken(env: LogEnv) -> None:
    """Raises ProtocolUnsupported if the log says that it is not understood; one that cannot be read forbids nothing."""
    try:
        _, protocol, _ = Log(env).metadata_at()
    except ProtocolUnsupported:
        raise
    except (LogError, TableNotFound):
        return
    check_understood(protocol, env.store.url)
