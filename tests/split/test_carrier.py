"""A carrier segment has a token in every field, so that it can make the average of each what it should be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.split.search_world import open_searcher
from tests.split.test_fallback import answers, assert_same

from indextables.options import Options
from indextables.split.index.analyze import MAX_GRAM, STEMMERS
from indextables.split.index.fields import plan_fields
from indextables.split.index.segment import token_totals
from indextables.split.search.carrier import CARRIER_DOCS, TermStats, make_carrier
from indextables.split.write.writer import write_splits
from indextables.storage import open_store

ANALYZERS = [
    "default",
    "whitespace",
    "raw",
    f"ngram({MAX_GRAM},{MAX_GRAM})",
    f"edge_ngram({MAX_GRAM},{MAX_GRAM})",
    *(f"{code}_stem" for code in STEMMERS),
]
SCHEMA = pa.schema([("id", pa.int64()), ("words", pa.string()), ("inner", pa.map_(pa.string(), pa.string()))])

_ID_LEFT_OUT = {"indexing.typemap.id": "none"}


@pytest.mark.parametrize("length", [1, 5, 255])
def test_every_analyzer_leaves_a_carrier_its_tokens_however_short_they_must_be(length):
    given, columns = {}, []
    for number, analyzer in enumerate(ANALYZERS):
        for name, kind in ((f"w{number}", pa.string()), (f"m{number}", SCHEMA.field("inner").type)):
            columns.append(pa.field(name, kind))
            given |= {f"indexing.tokenizer.{name}": analyzer, f"indexing.tokenLength.{name}": str(length)}
        given[f"indexing.typemap.w{number}"] = "text"
    plan = plan_fields(pa.schema(columns), Options(given, environ={}))
    tokens = {field.id: 30 + place for place, field in enumerate(plan.fields)}
    carrier = make_carrier(plan, TermStats(1, tokens), TermStats(0, {}))
    totals = token_totals(memoryview(carrier.files["idx"]))
    assert totals == {place: (30 + place) * CARRIER_DOCS for place in range(len(columns))}


@pytest.mark.parametrize("query", ["words:aa", "words:aa words:bb", "inner.k:aa"])
def test_splits_of_two_schemas_with_short_tokens_only_score_as_one(tmp_path, query):
    rows = [{"words": "aa bb" + " cc" * (n % 5), "inner": [("k", "aa" + " dd" * (n % 3))]} for n in range(40)]
    rows += [{"words": "bb", "inner": []} for _ in range(40)]
    table = pa.Table.from_pylist([{"id": n, **row} for n, row in enumerate(rows)], schema=SCHEMA)
    given = {"indexing.typemap.words": "text", "indexing.tokenLength.words": "4", "indexing.tokenLength.inner": "4"}
    now, before = (Options({**given, **more}, environ={}) for more in ({}, _ID_LEFT_OUT))
    store = open_store(tmp_path / "t", Options({"storage.fsync": "false"}, environ={}))
    index = plan_fields(table.schema, now)
    whole = [w.ref for w in write_splits(store, [table], table.schema, now)]
    parts = [w.ref for w in write_splits(store, [table.slice(0, 25)], table.schema, before)]
    parts += [w.ref for w in write_splits(store, [table.slice(25)], table.schema, now)]
    one, two = (
        open_searcher(store, refs, tmp_path / "cache", schema=table.schema, index=index) for refs in (whole, parts)
    )
    assert_same(answers(two, query), answers(one, query))


@pytest.mark.parametrize("rows", [100, 333, 1_000, 2_000])
def test_a_word_of_all_rows_scores_as_in_one_split(tmp_path, rows):
    """Tantivy loses most digits of its weight, which is nearly none: the others must lose the same."""
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("words")])
    table = pa.table({"id": range(rows), "words": ["aa" + " cc" * (n % 5) for n in range(rows)]}, schema=schema)
    now, before = (Options({"indexing.typemap.words": "text", **m}, environ={}) for m in ({}, _ID_LEFT_OUT))
    store = open_store(tmp_path / "t", Options({"storage.fsync": "false"}, environ={}))
    whole = [w.ref for w in write_splits(store, [table], schema, now)]
    parts = [w.ref for w in write_splits(store, [table.slice(0, 25)], schema, before)]
    parts += [w.ref for w in write_splits(store, [table.slice(25)], schema, now)]
    more = {"schema": schema, "index": plan_fields(schema, now)}
    one, two = (open_searcher(store, refs, tmp_path / "cache", **more) for refs in (whole, parts))
    assert_same(answers(two, "words:aa"), answers(one, "words:aa"))


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.floats(1e-4, 50))
def test_the_average_is_that_of_the_collection_however_few_rows_have_a_value(collection, rows, average):
    tokens = max(round(average * collection), -(-collection // 10_000))
    rows = min(rows, collection)
    own = tokens * rows // collection
    plan = plan_fields(pa.schema([("words", pa.string())]), Options({}, environ={}))
    carrier = make_carrier(plan, TermStats(collection, {"words": tokens}), TermStats(rows, {"words": own}), ["words"])
    total = token_totals(memoryview(carrier.files["idx"]))[0]
    assert CARRIER_DOCS <= carrier.num_docs <= 2 * CARRIER_DOCS
    # Tantivy adds up 64-bit numbers, which may wrap around.
    found = (total + own) % 2**64 / (rows + carrier.num_docs)
    assert found == pytest.approx(tokens / collection, rel=1e-5)
