"""An order-independent hash of a set of files, which adds and removes update without looking at the others."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["EMPTY", "set_hash", "combine", "subtract"]

EMPTY = "0" * 16


def set_hash(files: pa.Table) -> str:
    """16 hexadecimal digits over (path, size, vector) of every row; `adds`, `removes` and file sets alike."""
    raise NotImplementedError


def combine(left: str, right: str) -> str:
    """The hash of the union of two disjoint sets."""
    raise NotImplementedError


def subtract(left: str, right: str) -> str:
    """The hash of `left` without its subset `right`."""
    raise NotImplementedError
