"""How is a plan run over many splits? As few opened indexes as exactness allows, each answering for its own rows.

A *group* is a set of splits that can share one virtual index for a plan. A *shard* (`search_answer`) answers the plan
for some rows. The answers of all shards together are the result.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import shutil
from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from indextables.ambient import Ambient, Pool
from indextables.errors import IndexUnavailable, SplitCorrupt
from indextables.split.index import CachedSplit, IndexCache, IndexPlan, RowMask, native_read
from indextables.split.query import Everything, HasValue, Leaf, Nothing, Plan, Terms, Where, leaves, scored_leaves
from indextables.split.search.answer import IndexShard, ReadyShards, RowsShard, Shard
from indextables.split.search.answers import (
    cut_out,
    index_answers,
    may_match,
    may_mean_long_tokens,
    relaxed,
    with_existence,
    with_masks,
    without_fields,
)
from indextables.split.search.carrier import TermStats, make_carrier, merge_stats
from indextables.split.search.columns import columns_read, mask_of_plan
from indextables.split.search.components import TERM, needed
from indextables.split.search.hits import Fallback, SearchMetrics
from indextables.split.search.opened import schema_for_rebuild
from indextables.split.search.shelf import Shelf
from indextables.split.search.state import SplitState
from indextables.split.search.virtual import (
    Member,
    OpenIndexes,
    VirtualIndex,
    group_by_schema,
    own_stats,
)

_RECHECK_SHARE = 16
"""Columns are fetched for the candidates only, if these are less than one row in this many."""
_SHARED_ATTEMPTS = 3
_ATTEMPTS = 6
_DICTIONARY = frozenset({TERM})


class Group(msgspec.Struct, frozen=True):
    """Splits that share an index for a plan: `schema` is the longest of theirs; `members` gives their segments."""

    schema: str
    index_plan: IndexPlan
    states: tuple[SplitState, ...]
    plan: Plan
    subtrees: tuple[Plan, ...]
    rebuilt: bool = False


class ShardMaker:
    """Makes the shards of plans over one list of splits. `table` and `schema` are the table's, as plans were made."""

    def __init__(
        self,
        states: Sequence[SplitState],
        schema: pa.Schema,
        table: IndexPlan,
        cache: IndexCache,
        opened: OpenIndexes,
        ambient: Ambient,
        scope: Hashable = None,
        pool: Pool = "splits",
    ) -> None:
        self.states = list(states)
        self._places = {id(state): place for place, state in enumerate(self.states)}
        self.schema = schema
        self.table = table
        self._cache = cache
        self._opened = opened
        self._ambient = ambient
        self._scope = scope
        self._pool: Pool = pool
        self._ready = ReadyShards()
        opened.hold(self._ready)
        self.refused: set[Leaf] = set()
        """Leaves that an index turned out not to answer: columns do from now on."""

    def forget(self) -> None:
        """Open everything anew from now on: an index that was opened turned out not to answer."""
        self._opened.clear()
        self._ready.clear()

    def stats(self, plan: Plan) -> TermStats:
        """What BM25 needs to know of all these splits together."""
        return merge_stats(self._group_stats(group) for group in self._groups(plan, SearchMetrics()))

    def shards(
        self, plan: Plan, metrics: SearchMetrics, *, scored: bool, everywhere: TermStats | None = None
    ) -> list[Shard]:
        """Who answers `plan`; with `everywhere` given, scores are those of the collection it describes."""
        # The splits never change, so that an answer stays right until an index or a leaf turns out to be unusable.
        known = (sum(not state.usable for state in self.states), len(self.refused))
        key = (plan, scored, None if everywhere is None else msgspec.json.encode(everywhere), known)
        ready = self._ready.get(key)
        if ready is None:
            counted = SearchMetrics(splits=len(self.states))
            ready = self._shards(plan, counted, everywhere, scored=scored), counted
            self._ready.keep(key, *ready)
        found, counted = ready
        metrics.splits = counted.splits
        metrics.splits_loaded += counted.splits_loaded
        metrics.rows_scanned += counted.rows_scanned
        metrics.fallbacks.extend(counted.fallbacks)
        return found

    def _shards(self, plan: Plan, metrics: SearchMetrics, everywhere: TermStats | None, *, scored: bool) -> list[Shard]:
        groups = self._groups(plan, metrics)
        ranked = scored and any(True for _ in scored_leaves(plan))
        if ranked and everywhere is None and sum(group.schema != "" for group in groups) > 1:
            everywhere = merge_stats(self._group_stats(group) for group in groups)
        found: list[Shard] = []
        for group in groups:
            found.extend(self._answer(group, metrics, everywhere if ranked else None, scored=ranked))
        return found

    def _groups(self, plan: Plan, metrics: SearchMetrics) -> list[Group]:
        by_need: dict[tuple[bool, frozenset[Leaf]], list[SplitState]] = {}
        asked = list(dict.fromkeys(leaves(plan)))
        decided: dict[object, tuple[bool, frozenset[Leaf]]] = {}
        for state in self.states:
            kind = (state.kind, tuple(state.schema.names) if self._lacks(asked, state) else ())
            if kind not in decided:
                decided[kind] = self._decide_answerer(asked, state)
            rebuild, by_column = decided[kind]
            if rebuild or (not state.usable and asked):
                reason = state.reason or "the index is not complete for this query, or made by another analyzer"
                metrics.fallbacks.append(Fallback(state.ref.key, reason))
                metrics.rows_scanned += state.num_rows
            by_need.setdefault((rebuild, by_column), []).append(state)
        groups: list[Group] = []
        for (rebuild, by_column), states in by_need.items():
            cut = cut_out(plan, by_column.__contains__)
            if rebuild:
                groups.append(Group(_REBUILT, self.table, tuple(states), cut.plan, cut.subtrees, rebuilt=True))
                continue
            with_index = [s for s in states if s.usable]
            without = tuple(s for s in states if not s.usable)
            if without:
                groups.append(Group("", self.table, without, cut.plan, cut.subtrees))
            for schema, places in group_by_schema([_schema_of(s) for s in with_index]):
                members = tuple(with_index[place] for place in places)
                longest = max((s.plan for s in members), key=lambda p: len(p.fields))
                known = frozenset(f.id for f in longest.fields)
                groups.append(Group(schema, longest, members, without_fields(cut.plan, known), cut.subtrees))
        return groups

    def _decide_answerer(self, asked: Sequence[Leaf], state: SplitState) -> tuple[bool, frozenset[Leaf]]:
        """Whether a split's index must be made anew for a plan, and which leaves its columns answer."""
        if state.usable:
            refused = [
                leaf
                for leaf in asked
                if leaf in self.refused
                or not index_answers(leaf, self.table, state.plan, state.incomplete)
                or self._absent(leaf, state)
            ]
        else:
            refused = list(asked)
        if not any(self._needs_index(leaf) for leaf in refused):
            return False, frozenset(refused)
        return True, frozenset(leaf for leaf in asked if self._by_column_if_rebuilt(leaf, asked))

    def _by_column_if_rebuilt(self, leaf: Leaf, asked: Sequence[Leaf]) -> bool:
        """True if a leaf is not answered by an index that is made from the rows.

        Beside words that every index holds, the index of a field has no others, because they count in its lengths.
        """
        if leaf in self.refused or not index_answers(leaf, self.table, self.table, {}):
            return True
        if isinstance(leaf, Terms | Where) or not may_mean_long_tokens(leaf):
            return False
        beside = [each for each in asked if isinstance(each, Terms) and each.target.field == leaf.target.field]
        return bool(beside) and not any(map(may_mean_long_tokens, beside))

    def _needs_index(self, leaf: Leaf) -> bool:
        """True if columns alone cannot answer a leaf as an index of the table would: it scores, or orders words."""
        if not isinstance(leaf, Terms) or not index_answers(leaf, self.table, self.table, {}):
            return False
        analyzer = leaf.target.analyzer
        return not (analyzer is not None and analyzer.single_term and not analyzer.surely_indexed(leaf.terms[0][1]))

    def _absent(self, leaf: Leaf, state: SplitState) -> bool:
        """True if the rows have a column that the index lacks: it was not indexed when the split was written."""
        if isinstance(leaf, Where) or not self._lacks([leaf], state):
            return False
        return bool(state.schema.get_field_index(leaf.target.column) >= 0)

    def _lacks(self, asked: Sequence[Leaf], state: SplitState) -> bool:
        """True if a leaf looks at a field that the index of a split does not have."""
        fields = (leaf.target.field for leaf in asked if not isinstance(leaf, Where))
        return state.usable and any(f is not None and f not in state.field_ids for f in fields)

    def _group_stats(self, group: Group) -> TermStats:
        if not group.schema:
            return TermStats(sum(state.num_rows for state in group.states))
        index = self._open(group, None, None, _DICTIONARY)
        counted = index.counted(group.plan)
        return TermStats(index.own.num_docs, index.own.tokens, counted.doc_freqs)

    def _answer(
        self, group: Group, metrics: SearchMetrics, everywhere: TermStats | None, *, scored: bool
    ) -> list[Shard]:
        if not group.subtrees:
            return self._shards_of_class(group, group.plan, None, metrics, everywhere, scored=scored)
        sets = self._evaluate(group, metrics)
        found: list[Shard] = []
        for values in itertools.product((True, False), repeat=len(group.subtrees)):
            plan = with_masks(group.plan, values)
            if isinstance(plan, Nothing):
                continue
            masks = [_class_mask(state_sets, values) for state_sets in sets]
            if any(mask.any() for mask in masks):
                found.extend(self._shards_of_class(group, plan, masks, metrics, everywhere, scored=scored))
        return found

    def _shards_of_class(
        self,
        group: Group,
        plan: Plan,
        masks: list[RowMask] | None,
        metrics: SearchMetrics,
        everywhere: TermStats | None,
        *,
        scored: bool,
    ) -> list[Shard]:
        if isinstance(plan, Nothing):
            return []
        places = [self._places[id(state)] for state in group.states]
        if isinstance(plan, Everything):
            return [RowsShard(places, [_seen(s, masks[i] if masks else None) for i, s in enumerate(group.states)])]
        if not group.schema:
            raise AssertionError("a plan that needs an index was given to splits without one")
        parts = needed(plan, scored=scored)
        live = self._hydrate(group, plan, parts, metrics, scored=scored)
        if not live:
            return []
        if len(live) < len(group.states):
            # The others have no hit and stay holes, which must not be searched: they count in the statistics only.
            if scored and everywhere is None:
                everywhere = self._group_stats(group)
            group = msgspec.structs.replace(group, states=tuple(group.states[i] for i in live))
            masks = None if masks is None else [masks[i] for i in live]
            places = [places[i] for i in live]
        index = self._open(group, masks, everywhere, parts | _DICTIONARY)
        return [IndexShard(index, places, plan, everywhere)]

    def _evaluate(self, group: Group, metrics: SearchMetrics) -> list[list[RowMask]]:
        """Per split, the set of each subtree: on all rows, or on those that the rest of the plan lets through."""
        columns = list(dict.fromkeys(name for tree in group.subtrees for name in columns_read(tree)))
        candidates = self._candidates(group, metrics)

        def one(state: SplitState) -> list[RowMask]:
            counted = [_by_null_count(tree, state) for tree in group.subtrees]
            if all(mask is not None for mask in counted):
                return [mask for mask in counted if mask is not None]
            rows = None if candidates is None else candidates.get(self._places[id(state)], np.zeros(0, np.int64))
            table = state.all_rows(columns) if rows is None else state.fetch(rows, columns)
            metrics.rows_scanned += table.num_rows
            typed = _typed(table, self.schema)
            found = [mask_of_plan(tree, typed) for tree in group.subtrees]
            if rows is None:
                return found
            spread = [np.zeros(state.num_rows, dtype=np.bool_) for _ in found]
            for mask, part in zip(spread, found, strict=True):
                mask[rows] = part
            return spread

        return list(self._ambient.map(self._pool, one, group.states))

    def _candidates(
        self, group: Group, metrics: SearchMetrics
    ) -> dict[int, np.ndarray[Any, np.dtype[np.int64]]] | None:
        """The rows that can match at all, by split, if that is few; None asks for all rows."""
        if not group.schema:
            return None
        loose = relaxed(group.plan)
        if isinstance(loose, Everything):
            return None
        shards = self._shards_of_class(group, loose, None, metrics, None, scored=False)
        rows = sum(state.num_rows for state in group.states)
        if sum(shard.count() for shard in shards) * _RECHECK_SHARE > rows:
            return None
        found: dict[int, Any] = {}
        for shard in shards:
            hits = shard.everything()
            for place in np.unique(hits.splits):
                found[int(place)] = hits.rows[hits.splits == place]
        return found

    def _hydrate(
        self, group: Group, plan: Plan, parts: frozenset[str], metrics: SearchMetrics, *, scored: bool
    ) -> list[int]:
        """Load what the plan needs of those splits that it can match at all; returns their places.

        A split that has all parts already is not asked: it may have no hit. But one that is older than a field without
        which nothing matches is left out where no score needs it: ordering by that field would fail there.
        """
        if group.rebuilt:
            return list(range(len(group.states)))
        lacking = [i for i, s in enumerate(group.states) if s.cached is not None and not parts <= s.cached.whole]
        if not scored:
            asked = frozenset(leaf.target.field for leaf in leaves(plan) if not isinstance(leaf, Where))
            older = [i for i, s in enumerate(group.states) if not asked <= s.field_ids]
            lacking += [i for i in older if isinstance(without_fields(plan, group.states[i].field_ids), Nothing)]
        wanted = [i for i in lacking if self._may_match(plan, group.states[i])]
        metrics.splits_loaded += len(wanted)
        list(self._ambient.map(self._pool, lambda i: _load(group.states[i], parts), wanted))
        # Only dictionaries say that a split has no hit. What is whole now need not be when the index is opened.
        without = set(lacking) - set(wanted)
        return [i for i in range(len(group.states)) if i not in without]

    def _may_match(self, plan: Plan, state: SplitState) -> bool:
        known = frozenset(field.id for field in state.plan.fields)
        alone = self._index_of_one(state)
        with native_read(state.ref.key):
            return may_match(without_fields(plan, known), alone.searcher)

    def _index_of_one(self, state: SplitState) -> VirtualIndex:
        """An index of one split, for its dictionary."""
        schema = _schema_of(state)
        group = Group(schema, state.plan, (state,), Everything(), ())
        return self._open(group, None, None, _DICTIONARY)

    def _open(
        self, group: Group, masks: list[RowMask] | None, everywhere: TermStats | None, parts: frozenset[str]
    ) -> VirtualIndex:
        """An index in which these parts of all members are whole: a hole would look like rows that do not match."""
        for attempt in range(_ATTEMPTS):
            # Who is too slow for those who empty the cache, or needs more than fits in, goes on in a folder of its own.
            apart = self._cache.scratch() if attempt >= _SHARED_ATTEMPTS else None
            try:
                if apart is not None:
                    apart.mkdir(mode=0o700)
                members = self._members(group, masks, parts, apart, again=attempt > 0)
                own = own_stats(members) if everywhere is not None else TermStats()
                beside = everywhere if everywhere is not None and _collection(everywhere) != _collection(own) else None
                key = (
                    self._scope,
                    group.schema,
                    _digest(beside, _scored_fields(group.plan)),
                    *(m.identity for m in members),
                )
                make = partial(self._make, group, members, own, beside)
                return self._opened.get(key, lambda open_: _whole(open_, parts), make)
            except FileNotFoundError:
                continue
            finally:
                if apart is not None:
                    shutil.rmtree(apart, ignore_errors=True)
        message = "what a search writes below cache.directory vanishes at once: set it to a folder that is left alone"
        raise IndexUnavailable(message, path="", reason="evicted")

    def _members(
        self, group: Group, masks: list[RowMask] | None, parts: frozenset[str], apart: Path | None, *, again: bool
    ) -> list[Member]:
        """The segments of a group with these parts whole. Raises FileNotFoundError if somebody empties the cache."""

        def one(place: int) -> Member:
            state = group.states[place]
            mask = masks[place] if masks else None
            folder = None if apart is None else apart / str(place)
            if group.rebuilt:
                return state.rebuilt(self.table, _rebuilt_fields(group.plan), mask, folder)
            # Looked at once: another thread may replace it by what it needs itself.
            cached = state.cached
            if again or cached is None or not parts <= cached.whole:
                had = frozenset() if cached is None else cached.whole
                cached = _load(state, parts | had, folder)
                if not parts <= cached.whole:
                    raise FileNotFoundError(errno.ENOENT, "emptied while it was loaded", state.ref.key)
            return state.member(mask, cached)

        places = range(len(group.states))
        return list(self._ambient.map(self._pool, one, places)) if again else [one(place) for place in places]

    def _make(
        self, group: Group, members: list[Member], own: TermStats, everywhere: TermStats | None, shelf: Shelf
    ) -> VirtualIndex:
        plan, schema = self._schema_for(group)
        scored = _scored_fields(group.plan)
        carrier = None if everywhere is None else make_carrier(plan, everywhere, own, scored)
        return VirtualIndex(members, plan, schema, shelf, self._cache, self._ambient, carrier)

    def _schema_for(self, group: Group) -> tuple[IndexPlan, str]:
        if not group.rebuilt:
            return group.index_plan, group.schema
        return rebuilt_schema(self.table, group.plan)


_REBUILT = "rebuilt"


def _load(state: SplitState, parts: frozenset[str], apart: Path | None = None) -> CachedSplit:
    try:
        return state.load(parts, apart)
    except SplitCorrupt as error:
        state.reason = str(error.details.get("reason", error))
        raise IndexUnavailable(str(error), path=state.ref.key, reason=state.reason) from error


def rebuilt_schema(table: IndexPlan, plan: Plan) -> tuple[IndexPlan, str]:
    """The plan and the Tantivy schema of segments that were made from rows for a plan."""
    return schema_for_rebuild(table, _rebuilt_fields(plan))


def _rebuilt_fields(plan: Plan) -> dict[str, bool]:
    """The fields that a segment made from rows must have, and whether with tokens that an index leaves out.

    Only a query that may mean such a token gets them: they count in the lengths of texts, and scores would differ
    from those of the splits that have an index.
    """
    found: dict[str, bool] = {}
    for leaf in leaves(plan):
        if not isinstance(leaf, Where) and leaf.target.field is not None:
            found[leaf.target.field] = found.get(leaf.target.field, False) or may_mean_long_tokens(leaf)
    return found


def _whole(index: VirtualIndex, parts: frozenset[str]) -> bool:
    """True if no member has a hole where the query looks."""
    return all(parts <= member.whole for member in index.members)


def _schema_of(state: SplitState) -> str:
    return state.cached.directory.schema if state.cached is not None else ""


def _seen(state: SplitState, mask: RowMask | None) -> RowMask:
    alive = state.alive
    if alive is None:
        alive = np.ones(state.num_rows, dtype=np.bool_)
    return alive if mask is None else alive & mask


def _by_null_count(tree: Plan, state: SplitState) -> RowMask | None:
    """The answer of a subtree that only asks which rows have values, if the directory knows; None: read the column."""

    def known(leaf: HasValue) -> bool | None:
        if leaf.target.multi or leaf.target.nested:
            return None
        nulls = state.split.null_count(leaf.target.column)
        return True if nulls == 0 else False if nulls == state.num_rows else None

    settled = with_existence(tree, known)
    if isinstance(settled, Everything):
        return np.ones(state.num_rows, dtype=np.bool_)
    return np.zeros(state.num_rows, dtype=np.bool_) if isinstance(settled, Nothing) else None


def _class_mask(sets: Sequence[RowMask], values: tuple[bool, ...]) -> RowMask:
    found = np.ones(len(sets[0]), dtype=np.bool_)
    for mask, value in zip(sets, values, strict=True):
        found &= mask if value else ~mask
    return found


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns in the types of the table's schema: a split may be older than a column, or than its type."""
    fields = [
        schema.field(name) if schema.get_field_index(name) >= 0 else table.schema.field(name)
        for name in table.column_names
    ]
    if all(table.schema.field(f.name).type == f.type for f in fields):
        return table
    return table.cast(pa.schema([pa.field(f.name, f.type) for f in fields]))


def _collection(stats: TermStats) -> tuple[int, dict[str, int]]:
    return stats.num_docs, {field: count for field, count in stats.tokens.items() if count}


def _scored_fields(plan: Plan) -> list[str]:
    return sorted({leaf.target.field for leaf in scored_leaves(plan) if leaf.target.field is not None})


def _digest(stats: TermStats | None, scored: Sequence[str]) -> str:
    if stats is None:
        return ""
    facts = [stats.num_docs, sorted(stats.tokens.items()), scored]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]
