from __future__ import annotations

import logging
import subprocess
import sys

import pyarrow as pa
import pytest

import indextables


def test_every_public_name_is_there_and_nothing_else_is_listed():
    assert sorted(indextables.__all__) == indextables.__all__
    for name in indextables.__all__:
        assert getattr(indextables, name) is not None
    assert set(dir(indextables)) == {*indextables.__all__, "__version__"}
    with pytest.raises(AttributeError, match="nope"):
        indextables.nope  # noqa: B018 - the access is the test


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, indextables; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"pyarrow", "pandas", "numpy", "pyspark", "datafusion", "tantivy", "sqlglot", "obstore", "msgspec"}
    assert heavy.isdisjoint(loaded)


@pytest.mark.slow
def test_reading_a_table_loads_neither_spark_nor_sql_engines(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("m", pa.string())]), indexing={"m": "text"})
    table.append([{"m": "hello"}])
    code = (
        f"import sys, indextables; t = indextables.open({str(tmp_path / 't')!r});"
        "t.to_arrow(); t.search('hello'); print(*sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"pandas", "pyspark", "sqlglot", "datafusion"}.isdisjoint(loaded)


def test_the_logger_is_silent_unless_asked():
    handlers = logging.getLogger("indextables").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)
