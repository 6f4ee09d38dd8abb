"""The bytes of one split: this room reads its layout, rows, statistics and deletion vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.split.file import dv, layout, page_map, thrift
    from indextables.split.file.columns import Columns, stored_schema
    from indextables.split.file.fetch import distinct, index_array
    from indextables.split.file.groups import without_columns
    from indextables.split.file.identity import check_identity
    from indextables.split.file.kept import KeptPages
    from indextables.split.file.layout import PAGES, SEGMENT_PARTS, Component, Directory, IndexPointer, check_id
    from indextables.split.file.reader import SplitReader, footer_range, parse_footer, resolve
    from indextables.split.file.ref import SplitRef
    from indextables.split.file.row_ids import ROW_ID, ROW_ID_FIELD, ids_at, place_of_ids, visible, with_ids
    from indextables.split.file.scanning import scan
    from indextables.split.file.stats import Statistics, StatsBuilder

__all__ = [
    "PAGES",
    "ROW_ID",
    "ROW_ID_FIELD",
    "SEGMENT_PARTS",
    "Columns",
    "Component",
    "Directory",
    "IndexPointer",
    "KeptPages",
    "SplitReader",
    "SplitRef",
    "Statistics",
    "StatsBuilder",
    "check_id",
    "check_identity",
    "distinct",
    "dv",
    "footer_range",
    "ids_at",
    "index_array",
    "layout",
    "page_map",
    "parse_footer",
    "place_of_ids",
    "resolve",
    "scan",
    "stored_schema",
    "thrift",
    "visible",
    "with_ids",
    "without_columns",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "columns": ("Columns", "stored_schema"),
            "fetch": ("distinct", "index_array"),
            "groups": ("without_columns",),
            "identity": ("check_identity",),
            "kept": ("KeptPages",),
            "layout": ("Component", "Directory", "IndexPointer", "PAGES", "SEGMENT_PARTS", "check_id"),
            "reader": ("SplitReader", "footer_range", "parse_footer", "resolve"),
            "ref": ("SplitRef",),
            "row_ids": ("ROW_ID", "ROW_ID_FIELD", "ids_at", "place_of_ids", "visible", "with_ids"),
            "scanning": ("scan",),
            "stats": ("Statistics", "StatsBuilder"),
        },
    )
