"""Which parts of an index does a query read? One table, because a part that is missing gives wrong rows in silence.

A component that is not needed may be a hole: a sparse file with only its tail filled, which is all that opening an
index reads. A hole under `.fieldnorm` or under a range on a fast field is no error but a wrong answer, so that
this function, and nobody else, decides.
"""

from __future__ import annotations

from indextables.split.query import (
    Bool,
    Boosted,
    Everything,
    HasValue,
    Interval,
    Leaf,
    Mask,
    Nothing,
    Plan,
    TermPrefix,
    Terms,
    Unscored,
)

TERM, IDX, FIELDNORM, POS, FAST = "term", "idx", "fieldnorm", "pos", "fast"

_POSTINGS = frozenset({TERM, IDX})


def needed(plan: Plan, *, scored: bool) -> frozenset[str]:
    """The components that must be whole to run `plan`, with scores or for its rows alone."""
    match plan:
        case Bool():
            found: frozenset[str] = frozenset()
            for part in (*plan.must, *plan.should):
                found |= needed(part, scored=scored)
            for part in plan.must_not:
                found |= needed(part, scored=False)
            return found
        case Boosted():
            return needed(plan.plan, scored=scored)
        case Unscored():
            return needed(plan.plan, scored=False)
        case Everything() | Nothing() | Mask():
            return frozenset()
        case _:
            return _of_leaf(plan, scored=scored)


def _of_leaf(leaf: Leaf, *, scored: bool) -> frozenset[str]:
    match leaf:
        case Terms():
            norms = frozenset({FIELDNORM}) if scored else frozenset()
            positions = frozenset({POS}) if len(leaf.terms) > 1 else frozenset()
            return _POSTINGS | norms | positions
        case TermPrefix(before=before) if before:
            return _POSTINGS | {POS, FIELDNORM}
        case Interval(target=target):
            return frozenset({FAST}) if target.fast and not target.indexed else _POSTINGS | _if_fast(leaf)
        case HasValue():
            return frozenset({FAST})
        case _:
            return _POSTINGS


def _if_fast(leaf: Interval) -> frozenset[str]:
    # A point goes to the postings, anything wider to the fast column where there is one.
    points = all(low is not None and high == low + 1 for low, high in leaf.intervals)
    return frozenset({FAST}) if leaf.target.fast and not points else frozenset()
