"""Checkpoints: the whole table at one version, in every format, and what keeps a log short.

The names below are loaded when they are first used, because `base` is imported from everywhere in the log.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from indextables.log.state.base import PrunedState, StateFormat, StateRef, TableState, TokenWindow

if TYPE_CHECKING:
    from indextables.log.state.cleanup import CleanupReport, clean_up
    from indextables.log.state.describe import StateDescription, describe_state
    from indextables.log.state.find import find_states
    from indextables.log.state.reading import read_pruned, read_state, read_tokens
    from indextables.log.state.rebuild import SplitFacts, rebuild_log
    from indextables.log.state.repair import RepairReport, recreate_pointer, repair_log
    from indextables.log.state.schedule import checkpoint, maybe_checkpoint
    from indextables.log.state.writing import write_checkpoint

__all__ = [
    "CleanupReport",
    "PrunedState",
    "RepairReport",
    "SplitFacts",
    "StateDescription",
    "StateFormat",
    "StateRef",
    "TableState",
    "TokenWindow",
    "checkpoint",
    "clean_up",
    "describe_state",
    "find_states",
    "maybe_checkpoint",
    "read_pruned",
    "read_state",
    "read_tokens",
    "rebuild_log",
    "recreate_pointer",
    "repair_log",
    "write_checkpoint",
]

_HOMES = {
    "CleanupReport": "cleanup",
    "checkpoint": "schedule",
    "clean_up": "cleanup",
    "describe_state": "describe",
    "find_states": "find",
    "maybe_checkpoint": "schedule",
    "read_pruned": "reading",
    "read_state": "reading",
    "rebuild_log": "rebuild",
    "recreate_pointer": "repair",
    "repair_log": "repair",
    "StateDescription": "describe",
    "RepairReport": "repair",
    "SplitFacts": "rebuild",
    "read_tokens": "reading",
    "write_checkpoint": "writing",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
