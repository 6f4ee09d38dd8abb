"""The Tantivy half of a split: its fields, its analysers, its files and the cache of them on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.split.index import delfile, segment
    from indextables.split.index.analyze import (
        MAX_GRAM,
        MAX_RAW_BYTES,
        TIME_TEXT,
        Analyzer,
        Token,
        analyzer,
        looks_like_time,
    )
    from indextables.split.index.cache import IndexCache
    from indextables.split.index.cache_entry import CachedSplit, entry_key
    from indextables.split.index.delfile import RowMask
    from indextables.split.index.fields import (
        ID_KEY,
        FieldPlan,
        IndexPlan,
        column_id,
        is_nested_list,
        natural_kind,
        plan_fields,
    )
    from indextables.split.index.native import native_read, native_write
    from indextables.split.index.remembered import Remembered
    from indextables.split.index.segment import composite_parts, token_totals
    from indextables.split.index.sizes import SCHEMA, field_sizes
    from indextables.split.index.small import SMALL_BYTES, SmallSplits

__all__ = [
    "ID_KEY",
    "MAX_GRAM",
    "MAX_RAW_BYTES",
    "SCHEMA",
    "SMALL_BYTES",
    "TIME_TEXT",
    "Analyzer",
    "CachedSplit",
    "FieldPlan",
    "IndexCache",
    "IndexPlan",
    "Remembered",
    "RowMask",
    "SmallSplits",
    "Token",
    "analyzer",
    "column_id",
    "composite_parts",
    "delfile",
    "entry_key",
    "field_sizes",
    "is_nested_list",
    "looks_like_time",
    "native_read",
    "native_write",
    "natural_kind",
    "plan_fields",
    "segment",
    "token_totals",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "analyze": (
                "Analyzer",
                "MAX_GRAM",
                "MAX_RAW_BYTES",
                "TIME_TEXT",
                "Token",
                "analyzer",
                "looks_like_time",
            ),
            "cache": ("IndexCache",),
            "cache_entry": ("CachedSplit", "entry_key"),
            "delfile": ("RowMask",),
            "fields": (
                "ID_KEY",
                "FieldPlan",
                "IndexPlan",
                "column_id",
                "is_nested_list",
                "natural_kind",
                "plan_fields",
            ),
            "native": ("native_read", "native_write"),
            "remembered": ("Remembered",),
            "segment": ("composite_parts", "token_totals"),
            "sizes": ("SCHEMA", "field_sizes"),
            "small": ("SMALL_BYTES", "SmallSplits"),
        },
    )
