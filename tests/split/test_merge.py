from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.frames import OPTIONS, every_type, lines

from indextables.errors import InvalidArgument, InvariantViolated, SplitCorrupt, SplitError
from indextables.options import Options
from indextables.split.file import dv
from indextables.split.file.layout import HEADER_BYTES
from indextables.split.file.reader import SplitReader
from indextables.split.file.ref import SplitRef
from indextables.split.file.scanning import scan
from indextables.split.index.fields import plan_fields
from indextables.split.write.merge import RowDigest, merge_splits, project
from indextables.split.write.reindex import INDEX_FORMAT, foreign_index, reindex, stale_fields
from indextables.split.write.writer import SplitWriter, write_splits
from indextables.storage import open_store


def options(**more):
    given_options = {"indexing.typemap.message": "text"} | {k.replace("__", "."): v for k, v in more.items()}
    return Options(given_options, environ={})


def digest(batches):
    found = RowDigest()
    for batch in batches:
        found.update(batch)
    return found.value()


def rows_of(store, split):
    return pa.Table.from_batches(scan(SplitReader(store, split.ref)))


def with_vector(split, rows):
    return msgspec.structs.replace(split.ref, vector=dv.encode(rows))


def damage(store, key, at, bits=0xFF):
    data = bytearray(store.get(key))
    data[at] ^= bits
    store.put(key, bytes(data))


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(st.lists(st.tuples(st.integers(1, 400), st.sets(st.integers(0, 399), max_size=50)), min_size=1, max_size=5))
def test_a_merge_is_the_live_rows_of_its_sources_in_their_order(sources):
    store = open_store("memory://merge")
    refs, expected, start = [], [], 0
    for count, deleted in sources:
        table = lines(count, start)
        (split,) = write_splits(store, [table], table.schema, options())
        gone = {row for row in deleted if row < count}
        refs.append(with_vector(split, gone) if gone else split.ref)
        left = [row for row in range(count) if row not in gone]
        expected.append(table.take(pa.array(left, pa.int64())))
        start += count
    whole = pa.concat_tables(expected)
    merged = merge_splits(store, refs, options())
    assert merged.broken == []
    assert merged.merged == [ref.key for ref in refs]
    assert merged.rows == whole.num_rows
    assert merged.deleted == start - whole.num_rows
    found = [rows_of(store, split) for split in merged.written]
    assert pa.concat_tables(found).equals(whole) if whole.num_rows else found == []


def test_rows_of_every_type_survive_a_merge_bit_for_bit(store):
    table = every_type()
    opts = Options(OPTIONS, environ={})
    (split,) = write_splits(store, [table], table.schema, opts)
    merged = merge_splits(store, [split.ref, with_vector(split, [1, 4])], opts)
    kept = pa.concat_tables([table, table.take([0, 2, 3, 5])])
    assert digest(scan(SplitReader(store, merged.written[0].ref))) == digest(kept.combine_chunks().to_batches())


@pytest.mark.slow
def test_many_splits_become_one_whatever_the_target_size(store):
    opts = options(split__targetSize="100000")
    splits = write_splits(store, [lines(30_000)], lines(1).schema, opts)
    assert len(splits) > 3
    merged = merge_splits(store, [s.ref for s in splits], opts)
    assert len(merged.written) == 1
    assert rows_of(store, merged.written[0]).equals(lines(30_000))


def test_sources_without_the_offsets_of_the_log_are_merged_too(store):
    (split,) = write_splits(store, [lines(10)], lines(1).schema, options())
    assert merge_splits(store, [SplitRef(split.key)], options()).rows == 10


def test_a_broken_source_is_named_and_left_out_wherever_it_breaks(store, scratch):
    schema = lines(1).schema
    splits = [write_splits(store, [lines(2000, i * 2000)], schema, options())[0] for i in range(6)]
    damage(store, splits[1].key, splits[1].footer_start + 5)
    damage(store, splits[2].key, 1000)
    store.put(splits[3].key, store.get(splits[3].key)[:5000])
    store.delete_many([splits[4].key])
    refs = [s.ref for s in splits]
    refs[5] = msgspec.structs.replace(refs[5], vector=dv.encode([5_000]))
    before = {meta.key for meta in store.list_from("")}
    merged = merge_splits(store, refs, options())
    assert {broken.key for broken in merged.broken} == {s.key for s in splits[1:]}
    assert all(broken.reason for broken in merged.broken)
    assert merged.merged == [splits[0].key]
    assert rows_of(store, merged.written[0]).equals(lines(2000))
    assert {meta.key for meta in store.list_from("")} == before | {merged.written[0].key}
    assert list(scratch.iterdir()) == []


def test_when_every_source_is_broken_nothing_is_written(store):
    (split,) = write_splits(store, [lines(100)], lines(1).schema, options())
    damage(store, split.key, split.footer_start + 5)
    merged = merge_splits(store, [split.ref], options())
    assert (merged.written, merged.merged, merged.rows) == ([], [], 0)


def test_a_merge_of_nothing_is_nothing(store):
    assert merge_splits(store, [], options()).written == []


def test_content_that_changes_on_the_way_undoes_the_merge(store, scratch, monkeypatch):
    (split,) = write_splits(store, [lines(100)], lines(1).schema, options())
    write = SplitWriter.write

    def lossy(self, data):
        write(self, data.slice(1))

    monkeypatch.setattr(SplitWriter, "write", lossy)
    with pytest.raises(InvariantViolated, match="100 rows and wrote 99"):
        merge_splits(store, [split.ref], options())
    assert [meta.key for meta in store.list_from("")] == [split.key]
    assert list(scratch.iterdir()) == []


def test_columns_are_found_by_id_and_missing_ones_are_null():
    kept = {b"indextables.id": b"c1"}
    old = pa.schema([pa.field("was", pa.int32(), metadata=kept), ("B", pa.string()), ("gone", pa.string())])
    new = pa.schema([("b", pa.string()), pa.field("now", pa.int64(), metadata=kept), ("fresh", pa.bool_())])
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), pa.array(["x"]), pa.array(["y"])], schema=old)
    assert project(batch, new).to_pylist() == [{"b": "x", "now": 1, "fresh": None}]
    with pytest.raises(InvalidArgument, match="now"):
        project(batch, pa.schema([pa.field("now", pa.bool_(), metadata={b"indextables.id": b"B"})]))


def test_merging_takes_the_tables_schema(store):
    (split,) = write_splits(store, [lines(5)], lines(1).schema, options())
    schema = pa.schema([("message", pa.string()), ("extra", pa.int64())])
    merged = merge_splits(store, [split.ref], options(), schema=schema)
    assert rows_of(store, merged.written[0]).schema.names == ["message", "extra"]


@pytest.mark.slow
@given(st.lists(st.integers(1, 6), max_size=6))
def test_a_digest_does_not_depend_on_batches(cuts):
    table = every_type()
    batches, at = [], 0
    for cut in cuts:
        batches += table.slice(at, cut).combine_chunks().to_batches()
        at += cut
    batches += table.slice(at).combine_chunks().to_batches()
    assert digest(batches) == digest(table.combine_chunks().to_batches())


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([0.0], [-0.0]),
        ([None], [0.0]),
        ([1.0, 2.0], [2.0, 1.0]),
        (["a", "bc"], ["ab", "c"]),
        ([""], [None]),
        ([[1], []], [[], [1]]),
        ([[1, 2]], [[1], [2]]),
        ([None], [[]]),
        ([{"a": None}], [None]),
        ([True, None], [True, False]),
    ],
)
def test_a_digest_tells_rows_apart(one, two):
    kind = pa.array([*one, *two]).type
    left, right = (pa.record_batch([pa.array(rows, kind)], ["c"]) for rows in (one, two))
    assert digest([left]) != digest([right])


def test_reindexing_keeps_every_row_under_its_number(store):
    (split,) = write_splits(store, [lines(500)], lines(1).schema, options())
    ref = with_vector(split, [3, 4])
    plan = plan_fields(lines(1).schema, options(indexing__tokenizer__message="en_stem"))
    again = reindex(store, ref, options(), plan=plan)
    assert again.key != split.key
    assert rows_of(store, again).equals(lines(500))
    assert stale_fields(SplitReader(store, again.ref).directory, plan) == {}


def test_a_damaged_index_is_rebuilt_from_the_rows(store):
    (split,) = write_splits(store, [lines(500)], lines(1).schema, options())
    damage(store, split.key, split.index_start + HEADER_BYTES + 3)
    with pytest.raises(SplitCorrupt, match="checksum"):
        _ = SplitReader(store, split.ref).directory
    reader = SplitReader(store, split.ref)
    assert reader.fetch([7]).equals(lines(500).slice(7, 1))
    assert "checksum" in reader.pages_problem
    again = reindex(store, split.ref, options())
    assert SplitReader(store, again.ref).directory.num_rows == 500


def test_rows_that_are_gone_cannot_be_reindexed(store):
    (split,) = write_splits(store, [lines(500)], lines(1).schema, options())
    damage(store, split.key, 300)
    with pytest.raises(SplitCorrupt):
        reindex(store, split.ref, options())


def test_a_changed_analyzer_or_column_is_seen_from_the_directory(store):
    (split,) = write_splits(store, [lines(10)], lines(1).schema, options())
    directory = SplitReader(store, split.ref).directory
    assert stale_fields(directory, plan_fields(lines(1).schema, options())) == {}

    def stale(schema, **changed):
        return stale_fields(directory, plan_fields(schema, options(**changed)))

    schema = lines(1).schema
    assert set(stale(schema, indexing__tokenizer__message="en_stem")) == {"message"}
    assert set(stale(schema, indexing__tokenLength__message="100")) == {"message"}
    assert set(stale(schema, indexing__fastfields="level")) == {"level"}
    assert set(stale(schema, indexing__typemap__level="text")) == {"level"}
    assert set(stale(schema, indexing__indexrecordoption__id="basic")) == {"id"}
    assert set(stale(schema.append(pa.field("new", pa.string())))) == {"new"}
    broken = msgspec.structs.replace(directory, doc_mapping="{}")
    assert set(stale_fields(broken, plan_fields(schema, options()))) == {"id", "level", "message", "tags"}


def test_an_index_of_another_tantivy_is_foreign(store):
    (split,) = write_splits(store, [lines(10)], lines(1).schema, options())
    directory = SplitReader(store, split.ref).directory
    assert foreign_index(directory) is None
    assert directory.index_format == INDEX_FORMAT
    assert "format 99" in foreign_index(msgspec.structs.replace(directory, index_format=99))
    assert foreign_index(None) is not None


@pytest.mark.slow
def test_a_split_too_large_for_one_segment_is_not_reindexed_silently_as_two(store, monkeypatch):
    (split,) = write_splits(store, [lines(60_000)], lines(1).schema, options())
    small = SplitWriter.__init__.__kwdefaults__ | {"heap_ceiling": 15_000_000}
    monkeypatch.setattr(SplitWriter.__init__, "__kwdefaults__", small)
    with pytest.raises(SplitError, match="merge it instead"):
        reindex(store, split.ref, options())
    assert [meta.key for meta in store.list_from("")] == [split.key]


class Backwards:
    """Every second row, the last one first."""

    def wanted(self, batch):
        return pa.array([row % 2 == 0 for row in range(batch.num_rows)])

    def order(self, rows):
        return pa.array(range(rows.num_rows - 1, -1, -1), pa.int64())


def test_rows_of_every_type_can_be_arranged(store):
    table = every_type()
    opts = Options(OPTIONS, environ={})
    (split,) = write_splits(store, [table], table.schema, opts)
    merged = merge_splits(store, [split.ref, with_vector(split, [1])], opts, arrange=Backwards())
    kept = pa.concat_tables([table.take([0, 2, 4]), table.take([0, 3, 5])])
    expected = kept.take(list(range(5, -1, -1))).combine_chunks()
    assert digest(scan(SplitReader(store, merged.written[0].ref))) == digest(expected.to_batches())
    assert (merged.live, merged.deleted, merged.rows) == ([6, 5], 1, 6)


def test_a_merge_that_stops_at_a_broken_source_writes_nothing(store):
    splits = [write_splits(store, [lines(100, i * 100)], lines(1).schema, options())[0] for i in range(3)]
    damage(store, splits[1].key, 100)
    before = {meta.key for meta in store.list_from("")}
    merged = merge_splits(store, [split.ref for split in splits], options(), stop_at_broken=True)
    assert ([gone.key for gone in merged.broken], merged.written, merged.merged) == ([splits[1].key], [], [])
    assert {meta.key for meta in store.list_from("")} == before
