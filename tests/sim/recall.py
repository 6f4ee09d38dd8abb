"""Decoding, done once for all processes of a simulation.

Decoding is pure: the same bytes are the same content, whoever reads them, and what comes out is never changed (threads
of one process share it too). So processes that read one file may share the work, which is a third of what a schedule
costs; every store call, every cache of a `Log` and every decision stays each process's own. A seed that is played in
another process, without this, gives the same trace: `test_a_seed_replays_bit_by_bit` compares the two.
"""

from __future__ import annotations

import functools

import pytest

from indextables.log.checkpoint import json
from indextables.log.read import versions

_FILES = 1024


def share_decoding(patch: pytest.MonkeyPatch) -> None:
    """From here on until `patch` is undone, bytes that were decoded lately are not decoded again."""
    patch.setattr(versions, "decode_version", functools.lru_cache(_FILES)(versions.decode_version))
    patch.setattr(json, "_table", functools.lru_cache(_FILES)(json._table))
