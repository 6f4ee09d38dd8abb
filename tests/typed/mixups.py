"""What mypy must refuse. Never run: if it were allowed, its `type: ignore` would be unused, which is an error."""

from __future__ import annotations

from indextables.log.cache import KeptState, LogCache
from indextables.log.env import LogEnv
from indextables.log.loading import fold
from indextables.log.replay import replay
from indextables.log.snapshot import Snapshot
from indextables.log.state import PrunedState, StateRef, TableState, read_pruned, write_checkpoint
from indextables.log.state.avroform import Where


def some_files_are_not_the_table(env: LogEnv, cache: LogCache, some: PrunedState, ref: StateRef, where: Where) -> None:
    """A part of the files is neither cached, nor checkpointed, nor folded into a whole table."""
    write_checkpoint(env, some)  # type: ignore[arg-type]
    replay(some, [])  # type: ignore[arg-type]
    fold(env, some, [])  # type: ignore[arg-type]
    KeptState(some)  # type: ignore[arg-type]
    cache.put("files", ("url",), some, 1.0)  # type: ignore[call-overload]
    whole: TableState = read_pruned(env, ref, where)  # type: ignore[assignment]
    Snapshot(
        0,
        whole.protocol,
        whole.metadata,
        lambda: some,  # type: ignore[arg-type, return-value]
        lambda _: some,
        1,
    )
