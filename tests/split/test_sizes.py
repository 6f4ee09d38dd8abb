"""Where the bytes of a split are: every one of them belongs to a column and a component, or to no column."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.split.frames import OPTIONS, every_type, lines

from indextables.errors import SplitCorrupt
from indextables.options import Options
from indextables.split.file.layout import SEGMENT_PARTS
from indextables.split.file.reader import SplitReader
from indextables.split.index.segment import field_bytes
from indextables.split.index.sizes import OTHER, ROWS, field_sizes
from indextables.split.write.writer import write_splits


def sizes_of(store, table, options):
    (split,) = write_splits(store, [table], table.schema, Options(options, environ={}))
    return split, field_sizes(SplitReader(store, split.ref))


def sum_of(sizes, **where):
    for name, value in where.items():
        sizes = sizes.filter(pc.equal(sizes[name], value))
    return pc.sum(sizes["bytes"]).as_py() or 0


def test_all_bytes_of_a_split_are_told_once(store):
    table = pa.concat_tables([every_type()] * 50)
    split, sizes = sizes_of(store, table, OPTIONS)
    assert sum_of(sizes) == split.size
    for component in (*SEGMENT_PARTS[:-1], "pages"):
        assert sum_of(sizes, component=component) == split.component_bytes[component]
    assert set(sizes.filter(pc.equal(sizes["component"], ROWS))["column"].to_pylist()) == set(table.column_names)
    assert sizes.filter(pc.equal(sizes["component"], OTHER))["column"].to_pylist() == [None]


def test_a_text_takes_terms_postings_and_positions_a_fast_number_its_column_only(store):
    table = lines(2_000)
    _, sizes = sizes_of(store, table, {"indexing.typemap.message": "text"})
    text = sizes.filter(pc.equal(sizes["kind"], "text"))
    assert {"term", "idx", "pos", "fieldnorm", ROWS} <= set(text["component"].to_pylist())
    assert sum_of(text, component="term") > 0
    numbers = sizes.filter(pc.equal(sizes["kind"], "int"))
    assert set(numbers["component"].to_pylist()) == {ROWS, "fast"}


def test_a_great_many_fast_columns_are_told_apart(store):
    names = [f"a_rather_long_name_of_a_column_{number}" for number in range(400)]
    table = pa.table({name: pa.array(range(place, 40 + place)) for place, name in enumerate(names)})
    split, sizes = sizes_of(store, table, {})
    fast = sizes.filter(pc.and_(pc.equal(sizes["component"], "fast"), pc.is_valid(sizes["column"])))
    assert sorted(fast["column"].to_pylist()) == sorted(names)
    assert min(fast["raw_bytes"].to_pylist()) > 0
    assert sum_of(sizes) == split.size


def test_paths_of_json_count_for_their_column(store):
    rows = [{"attrs": {"user": f"u{i % 7}", "size": i}} for i in range(300)]
    table = pa.Table.from_pylist(rows)
    split, sizes = sizes_of(store, table, {"indexing.fastfields": "attrs"})
    fast = sizes.filter(pc.and_(pc.equal(sizes["component"], "fast"), pc.is_valid(sizes["column"])))
    assert set(fast["column"].to_pylist()) == {"attrs"}
    assert sum_of(sizes) == split.size


def test_tails_that_lie_are_corrupt(store):
    table = pa.table({"n": pa.array(range(50)), "name": [f"v{i}" for i in range(50)]})
    (split,) = write_splits(store, [table], table.schema, Options({}, environ={}))
    directory = SplitReader(store, split.ref).directory
    for component in directory.components:
        if component.name not in ("term", "idx", "fast"):
            continue
        for place in range(len(component.tail)):
            flipped = bytearray(component.tail)
            flipped[place] ^= 0xFF
            try:
                found = field_bytes(memoryview(bytes(flipped)), component.raw_length, component.name)
            except SplitCorrupt:
                continue
            assert sum(found.values()) <= component.raw_length
    with pytest.raises(SplitCorrupt):
        field_bytes(memoryview(b"nothing"), 7, "fast")
