"""What is asked in an odd way is answered or refused in words."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument

SCHEMA = pa.schema([("x", pa.int64())])


@pytest.mark.parametrize("order_by", [5, ("x",), ("x", "desc", "asc"), [["x"]], ("x", 1), "x sideways", b"x"])
def test_an_order_that_is_none_is_refused_in_words(tmp_path, order_by):
    table = indextables.create(tmp_path / "t", SCHEMA)
    table.append([{"x": 1}])
    with pytest.raises(InvalidArgument):
        table.search("*", order_by=order_by)
