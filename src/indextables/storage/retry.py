"""When is a failed call tried again? One loop for every store: attempts, deadline, full jitter."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from indextables.ambient import Ambient
from indextables.errors import StoreError, StoreUnavailable
from indextables.storage.store import CallPolicy

__all__ = ["retry", "wait_before"]

T = TypeVar("T")

_LOGGER = logging.getLogger("indextables.storage")


def retry(call: Callable[[float], T], policy: CallPolicy, ambient: Ambient) -> T:
    """The first result of `call`, which is given the seconds left and raises StoreUnavailable to be tried again.

    Every other exception ends the loop at once. When the attempts or the deadline are used up, the last
    StoreUnavailable is raised; StoreError before an attempt for which this thread has no time any more.
    """
    deadline = ambient.monotonic() + policy.deadline_s
    attempt = 0
    while True:
        attempt += 1
        if ambient.gives_up():
            message = "this process ends: what nobody asked it for is left to the next one that writes"
            raise StoreError(message, given_up=True)
        try:
            return call(max(deadline - ambient.monotonic(), 0.001))
        except StoreUnavailable as error:
            wait = wait_before(attempt, policy, ambient.random())
            if attempt >= policy.attempts or ambient.monotonic() + wait >= deadline:
                raise
            _LOGGER.debug("attempt %d of %d failed, the next is in %.2f s: %s", attempt, policy.attempts, wait, error)
        ambient.sleep(wait)


def wait_before(attempt: int, policy: CallPolicy, chance: float) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1): full jitter, `chance` in [0, 1)."""
    # The exponent is capped so that a policy of thousands of attempts cannot overflow a float.
    return chance * min(policy.max_delay_s, policy.base_delay_s * 2.0 ** min(attempt - 1, 60))
