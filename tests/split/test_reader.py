from __future__ import annotations

import threading
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.frames import OPTIONS, every_type, lines
from tests.world.store import CountingStore

from indextables.ambient import SystemAmbient
from indextables.errors import InvalidArgument, ObjectNotFound, SplitCorrupt, StoreUnavailable
from indextables.options import Options
from indextables.query.parse import parse
from indextables.split.file import dv
from indextables.split.file.groups import RangesFile, chunk_ranges, decode_groups
from indextables.split.file.reader import SplitReader, resolve
from indextables.split.file.ref import SplitRef
from indextables.split.file.scanning import count_rows, scan
from indextables.split.write.merge import RowDigest
from indextables.split.write.writer import write_splits
from indextables.storage import open_store

ROWS = 3000


def options():
    return Options({"indexing.typemap.message": "text"}, environ={})


class FailingStore(CountingStore):
    """Raises once so many reads have been answered."""

    def __init__(self, store, *, after, error):
        super().__init__(store)
        self._after = after
        self._error = error

    def get_ranges(self, key, ranges, **more):
        if len(self.calls) >= self._after:
            raise self._error
        return super().get_ranges(key, ranges, **more)


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal bit for bit, NaN included."""
    digests = []
    for table in (left, right):
        digest = RowDigest()
        for batch in table.combine_chunks().to_batches():
            digest.update(batch)
        digests.append(digest.value())
    return digests[0] == digests[1] and left.schema.equals(right.schema)


def nested(count: int) -> pa.Table:
    """Columns whose pages end at different rows: lists of long strings beside plain numbers."""
    rng = np.random.default_rng(3)
    words = [["word" * int(k)] * int(k) for k in rng.integers(0, 30, count)]
    people = [None if i % 7 == 0 else {"n": i, "l": [{"a": "x" * (i % 50), "b": [i] * (i % 3)}]} for i in range(count)]
    inner = pa.struct([("a", pa.string()), ("b", pa.list_(pa.int32()))])
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "words": pa.array(words, pa.list_(pa.string())),
            "deep": pa.array(people, pa.struct([("n", pa.int64()), ("l", pa.list_(inner))])),
            "maps": pa.array([[("k", i)] * (i % 2) for i in range(count)], pa.map_(pa.string(), pa.int64())),
            "half": pa.array([None if i % 2 else f"v{i}" for i in range(count)]),
            "level": pa.array([("a", "b")[i % 2] for i in range(count)]),
            "wide": pa.array([float(i) for i in range(count)], pa.float32()),
        }
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    store = open_store(tmp_path_factory.mktemp("reader") / "table")
    table = nested(ROWS)
    (split,) = write_splits(store, [table], table.schema, options())
    return store, table, split


@pytest.fixture(scope="module")
def refs(world):
    """The same rows as a split of one row group, and as a file of somebody else with several."""
    store, table, split = world
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=700)
    store.put("groups.parquet", sink.getvalue().to_pybytes())
    return {"split": split.ref, "row groups": SplitRef("groups.parquet", num_rows=ROWS)}


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.integers(0, ROWS - 1), max_size=60), st.sets(st.integers(0, 6)), st.randoms())
def test_fetch_gives_the_rows_asked_for_in_the_order_asked(world, rows, columns, chance):
    store, table, split = world
    names = [table.column_names[c] for c in columns]
    chance.shuffle(names)
    found = SplitReader(store, split.ref).fetch(rows, names)
    assert found.num_rows == len(rows)
    if names:
        assert same(found, table.take(pa.array(rows, pa.int64())).select(names))


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(0, ROWS - 1), st.integers(1, ROWS))
def test_fetching_a_run_of_rows_equals_the_slice(world, start, length):
    store, table, split = world
    rows = np.arange(start, min(ROWS, start + length))
    assert same(SplitReader(store, split.ref).fetch(rows), table.slice(start, len(rows)))


def test_rows_of_every_type_are_fetched_exactly(store):
    table = every_type()
    (split,) = write_splits(store, [table], table.schema, Options(OPTIONS, environ={}))
    reader = SplitReader(store, split.ref)
    for rows in ([0], [5, 0], [3, 3, 1], list(range(6))):
        assert same(reader.fetch(rows), table.take(rows))
    assert reader.pages_problem is None


def test_without_a_page_map_rows_come_by_row_group(world, tmp_path):
    _, table, _ = world
    plain = tmp_path / "plain"
    plain.mkdir()
    pq.write_table(table, plain / "p.parquet", row_group_size=700)
    reader = SplitReader(open_store(plain), SplitRef("p.parquet"))
    rows = [2999, 0, 700, 699, 700, 1500]
    assert reader.fetch(rows).to_pylist() == table.take(rows).to_pylist()
    assert reader.pages is None
    assert "no page map" in reader.pages_problem
    assert pa.Table.from_batches(scan(reader)).to_pylist() == table.to_pylist()


def test_a_fetch_is_one_call_once_the_page_map_is_known(world):
    store, _, split = world
    counting = CountingStore(store)
    reader = SplitReader(counting, split.ref)
    assert reader.pages is not None
    counting.calls.clear()
    reader.fetch(range(0, ROWS, 100))
    assert [name for name, _, _ in counting.calls] == ["get_ranges"]
    counting.calls.clear()
    reader.fetch([17], ["half"])
    assert counting.calls[0].size < split.component_bytes["rows"] / 20


def test_a_search_that_has_directory_and_pages_needs_one_call_in_all(world):
    store, table, split = world
    directory = SplitReader(store, split.ref).directory
    pages = directory.component("pages")
    start = split.index_start + pages.offset
    counting = CountingStore(store)
    reader = SplitReader(
        counting, split.ref, directory=directory, pages_stored=store.get_range(split.key, start, start + pages.length)
    )
    assert same(reader.fetch([5, 1]), table.take([5, 1]))
    assert [name for name, _, _ in counting.calls] == ["get_ranges"]


def test_a_scan_reads_only_the_footer_and_the_columns_it_needs(world):
    store, table, split = world
    counting = CountingStore(store)
    found = pa.Table.from_batches(scan(SplitReader(counting, split.ref), ["half"]))
    assert found.equals(table.select(["half"]))
    assert {name for name, _, _ in counting.calls} == {"get_ranges"}
    assert sum(size for _, _, size in counting.calls) < split.component_bytes["rows"] / 3


def test_a_key_alone_is_enough(world):
    store, table, split = world
    assert resolve(store, SplitRef(split.key)) == split.ref
    reader = SplitReader(store, SplitRef(split.key))
    assert same(reader.fetch([1, 2]), table.slice(1, 2))
    assert reader.num_rows == ROWS
    assert reader.schema.equals(table.schema)


def test_a_split_that_is_not_there_is_not_found(store):
    with pytest.raises(ObjectNotFound):
        SplitReader(store, SplitRef("nothing.split")).fetch([0])


@pytest.mark.parametrize("rows", [[-1], [ROWS], [0, 10**9]])
def test_rows_that_are_not_there_are_refused(world, rows):
    store, _, split = world
    with pytest.raises(InvalidArgument, match="no row"):
        SplitReader(store, split.ref).fetch(rows)


def test_columns_match_in_any_case_and_unknown_ones_are_named(world):
    store, _, split = world
    reader = SplitReader(store, split.ref)
    assert reader.fetch([3], ["HALF", "Id"]).column_names == ["half", "id"]
    with pytest.raises(InvalidArgument, match="nobody"):
        reader.fetch([3], ["nobody"])
    with pytest.raises(InvalidArgument, match="nobody"):
        list(scan(reader, ["nobody"]))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["split", "row groups"]),
    st.sets(st.integers(0, ROWS - 1), max_size=300),
    st.lists(st.integers(0, ROWS), max_size=6),
    st.sampled_from([None, "id % 7 = 3", "half is null", "id = 1234", "id < 0", "half > 'v2' and id > 100"]),
    st.sampled_from([None, ["half"], ["words", "id"], ["deep"]]),
    st.sampled_from([1, 100, 131_072]),
)
def test_a_scan_is_the_rows_less_deleted_within_ranges_that_pass(
    world, refs, kind, deleted, edges, where, columns, batch_rows
):
    store, table, _ = world
    edges = sorted(set(edges))[: len(set(edges)) // 2 * 2]
    ranges = list(zip(edges[::2], edges[1::2], strict=True)) or None
    ref = msgspec.structs.replace(refs[kind], vector=dv.encode(deleted) if deleted else None)
    node = parse(where, table.schema) if where else None
    found = list(
        scan(SplitReader(store, ref), columns, where=node, row_ranges=ranges, row_numbers="_row", batch_rows=batch_rows)
    )
    tests = {
        None: lambda r: True,
        "id % 7 = 3": lambda r: r % 7 == 3,
        "half is null": lambda r: r % 2 == 1,
        "id = 1234": lambda r: r == 1234,
        "id < 0": lambda r: False,
        "half > 'v2' and id > 100": lambda r: r > 100 and r % 2 == 0 and f"v{r}" > "v2",
    }
    expected = [
        r
        for r in range(ROWS)
        if r not in deleted and tests[where](r) and (ranges is None or any(a <= r < b for a, b in ranges))
    ]
    assert [n for batch in found for n in batch.column("_row").to_pylist()] == expected
    assert all(0 < batch.num_rows <= batch_rows for batch in found)
    if expected:
        rows = pa.Table.from_batches(found).drop_columns(["_row"])
        assert same(rows, table.take(expected).select(columns or table.column_names))


@pytest.fixture(scope="module")
def several():
    """A split of four row groups."""
    store = open_store("memory://several-row-groups")
    table = pa.table({"n": np.arange(400_000), "s": pa.array(np.arange(400_000) % 17).cast(pa.string())})
    (split,) = write_splits(store, [table], table.schema, options())
    return store, table, split


@pytest.mark.slow
def test_reading_ahead_gives_the_same_rows(several):
    store, table, split = several
    ambient = SystemAmbient()
    found = pa.Table.from_batches(scan(SplitReader(store, split.ref), ambient=ambient))
    ambient.shutdown()
    assert found.equals(table)


@pytest.mark.slow
def test_reading_ahead_raises_what_the_store_raised_behind_the_rows_before_it(several):
    store, table, split = several
    error = ObjectNotFound("gone", key=split.ref.key)
    ambient = SystemAmbient({"splits": 1})
    batches = scan(SplitReader(FailingStore(store, after=3, error=error), split.ref), ambient=ambient)
    found = []
    with pytest.raises(ObjectNotFound) as raised:
        found.extend(batches)
    ambient.shutdown()
    assert raised.value is error
    assert pa.Table.from_batches(found).equals(table.slice(0, 2 * 131_072))


class ThreadsOfReads(RangesFile):
    """Remembers who reads."""

    threads: ClassVar[set[int]] = set()

    def read(self, size=-1):
        self.threads.add(threading.get_ident())
        return super().read(size)


@pytest.mark.slow
def test_only_the_thread_that_asks_for_row_groups_touches_their_file(several):
    store, table, split = several
    footer = SplitReader(store, split.ref).footer
    groups = [0, 1, 2, 3]
    ranges = chunk_ranges(footer, groups, [0, 1])
    source = ThreadsOfReads(ranges, lambda asked: store.get_ranges(split.ref.key, asked))
    assert decode_groups(footer, groups, [0, 1], source, split.ref.key).equals(table)
    assert source.threads == {threading.get_ident()}


def test_a_scan_that_is_given_up_leaves_no_work_behind(several):
    store, _, split = several
    ambient = SystemAmbient()
    counting = CountingStore(store)
    batches = scan(SplitReader(counting, split.ref), ambient=ambient)
    next(batches)
    batches.close()
    ambient.shutdown()
    assert len(counting.calls) <= 1 + 2


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A local split with a row group that is too large to be read at once: 20 MB of noise."""
    store = open_store(tmp_path_factory.mktemp("large"))
    noise = np.random.default_rng(8).bytes(20 << 20)
    table = pa.table({"n": range(320), "b": [noise[i << 16 : (i + 1) << 16] for i in range(320)]})
    (split,) = write_splits(store, [table], table.schema, options())
    return store, table, split


def test_a_large_row_group_of_a_local_file_is_read_as_it_is_decoded(large):
    store, table, split = large
    counting = CountingStore(store)
    batches = list(scan(SplitReader(counting, split.ref)))
    assert same(pa.Table.from_batches(batches), table)
    assert max(batch.num_rows for batch in batches) == 16
    assert max(size for _, _, size in counting.calls) <= 1 << 20


def test_a_row_group_of_any_other_store_is_one_read(large):
    store, table, split = large
    counting = CountingStore(store)
    counting.is_local = False
    assert same(pa.Table.from_batches(scan(SplitReader(counting, split.ref))), table)
    assert len(counting.calls) == 1 + 1


def test_what_a_store_raises_in_the_middle_of_a_row_group_comes_through(large):
    store, _, split = large
    for error in (ObjectNotFound("gone", key=split.ref.key), StoreUnavailable("no answer", key=split.ref.key)):
        with pytest.raises(type(error)) as raised:
            list(scan(SplitReader(FailingStore(store, after=9, error=error), split.ref)))
        assert raised.value is error


def test_damage_in_the_middle_of_a_large_row_group_is_found(large, tmp_path):
    store, _, split = large
    data = bytearray(store.get(split.ref.key))
    data[10 << 20] ^= 1
    damaged = open_store(tmp_path)
    damaged.put(split.ref.key, bytes(data))
    with pytest.raises(SplitCorrupt, match=split.ref.key):
        list(scan(SplitReader(damaged, split.ref)))


@pytest.mark.parametrize("columns", [["a"], ["a.b"], ["z", "a.b"], ["a.b", "a"], None])
def test_a_column_may_be_called_as_a_field_of_another(store, columns):
    table = pa.table({"a": [{"b": 1, "c": "x"}, None], "z": [5, 6], "a.b": ["x", "y"], "a.c": [[1], []]})
    (split,) = write_splits(store, [table], table.schema, options())
    found = pa.Table.from_batches(scan(SplitReader(store, split.ref), columns))
    assert found.equals(table.select(columns or table.column_names))


@pytest.mark.parametrize("order", [["a.b", "a"], ["a", "a.b"]])
@pytest.mark.parametrize("packed", ["a.b", "a"])
def test_a_column_and_the_field_it_is_called_as_may_differ_in_their_best_encoding(store, order, packed):
    numbers, noise = list(range(2000)), [str(i * 7919 % 2003) for i in range(2000)]
    fields = [{"b": value} for value in (numbers if packed == "a" else noise)]
    table = pa.table({"a": fields, "a.b": noise if packed == "a" else numbers}).select(order)
    (split,) = write_splits(store, [table], table.schema, options())
    reader = SplitReader(store, split.ref)
    assert pa.Table.from_batches(scan(reader)).equals(table)
    assert reader.fetch([5, 1999, 3]).equals(table.take([5, 1999, 3]))


def test_counting_needs_no_rows(world):
    store, _, split = world
    counting = CountingStore(store)
    ref = msgspec.structs.replace(split.ref, vector=dv.encode(range(10)))
    assert count_rows(SplitReader(counting, ref)) == ROWS - 10
    assert counting.calls == []
    batches = scan(SplitReader(store, ref), [])
    assert sum(b.num_rows for b in batches) == ROWS - 10


def test_ranges_that_do_not_ascend_are_refused(world):
    store, _, split = world
    for ranges in ([(5, 1)], [(0, 10), (5, 20)], [(0, ROWS + 1)], [(-1, 3)]):
        with pytest.raises(InvalidArgument):
            list(scan(SplitReader(store, split.ref), row_ranges=ranges))


def test_a_log_that_disagrees_with_the_file_is_corrupt(world):
    store, _, split = world
    for change in ({"num_rows": ROWS + 1}, {"index_start": 5}, {"range1_length": 7}, {"footer_start": 4}):
        ref = msgspec.structs.replace(split.ref, **change)
        with pytest.raises(SplitCorrupt):
            list(scan(SplitReader(store, ref)))


def test_column_names_with_dots_and_blanks_are_read(store):
    table = pa.table({"a.b": [1, 2, 3], "a": ["x", "y", "z"], "c d": [[1], [], None], "ünï": [1.5, None, 2.5]})
    (split,) = write_splits(store, [table], table.schema, options())
    reader = SplitReader(store, split.ref)
    assert same(reader.fetch([2, 0]), table.take([2, 0]))
    for name in table.column_names:
        assert pa.Table.from_batches(scan(reader, [name])).equals(table.select([name]))


def test_metadata_of_columns_survives(store):
    schema = pa.schema([pa.field("a", pa.int64(), metadata={b"indextables.id": b"7", b"comment": b"ours"})])
    table = pa.table({"a": [1, 2]}, schema=schema)
    (split,) = write_splits(store, [table], schema, options())
    reader = SplitReader(store, split.ref)
    assert reader.fetch([0]).schema.field("a").metadata[b"indextables.id"] == b"7"
    assert reader.fetch([0]).schema.field("a").metadata[b"comment"] == b"ours"
    assert reader.footer.schema.field("a").metadata[b"PARQUET:field_id"] == b"7"


@pytest.mark.slow
def test_lines_are_the_same_by_any_path(store):
    table = lines(140_000)
    (split,) = write_splits(store, table.to_batches(9999), table.schema, options())
    reader = SplitReader(store, split.ref)
    rows = np.random.default_rng(0).integers(0, 140_000, 3000)
    assert same(reader.fetch(rows), table.take(pa.array(rows)))
    assert pa.Table.from_batches(scan(reader)).equals(table)
