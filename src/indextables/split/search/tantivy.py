"""How does Tantivy hear it? A plan as `tantivy.Query`, built node by node; Tantivy's own parser never runs a query.

Why by hand: parsed by Tantivy, `a AND NOT b` matches nothing, `foo*` is the term `foo`, `foo~1` a phrase. Why the
constant score of 0 around every filter: a range that covers a whole segment loses its score of 1, so that scores
would depend on how rows are spread over files.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import tantivy

from indextables.split.index import looks_like_time
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
    TermFuzzy,
    TermPrefix,
    TermRange,
    TermRegex,
    Terms,
    TermSet,
    Unscored,
    Where,
    address_text,
    literal_regex,
)

MAX_FAST_INTERVALS = 16
"""Each interval on a fast field walks the whole column; Arrow does many of them at once."""

_SAFE_BOUND = re.compile(r"[0-9a-z]+\Z", re.ASCII)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_IP_MAX = 2**128 - 1

BoostOf = Callable[[Terms], float]


def answerable(leaf: Leaf) -> bool:
    """True if an index that holds the leaf's field as its target says gives the exact rows of this leaf."""
    if _is_about_times(leaf):
        return False
    match leaf:
        case Terms(target=target):
            return target.indexed and (len(leaf.terms) == 1 or target.positions)
        case TermPrefix(target=target):
            return target.indexed and (not leaf.before or (target.positions and not target.nested))
        case TermFuzzy(target=target) | TermSet(target=target):
            return target.indexed
        case TermRegex(target=target):
            return target.indexed and not target.nested
        case TermRange(target=target):
            return target.indexed and target.kind == "text" and not target.nested
        case Interval(target=target) if target.nested:
            return target.indexed and all(
                low is not None and high is not None and high == low + 1 for low, high in leaf.intervals
            )
        case Interval(target=target) if target.kind == "bool":
            return target.indexed
        case Interval(target=target):
            return target.indexed or (target.fast and len(leaf.intervals) <= MAX_FAST_INTERVALS)
        case HasValue(target=target):
            # The index does not know a list without items from none.
            return target.fast and not target.nested and not target.multi
        case _:
            return False


def _is_about_times(leaf: Leaf) -> bool:
    """True if a leaf may mean whole texts inside JSON that look like a time: the index holds them with a blank."""
    target = None if isinstance(leaf, Where | Mask) else leaf.target
    if target is None or not target.nested or target.analyzer is None or not target.analyzer.single_term:
        return False
    match leaf:
        case Terms():
            return any(looks_like_time(term) for _, term in leaf.terms)
        case TermSet():
            return any(map(looks_like_time, leaf.terms))
        case TermPrefix():
            return looks_like_time(leaf.prefix)
        case TermFuzzy():
            return True
        case _:
            return False


class QueryBuilder:
    """Builds queries for one opened index. `boost_of` gives the factor of a scored leaf, 1.0 by default.

    Precondition: every leaf of a plan is `answerable`.
    """

    def __init__(self, index: tantivy.Index, searcher: tantivy.Searcher, boost_of: BoostOf | None = None) -> None:
        self._index = index
        self._schema = index.schema
        self._searcher = searcher
        self._boost_of = boost_of

    def scored(self, plan: Plan) -> tantivy.Query:
        """A query whose scores are those of the plan."""
        return self._node(plan, scored=True)

    def unscored(self, plan: Plan) -> tantivy.Query:
        """A query for the same rows, each with the score 0: cheaper, and all of them come out in row order."""
        return tantivy.Query.const_score_query(self._node(plan, scored=False), 0.0)

    def plain(self, plan: Plan) -> tantivy.Query:
        """A query for the same rows whose scores mean nothing."""
        return self._node(plan, scored=False)

    def _node(self, plan: Plan, *, scored: bool) -> tantivy.Query:
        make = tantivy.Query
        match plan:
            case Bool():
                return self._bool(plan, scored=scored)
            case Boosted():
                inner = self._node(plan.plan, scored=scored)
                return make.boost_query(inner, plan.factor) if scored else inner
            case Unscored():
                inner = self._node(plan.plan, scored=False)
                return make.const_score_query(inner, 0.0) if scored else inner
            case Nothing() | Mask():
                return make.empty_query()
            case Everything():
                return make.const_score_query(make.all_query(), 0.0) if scored else make.all_query()
            case Terms():
                query = self._terms(plan)
                factor = self._boost_of(plan) if scored and self._boost_of is not None else 1.0
                return query if factor == 1.0 else make.boost_query(query, factor)
            case _:
                query = self._filter(plan)
                return make.const_score_query(query, 0.0) if scored else query

    def _bool(self, plan: Bool, *, scored: bool) -> tantivy.Query:
        occur = tantivy.Occur
        clauses = [(occur.Must, self._node(p, scored=scored)) for p in plan.must]
        clauses += [(occur.Should, self._node(p, scored=scored)) for p in plan.should]
        clauses += [(occur.MustNot, self._node(p, scored=False)) for p in plan.must_not]
        if not plan.must and not plan.should:
            clauses.insert(0, (occur.Must, self._node(Everything(), scored=scored)))
        return tantivy.Query.boolean_query(clauses)

    def _terms(self, leaf: Terms) -> tantivy.Query:
        address = leaf.target.address
        if len(leaf.terms) == 1:
            # With positions, Tantivy would open `.pos`, which need not be here.
            return tantivy.Query.term_query(self._schema, address, leaf.terms[0][1], index_option="freq")
        return tantivy.Query.phrase_query(self._schema, address, list(leaf.terms), leaf.slop)

    def _filter(self, leaf: Leaf) -> tantivy.Query:
        make, schema = tantivy.Query, self._schema
        match leaf:
            case TermPrefix(before=()):
                # Distance 0 with `prefix` is an exact prefix, also inside JSON, where regex_query refuses.
                return make.fuzzy_term_query(schema, leaf.target.address, leaf.prefix, distance=0, prefix=True)
            case TermPrefix():
                # phrase_prefix_query stops after 50 terms without a word; this one raises after 16,384.
                words = [(at, literal_regex(term)) for at, term in leaf.before]
                words.append((leaf.position, literal_regex(leaf.prefix) + ".*"))
                return make.regex_phrase_query(schema, leaf.target.address, words)
            case TermFuzzy():
                return make.fuzzy_term_query(schema, leaf.target.address, leaf.text, distance=leaf.distance)
            case TermRegex():
                return make.regex_query(schema, leaf.target.address, leaf.pattern)
            case TermSet():
                return make.term_set_query(schema, leaf.target.address, list(leaf.terms))
            case TermRange():
                return self._term_range(leaf)
            case Interval():
                return self._intervals(leaf)
            case HasValue():
                return make.exists_query(leaf.target.field)
            case _:
                raise AssertionError(leaf)

    def _term_range(self, leaf: TermRange) -> tantivy.Query:
        ends = [end for end in (leaf.lower, leaf.upper) if end is not None]
        # Tantivy answers from a fast field where there is one, which holds whole texts and not their words.
        words = leaf.target.analyzer is not None and leaf.target.analyzer.name == "default" and not leaf.target.fast
        if words and all(_SAFE_BOUND.match(end) for end in ends):
            left = "[" if leaf.include_lower or leaf.lower is None else "{"
            right = "]" if leaf.include_upper or leaf.upper is None else "}"
            text = f"{leaf.target.field}:{left}{leaf.lower or '*'} TO {leaf.upper or '*'}{right}"
            return self._index.parse_query(text)
        # Query.* has no ranges of text, and the syntax cannot quote a bound: list the terms instead.
        low, high = leaf.lower, leaf.upper
        shared = _common_prefix(low, high) if low is not None and high is not None else ""
        found = [
            term for term, _ in self._searcher.terms_with_prefix(leaf.target.field, shared) if in_range(leaf, term)
        ]
        return tantivy.Query.term_set_query(self._schema, leaf.target.field, found)

    def _intervals(self, leaf: Interval) -> tantivy.Query:
        queries = [self._interval(leaf, low, high) for low, high in leaf.intervals]
        if len(queries) == 1:
            return queries[0]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])

    def _interval(self, leaf: Interval, low: int | None, high: int | None) -> tantivy.Query:
        make, target = tantivy.Query, leaf.target
        if low is not None and high is not None and low >= high:
            return make.empty_query()
        point = low is not None and high == low + 1
        if target.kind == "ip":
            return self._addresses(leaf, 0 if low is None else low, _IP_MAX if high is None else high - 1)
        if target.kind == "bool":
            wanted = [value for value in (0, 1) if (low is None or value >= low) and (high is None or value < high)]
            terms = [make.term_query(self._schema, target.address, bool(v), index_option="basic") for v in wanted]
            return make.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        if point and target.indexed:
            return make.term_query(self._schema, target.address, low, index_option="basic")
        if (low is not None and low > _INT64_MAX) or (high is not None and high <= _INT64_MIN):
            return make.empty_query()
        return make.range_query(
            self._schema,
            target.address,
            tantivy.FieldType.Integer,
            None if low is None else max(low, _INT64_MIN),
            None if high is None else min(high - 1, _INT64_MAX),
            use_inverted_index=not target.fast,
        )

    def _addresses(self, leaf: Interval, low: int, last: int) -> tantivy.Query:
        name = leaf.target.address
        if low == last and leaf.target.indexed:
            return tantivy.Query.term_query(self._schema, name, address_text(low), index_option="basic")
        return tantivy.Query.range_query(
            self._schema,
            name,
            tantivy.FieldType.IpAddr,
            address_text(low),
            address_text(last),
            use_inverted_index=not leaf.target.fast,
        )


def in_range(leaf: TermRange, term: str) -> bool:
    """True if a term lies in the range. Python compares code points, which is the order of UTF-8 bytes."""
    if leaf.lower is not None and (term < leaf.lower or (term == leaf.lower and not leaf.include_lower)):
        return False
    return leaf.upper is None or term < leaf.upper or (term == leaf.upper and leaf.include_upper)


def _common_prefix(low: str, high: str) -> str:
    length = 0
    for a, b in zip(low, high, strict=False):
        if a != b:
            break
        length += 1
    return low[:length]
