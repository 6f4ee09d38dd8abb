"""The index is disposable, rows are not: which fields of a split's index are out of date, and building it anew."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec
import tantivy

from indextables import options as opt
from indextables.ambient import Ambient
from indextables.errors import SplitCorrupt, SplitError
from indextables.split.file import Directory, SplitRef
from indextables.split.index import FieldPlan, IndexPlan
from indextables.split.write.merge import merge_splits, overridden
from indextables.split.write.writer import WrittenSplit
from indextables.storage.store import Store

__all__ = ["INDEX_FORMAT", "foreign_index", "reindex", "stale_fields", "stale_in"]

INDEX_FORMAT = int((re.search(r"index_format v(\d+)", str(tantivy.__version__)) or ["", "0"])[1])
"""The index format of the Tantivy that runs here."""


def foreign_index(directory: Directory | None) -> str | None:
    """Why this library cannot search the index of a split at all; None if it can."""
    if directory is None or not directory.segment:
        return "the split has no index"
    if directory.index_format != INDEX_FORMAT:
        return f"the index has format {directory.index_format}, this Tantivy reads {INDEX_FORMAT}"
    return None


def stale_fields(directory: Directory, plan: IndexPlan) -> dict[str, str]:
    """The fields of `plan`, by id, that this split's index does not answer as the table now wants, with the reason.

    A search on such a field scans the split; other fields are searched. `reindex` brings the split up to date.
    """
    return stale_in(directory.doc_mapping, plan)


def stale_in(doc_mapping: str, plan: IndexPlan) -> dict[str, str]:
    """As `stale_fields`, of an index that was built by this mapping. Pure."""
    try:
        built = {f.id: f for f in IndexPlan.from_doc_mapping(doc_mapping).fields}
    except SplitCorrupt as error:
        return {f.id: str(error) for f in plan.fields}
    stale = {}
    for wanted in plan.fields:
        if wanted.column is None:
            continue
        reason = _difference(built.get(wanted.id), wanted)
        if reason is not None:
            stale[wanted.id] = reason
    return stale


def reindex(
    store: Store,
    ref: SplitRef,
    options: opt.Options,
    *,
    plan: IndexPlan | None = None,
    prefix: str = "",
    partition_columns: Collection[str] = (),
    ambient: Ambient | None = None,
) -> WrittenSplit:
    """A new split with the same rows under the same numbers, deleted ones included, and a new index.

    A deletion vector of `ref` stays valid for the new split, but has to be bound to its key. Raises SplitCorrupt if the
    rows cannot be read, SplitError if they do not fit one split any more (merge it instead, which drops deleted rows).
    """
    whole = overridden(options, opt.SPLIT_MEMORY_BUDGET, 3_000_000_000)
    merged = merge_splits(
        store,
        [msgspec.structs.replace(ref, vector=None)],
        whole,
        plan=plan,
        prefix=prefix,
        partition_columns=partition_columns,
        ambient=ambient,
    )
    if merged.broken:
        reason = merged.broken[0].reason
        raise SplitCorrupt(reason, path=ref.key, part="rows", reason=reason)
    if len(merged.written) != 1:
        store.delete_many([split.key for split in merged.written])
        raise SplitError(f"{ref.key} does not fit one split any more: merge it instead", path=ref.key)
    return merged.written[0]


def _difference(built: FieldPlan | None, wanted: FieldPlan) -> str | None:
    if built is None or built.column is None:
        return "the field is not in the index"
    if (built.kind, built.multi) != (wanted.kind, wanted.multi):
        return f"the field is indexed as {built.kind}, the table wants {wanted.kind}"
    if wanted.indexed and not built.indexed:
        return "the field has no terms"
    if wanted.kind in ("text", "json") and built.analyzer != wanted.analyzer:
        return f"the field is analysed by {built.analyzer.registered_name}, not {wanted.analyzer.registered_name}"
    if wanted.record == "position" and built.record != "position":
        return "the field has no positions"
    if wanted.fast and not built.fast:
        return "the field has no fast values"
    return None
