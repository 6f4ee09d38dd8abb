from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.frames import EVERY_TYPE, LONG, OPTIONS, SHA, every_type, lines
from tests.world.clock import Clock

from indextables.errors import (
    InvalidArgument,
    InvariantViolated,
    SchemaInvalid,
    SchemaMismatch,
    SplitError,
    StoreFull,
    StoreUnavailable,
)
from indextables.options import Options
from indextables.split.file import layout
from indextables.split.file.reader import SplitReader
from indextables.split.file.scanning import scan
from indextables.split.index import segment
from indextables.split.index.fields import IndexPlan, plan_fields
from indextables.split.index.native import native_write
from indextables.split.write.feed import Feeder
from indextables.split.write.merge import RowDigest
from indextables.split.write.rows import normalise_schema, rows_per_page
from indextables.split.write.writer import SplitWriter, write_splits

TEXT = {"indexing.typemap.message": "text"}


def options(**more):
    return Options(TEXT | {k.replace("__", "."): v for k, v in more.items()}, environ={})


def digest(batches):
    found = RowDigest()
    for batch in batches:
        found.update(batch)
    return found.value()


def rows_of(store, split):
    return pa.Table.from_batches(scan(SplitReader(store, split.ref)))


def open_index(store, split, folder: Path) -> tantivy.Index:
    """The whole index of a split, extracted."""
    reader = SplitReader(store, split.ref)
    directory = reader.directory
    folder.mkdir()
    for name in layout.SEGMENT_PARTS:
        component = directory.component(name)
        start = split.index_start + component.offset
        if component.length:
            raw = layout.unpack(component, store.get_range(split.key, start, start + component.length), split.key)
        else:
            raw = bytes(component.raw_length - len(component.tail)) + component.tail
        (folder / f"{directory.segment}.{name}").write_bytes(raw)
    meta = {
        "index_settings": {"docstore_compression": "lz4", "docstore_blocksize": 16384},
        "segments": [{"segment_id": directory.segment, "max_doc": directory.num_rows, "deletes": None}],
        "schema": json.loads(directory.schema),
        "opstamp": 1,
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    index = tantivy.Index.open(str(folder))
    IndexPlan.from_doc_mapping(directory.doc_mapping).register_analyzers(index)
    return index


def term_rows(index, field, value):
    searcher = index.searcher()
    query = tantivy.Query.const_score_query(tantivy.Query.term_query(index.schema, field, value, "basic"), 1.0)
    return sorted(hit.doc for _, hit in searcher.search(query, limit=1000).hits)


def test_rows_of_every_type_come_back_bit_for_bit(store):
    table = every_type()
    (split,) = write_splits(store, [table], table.schema, Options(OPTIONS, environ={}))
    assert digest(scan(SplitReader(store, split.ref))) == digest(table.to_batches())
    assert rows_of(store, split).schema.equals(EVERY_TYPE)


def test_documents_are_the_rows_in_their_order(store, tmp_path):
    table = lines(5000)
    (split,) = write_splits(store, table.to_batches(700), table.schema, options())
    index = open_index(store, split, tmp_path / "index")
    assert index.searcher().num_segments == 1
    assert index.searcher().num_docs == 5000
    for row in (0, 1, 699, 700, 4999):
        assert term_rows(index, "message", str(row)) == [i for i in range(5000) if row in (i, i % 97)]
    assert term_rows(index, "level", "WARN")[:3] == [1, 4, 7]
    assert term_rows(index, "tags", "t2")[:2] == [2, 7]


def test_long_tokens_are_searchable_up_to_the_limit_and_flagged_beyond(store, tmp_path):
    table = every_type()
    (split,) = write_splits(store, [table], table.schema, Options(OPTIONS, environ={}))
    index = open_index(store, split, tmp_path / "index")
    assert term_rows(index, "text", SHA) == [0, 5]
    assert term_rows(index, "text", LONG) == []
    assert split.incomplete == {"text": ["longToken"], "name": ["longValue"], "addr": ["badValue"]}
    assert term_rows(index, "person.name", "bob") == [0, 3, 5]
    assert term_rows(index, "props.k", "v") == [0, 3, 5]
    assert term_rows(index, "counts.1", 0.5) == [0, 3, 5]
    assert term_rows(index, "people.name", "eve") == [0, 3, 5]
    assert term_rows(index, "tags", "b") == [0, 3, 5]


def test_a_field_is_flagged_only_if_a_term_is_missing(store):
    texts = ["x" * 255, " ".join(["word"] * 200), "é" * 127, "ab-" * 300, None, ""]
    table = pa.table({"message": texts})
    (split,) = write_splits(store, [table], table.schema, options())
    assert split.incomplete == {}
    longer = pa.table({"message": [*texts, "é" * 128]})
    (split,) = write_splits(store, [longer], table.schema, options())
    assert split.incomplete == {"message": ["longToken"]}


def test_the_directory_tells_token_totals_and_tails_that_open_the_index(store, tmp_path):
    table = pa.table({"message": ["a b c", "d e", None], "level": ["x", "y", "z"], "n": [1, 2, 3]})
    (split,) = write_splits(store, [table], table.schema, options())
    directory = SplitReader(store, split.ref).directory
    assert directory.tokens == {"message": 5, "level": 3}
    assert directory.null_counts == {"message": 1, "level": 0, "n": 0}
    folder = tmp_path / "holes"
    folder.mkdir()
    open_index(store, split, tmp_path / "whole")
    for name in layout.SEGMENT_PARTS:
        component = directory.component(name)
        hole = bytes(component.raw_length - len(component.tail))
        (folder / f"{directory.segment}.{name}").write_bytes(hole + component.tail)
    (folder / "meta.json").write_bytes((tmp_path / "whole" / "meta.json").read_bytes())
    index = tantivy.Index.open(str(folder))
    assert index.searcher().num_docs == 3


def test_tails_begin_exactly_where_tantivy_starts_to_read(store, tmp_path):
    table = lines(3000)
    (split,) = write_splits(store, [table], table.schema, options())
    open_index(store, split, tmp_path / "whole")
    directory = SplitReader(store, split.ref).directory
    for name in layout.SEGMENT_PARTS:
        data = memoryview((tmp_path / "whole" / f"{directory.segment}.{name}").read_bytes())
        start = segment.tail_start(data, name)
        assert bytes(data[start:]) == directory.component(name).tail
        assert start > 0


def test_offsets_of_the_log_are_those_of_the_file(store):
    table = lines(1000)
    (split,) = write_splits(store, [table], table.schema, options())
    data = store.get(split.key)
    assert len(data) == split.size
    assert data[:4] == data[-4:] == b"PAR1"
    assert split.footer_end == split.size - 8
    assert int.from_bytes(data[-8:-4], "little") == split.footer_end - split.footer_start
    assert data[split.index_start : split.index_start + 4] == b"ITIX"
    directory = SplitReader(store, split.ref).directory
    assert split.range1_length == directory.component("term").end
    assert sum(split.component_bytes.values()) == split.size


@pytest.mark.slow
def test_splits_roll_at_the_target_size_and_keep_the_order(store):
    table = lines(60_000)
    splits = write_splits(store, table.to_batches(5000), table.schema, options(split__targetSize="300000"))
    assert len(splits) > 2
    assert pa.concat_tables([rows_of(store, s) for s in splits]).equals(table)
    assert all(s.size < 900_000 for s in splits)


@pytest.mark.slow
def test_splits_roll_at_the_memory_budget(store):
    table = lines(60_000)
    splits = write_splits(store, [table], table.schema, options(split__memoryBudget="1048576"))
    assert len(splits) > 3
    assert sum(s.num_rows for s in splits) == 60_000


@pytest.mark.slow
def test_an_index_that_tantivy_cut_in_segments_is_built_again_as_two_splits(store, scratch):
    table = lines(120_000)
    with SplitWriter(store, table.schema, options(), heap_ceiling=15_000_000) as writer:
        writer.write(table)
        splits = writer.finish()
    assert len(splits) > 1
    assert pa.concat_tables([rows_of(store, s) for s in splits]).equals(table)
    for split in splits:
        assert SplitReader(store, split.ref).directory.num_rows == split.num_rows
    assert list(scratch.iterdir()) == []


def test_no_rows_make_no_split(store):
    table = lines(1).slice(0, 0)
    assert write_splits(store, [table], table.schema, options()) == []
    assert list(store.list_from("")) == []


def test_a_table_without_indexed_columns_is_a_split_without_a_segment(store):
    table = pa.table({"x": [1.5, 2.5], "b": [b"a", None]})
    (split,) = write_splits(store, [table], table.schema, options())
    reader = SplitReader(store, split.ref)
    assert reader.directory.segment == ""
    assert reader.fetch([1, 0]).equals(table.take([1, 0]))


def test_a_dropped_column_keeps_its_field_without_values(store, tmp_path):
    first = plan_fields(pa.schema([("gone", pa.string()), ("message", pa.string())]), options())
    table = pa.table({"message": ["hello"], "extra": ["new"]})
    plan = plan_fields(table.schema, options(), previous=first)
    (split,) = write_splits(store, [table], table.schema, options(), plan=plan)
    index = open_index(store, split, tmp_path / "index")
    assert term_rows(index, "message", "hello") == [0]
    assert term_rows(index, "extra", "new") == [0]
    assert term_rows(index, "gone", "x") == []


def test_pages_are_small_enough_for_long_documents():
    assert rows_per_page(lines(5000)) == 1024
    assert rows_per_page(pa.table({"body": ["x" * 14_000] * 100, "id": range(100)})) == 16
    assert rows_per_page(pa.table({"body": ["x" * 1000] * 100})) == 256
    assert rows_per_page(pa.table({"body": ["x" * 10_000_000]})) == 16


def test_each_column_has_the_form_that_suits_its_values(store):
    rng = np.random.default_rng(0)
    table = lines(20_000).append_column("noise", pa.array(rng.integers(-(2**62), 2**62, 20_000)))
    table = table.append_column("ok", pa.array([i % 2 == 0 for i in range(20_000)]))
    table = table.append_column("when", pa.array(np.cumsum(rng.integers(0, 5000, 20_000)), pa.timestamp("us")))
    table = table.append_column("some", pa.array([None if i % 3 else i for i in range(20_000)], pa.int32()))
    table = table.append_column("deep", pa.array([{"a": i, "b": ["x", "y"]} for i in range(20_000)]))
    (split,) = write_splits(store, [table], table.schema, options())
    group = SplitReader(store, split.ref).footer.metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    found = {c.path_in_schema: (c.has_dictionary_page, c.encodings, c.compression) for c in chunks}
    assert {path for path, (has, _, _) in found.items() if has} == {"level", "tags.list.element", "deep.b.list.element"}
    packed = {path for path, (_, encodings, _) in found.items() if "DELTA_BINARY_PACKED" in encodings}
    assert packed == {"id", "when", "some", "deep.a"}
    assert {path for path, (_, _, codec) in found.items() if codec == "ZSTD"} == {"message", "noise"}
    assert rows_of(store, split).equals(table)


@pytest.mark.slow
def test_row_groups_close_at_their_size(store):
    table = pa.table({"n": np.arange(300_000)})
    (split,) = write_splits(store, table.to_batches(), table.schema, options())
    meta = SplitReader(store, split.ref).footer.metadata
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [131_072, 131_072, 37_856]


def test_dictionaries_and_views_are_written_as_plain_columns(store):
    table = pa.table(
        {
            "level": pa.array(["a", "b", "a"]).dictionary_encode(),
            "message": pa.array(["x", "y", None], pa.string_view()),
            "nested": pa.array([["p"], [], None], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        }
    )
    (split,) = write_splits(store, [table], table.schema, options())
    rows = rows_of(store, split)
    assert [str(f.type) for f in rows.schema] == ["string", "string", "list<element: string>"]
    assert rows.to_pylist() == table.to_pylist()


def test_times_beyond_what_parquet_holds_are_refused_and_leave_nothing(store, scratch):
    table = pa.table({"ts": pa.array([2**60], pa.timestamp("s"))})
    with pytest.raises(SchemaMismatch, match="overflow"):
        write_splits(store, [table], table.schema, options())
    assert list(scratch.iterdir()) == []
    assert list(store.list_from("")) == []


def test_rows_of_another_schema_are_refused_and_leave_nothing(store, scratch):
    writer = SplitWriter(store, lines(1).schema, options())
    writer.write(lines(10))
    with pytest.raises(SchemaMismatch, match="other"):
        writer.write(pa.table({"other": [1]}))
    with pytest.raises(SchemaMismatch):
        writer.write(lines(1).set_column(0, "id", pa.array(["not a number"])))
    writer.abort()
    assert list(scratch.iterdir()) == []
    assert list(store.list_from("")) == []


class FailingStore:
    """A store whose k-th put of a file fails, before or after it landed."""

    def __init__(self, store, fail_at, landed):
        self._store, self._left, self._landed = store, fail_at, landed

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_file(self, key, source, *, policy=None):
        self._left -= 1
        if self._left < 0:
            if self._landed:
                self._store.put_file(key, source)
            raise StoreUnavailable("no answer", key=key)
        self._store.put_file(key, source)


@pytest.mark.slow
@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("fail_at", [0, 1, 2])
def test_a_failing_put_leaves_neither_scratch_files_nor_objects(store, scratch, fail_at, landed):
    table = lines(60_000)
    with pytest.raises(StoreUnavailable):
        write_splits(
            FailingStore(store, fail_at, landed), table.to_batches(), table.schema, options(split__targetSize="300000")
        )
    assert list(scratch.iterdir()) == []
    assert list(store.list_from("")) == []


@pytest.mark.slow
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError(28, "No space left on device")])
def test_an_interrupted_source_leaves_nothing(store, scratch, error):
    def batches():
        yield from lines(30_000).to_batches(1000)
        raise error

    with pytest.raises(type(error)):
        write_splits(store, batches(), lines(1).schema, options(split__targetSize="300000"))
    assert list(scratch.iterdir()) == []
    assert list(store.list_from("")) == []


def test_writers_that_count_the_same_tokens_do_not_meet_in_scratch(store, scratch):
    first, second = (
        SplitWriter(store, lines(1).schema, options(), prefix=prefix, ambient=Clock(seed=0)) for prefix in ("a/", "b/")
    )
    first.write(lines(10))
    second.write(lines(10))
    assert [split.num_rows for writer in (first, second) for split in writer.finish()] == [10, 10]
    assert list(scratch.iterdir()) == []


def test_a_full_scratch_disk_is_an_error_that_leaves_nothing(store, scratch, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(StoreFull, match="TMPDIR"):
        write_splits(store, [lines(100)], lines(1).schema, options())
    assert list(scratch.iterdir()) == []
    assert list(store.list_from("")) == []


def test_scratch_files_are_private(store, scratch):
    with SplitWriter(store, lines(1).schema, options(split__memoryScratch="false")) as writer:
        writer.write(lines(10))
        (folder,) = scratch.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(scratch.iterdir()) == []


def test_a_writer_ends_once(store):
    writer = SplitWriter(store, lines(1).schema, options())
    writer.write(lines(10))
    (split,) = writer.finish()
    writer.abort()
    assert store.exists(split.key)
    with pytest.raises(InvariantViolated):
        writer.write(lines(1))


def test_rows_that_fit_are_the_same_rows_however_they_are_handed_over(store):
    table = every_type()
    (cast,) = write_splits(store, [table], table.schema, Options(OPTIONS, environ={}))
    with SplitWriter(store, table.schema, Options(OPTIONS, environ={})) as writer:
        for batch in table.cast(normalise_schema(table.schema)).to_batches():
            writer.write_fitted(batch)
        (fitted,) = writer.finish()
    assert rows_of(store, fitted).schema == rows_of(store, cast).schema
    assert digest(rows_of(store, fitted).to_batches()) == digest(rows_of(store, cast).to_batches())
    assert fitted.statistics == cast.statistics


def test_rows_that_do_not_fit_are_not_taken_as_if_they_did(store, scratch):
    writer = SplitWriter(store, lines(1).schema, options())
    (batch,) = lines(3).to_batches()
    with pytest.raises(InvariantViolated, match="said to fit"):
        writer.write_fitted(batch.select(batch.schema.names[::-1]))
    writer.abort()
    assert list(store.list_from("")) == []
    assert list(scratch.iterdir()) == []


def test_what_verification_refuses_is_undone(store, scratch):
    def refuse(splits):
        assert len(splits) == 1
        raise InvariantViolated("no")

    with SplitWriter(store, lines(1).schema, options()) as writer:
        writer.write(lines(10))
        with pytest.raises(InvariantViolated):
            writer.finish(verify=refuse)
    assert list(store.list_from("")) == []
    assert list(scratch.iterdir()) == []


def test_a_tokenizer_that_is_none_is_refused_before_anything_is_written(store, scratch):
    with pytest.raises(InvalidArgument):
        write_splits(store, [lines(1)], lines(1).schema, options(indexing__tokenizer__message="nope"))
    assert list(scratch.iterdir()) == []


def test_a_panic_of_the_library_is_a_split_error():
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("a")
    searcher = tantivy.Index(builder.build()).searcher()
    with pytest.raises(SplitError, match="panicked"), native_write("nothing works"):
        searcher.search(tantivy.Query.all_query(), limit=0)


@pytest.mark.parametrize("tokenizer", ["default", "whitespace", "raw", "en_stem", "ngram(2,3)"])
def test_every_tokenizer_writes_an_index_that_opens(store, tmp_path, tokenizer):
    table = pa.table({"message": ["Running fast", None, "x" * 300, ""]})
    (split,) = write_splits(store, [table], table.schema, options(indexing__tokenizer__message=tokenizer))
    index = open_index(store, split, tmp_path / "index")
    word = {"default": "running", "whitespace": "Running", "raw": "Running fast", "en_stem": "run"}.get(tokenizer, "ru")
    assert term_rows(index, "message", word) == [0]
    assert split.incomplete == ({} if tokenizer in ("raw", "ngram(2,3)") else {"message": ["longToken"]})


def test_fast_text_keeps_whole_values(store, tmp_path):
    table = pa.table({"message": ["b c", "a d", "a d"]})
    (split,) = write_splits(store, [table], table.schema, options(indexing__fastfields="message"))
    index = open_index(store, split, tmp_path / "index")
    found = index.searcher().aggregate(tantivy.Query.all_query(), {"a": {"terms": {"field": "message"}}})
    assert {b["key"]: b["doc_count"] for b in found["a"]["buckets"]} == {"a d": 2, "b c": 1}


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from("aé東_ ,\t"), st.integers(1, 90)), max_size=8), min_size=1, max_size=5),
    st.sampled_from(["default", "whitespace"]),
    st.integers(1, 120),
)
def test_a_split_is_flagged_exactly_if_a_token_is_longer_than_the_limit(texts, tokenizer, limit):
    values = ["".join(char * count for char, count in runs) for runs in texts]
    words = r"\S+" if tokenizer == "whitespace" else r"[^\W_]+"
    long = any(len(word.encode()) > limit for value in values for word in re.findall(words, value))
    schema = pa.schema([("message", pa.string())])
    given_options = options(indexing__tokenizer__message=tokenizer, indexing__tokenLength__message=str(limit))
    feeder = Feeder(plan_fields(schema, given_options), schema)
    feeder.lines(pa.record_batch([pa.array(values, pa.string())], schema=schema))
    assert feeder.gaps == ({"message": {"longToken"}} if long else {})


def test_metadata_of_another_split_does_not_travel_with_its_rows(store):
    table = lines(10).replace_schema_metadata({layout.KEY: b"the pointer of another split"})
    (split,) = write_splits(store, [table], table.schema, options())
    assert rows_of(store, split).equals(lines(10))


@pytest.mark.parametrize("names", [[], ["a", "a"], ["a", "A"]])
def test_a_schema_that_no_table_can_have_is_refused(store, names):
    schema = pa.schema([pa.field(name, pa.int64()) for name in names])
    with pytest.raises(SchemaInvalid):
        SplitWriter(store, schema, options())
