"""How do scores of separate indexes become comparable? Statistics as a value, and a segment that carries them.

BM25 needs three numbers of the whole collection: how many rows, how many of them have the term, how long a field is
on average. `TermStats` holds them; processes exchange and add them up. An index that holds only some of the rows then
gets two corrections:

- a *carrier* segment, one document with a term in every indexed field, which claims at least `CARRIER_DOCS` documents,
  all deleted. Its token totals are set so that the average field length of the index is that of the collection.
- a boost for each scored term: the collection's idf over the one that this index computes.

N and df count deleted rows too, as Tantivy does until a merge drops them.
"""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tantivy

from indextables.split.file import SEGMENT_PARTS
from indextables.split.index import MAX_GRAM, FieldPlan, IndexPlan, composite_parts, delfile
from indextables.split.query import LeafTarget, Plan, Terms, scored_leaves

CARRIER_DOCS = 131_072
_TRIES = 1_024
_CARRIER_TERM = "indextablescarrier"
_U64 = 1 << 64


class TermStats(msgspec.Struct, frozen=True):
    """What BM25 must know of a set of splits: rows, tokens by field id, and rows by term (`term_key`)."""

    num_docs: int = 0
    tokens: dict[str, int] = {}
    doc_freqs: dict[str, int] = {}

    def __add__(self, other: TermStats) -> TermStats:
        return TermStats(
            self.num_docs + other.num_docs, _added(self.tokens, other.tokens), _added(self.doc_freqs, other.doc_freqs)
        )


def merge_stats(parts: Iterable[TermStats]) -> TermStats:
    """The statistics of disjoint sets of splits, together."""
    total = TermStats()
    for part in parts:
        total += part
    return total


def term_key(target: LeafTarget, term: str) -> str:
    """How `TermStats.doc_freqs` names a term of a field (or of a path in a nested one)."""
    return f"{target.address}\0{term}"


def scored_terms(plan: Plan) -> list[tuple[LeafTarget, str]]:
    """Every term whose frequency the scores of a plan depend on, each once."""
    found = {term_key(leaf.target, term): (leaf.target, term) for leaf in scored_leaves(plan) for _, term in leaf.terms}
    return list(found.values())


def idf(num_docs: int, doc_freq: int) -> float:
    """Inverse document frequency as Tantivy computes it: in 32 bits, of which a word of nearly all rows leaves few."""
    half = np.float32(0.5)
    odds = (np.float32(num_docs - doc_freq) + half) / (np.float32(doc_freq) + half)
    return float(np.float32(math.log(np.float32(1) + odds)))


def boost_of(leaf: Terms, everywhere: TermStats, here: TermStats) -> float:
    """What to multiply a leaf's score by: `here` is what the index counts, the carrier included."""
    wanted = sum(idf(everywhere.num_docs, _df(everywhere, leaf.target, term)) for _, term in leaf.terms)
    counted = sum(idf(here.num_docs, _df(here, leaf.target, term)) for _, term in leaf.terms)
    return wanted / counted if counted > 0 else 1.0


class CarrierSegment(msgspec.Struct, frozen=True):
    """The files of a carrier by extension, and what `meta.json` says of it."""

    files: dict[str, bytes]
    deletions: bytes
    num_docs: int


def make_carrier(
    plan: IndexPlan, everywhere: TermStats, own: TermStats, scored: Collection[str] = ()
) -> CarrierSegment:
    """The segment that makes an index with the splits of `own` average like the collection `everywhere`.

    It is most exact for the fields of `scored`.
    """
    files, version = _template(plan.doc_mapping())
    docs = _docs(everywhere, own, scored)
    totals = {}
    for ordinal, field in enumerate(plan.fields):
        if everywhere.num_docs and field.indexed:
            rows = own.num_docs + docs
            wanted = (2 * everywhere.tokens.get(field.id, 0) * rows + everywhere.num_docs) // (2 * everywhere.num_docs)
            totals[ordinal] = (wanted - own.tokens.get(field.id, 0)) % _U64
    patched = dict(files)
    patched["idx"] = set_token_totals(files["idx"], totals, version)
    nobody = np.zeros(-(-docs // 64), dtype=np.uint64)
    deletions, _ = delfile.encode(nobody, docs, version)
    return CarrierSegment(patched, deletions, docs)


def _docs(everywhere: TermStats, own: TermStats, scored: Collection[str]) -> int:
    """How many documents a carrier claims: so many that its tokens, whole numbers, give the averages of `scored`.

    A total is off by half a token at most, which is much where few rows have any. If the index and the carrier
    are a multiple of the collection, nothing is rounded. For a large one the best of some numbers is taken: those that
    follow each other, which serve several fields, and those that make the tokens of one field whole.
    """
    rows, collection = own.num_docs, everywhere.num_docs
    if 0 < collection <= CARRIER_DOCS:
        return -(-(rows + CARRIER_DOCS) // collection) * collection - rows
    tokens = [count for field in scored if (count := everywhere.tokens.get(field, 0)) and count % collection]
    if not tokens:
        return CARRIER_DOCS

    def error(docs: int) -> float:
        missing = ((count, count * (rows + docs) % collection) for count in tokens)
        return max(min(over, collection - over) / (count * (rows + docs)) for count, over in missing)

    tried = list(range(CARRIER_DOCS, CARRIER_DOCS + _TRIES))
    for count in tokens:
        first = -(-count * (rows + CARRIER_DOCS) // collection)
        whole = ((2 * total * collection + count) // (2 * count) - rows for total in range(first, first + _TRIES // 8))
        tried += [docs for docs in whole if CARRIER_DOCS <= docs <= 2 * CARRIER_DOCS]
    return min(tried, key=error)


def set_token_totals(idx: bytes, totals: Mapping[int, int], version: bytes) -> bytes:
    """An `.idx` file with other token totals (by field ordinal), its checksum renewed.

    Fields that are not in it must have no tokens. Raises SplitCorrupt.
    """
    view = memoryview(idx)
    starts = {field: start for field, start, end in composite_parts(view, "idx") if end - start >= 8}
    (footer,) = struct.unpack("<I", idx[-8:-4])
    body = bytearray(idx[: len(idx) - 8 - footer])
    for field, total in totals.items():
        if field in starts:
            struct.pack_into("<Q", body, starts[field], total)
        elif total:
            raise AssertionError(f"the carrier has no token in field {field}: its average would be wrong")
    return delfile.with_footer(bytes(body), version)


@lru_cache(maxsize=64)
def _template(doc_mapping: str) -> tuple[dict[str, bytes], bytes]:
    """The files of a carrier without its totals: one document, written by Tantivy itself."""
    plan = IndexPlan.from_doc_mapping(doc_mapping)
    with tempfile.TemporaryDirectory(prefix="indextables-carrier-") as folder:
        index = tantivy.Index(plan.schema(), path=folder)
        plan.register_analyzers(index)
        writer = index.writer(15_000_000, 1)
        writer.add_document(tantivy.Document.from_dict(_document(plan), plan.schema()))
        writer.commit()
        writer.wait_merging_threads()
        meta = msgspec.json.decode(Path(folder, "meta.json").read_bytes())
        segment = meta["segments"][0]["segment_id"].replace("-", "")
        files = {part: Path(folder, f"{segment}.{part}").read_bytes() for part in SEGMENT_PARTS}
    return files, delfile.footer_version(files["idx"])


def _document(plan: IndexPlan) -> dict[str, Any]:
    return {field.id: _value(field) for field in plan.fields}


def _value(field: FieldPlan) -> Any:
    """A value of which the analyzer of a field leaves a term, however short its terms are."""
    text = _CARRIER_TERM * -(-MAX_GRAM // len(_CARRIER_TERM))
    if field.analyzer.keeps_positions:
        text = _CARRIER_TERM[: field.token_length]
    match field.kind:
        case "text" | "string":
            return text
        case "json":
            return {_CARRIER_TERM: text}
        case "ip":
            return "::"
        case "bool":
            return False
        case _:
            return 0


def _added(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in {**left, **right}}


def _df(stats: TermStats, target: LeafTarget, term: str) -> int:
    return stats.doc_freqs.get(term_key(target, term), 0)
