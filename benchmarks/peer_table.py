"""A table as IndexTables4Spark writes it: one split whose stored documents are the rows, and a log in plain JSON."""

from __future__ import annotations

import json
import struct
import tempfile
from pathlib import Path

import pyarrow as pa
import tantivy

_MAGIC, _VERSION = 0x1812BEAE, 1
_TYPES = {"int64": "long", "double": "double", "string": "string", "bool": "boolean"}


def write_peer_table(path: Path, rows: pa.Table) -> None:
    """Write the rows, of columns of the types above, as one split of one segment."""
    data = _bundle(rows)
    name = "part-00000-0.split"
    (path / "_transaction_log").mkdir(parents=True)
    (path / name).write_bytes(data)
    fields = [{"name": f.name, "type": _TYPES[str(f.type)], "nullable": True, "metadata": {}} for f in rows.schema]
    metadata = {
        "id": "peer",
        "format": {"provider": "indextables", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    add = {
        "path": name,
        "partitionValues": {},
        "size": len(data),
        "modificationTime": 1,
        "dataChange": True,
        "numRecords": rows.num_rows,
    }
    versions = [
        [{"protocol": {"minReaderVersion": 4, "minWriterVersion": 4}}, {"metaData": metadata}],
        [{"add": add}],
    ]
    for number, actions in enumerate(versions):
        lines = "".join(json.dumps(action) + "\n" for action in actions)
        (path / "_transaction_log" / f"{number:020d}.json").write_text(lines)


def _bundle(rows: pa.Table) -> bytes:
    builder = tantivy.SchemaBuilder()
    for field in rows.schema:
        if pa.types.is_integer(field.type):
            builder.add_integer_field(field.name, stored=True)
        elif pa.types.is_floating(field.type):
            builder.add_float_field(field.name, stored=True)
        elif pa.types.is_boolean(field.type):
            builder.add_boolean_field(field.name, stored=True)
        else:
            builder.add_text_field(field.name, stored=True)
    with tempfile.TemporaryDirectory() as folder:
        index = tantivy.Index(builder.build(), path=folder)
        writer = index.writer(num_threads=1)
        for row in rows.to_pylist():
            writer.add_document(tantivy.Document(**row))
        writer.commit()
        writer.wait_merging_threads()
        files = {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir()) if file.suffix != ".lock"}
    body, told = b"", {}
    for name, data in files.items():
        told[name] = {"start": len(body), "end": len(body) + len(data)}
        body += data
    metadata = struct.pack("<II", _MAGIC, _VERSION) + json.dumps({"files": told}).encode()
    return body + metadata + struct.pack("<II", len(metadata), 0)
