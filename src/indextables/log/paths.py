"""Logged paths and the keys they name: one normaliser for everything that touches a data file."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["canonical_path", "canonical_paths", "decode_path", "encode_path", "key_of"]


def encode_path(key: str) -> str:
    """The logged form of a key relative to the table's root."""
    raise NotImplementedError


def decode_path(path: str) -> str:
    """The key of a relative logged path, unchecked."""
    raise NotImplementedError


def key_of(path: str, root_url: str) -> str:
    """The key, relative to the root, of a logged path. Raises PathEscape."""
    raise NotImplementedError


def canonical_path(path: str, root_url: str) -> str:
    """The one logged form that all spellings of a path share. Raises PathEscape."""
    raise NotImplementedError


def canonical_paths(paths: pa.Array | pa.ChunkedArray, root_url: str) -> pa.Array | pa.ChunkedArray:
    """`canonical_path` of every element, at once."""
    raise NotImplementedError
