"""Says who writes, in every `commitInfo` of ours."""

from __future__ import annotations

import functools

__all__ = ["engine_info"]


@functools.cache
def engine_info() -> str:
    """This library and its version."""
    # Imported late: it costs ten milliseconds that a reader need not pay.
    from importlib.metadata import version

    return f"indextables/{version('indextables')}"
