"""How many threads read and write at a time."""

from __future__ import annotations

import os

from indextables import options as opt
from indextables.ambient import Pool
from indextables.options import Options

__all__ = ["pool_sizes", "read_patience"]

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


def read_patience(options: Options) -> dict[Pool, float]:
    """How long a parallel read waits for its next answer, by pool (`checkpoint.read.timeoutSeconds`)."""
    seconds = float(options[opt.CHECKPOINT_READ_TIMEOUT_SECONDS])
    return {"versions": seconds, "manifests": seconds}
