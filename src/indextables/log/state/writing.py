"""From a `TableState` to a checkpoint: written, read back as far as it must be, and only then pointed to."""

from __future__ import annotations

from indextables import options as opt
from indextables.errors import CheckpointInvalid, CheckpointWriteFailed, StoreError
from indextables.log.env import LogEnv
from indextables.log.state.base import StateRef, TableState
from indextables.log.state.columns import totals_of
from indextables.log.state.jsonform import write_json_state
from indextables.log.state.pointer import pointer_to, write_pointer
from indextables.storage.store import PutAnswer

__all__ = ["write_checkpoint"]


def write_checkpoint(env: LogEnv, state: TableState, *, previous: StateRef | None = None) -> StateRef:
    """Make `state` durable in the format that `state.format` asks for, then move the pointer.

    Raises CheckpointInvalid (nothing published) or CheckpointWriteFailed. Racing writers of one version all succeed.
    """
    if state.pruned:
        raise CheckpointInvalid("a pruned state is not the whole table", version=state.version, reason="pruned")
    totals = totals_of(state.files)
    window = env.options[opt.COMMIT_TOKEN_WINDOW]
    kept = state if state.tokens is None else _with_tokens(state, window)
    puts = write_json_state(env, kept, totals)
    try:
        for key, data in puts[:-1]:
            env.store.put(key, data)
        last_key, last = puts[-1]
        answer = env.store.put_if_absent(last_key, last)
        if answer is PutAnswer.UNKNOWN and not env.store.exists(last_key):
            raise CheckpointWriteFailed(f"{last_key} could not be written", version=state.version)
        size = sum(len(data) for _, data in puts)
        keys = (last_key, *(key for key, _ in puts[:-1]))
        ref = StateRef(version=state.version, format="json", keys=keys, modified_ms=env.ambient.now_ms(), size=size)
        facts = {
            "size": len(state.files),
            "numFiles": len(state.files),
            "sizeInBytes": size,
            "createdTime": env.ambient.now_ms(),
            "protocolVersion": state.protocol.minReaderVersion,
            "checksum": totals.set_hash,
        }
        write_pointer(env, pointer_to(ref, **facts))
    except StoreError as error:
        message = f"the checkpoint of version {state.version} could not be written: {error}"
        raise CheckpointWriteFailed(message, version=state.version) from error
    return ref


def _with_tokens(state: TableState, window: int) -> TableState:
    import msgspec

    assert state.tokens is not None  # noqa: S101
    return msgspec.structs.replace(state, tokens=state.tokens.last(window))
