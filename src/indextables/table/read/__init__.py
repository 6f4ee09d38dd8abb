"""What a read touches: this room plans, scans, searches, tails and inspects versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.read import inspect
    from indextables.table.read.broken import broken_rows
    from indextables.table.read.dataset import dataset_of
    from indextables.table.read.foreign import count_foreign, detail_of_foreign, scan_foreign
    from indextables.table.read.inspect import actions_of, column_sizes, counted_rows, detail_of, html_of, live_rows
    from indextables.table.read.lease import lease_if_asked
    from indextables.table.read.marked import (
        Mark,
        MarkedRows,
        lengths_only,
        mark_plan,
        marked_batches,
        required_plan,
    )
    from indextables.table.read.moved import find_again, follow
    from indextables.table.read.order import POSITION, in_order, placed_again, position_tag, positions
    from indextables.table.read.plan import (
        check_rows_readable,
        column_names,
        planned_files,
        prune_files,
        refs_of,
        still_there,
    )
    from indextables.table.read.readers import reader_of
    from indextables.table.read.scan import limited, plain_schema, read_in_order, scan_split, scan_table
    from indextables.table.read.searching import (
        SCORE,
        Order,
        aggregate_rows,
        count,
        explain_search,
        found_batches,
        order_of,
        search,
        search_batches,
        show_hits,
    )
    from indextables.table.read.shared import Searchers, searcher_over, shared_index_cache
    from indextables.table.read.tail import (
        LATEST,
        Limits,
        Place,
        Sizes,
        Tail,
        differences,
        first_place,
        pieces_between,
        place_from,
        place_to,
    )

__all__ = [
    "LATEST",
    "POSITION",
    "SCORE",
    "Limits",
    "Mark",
    "MarkedRows",
    "Order",
    "Place",
    "Searchers",
    "Sizes",
    "Tail",
    "actions_of",
    "aggregate_rows",
    "broken_rows",
    "check_rows_readable",
    "column_names",
    "column_sizes",
    "count",
    "count_foreign",
    "counted_rows",
    "dataset_of",
    "detail_of",
    "detail_of_foreign",
    "differences",
    "explain_search",
    "find_again",
    "first_place",
    "follow",
    "found_batches",
    "html_of",
    "in_order",
    "inspect",
    "lease_if_asked",
    "lengths_only",
    "limited",
    "live_rows",
    "mark_plan",
    "marked_batches",
    "order_of",
    "pieces_between",
    "place_from",
    "place_to",
    "placed_again",
    "plain_schema",
    "planned_files",
    "position_tag",
    "positions",
    "prune_files",
    "read_in_order",
    "reader_of",
    "refs_of",
    "required_plan",
    "scan_foreign",
    "scan_split",
    "scan_table",
    "search",
    "search_batches",
    "searcher_over",
    "shared_index_cache",
    "show_hits",
    "still_there",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "broken": ("broken_rows",),
            "dataset": ("dataset_of",),
            "foreign": ("count_foreign", "detail_of_foreign", "scan_foreign"),
            "inspect": ("actions_of", "column_sizes", "counted_rows", "detail_of", "html_of", "live_rows"),
            "lease": ("lease_if_asked",),
            "marked": ("Mark", "MarkedRows", "lengths_only", "mark_plan", "marked_batches", "required_plan"),
            "moved": ("find_again", "follow"),
            "order": ("POSITION", "in_order", "placed_again", "position_tag", "positions"),
            "plan": ("check_rows_readable", "column_names", "planned_files", "prune_files", "refs_of", "still_there"),
            "readers": ("reader_of",),
            "scan": ("limited", "plain_schema", "read_in_order", "scan_split", "scan_table"),
            "searching": (
                "SCORE",
                "Order",
                "aggregate_rows",
                "count",
                "explain_search",
                "found_batches",
                "order_of",
                "search",
                "search_batches",
                "show_hits",
            ),
            "shared": ("Searchers", "searcher_over", "shared_index_cache"),
            "tail": (
                "LATEST",
                "Limits",
                "Place",
                "Sizes",
                "Tail",
                "differences",
                "first_place",
                "pieces_between",
                "place_from",
                "place_to",
            ),
        },
    )
