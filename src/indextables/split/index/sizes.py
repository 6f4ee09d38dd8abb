"""What does each column cost? The bytes of its rows, and of its field in each component of the index.

Nothing but footer and index directory is read: the tails of the components, which the directory carries, tell where
each field lies in them. A component is compressed as a whole, so that its stored bytes are shared out among the fields
by their raw bytes.
"""

from __future__ import annotations

import pyarrow as pa

from indextables.errors import SplitCorrupt
from indextables.split.file import SEGMENT_PARTS, SplitReader, visible
from indextables.split.index.fields import FieldPlan, IndexPlan
from indextables.split.index.segment import field_bytes

__all__ = ["OTHER", "ROWS", "SCHEMA", "field_sizes"]

ROWS = "rows"
OTHER = "directory, page index and footer"
SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("kind", pa.string()),
        ("indexed", pa.bool_()),
        ("fast", pa.bool_()),
        ("component", pa.string()),
        ("bytes", pa.int64()),
        ("raw_bytes", pa.int64()),
    ]
)
"""`column` is null for what belongs to no column: directory, page map, footer, ids of rows, what separates the parts.

`kind` is the kind of the field (`text`, `string`, `int`, ...), or the column's type if the index does not hold it.
"""


def field_sizes(reader: SplitReader) -> pa.Table:
    """The bytes of one split, all of them, by column and component. Raises SplitCorrupt, StoreError."""
    directory = reader.directory
    plan = IndexPlan.from_doc_mapping(directory.doc_mapping) if directory is not None else IndexPlan(())
    facts = {
        field.name: _facts(plan, field)
        for field in visible(reader.footer.schema)
        if reader.called(field.name) is not None
    }
    found: list[tuple[object, ...]] = []
    name: str | None
    for name, size in _row_bytes(reader).items():
        column: tuple[object, ...] = (None,) * 4
        if name in facts:
            column = (reader.called(name), *facts[name])
        found.append((*column, ROWS, size, None))
    for component in directory.components if directory is not None else ():
        by_field: dict[int | str, int] = {}
        if component.name in SEGMENT_PARTS and component.name != "store":
            by_field = field_bytes(memoryview(component.tail), component.raw_length, component.name)
        shared = 0
        for key, raw in by_field.items():
            field = _field(plan, key, reader.key)
            stored = component.length * raw // max(1, component.raw_length)
            shared += stored
            name = None if field.column is None else reader.called(field.column)
            column = (None,) * 4 if name is None else (name, field.kind, field.indexed, field.fast)
            found.append((*column, component.name, stored, raw))
        rest = component.raw_length - sum(by_field.values())
        if component.length > shared:
            found.append((None, None, None, None, component.name, component.length - shared, rest))
    size = reader.ref.size if reader.ref.size is not None else reader.store.head(reader.key).size
    known = sum(int(str(row[5])) for row in found)
    found.append((None, None, None, None, OTHER, size - known, None))
    columns = list(zip(*found, strict=True))
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _facts(plan: IndexPlan, column: pa.Field) -> tuple[str, bool, bool]:
    field = plan.by_column(column.name)
    return (str(column.type), False, False) if field is None else (field.kind, field.indexed, field.fast)


def _row_bytes(reader: SplitReader) -> dict[str, int]:
    footer = reader.footer
    sizes = dict.fromkeys(footer.schema.names, 0)
    for chunks in footer.chunks:
        for column, (start, end) in zip(footer.leaf_columns, chunks, strict=True):
            sizes[footer.schema.names[column]] += end - start
    return sizes


def _field(plan: IndexPlan, key: int | str, path: str) -> FieldPlan:
    """The field of an ordinal or a Tantivy name."""
    if isinstance(key, str):
        found = plan.by_id(key)
        if found is not None:
            return found
    elif 0 <= key < len(plan.fields):
        return plan.fields[key]
    raise SplitCorrupt(f"{path}: the index holds a field {key!r} that its plan does not have", path=path, part="index")
