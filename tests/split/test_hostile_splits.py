"""Damaged and hostile splits: the same rows or SplitCorrupt, never fewer rows, another error or a crash."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from tests.split.frames import OPTIONS, every_type, lines

from indextables.errors import SplitCorrupt, SplitError
from indextables.options import Options
from indextables.split.file import layout, page_map, thrift
from indextables.split.file.kept import KeptPages
from indextables.split.file.reader import SplitReader
from indextables.split.file.ref import SplitRef
from indextables.split.file.scanning import scan
from indextables.split.index import segment
from indextables.split.write.merge import RowDigest
from indextables.split.write.writer import write_splits
from indextables.storage import open_store

FIRST_FLIP = int(os.environ.get("INDEXTABLES_FLIP_FIRST", "0"))
EVERY_FLIP = int(os.environ.get("INDEXTABLES_FLIP_EVERY", "1"))


def digest(table: pa.Table):
    found = RowDigest()
    for batch in table.combine_chunks().to_batches():
        found.update(batch)
    return found.value()


def small_split(name):
    store = open_store(f"memory://{name}")
    table = pa.concat_tables([lines(150), lines(150)])
    (split,) = write_splits(store, [table], table.schema, Options({"indexing.typemap.message": "text"}, environ={}))
    return store, table, split


def readings(store, ref, rows=300):
    """Everything a reader can do with a split of this many rows: what it found, or None after SplitCorrupt."""
    for read in (
        lambda: pa.Table.from_batches(scan(SplitReader(store, ref))),
        lambda: SplitReader(store, ref).fetch(range(rows)),
        lambda: SplitReader(store, msgspec.structs.replace(ref, footer_start=None)).fetch([0, rows - 1, rows // 40]),
        lambda: SplitReader(store, SplitRef(ref.key)).directory,
    ):
        try:
            yield read()
        except SplitCorrupt as error:
            named = (error.path, bool(error.part))
            yield None
            assert named == (ref.key, True)


def check(store, ref, good, few, directory):
    for found in readings(store, ref):
        if isinstance(found, pa.Table):
            assert digest(found) == (good if found.num_rows == 300 else few)
        elif found is not None:
            assert found == directory


def _expected(store, table, split):
    return digest(table), digest(table.take([0, 299, 7])), SplitReader(store, split.ref).directory


@pytest.mark.slow
def test_flipping_any_byte_gives_the_same_rows_or_an_error_that_names_the_part():
    store, table, split = small_split("flips")
    expected = _expected(store, table, split)
    data = store.get(split.key)
    chance = random.Random(4)
    # All of header, directory and footer, and a sample of the rest.
    places = {*range(split.index_start, split.index_start + 60), *range(split.footer_start, split.size, 7)}
    places |= {chance.randrange(len(data)) for _ in range(300)}
    for place in sorted(places):
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        store.put(split.key, bytes(damaged))
        check(store, split.ref, *expected)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_flipping_every_bit_gives_the_same_rows_or_an_error():
    store, table, split = small_split("all-flips")
    expected = _expected(store, table, split)
    data = store.get(split.key)
    for number in range(FIRST_FLIP, 8 * len(data), EVERY_FLIP):
        place, bit = divmod(number, 8)
        damaged = bytearray(data)
        damaged[place] ^= 1 << bit
        store.put(split.key, bytes(damaged))
        check(store, split.ref, *expected)


def test_every_truncation_is_an_error_or_leaves_the_rows_asked_for():
    store, table, split = small_split("cuts")
    expected = _expected(store, table, split)
    data = store.get(split.key)
    lengths = {0, 3, 4, 8, 11, 12, split.index_start, split.footer_start, split.footer_end, split.size - 1}
    lengths |= set(range(0, len(data), 211))
    for length in sorted(lengths):
        store.put(split.key, data[:length])
        check(store, split.ref, *expected)
        with pytest.raises(SplitCorrupt):
            SplitReader(store, SplitRef(split.key)).fetch([0])


def test_bytes_that_are_no_split_are_corrupt():
    store = open_store("memory://garbage")
    chance = random.Random(1)
    for size in (0, 1, 8, 12, 100, 70_000):
        for tail in (b"", b"PAR1", b"\xff\xff\xff\xffPAR1", b"\x04\x00\x00\x00PAR1"):
            store.put("x", chance.randbytes(size) + tail)
            with pytest.raises(SplitCorrupt) as raised:
                SplitReader(store, SplitRef("x")).fetch([0])
            assert raised.value.part == "footer"


@pytest.mark.parametrize(
    "change",
    [
        {"footer_start": -1},
        {"footer_start": 10**12},
        {"footer_end": 0},
        {"footer_end": 10**15},
        {"index_start": -4},
        {"index_start": 10**12},
        {"range1_length": 10**12},
        {"num_rows": 0},
        {"num_rows": 2**40},
        {"footer_start": 500, "footer_end": 400},
    ],
)
def test_offsets_of_the_log_that_lie_are_corrupt(change):
    store, _, split = small_split("offsets")
    ref = msgspec.structs.replace(split.ref, **change)
    with pytest.raises(SplitCorrupt):
        list(scan(SplitReader(store, ref)))


def _map_of(store, split):
    directory = SplitReader(store, split.ref).directory
    component = directory.component("pages")
    start = split.index_start + component.offset
    raw = layout.unpack(component, store.get_range(split.key, start, start + component.length), split.key)
    return msgspec.msgpack.decode(raw, type=page_map.PageMap)


def _huge(form, count, value=2**31):
    return np.full(count, value, form).tobytes()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group_rows", [0]),
        ("group_rows", [2**40]),
        ("group_rows", [1, 2]),
        ("group_rows", []),
        ("leaves", []),
        ("classes", [0]),
        ("classes", [10**9]),
        ("classes", []),
        ("first_rows", b"x"),
        ("first_rows", _huge("<u4", 1)),
        ("chunk_class", _huge("<u4", 4)),
        ("chunk_start", _huge("<u8", 4, 2**63)),
        ("chunk_start", _huge("<u8", 4, 0)),
        ("chunk_start", _huge("<u8", 4, 10**9)),
        ("dict_start", _huge("<u8", 4, 10**9)),
        ("dict_length", _huge("<u4", 4)),
        ("lengths", _huge("<u4", 4)),
        ("values", b""),
        ("arrow_schema", b""),
        ("arrow_schema", b"\xff\xff\xff\xff\x10\x00\x00\x00" + bytes(16)),
        ("arrow_schema", pa.schema([("other", pa.int64())]).serialize().to_pybytes()),
        ("column_elements", [1, 1, 1, 1, 1]),
        ("column_elements", [1]),
    ],
)
def test_a_page_map_that_lies_is_refused_and_rows_come_another_way(name, value):
    store, _, split = small_split("maps")
    wire = msgspec.structs.replace(_map_of(store, split), **{name: value})
    with pytest.raises(SplitCorrupt):
        page_map.Pages(wire, split.key, split.index_start)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("elements", [b""] * 9),
        ("elements", [b"\xff"] * 9),
        ("lengths", None),
        ("lengths", 0),
        ("leaves", "codecs"),
    ],
)
def test_a_page_map_that_describes_other_pages_is_corrupt_when_used(name, value):
    store, _, split = small_split("lies")
    wire = _map_of(store, split)
    if value is None:
        value = (np.frombuffer(wire.lengths, "<u4") - 3).astype("<u4").tobytes()
    elif value == 0:
        value = bytes(len(wire.lengths))
    elif value == "codecs":
        value = [msgspec.structs.replace(leaf, codec=0) for leaf in wire.leaves]
    elif name == "elements":
        value = value[: len(wire.elements)]
    lying = page_map.Pages(msgspec.structs.replace(wire, **{name: value}), split.key, split.index_start)
    for kept in (None, (KeptPages(1 << 20), "it")):
        reader = SplitReader(store, split.ref, kept=kept)
        reader._pages = lying
        # Some columns are not compressed: of these a codec of none is no lie.
        for columns in (None, *([column] for column in lying.schema.names if name != "leaves")):
            with pytest.raises(SplitCorrupt):
                reader.fetch([0, 299], columns)


def test_components_of_a_segment_that_are_damaged_are_named():
    good = b"body" + bytes(4)
    footer = b'{"version":{"major":0,"minor":27,"patch":0,"index_format_version":7},"crc":1}'
    framed = good + footer + len(footer).to_bytes(4, "little") + (1337).to_bytes(4, "little")
    assert segment.file_version(memoryview(framed), "idx").index_format_version == 7
    bad = [b"", b"1234567", bytes(8), framed[:-1] + b"\0", b"\xff" * 40]
    bad += [b"\xff\xff\xff\xff" + footer + len(footer).to_bytes(4, "little") + (1337).to_bytes(4, "little")]
    for data in bad:
        for name in ("idx", "fast", "store"):
            try:
                segment.tail_start(memoryview(data), name)
                list(segment.composite_parts(memoryview(data), name))
            except SplitCorrupt:
                continue


_CHILD = """
import base64, random, sys
from tests.split.test_hostile_splits import readings
from indextables.split.file.ref import SplitRef
from indextables.storage import open_store
import msgspec
ref = msgspec.json.decode(base64.b64decode(sys.argv[1]), type=SplitRef)
data = open(sys.argv[2], "rb").read()
store = open_store("memory://child")
chance = random.Random(int(sys.argv[3]))
for _ in range(int(sys.argv[4])):
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 2, 8])):
        at = chance.randrange(len(damaged))
        kind = chance.randrange(4)
        if kind == 0:
            damaged[at] = chance.randrange(256)
        elif kind == 1:
            damaged[at:at + 8] = chance.choice([bytes(8), b"\\xff" * 8, b"\\x7f" * 8])
        elif kind == 2:
            del damaged[at:at + chance.randrange(64)]
        else:
            damaged[at:at] = damaged[: chance.randrange(64)]
    store.put(ref.key, bytes(damaged))
    list(readings(store, ref, 6))
    list(readings(store, SplitRef(ref.key), 6))
print("done")
"""


@pytest.mark.slow
def test_no_damage_kills_the_process(tmp_path):
    store = open_store("memory://fuzz")
    table = every_type()
    (split,) = write_splits(store, [table], table.schema, Options(OPTIONS, environ={}))
    # A name of 70,000 characters would be most of the file: damage shall hit everything else too.
    table = table.set_column(1, "name", pa.array(["n"] * table.num_rows))
    (split,) = write_splits(store, [table], table.schema, Options(OPTIONS, environ={}))
    (tmp_path / "split").write_bytes(store.get(split.key))
    ref = base64.b64encode(msgspec.json.encode(split.ref)).decode()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, ref, str(tmp_path / "split"), "11", "150"],
        check=False,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr[-2000:]


def test_a_footer_bomb_is_refused_quickly():
    store = open_store("memory://bomb")
    footer = thrift.encode_struct(
        {1: thrift.i32(2), 3: thrift.i64(2**62), 2: thrift.structs([{5: thrift.i32(2**31 - 1)}])}
    )
    store.put("b", b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(SplitError):
        SplitReader(store, SplitRef("b")).fetch([0])


def forge(store, split, chance):
    """Replace the split by one whose footer lies and whose checksum agrees with the lie."""
    data = store.get(split.key)
    footer = bytearray(data[split.footer_start : split.footer_end])
    place = footer.index(layout.KEY) + len(layout.KEY) + 3
    footer[place : place + layout.KEY_BYTES] = b" " * layout.KEY_BYTES
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(footer))
        if not place - 30 <= at < place + layout.KEY_BYTES:
            footer[at] = chance.choice([chance.randrange(256), footer[at] ^ (1 << chance.randrange(8)), 255, 0])
    pointer = layout.IndexPointer(split.index_start, split.footer_start - split.index_start, split.range1_length)
    filled = layout.fill_key(bytes(footer), split.num_rows, pointer, split.id)
    return data[: split.footer_start] + filled + len(filled).to_bytes(4, "little") + b"PAR1"


_FORGING = """
import random, sys
import msgspec
from indextables.split.write.writer import WrittenSplit
from indextables.storage import open_store
from tests.split.test_hostile_splits import forge, readings
split = msgspec.json.decode(open(sys.argv[1] + ".json", "rb").read(), type=WrittenSplit)
good, bad = open_store("memory://good"), open_store("memory://bad")
good.put(split.key, open(sys.argv[1], "rb").read())
chance = random.Random(int(sys.argv[2]))
for _ in range(int(sys.argv[3])):
    bad.put(split.key, forge(good, split, chance))
    list(readings(bad, split.ref, split.num_rows))
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["every type", "lines"])
def test_no_forged_footer_kills_the_process(tmp_path, kind):
    store = open_store("memory://forged")
    table = every_type() if kind == "every type" else lines(300)
    if kind == "every type":
        table = table.set_column(1, "name", pa.array(["n"] * table.num_rows))
    (split,) = write_splits(store, [table], table.schema, Options({}, environ={}))
    (tmp_path / "split").write_bytes(store.get(split.key))
    (tmp_path / "split.json").write_bytes(msgspec.json.encode(split))
    done = subprocess.run(
        [sys.executable, "-c", _FORGING, str(tmp_path / "split"), "5", "250"],
        check=False,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr[-2000:]
