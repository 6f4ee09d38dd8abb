"""Is the clock of this machine still the one that the store's was compared with?

The probe before the first write compares the two. From then on the wall clock must go as the monotonic clock does: that
is looked at before each put of a version and each batch of deletes, without asking the store. The time that the store
gives to a version file that was just written is compared as well, where it is seen anyway. Once something is off, a new
probe decides: until one agrees, nothing is committed and nothing is deleted.
"""

from __future__ import annotations

import weakref

from indextables import options as opt
from indextables import process
from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.errors import ClockSkew
from indextables.storage import probe

__all__ = ["allowed_ms", "check", "known_skew_ms", "saw", "skew_ms"]


class _Watch:
    """What was found at the last comparison; `is_doubted` since the store told a time that does not fit."""

    def __init__(self, env: Env) -> None:
        self.skew_ms = env.store.probe().skew_ms
        self.wall_ms = env.ambient.now_ms()
        self.monotonic_s = env.ambient.monotonic()
        self.is_doubted = False

    def is_off(self, env: Env) -> bool:
        """True if the clocks are too far apart, or may be by now."""
        passed_ms = (env.ambient.monotonic() - self.monotonic_s) * 1000
        stepped_ms = env.ambient.now_ms() - self.wall_ms - passed_ms
        allowed = allowed_ms(env)
        return self.is_doubted or abs(self.skew_ms) > allowed or abs(self.skew_ms - stepped_ms) > allowed


# By clock and store. All system ambients of a process read the same clocks.
_WATCHES: weakref.WeakKeyDictionary[object, dict[str, _Watch]] = weakref.WeakKeyDictionary()

process.declare(
    process.Memory(
        name="compared clocks",
        where=f"{__name__}._WATCHES",
        key="clock, URL of the table",
        bound="one per table that was written to",
        fork="the child keeps them: it has the same clock",
        ends="when the clock of this machine was set, or a file's time does not fit",
        clear=_WATCHES.clear,
    )
)


def skew_ms(env: Env) -> int:
    """The store's clock minus ours; compared anew where ours was set since the last time. Raises StoreUnsafe."""
    watches = _of(env)
    watch = watches.get(env.store.url)
    if watch is not None and watch.is_off(env):
        # A clock that was set makes every comparison of this process worthless.
        probe.forget()
        watch = None
    if watch is None or watch.skew_ms != env.store.probe().skew_ms:
        watch = watches[env.store.url] = _Watch(env)
    return watch.skew_ms


def known_skew_ms(env: Env) -> int | None:
    """The store's clock minus ours, for who only looks: a comparison writes, and none is made here.

    None where this process has not compared them, or where ours may have been set since.
    """
    watch = _of(env).get(env.store.url)
    return None if watch is None or watch.is_off(env) else watch.skew_ms


def check(env: Env) -> int:
    """As `skew_ms`. Raises ClockSkew if it is more than may be: no commit and no delete then."""
    skew = skew_ms(env)
    allowed = allowed_ms(env)
    if abs(skew) > allowed:
        message = (
            f"the clock of this machine is {-skew} ms off that of {env.store.url}, more than the {allowed} ms that "
            f"{opt.COMMIT_MAX_CLOCK_SKEW_MS.key} allows: set the clock (NTP) and try again"
        )
        raise ClockSkew(message, skew_ms=skew, url=env.store.url)
    return skew


def saw(env: Env, modified_ms: int | None) -> None:
    """The store gave this time to a file that was written just now: where it does not fit, the next write compares."""
    watch = _of(env).get(env.store.url)
    if watch is None or modified_ms is None:
        return
    if abs(modified_ms - env.ambient.now_ms()) > allowed_ms(env):
        watch.is_doubted = True


def _of(env: Env) -> dict[str, _Watch]:
    clock: object = SystemAmbient if type(env.ambient) is SystemAmbient else env.ambient
    return _WATCHES.setdefault(clock, {})


def allowed_ms(env: Env) -> int:
    """How far off a clock may be; the default where the table's property cannot be read.

    Verbs that delete ask the option itself, which refuses then: a commit takes nothing away.
    """
    allowed = env.options.if_readable(opt.COMMIT_MAX_CLOCK_SKEW_MS)
    return opt.COMMIT_MAX_CLOCK_SKEW_MS.default if allowed is None else allowed
