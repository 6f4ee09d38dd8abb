"""Splits of every format version ever written stay readable."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden import split as golden

from indextables.split.file import dv
from indextables.split.file.reader import SplitReader
from indextables.split.file.ref import SplitRef
from indextables.split.file.scanning import scan
from indextables.split.index.fields import IndexPlan
from indextables.split.write.merge import RowDigest
from indextables.storage import open_store

VERSIONS = ["v1"]


def digest(table: pa.Table):
    found = RowDigest()
    for batch in table.combine_chunks().to_batches():
        found.update(batch)
    return found.value()


@pytest.fixture(params=VERSIONS)
def store(request):
    opened = open_store(f"memory://golden-{request.param}")
    opened.put("golden.split", golden.read(f"{request.param}.split.b64"))
    vector = golden.read(f"{request.param}.dv.b64")
    opened.put(dv.file_key(dv.z85_encode(bytes.fromhex("0123456789abcdef" * 2)), ""), vector)
    return opened


def test_rows_are_read_from_the_key_alone(store):
    reader = SplitReader(store, SplitRef("golden.split"))
    assert digest(pa.Table.from_batches(scan(reader))) == digest(golden.rows())
    assert reader.schema.equals(golden.SCHEMA)


def test_rows_are_fetched_by_page(store):
    reader = SplitReader(store, SplitRef("golden.split"))
    assert digest(reader.fetch([3, 0, 2])) == digest(golden.rows().take([3, 0, 2]))
    assert reader.pages_problem is None


def test_the_directory_says_how_the_index_was_built(store):
    directory = SplitReader(store, SplitRef("golden.split")).directory
    plan = IndexPlan.from_doc_mapping(directory.doc_mapping)
    kinds = {f.id: f.kind for f in plan.fields}
    assert kinds == {
        "id": "int", "message": "text", "host": "string", "addr": "ip", "at": "timestamp", "day": "date", "ok": "bool",
        "tags": "string", "attrs": "json", "props": "json",
    }  # fmt: skip
    assert directory.num_rows == 4
    assert directory.tokens["message"] == 8
    assert directory.tantivy == "0.27.0"
    assert {c.name for c in directory.components} == {"term", "idx", "fieldnorm", "pages", "pos", "fast", "store"}


def test_the_vector_is_read_and_applied(store):
    text = dv.z85_encode(bytes.fromhex("0123456789abcdef" * 2))
    payload = dv.encode([1, 3])
    vector = dv.DvDescriptor("u", text, len(payload), 2, 1)
    ref = SplitRef("golden.split", vector=dv.load(store, vector, "golden.split", 4))
    assert pa.Table.from_batches(scan(SplitReader(store, ref), ["id"]))["id"].to_pylist() == [1, -3]


def test_a_directory_with_fields_of_the_future_is_read(store):
    directory = SplitReader(store, SplitRef("golden.split")).directory
    newer = msgspec.to_builtins(directory, builtin_types=(bytes,)) | {"added_later": {"x": 1}}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(newer), type=type(directory)) == directory


def test_field_ids_are_those_of_columns_elements_keys_and_values(tmp_path):
    data = golden.read("v1-ids.split.b64")
    (tmp_path / "golden.split").write_bytes(data)
    schema = pq.ParquetFile(tmp_path / "golden.split").schema_arrow

    def number(field: pa.Field) -> int:
        return int(field.metadata[b"PARQUET:field_id"])

    assert [number(field) for field in schema] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15]
    assert [number(field) for field in schema.field("attrs").type] == [13, 14]
    assert number(schema.field("tags").type.value_field) == 16
    props = schema.field("props").type
    assert (number(props.key_field), number(props.item_field)) == (17, 18)
    store = open_store("memory://golden-ids")
    store.put("golden.split", data)
    reader = SplitReader(store, SplitRef("golden.split"))
    assert digest(pa.Table.from_batches(scan(reader))) == digest(golden.rows())
    assert digest(reader.fetch([3, 0, 2])) == digest(golden.rows().take([3, 0, 2]))
