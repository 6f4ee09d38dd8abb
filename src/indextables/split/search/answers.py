"""Who answers which part of a query? Per split: its index, its columns, or an index made on the fly.

Parts that the index cannot answer are cut out of the plan as whole subtrees, evaluated on the columns, and put back as
sets of rows: the rows fall into classes by the sets they are in, each class sees the plan with the sets replaced by
everything or nothing, and searches its own rows only (`.del` files). So scores and counts stay exact whatever the
shape of the query, and a filter that is simply ANDed costs one search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import tantivy

from indextables.errors import LimitExceeded
from indextables.split.index import FieldPlan, IndexPlan
from indextables.split.query import (
    Bool,
    Boosted,
    Everything,
    HasValue,
    Leaf,
    Mask,
    Nothing,
    Plan,
    TermPrefix,
    Terms,
    TermSet,
    Unscored,
    Where,
    boolean,
    boosted,
    leaves,
    unscored,
)
from indextables.split.search.tantivy import answerable

MAX_MASKS = 6
"""2 to this power classes at most; more separate filters on columns in one query are refused."""


class Cut(msgspec.Struct, frozen=True):
    """A plan with `Mask(i)` in place of the subtree `subtrees[i]`."""

    plan: Plan
    subtrees: tuple[Plan, ...]


def cut_out(plan: Plan, by_column: Callable[[Leaf], bool]) -> Cut:
    """Replace every largest subtree that holds only leaves of `by_column`. Raises LimitExceeded for too many."""
    subtrees: dict[Plan, int] = {}

    def visit(node: Plan) -> Plan:
        inside = list(leaves(node))
        if inside and all(map(by_column, inside)):
            return Mask(subtrees.setdefault(node, len(subtrees)))
        match node:
            case Bool():
                return boolean(
                    tuple(map(visit, node.must)), tuple(map(visit, node.should)), tuple(map(visit, node.must_not))
                )
            case Boosted():
                return boosted(visit(node.plan), node.factor)
            case Unscored():
                return unscored(visit(node.plan))
            case _:
                return node

    cut = visit(_conjoined(plan, by_column))
    if len(subtrees) > MAX_MASKS:
        message = (
            f"the query mixes {len(subtrees)} separate conditions on columns that the index does not hold into it, "
            f"at most {MAX_MASKS} are allowed: index these columns, or combine the conditions with AND"
        )
        raise LimitExceeded(message, limit=MAX_MASKS, actual=len(subtrees))
    return Cut(cut, tuple(subtrees))


def _conjoined(plan: Plan, by_column: Callable[[Leaf], bool]) -> Plan:
    """Gather the column conditions of a conjunction into one, so that they become one set."""
    if not isinstance(plan, Bool) or not plan.must:
        return plan

    def whole(node: Plan) -> bool:
        inside = list(leaves(node))
        return bool(inside) and all(map(by_column, inside))

    flat = [pair for part in plan.must for pair in _conjuncts(part)] + [(part, True) for part in plan.must_not]
    filters = tuple(node for node, negated in flat if not negated and whole(node))
    banned = tuple(node for node, negated in flat if negated and whole(node))
    if len(filters) + len(banned) < 2:
        return plan
    rest = tuple(node for node, negated in flat if not negated and not whole(node))
    kept_out = tuple(node for node, negated in flat if negated and not whole(node))
    together = boolean(must=filters or (Everything(),), must_not=banned)
    return boolean((*rest, together), plan.should, kept_out)


def _conjuncts(plan: Plan) -> Iterator[tuple[Plan, bool]]:
    if isinstance(plan, Bool) and plan.must and not plan.should:
        for part in plan.must:
            yield from _conjuncts(part)
        for part in plan.must_not:
            yield part, True
    elif isinstance(plan, Unscored) and isinstance(plan.plan, Bool) and plan.plan.must and not plan.plan.should:
        for part, negated in _conjuncts(plan.plan):
            yield (part if negated else unscored(part)), negated
    else:
        yield plan, False


def with_masks(plan: Plan, values: tuple[bool, ...]) -> Plan:
    """The plan for rows that are in exactly these sets."""

    def known(node: Plan) -> Plan:
        if isinstance(node, Mask):
            return Everything() if values[node.number] else Nothing()
        return node

    return _mapped(plan, known)


def with_existence(plan: Plan, known: Callable[[HasValue], bool | None]) -> Plan:
    """The plan for a split of which `known` tells that all rows have a value, or none (None: some have)."""

    def settled(node: Plan) -> Plan:
        answer = known(node) if isinstance(node, HasValue) else None
        return node if answer is None else Everything() if answer else Nothing()

    return _mapped(plan, settled)


def _mapped(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """The same tree with other leaves."""
    match plan:
        case Bool():
            sides = (tuple(_mapped(part, change) for part in side) for side in (plan.must, plan.should, plan.must_not))
            return boolean(*sides)
        case Boosted():
            return boosted(_mapped(plan.plan, change), plan.factor)
        case Unscored():
            return unscored(_mapped(plan.plan, change))
        case _:
            return change(plan)


def relaxed(plan: Plan) -> Plan:
    """A plan without sets that matches at least the rows that `plan` may match, whatever the sets hold."""

    def visit(node: Plan, *, wanted: bool) -> Plan:
        match node:
            case Mask():
                return Everything() if wanted else Nothing()
            case Bool():
                return boolean(
                    tuple(visit(p, wanted=wanted) for p in node.must),
                    tuple(visit(p, wanted=wanted) for p in node.should),
                    tuple(visit(p, wanted=not wanted) for p in node.must_not),
                )
            case Boosted() | Unscored():
                return visit(node.plan, wanted=wanted)
            case _:
                return node

    return visit(plan, wanted=True)


def without_fields(plan: Plan, known: frozenset[str]) -> Plan:
    """The plan for splits whose rows have no value in fields other than these."""

    def kept(node: Plan) -> Plan:
        if isinstance(node, Bool | Boosted | Unscored | Everything | Nothing | Mask | Where):
            return node
        return node if node.target.field in known else Nothing()

    return _mapped(plan, kept)


def index_answers(leaf: Leaf, table: IndexPlan, split: IndexPlan, incomplete: dict[str, list[str]]) -> bool:
    """True if the index of a split gives the exact rows of a leaf that was planned for `table`."""
    if isinstance(leaf, Where) or leaf.target.field is None or not answerable(leaf):
        return False
    field = split.by_id(leaf.target.field)
    if field is None or field.column is None:
        return True  # no such column when the split was written, so that no row can match
    wanted = table.by_id(leaf.target.field)
    if wanted is None or _essence(field) != _essence(wanted):
        return False
    return not incomplete.get(field.id) or _covered(leaf, incomplete[field.id])


def _essence(field: FieldPlan) -> tuple[object, ...]:
    return (field.kind, field.indexed, field.fast, field.record, field.analyzer, field.multi)


def _covered(leaf: Leaf, reasons: list[str]) -> bool:
    """Whether what is missing from an index cannot matter to a leaf."""
    if set(reasons) == {"badValue"}:
        # An address that is none matches nothing; a time out of range could match.
        return not isinstance(leaf, HasValue) and leaf_kind(leaf) == "ip"
    analyzer = None if isinstance(leaf, Where) else leaf.target.analyzer
    if analyzer is None:
        return False
    match leaf:
        case Terms(terms=terms):
            return all(analyzer.surely_indexed(term) for _, term in terms)
        case TermSet(terms=terms):
            return all(map(analyzer.surely_indexed, terms))
        case _:
            return False


def may_mean_long_tokens(leaf: Leaf) -> bool:
    """True if a leaf may mean a word that is too long for the index of its column."""
    if isinstance(leaf, Where | HasValue) or leaf.target.analyzer is None or leaf.target.analyzer.single_term:
        return False
    return not _covered(leaf, ["longToken"])


def leaf_kind(leaf: Leaf) -> str:
    """The kind of a leaf's column."""
    return "" if isinstance(leaf, Where) else leaf.target.kind


_MOST_LOOKED_UP = 256


def may_match(plan: Plan, searcher: tantivy.Searcher) -> bool:
    """False only if no row of the index behind `searcher` can match; reads nothing but term dictionaries."""
    match plan:
        case Bool():
            if not all(may_match(part, searcher) for part in plan.must):
                return False
            return bool(plan.must) or not plan.should or any(may_match(part, searcher) for part in plan.should)
        case Boosted() | Unscored():
            return may_match(plan.plan, searcher)
        case Nothing():
            return False
        case Terms():
            return all(searcher.doc_freq(plan.target.address, term) > 0 for _, term in plan.terms)
        case TermSet(terms=terms) if len(terms) <= _MOST_LOOKED_UP:
            return any(searcher.doc_freq(plan.target.address, term) > 0 for term in terms)
        case TermPrefix(target=target):
            if any(searcher.doc_freq(target.address, term) == 0 for _, term in plan.before):
                return False
            return target.nested or bool(searcher.terms_with_prefix(target.field, plan.prefix, limit=1))
        case _:
            return True
