"""Turns what Tantivy raises, refusals and panics, into errors of splits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from indextables.errors import IndexUnavailable, SplitError

__all__ = ["native_read", "native_write"]


@contextlib.contextmanager
def native_read(path: str) -> Iterator[None]:
    """What Tantivy refuses or dies of is IndexUnavailable; the rows of the splits are there without it."""

    def refused(reason: str) -> SplitError:
        return IndexUnavailable(f"{path}: Tantivy refuses: {reason}", path=path, reason=reason[:500])

    def panicked(reason: str) -> SplitError:
        message = f"{path}: Tantivy gave up on the index ({reason[:200]}); reindex rebuilds it from the rows"
        return IndexUnavailable(message, path=path, reason="panic")

    with _native_call(refused, panicked):
        yield


@contextlib.contextmanager
def native_write(what: str) -> Iterator[None]:
    """What Tantivy refuses or dies of is SplitError, which begins with `what`."""

    def refused(reason: str) -> SplitError:
        return SplitError(f"{what}: {reason}", reason=reason)

    def panicked(reason: str) -> SplitError:
        return SplitError(f"{what}: the library panicked: {reason}", reason=reason)

    with _native_call(refused, panicked):
        yield


@contextlib.contextmanager
def _native_call(refused: Callable[[str], SplitError], panicked: Callable[[str], SplitError]) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise refused(str(error)) from error
    except BaseException as error:
        # pyo3 raises panics as a class that cannot be imported; everything else is not ours to stop.
        if type(error).__name__ != "PanicException":
            raise
        raise panicked(str(error)) from error
