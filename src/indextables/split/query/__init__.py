"""A search text or a predicate becomes a plan. No I/O happens here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.split.query import values
    from indextables.split.query.ast import Operator
    from indextables.split.query.language import doubts
    from indextables.split.query.plan import (
        Bool,
        Boosted,
        Everything,
        HasValue,
        Interval,
        Leaf,
        LeafTarget,
        Mask,
        Near,
        Nothing,
        Plan,
        TermFuzzy,
        TermPrefix,
        TermRange,
        TermRegex,
        Terms,
        TermSet,
        Unscored,
        ValueRange,
        Where,
        boolean,
        boosted,
        leaves,
        scored_leaves,
        unscored,
    )
    from indextables.split.query.predicate import plan_predicate
    from indextables.split.query.regex import literal_regex
    from indextables.split.query.resolve import Catalog, plan_query
    from indextables.split.query.target import resolve_target
    from indextables.split.query.values import address_text

__all__ = [
    "Bool",
    "Boosted",
    "Catalog",
    "Everything",
    "HasValue",
    "Interval",
    "Leaf",
    "LeafTarget",
    "Mask",
    "Near",
    "Nothing",
    "Operator",
    "Plan",
    "TermFuzzy",
    "TermPrefix",
    "TermRange",
    "TermRegex",
    "TermSet",
    "Terms",
    "Unscored",
    "ValueRange",
    "Where",
    "address_text",
    "boolean",
    "boosted",
    "doubts",
    "leaves",
    "literal_regex",
    "plan_predicate",
    "plan_query",
    "resolve_target",
    "scored_leaves",
    "unscored",
    "values",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "ast": ("Operator",),
            "plan": (
                "Bool",
                "Boosted",
                "Everything",
                "HasValue",
                "Interval",
                "Leaf",
                "Mask",
                "Near",
                "Nothing",
                "Plan",
                "LeafTarget",
                "TermFuzzy",
                "TermPrefix",
                "TermRange",
                "TermRegex",
                "TermSet",
                "Terms",
                "Unscored",
                "ValueRange",
                "Where",
                "boolean",
                "boosted",
                "leaves",
                "scored_leaves",
                "unscored",
            ),
            "predicate": ("plan_predicate",),
            "language": ("doubts",),
            "regex": ("literal_regex",),
            "resolve": ("Catalog", "plan_query"),
            "target": ("resolve_target",),
            "values": ("address_text",),
        },
    )
