"""What a table's columns cost."""

import pyarrow as pa
import pyarrow.compute as pc

import indextables


def test_the_bytes_of_all_splits_are_told_by_column_and_component(tmp_path):
    table = indextables.create(
        tmp_path / "t", pa.schema([("id", pa.int64()), ("message", pa.string())]), indexing={"message": "text"}
    )
    for turn in range(3):
        table.append([{"id": i, "message": f"timeout number {i} of {turn}"} for i in range(200)])
    sizes = table.sizes()
    assert pc.sum(sizes["bytes"]).as_py() == table.detail()["sizeInBytes"]
    by_kind = {(row["kind"], row["component"]) for row in sizes.to_pylist()}
    assert {("text", "term"), ("text", "idx"), ("text", "pos"), ("text", "rows"), ("int", "fast")} <= by_kind
    assert pc.sum(table.sizes(most_splits=1)["bytes"]).as_py() < table.detail()["sizeInBytes"]


def test_a_table_without_rows_costs_nothing(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    assert table.sizes().num_rows == 0
