"""Loads the deletion vectors of Delta tables: inline, in a file beside the data, or by a path inside the table."""

from __future__ import annotations

from indextables.log.wire import DeletionVector, key_of
from indextables.split.file import dv
from indextables.storage.store import Store

__all__ = ["Vector", "load_vector"]

Vector = DeletionVector
_BY_PATH = "p"


def load_vector(store: Store, vector: Vector, key: str, num_rows: int) -> bytes:
    """The payload of the vector of the file `key`, checked against all that is known of it.

    Raises DvCorrupt, PathEscape for a vector outside the table, StoreError.
    """
    place = key_of(vector.pathOrInlineDv, store.url) if vector.storageType == _BY_PATH else None
    return dv.load(store, vector, key, num_rows, place=place)
