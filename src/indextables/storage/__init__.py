"""Where are the bytes? One small protocol over local files and object stores; the only user of obstore."""

from __future__ import annotations

from indextables.storage.store import CallPolicy, ObjectMeta, PutAnswer, Store, StoreFacts

__all__ = ["CallPolicy", "ObjectMeta", "PutAnswer", "Store", "StoreFacts"]
