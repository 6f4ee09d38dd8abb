"""A network that loses the answer to a commit."""

from __future__ import annotations

import re

from indextables.errors import StoreUnavailable
from indextables.storage.store import PutAnswer


class Unanswered:
    """A store that loses the answer to the first commit of `first` or a later version.

    `lands` says whether the commit is there; with `stays_away` nobody is told, however often they read it.
    """

    def __init__(self, inner, *, lands: bool, stays_away: bool, first: int = 0) -> None:
        self._inner = inner
        self._lands = lands
        self._stays_away = stays_away
        self._first = first
        self._lost: str | None = None

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put_if_absent(self, key, data, **more):
        slot = re.fullmatch(r"_transaction_log/([0-9]{20})\.json", key)
        if slot is None or int(slot[1]) < self._first or self._lost is not None:
            return self._inner.put_if_absent(key, data, **more)
        self._lost = key
        if self._lands:
            self._inner.put_if_absent(key, data, **more)
        return PutAnswer.UNKNOWN

    def get(self, key, **more):
        if self._stays_away and key == self._lost:
            raise StoreUnavailable(f"no answer to the read of {key}", key=key)
        return self._inner.get(key, **more)
