"""Makes a checkpoint exist by one conditional put, and checks before and after it."""

from __future__ import annotations

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointInvalid, CheckpointWriteFailed, ObjectNotFound
from indextables.storage.store import PutAnswer

__all__ = ["put_once", "require"]


def put_once(env: Env, key: str, data: bytes) -> bytes:
    """Create `key`, or find that it exists; the bytes that are there then. Raises CheckpointWriteFailed, StoreError.

    An unclear answer is resolved by reading the key back, and tried again with growing waits (`state.retry.*`).
    """
    delay_ms = env.options[opt.STATE_RETRY_BASE_DELAY_MS]
    for attempt in range(env.options[opt.STATE_RETRY_MAX_ATTEMPTS]):
        if attempt:
            env.ambient.sleep(env.ambient.random() * delay_ms / 1000)
            delay_ms = min(delay_ms * 2, env.options[opt.STATE_RETRY_MAX_DELAY_MS])
        if env.store.put_if_absent(key, data) is PutAnswer.CREATED:
            return data
        try:
            return env.store.get(key)
        except ObjectNotFound:
            continue
    message = f"{key} could not be written in {env.options[opt.STATE_RETRY_MAX_ATTEMPTS]} attempts"
    raise CheckpointWriteFailed(message, path=key)


def require(holds: bool, key: str, version: int, reason: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Raises CheckpointInvalid unless it holds."""
    if not holds:
        message = f"the checkpoint of version {version} is not published: {key}: {reason}"
        raise CheckpointInvalid(message, version=version, path=key, reason=reason)
