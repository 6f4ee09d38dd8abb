"""Is this listing in order? Stores differ, so that we look ourselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from indextables.errors import StoreError
from indextables.storage.store import ObjectMeta

__all__ = ["in_key_order"]


def in_key_order(pages: Iterable[list[ObjectMeta]]) -> Iterator[ObjectMeta]:
    """The objects of all pages in order of their keys (by code point, which is the order of UTF-8 bytes), each once.

    Pages are taken one at a time as long as they come in order. At the first that does not, the rest is read and
    sorted. Raises StoreError if a key turns up that belongs before one already given.
    """
    last = ""
    stream = iter(pages)
    for page in stream:
        keys = [meta.key for meta in page]
        if all(before < key for before, key in zip([last, *keys], keys, strict=False)):
            yield from page
            last = keys[-1] if keys else last
            continue
        rest = {meta.key: meta for more in (page, *stream) for meta in more}
        for key in sorted(rest):
            if key < last:
                message = f"the listing is out of order at {key}: it cannot be trusted"
                raise StoreError(message, key=key)
            if key > last:
                yield rest[key]
        return
