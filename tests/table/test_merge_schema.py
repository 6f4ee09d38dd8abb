"""A merge writes rows of old splits in the schema that the table has now."""

from __future__ import annotations

import pyarrow as pa

import indextables


def test_columns_that_came_later_are_null_in_old_rows_after_a_merge_too(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int32()), ("message", pa.string())]))
    table.append([{"id": 1, "message": "one"}])
    wide = pa.table({"id": pa.array([2], pa.int64()), "message": ["two"], "extra": [2.5]})
    table.append(wide, merge_schema=True)
    before = table.to_arrow()
    assert before["extra"].to_pylist() == [None, 2.5]
    report = table.merge_splits()
    assert (report.failed, report.new_splits) == ([], 1)
    assert table.to_arrow() == before
    assert table.schema.field("id").type == pa.int64()
    assert table.count("message:one") == 1
    assert table.count("message:two") == 1
    assert table.to_arrow(where="extra IS NULL")["id"].to_pylist() == [1]
