"""A split whose index section has a component that only a later library knows is one like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import indextables
from indextables.split.file import layout


def add_component(path: Path) -> None:
    """Put 10,000 bytes of a component `bloom` between dictionary and postings, as a later writer might."""
    data = path.read_bytes()
    footer_start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[footer_start:-8]
    value = layout.key_value(footer)
    key = json.loads(value)
    start, length = key["index"]["start"], key["index"]["length"]
    section = data[start : start + length]
    raw = layout.decode_directory(section, str(path))
    term = raw.component("term")
    body = section[term.offset :]
    cut = term.length
    later = layout.Component("bloom", 0, 10_000, 1 << 50, "brotli", 1)
    at = 8_192
    components = []
    for component in raw.components:
        moved = at + (component.offset - term.offset) + (0 if component.name == "term" else later.length)
        components.append(msgspec.structs.replace(component, offset=moved))
    components.insert(1, msgspec.structs.replace(later, offset=at + cut))
    directory = msgspec.msgpack.encode(msgspec.structs.replace(raw, components=tuple(components)))
    stored = bytes(pa.Codec("zstd").compress(directory))
    header = b"ITIX" + (1).to_bytes(2, "little") + bytes(2)
    header += b"".join(n.to_bytes(4, "little") for n in (len(stored), len(directory), layout.crc32c(stored)))
    section = (header + stored).ljust(at, b"\0") + body[:cut] + bytes(later.length) + body[cut:]
    blank = footer.replace(value, b" " * len(value))
    pointer = layout.IndexPointer(start, len(section), at + cut)
    footer = layout.fill_key(blank, key["rows"], pointer, key["id"])
    path.write_bytes(data[:start] + section + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("count", [3, 3_000], ids=["small", "large"])
def test_it_is_read_searched_merged_and_verified(tmp_path, count):
    place = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), ("message", pa.string())])
    table = indextables.create(place, schema, indexing={"message": "text"})
    for start in (0, count):
        ids = list(range(start, start + count))
        table.append(pa.table({"id": ids, "message": [f"word{i} {i * 7919 % 10_007} of many" for i in ids]}))
    for file in place.rglob("*.split"):
        add_component(file)
    shutil.rmtree(place / "_transaction_log")
    indextables.invalidate_caches()
    indextables.rebuild(place)
    found = indextables.open(place)
    assert sorted(found.to_arrow()["id"].to_pylist()) == list(range(2 * count))
    assert found.search(f"message:word{count}")["id"].to_pylist() == [count]
    assert found.count('message:"of many"') == 2 * count
    assert found.verify().ok
    assert sum(found.sizes()["bytes"].to_pylist()) == sum(found.files()["size"].to_pylist())
    report = found.merge_splits()
    assert report.source_splits == 2
    assert found.count('message:"of many"') == 2 * count
