"""Spark runs the statements whose answers delta-spark gave: the same rows and counts, and a refusal in the same cases.

`tests/sql/test_like_delta.py` asks the embedded engine in every `make test`.
"""

from __future__ import annotations

import pytest
from tests.sql import delta_cases as cases
from tests.sql.test_like_delta import NOT_WRITTEN, RECORD, rows_of

import indextables

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(0)]

DIFFERENT = {"two rows for one, update by one"}
"""Statements that are taken here: `tests/sql/test_like_delta.py` says why."""


@pytest.fixture(scope="module")
def session(spark):
    for name, made in cases.SOURCES.items():
        rows = [row for file in made.files for row in file]
        spark.createDataFrame(rows, made.ddl).createOrReplaceTempView(name)
    yield spark
    for name in cases.SOURCES:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("case", cases.CASES, ids=[case.name for case in cases.CASES])
def test_a_statement_does_in_spark_what_it_does_in_delta(case, session, tmp_path):
    made, theirs = cases.TABLES[case.table], RECORD[case.name]
    table = indextables.create(tmp_path, rows_of(made, ()).schema, partition_by=list(made.partitioned))
    for file in made.files:
        table.append(rows_of(made, (file,)))
    before = table.version
    target = f"indextables.`{tmp_path}` AS t"
    text = case.text.replace(" t ", f" {target} ", 1) if " t " in case.text else f"{case.text[:-2]} {target}"
    if "error" in theirs and case.name not in DIFFERENT:
        with pytest.raises(Exception, match=r"\S"):
            indextables.sql(session, text)
        assert table.refresh().version == before, "nothing was written"
        return
    (told,) = indextables.sql(session, text).collect()
    if case.name in DIFFERENT:
        return
    data = table.refresh().to_arrow()
    rows = [tuple(dict(v) if n == "m" and v is not None else v for n, v in row.items()) for row in data.to_pylist()]
    assert cases.told(data.column_names, rows) == theirs["rows"]
    assert {name: told[name] for name in theirs["told"]} == theirs["told"]
    files = ("Files", "Vectors")
    counts = {name: int(n) for name, n in theirs.get("metrics", {}).items() if name not in NOT_WRITTEN}
    counts = {name: n for name, n in counts.items() if not any(word in name for word in files)}
    assert {name: told["metrics"].get(name) for name in counts} == counts
