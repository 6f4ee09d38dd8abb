"""`Sent` is a handle that was pickled: it is opened where it arrives, or else by its first use, which tells why not."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from indextables.errors import IndexTablesError

__all__ = ["Sent", "arrived"]

_SENT = "_sent"


class Sent:
    """What `arrived` makes of a handle. Each use of one that could not be opened tries again."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if _SENT not in self.__dict__ or name.startswith("__"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._arrive()
            return getattr(self, name)

    def _told(self) -> tuple[Any, ...] | None:
        """What was pickled, of a handle that is not open yet."""
        return self.__dict__.get(_SENT)

    def _open_sent(self, *told: Any) -> None:
        """Become the handle that was pickled. Raises as `indextables.open`."""
        raise NotImplementedError

    def _arrive(self) -> None:
        told = self.__dict__.pop(_SENT)
        try:
            self._open_sent(*told)
        except BaseException:
            self.__dict__.clear()
            self.__dict__[_SENT] = told
            raise


S = TypeVar("S", bound=Sent)


def arrived(kind: type[S], *told: Any) -> S:
    """The handle that was pickled, open if it can be opened.

    This never fails: a worker of `multiprocessing` that cannot read its task dies, and who waits for the answer waits
    for ever.
    """
    handle = kind.__new__(kind)
    handle.__dict__[_SENT] = told
    with contextlib.suppress(IndexTablesError):
        handle._arrive()  # noqa: SLF001 - its own
    return handle
