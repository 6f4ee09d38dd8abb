"""One doc mapping per table instead of one per file: the registry in the table's configuration."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from indextables.errors import InvalidArgument

__all__ = ["REGISTRY_PREFIX", "canonical_json", "schema_ref", "with_mapping"]

REGISTRY_PREFIX = "docMappingSchema."


def canonical_json(text: str) -> str:
    """The mapping with keys sorted and arrays of named objects sorted by name. Raises InvalidArgument."""
    try:
        value = json.loads(text)
        return json.dumps(_canonical(value), separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"a doc mapping is not JSON: {error}") from None


def schema_ref(text: str) -> str:
    """The 16 characters by which a mapping is referred to. Raises InvalidArgument."""
    digest = hashlib.sha256(canonical_json(text).encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:16]


def with_mapping(configuration: dict[str, str], text: str) -> tuple[dict[str, str], str]:
    """The configuration that holds the mapping, and its ref; the same object if it holds it already."""
    ref = schema_ref(text)
    key = REGISTRY_PREFIX + ref
    if key in configuration:
        return configuration, ref
    return {**configuration, key: canonical_json(text)}, ref


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [_canonical(item) for item in value]
        if items and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
            return sorted(items, key=lambda item: str(item["name"]))
        return items
    return value
