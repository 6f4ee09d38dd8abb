"""Partition values: typed in rows, text in the log. Both directions, and nothing about them anywhere else.

Null is null in the log, never a text, and the empty text is a value of its own. Dates are `2024-01-31`, instants ISO
8601 in UTC (`2024-01-31T23:59:59.5Z`), times without a zone the same without `Z`.
"""

from __future__ import annotations

import re
import urllib.parse

import pyarrow as pa

from indextables.lazy import pc
from indextables.query.convert import cast_or_null, is_timestamp

__all__ = ["HIVE_NULL", "can_partition", "partition_from_text", "partition_to_text"]

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def can_partition(data_type: pa.DataType) -> bool:
    """True if values of this type have one text that every reader understands."""
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_date(data_type)
        or pa.types.is_timestamp(data_type)
    )


def partition_to_text(values: pa.Array) -> pa.Array:
    """The texts of typed values; null stays null. -0.0 is written as 0.0, its equal."""
    data_type = values.type
    if is_timestamp(data_type, zoned=True):
        local = pc.local_timestamp(pc.cast(values, pa.timestamp(data_type.unit, "UTC")))
        return pc.binary_join_element_wise(_iso(local), "Z", "")
    if pa.types.is_timestamp(data_type):
        return _iso(values)
    if pa.types.is_floating(data_type):
        zero = pa.scalar(0.0, data_type)
        values = pc.if_else(pc.equal(values, zero), zero, values)
    return pc.cast(values, pa.string())


def partition_from_text(texts: pa.Array, data_type: pa.DataType, *, escaped: bool = False) -> tuple[pa.Array, pa.Array]:
    """The typed values, and for each whether it is known; a text that is no such value is null and not known.

    `__HIVE_DEFAULT_PARTITION__` reads as null. With `escaped` the texts are as in folder names (`a%20b`).
    """
    texts = pc.if_else(pc.equal(texts, HIVE_NULL), pa.scalar(None, texts.type), texts)
    if escaped and pc.any(pc.match_substring(texts, "%"), min_count=0).as_py():
        encoded = pc.dictionary_encode(texts)
        plain = [_unescape(text) for text in encoded.dictionary.to_pylist()]
        texts = pc.take(pa.array(plain, texts.type), encoded.indices)
    values = cast_or_null(texts, data_type)
    return values, pc.or_(pc.is_null(texts), pc.is_valid(values))


def _iso(local: pa.Array) -> pa.Array:
    text = pc.replace_substring(pc.cast(local, pa.string()), " ", "T")
    return pc.replace_substring_regex(pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1"), r"\.$", "")


def _unescape(text: str | None) -> str | None:
    if text is None or not re.search("%[0-9A-Fa-f]{2}", text):
        return text
    try:
        return urllib.parse.unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
