"""What mypy must refuse. Never run: if it were allowed, its `type: ignore` would be unused, which is an error."""

from __future__ import annotations

from indextables.env import Env
from indextables.log.checkpoint.avro.read import Where
from indextables.log.checkpoint.read import read_pruned
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.read.cache import KeptState, LogCache
from indextables.log.read.folding import replay
from indextables.log.read.load import fold
from indextables.log.read.log import Snapshot
from indextables.log.wire.state import PrunedState, StateRef, TableState


def some_files_are_not_the_table(env: Env, cache: LogCache, some: PrunedState, ref: StateRef, where: Where) -> None:
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
        lambda *_, **__: some,
        1,
    )
