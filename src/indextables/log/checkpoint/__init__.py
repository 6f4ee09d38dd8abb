"""A checkpoint is the whole table at one version: this room finds, reads and writes it in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.log.checkpoint.belonging import (
        contradicts,
        keep_own,
        left_over_error,
        own_states,
        table_of_version,
    )
    from indextables.log.checkpoint.columns import totals_of
    from indextables.log.checkpoint.find import find_states, list_checkpoints, newest_at
    from indextables.log.checkpoint.glancing import glance
    from indextables.log.checkpoint.parting import agrees, has_parted
    from indextables.log.checkpoint.pointer import Pointer, names_something, read_pointer, replace_pointer
    from indextables.log.checkpoint.read import (
        Opened,
        gather_state,
        inspect_state,
        open_state,
        read_pruned,
        read_state,
    )
    from indextables.log.checkpoint.write import point_to, pointer_of, write_checkpoint

__all__ = [
    "Opened",
    "Pointer",
    "agrees",
    "contradicts",
    "find_states",
    "gather_state",
    "glance",
    "has_parted",
    "inspect_state",
    "keep_own",
    "left_over_error",
    "list_checkpoints",
    "names_something",
    "newest_at",
    "open_state",
    "own_states",
    "point_to",
    "pointer_of",
    "read_pointer",
    "read_pruned",
    "read_state",
    "replace_pointer",
    "table_of_version",
    "totals_of",
    "write_checkpoint",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "belonging": ("contradicts", "keep_own", "left_over_error", "own_states", "table_of_version"),
            "columns": ("totals_of",),
            "find": ("find_states", "list_checkpoints", "newest_at"),
            "glancing": ("glance",),
            "parting": ("agrees", "has_parted"),
            "pointer": ("Pointer", "names_something", "read_pointer", "replace_pointer"),
            "read": ("Opened", "gather_state", "inspect_state", "open_state", "read_pruned", "read_state"),
            "write": ("point_to", "pointer_of", "write_checkpoint"),
        },
    )
