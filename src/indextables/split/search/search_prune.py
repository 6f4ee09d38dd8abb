"""Which splits can a query match? Their dictionaries say, before any posting list is loaded."""

from __future__ import annotations

import tantivy

from indextables.split.query import Bool, Boosted, Nothing, Plan, TermPrefix, Terms, TermSet, Unscored

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
