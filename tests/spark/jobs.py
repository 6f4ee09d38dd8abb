"""Jobs that tests send to tasks: functions of a module, as every job is."""

from __future__ import annotations

from indextables.env import Env
from indextables.errors import LogGap, SplitCorrupt
from indextables.options import TIME_ZONE


def shout(env: Env, unit: bytes) -> bytes:
    """The unit in capitals; a unit `bad` is a typed error."""
    if unit == b"bad":
        raise SplitCorrupt("x.split is damaged", path="x.split", part="footer", rows=7)
    if unit == b"gap":
        raise LogGap("version 3 is missing", version=3, url=env.store.url)
    return unit.upper()


def told(env: Env, unit: bytes) -> bytes:
    """What the task knows of options."""
    return f"{env.store.url} {env.options.get('indexing.typemap.a', '')} {env.options[TIME_ZONE]}".encode()


def bug(env: Env, unit: bytes) -> bytes:
    """No typed error."""
    raise KeyError(unit)
