"""The fold from version files to the live file set."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.log.codec import VersionContent
from indextables.log.state.base import TableState

__all__ = ["replay"]


def replay(base: TableState | None, versions: Sequence[VersionContent], *, token_window: int = 8192) -> TableState:
    """The table after `versions`, which follow `base` (or start at 0) without a gap.

    Raises LogGap where they do not, MetadataMissing if no metaData is found.
    """
    raise NotImplementedError
