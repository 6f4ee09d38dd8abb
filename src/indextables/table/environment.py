"""Where a table is and what was asked for: the one place where the embedded engine makes stores and clocks."""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
from collections.abc import Mapping

import msgspec

from indextables import options as opt
from indextables import process
from indextables.ambient import Ambient, Pool, SystemAmbient
from indextables.env import Env
from indextables.errors import InvalidArgument
from indextables.log.wire import Metadata
from indextables.options import COMMIT_USER, LOADING, PREFIX, SAVING, Options
from indextables.storage import open_store
from indextables.table.arguments import check_mapping

__all__ = ["open_env", "pool_sizes", "table_env"]

# Tables that ask for the same threads share them.
_AMBIENTS: dict[tuple[object, ...], SystemAmbient] = {}

_MEMORY = process.declare(
    process.Memory(
        name="threads",
        where=f"{__name__}._AMBIENTS",
        key="sizes and patience of the pools, as options say",
        bound="one per combination that was asked for",
        fork="the child starts threads of its own (`SystemAmbient` tells by its process id); the lock is new",
        ends="with the process",
    )
)

_CHECKPOINT_WRITERS = 2


def open_env(
    url: str | os.PathLike[str],
    options: Mapping[str, object] | None = None,
    *,
    session: Mapping[str, object] | None = None,
    ambient: Ambient | None = None,
) -> Env:
    """The environment of the table at `url`, with the threads that the options ask for. Nothing is read yet.

    Raises InvalidArgument, NotSupported.
    """
    if not isinstance(url, str | os.PathLike):
        raise InvalidArgument(f"a table is at a path or URL, not at {url!r}")
    resolved = Options(_of_a_table(check_mapping("options", options)), session=session)
    ambient = ambient or _ambient(resolved)
    store = open_store(url, resolved, ambient=ambient)
    return Env(store, ambient, resolved, resolved[COMMIT_USER] or process_user())


@functools.cache
def process_user() -> str:
    """The account that this process runs as, by name where it has one."""
    # The environment says who logged in, which need not be who works.
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name.encode(errors="replace").decode()
    with contextlib.suppress(Exception):
        return getpass.getuser().encode(errors="replace").decode()
    return f"uid {os.geteuid()}" if hasattr(os, "geteuid") else "unknown"


def _of_a_table(options: Mapping[str, object]) -> Mapping[str, object]:
    """Raises InvalidArgument for what belongs to one load or save: not heeded, it would mean other rows."""
    own = {option.key.lower(): option for option in (*LOADING, *SAVING)}
    for key in options:
        found = own.get(key.lower().removeprefix(PREFIX))
        if found is not None:
            message = (
                f"{found.key} is an option of one load or save of Spark, not of a table: it has no effect here. "
                f"Give it as {found.instead}. Nothing was read or written"
            )
            raise InvalidArgument(message, option=found.key)
    return options


def table_env(env: Env, metadata: Metadata) -> Env:
    """`env` with the table's properties below what was asked for. Raises InvalidArgument for one that is wrong."""
    return msgspec.structs.replace(env, options=env.over(metadata.configuration))


def _ambient(options: Options) -> SystemAmbient:
    sizes, patience = pool_sizes(options), _read_patience(options)
    key = (*sizes.items(), *patience.items())
    with _MEMORY.lock:
        found = _AMBIENTS.get(key)
        if found is None:
            found = _AMBIENTS[key] = SystemAmbient(sizes, patience)
        return found


def pool_sizes(options: Options) -> dict[Pool, int]:
    """The sizes of the pools for `SystemAmbient`, as the options say."""
    cores = os.cpu_count() or 1
    return {
        "listing": cores,
        "versions": options[opt.CHECKPOINT_PARALLELISM],
        "manifests": options[opt.STATE_READ_PARALLELISM],
        "checkpoint": _CHECKPOINT_WRITERS,
    }


def _read_patience(options: Options) -> dict[Pool, float]:
    """How long a parallel read waits for its next answer, by pool (`checkpoint.read.timeoutSeconds`)."""
    seconds = float(options[opt.CHECKPOINT_READ_TIMEOUT_SECONDS])
    return {"versions": seconds, "manifests": seconds}
