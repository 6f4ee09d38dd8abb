"""May this library write here? Asked of the newest version, before anything of a table is written or deleted.

A commit asks by itself, of the version that it goes on top of. All that writes or deletes outside of commits asks here:
checkpoints, cleanup, the pointer, intents and leases, a new log beside an old one.
"""

from __future__ import annotations

from indextables.env import Env
from indextables.errors import LogError, ProtocolUnsupported, TableNotFound
from indextables.log.read import Log
from indextables.log.wire import check_understood, check_writable

__all__ = ["ask", "ask_broken"]


def ask(env: Env) -> str:
    """The id of the table. Raises ProtocolUnsupported, NotSupported for another system's, and as `Log.metadata_at`."""
    _, protocol, metadata = Log(env).metadata_at()
    check_writable(protocol, env.store.url)
    return metadata.id


def ask_broken(env: Env) -> None:
    """Raises ProtocolUnsupported if the log says that it is not understood; one that cannot be read forbids nothing."""
    try:
        _, protocol, _ = Log(env).metadata_at()
    except ProtocolUnsupported:
        raise
    except (LogError, TableNotFound):
        return
    check_understood(protocol, env.store.url)
