"""How many threads read and write at a time."""

from __future__ import annotations

import os

from indextables import options as opt
from indextables.ambient import Pool
from indextables.options import Options

__all__ = ["pool_sizes"]

_CHECKPOINT_WRITERS = 2


def pool_sizes(options: Options) -> dict[Pool, int]:
    """The sizes of the pools for `SystemAmbient`, as the options say."""
    cores = os.cpu_count() or 1
    return {
        "listing": cores,
        "versions": options[opt.CHECKPOINT_PARALLELISM],
        "manifests": options[opt.STATE_READ_PARALLELISM],
        "checkpoint": _CHECKPOINT_WRITERS,
    }
